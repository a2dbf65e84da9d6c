package applypatch_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/tools/applypatch"
)

// addCases seeds f with the patches of the cases.
func addCases(f *testing.F, add func(c *testCase)) {
	for _, c := range readCases(f) {
		add(c)
	}
}

// A patch that can be read prints to one that reads the same; one that cannot
// is a *SyntaxError.
func FuzzParse(f *testing.F) {
	addCases(f, func(c *testCase) { f.Add(c.patch) })
	f.Add(sixFiles)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := applypatch.Parse(text)
		if err != nil {
			_, ok := errors.AsType[*applypatch.SyntaxError](err)
			require.True(t, ok, "%T: %v", err, err)
			return
		}
		require.NotEmpty(t, p.Ops)
		require.NotEmpty(t, p.Paths())
		again, err := applypatch.Parse(p.String())
		require.NoError(t, err, "%q prints to\n%s", text, p)
		require.Equal(t, withoutLines(p), withoutLines(again), "printed:\n%s", p)
	})
}

// withoutLines drops what depends on how the patch is laid out.
func withoutLines(p *applypatch.Patch) *applypatch.Patch {
	for i := range p.Ops {
		p.Ops[i].Line = 0
		for j := range p.Ops[i].Hunks {
			p.Ops[i].Hunks[j].Line = 0
		}
	}
	return p
}

// A patch whose paths are all below the workspace changes nothing outside,
// whatever links lead there; one that fails changes nothing at all; and one
// that is applied can be undone to the byte.
func FuzzApply(f *testing.F) {
	addCases(f, func(c *testCase) { f.Add(c.patch, c.in["a.txt"]) })
	for _, path := range []string{"out.txt", "out/file.txt", "out/new.txt", "d/up/outside/file.txt", "d/../out/x"} {
		f.Add("*** Begin Patch\n*** Update File: "+path+"\n@@\n-text\n+changed\n*** End Patch\n", "a\n")
		f.Add("*** Begin Patch\n*** Add File: "+path+"\n+changed\n*** End Patch\n", "a\n")
		f.Add("*** Begin Patch\n*** Delete File: "+path+"\n*** End Patch\n", "a\n")
		f.Add("*** Begin Patch\n*** Update File: a.txt\n*** Move to: "+path+"\n*** End Patch\n", "a\n")
	}
	f.Fuzz(func(t *testing.T, patch, content string) {
		p, err := applypatch.Parse(patch)
		if err != nil {
			return
		}
		for _, path := range p.Paths() {
			if !filepath.IsLocal(path) {
				return // the sandbox's business
			}
		}
		dir := t.TempDir()
		ws := filepath.Join(dir, "ws")
		layFiles(t, dir, map[string]string{"ws/a.txt": content, "ws/b.txt": "b\n", "ws/d/a.txt": content, "outside/file.txt": "text\n"})
		for link, target := range map[string]string{"out": "../outside", "out.txt": "../outside/file.txt", "d/up": "../..", "in": "d"} {
			require.NoError(t, os.Symlink(target, filepath.Join(ws, link)))
		}
		before := wholeTree(t, dir)
		t.Chdir(ws)
		all := applypatch.New(applypatch.Options{})
		text, isError := call(t, all[0], patchArgs{patch})
		after := wholeTree(t, dir)
		require.NotContains(t, text, "bug in toolgate")
		if isError {
			require.Equal(t, before, after, "a failed patch changed something: %s", text)
			return
		}
		for name, data := range before {
			if !strings.HasPrefix(name, "ws/") {
				require.Equal(t, data, after[name], "%s is outside", name)
			}
		}
		for name := range after {
			if !strings.HasPrefix(name, "ws/") {
				require.Contains(t, before, name, "%s is outside", name)
			}
			require.NotContains(t, name, ".toolgate-")
		}
		if text, isError = call(t, all[1], nil); isError {
			require.Contains(t, text, "there is no patch to undo", "nothing was changed, so there is nothing to undo")
			require.Equal(t, before, after)
			return
		}
		require.Equal(t, before, wholeTree(t, dir), text)
	})
}
