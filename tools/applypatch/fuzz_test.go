package applypatch_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
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
	f.Add("**UpdAte File0\n\f ")
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

// No patch touches a path that no header outside of its hunks names: one that
// is not padded, or one below the first line or a deleted file, where Codex
// counts padded ones too and a hunk cannot be.
func FuzzPathsAreNamed(f *testing.F) {
	addCases(f, func(c *testCase) { f.Add(c.patch) })
	f.Fuzz(func(t *testing.T, text string) {
		p, err := applypatch.Parse(text)
		if err != nil {
			return
		}
		for _, op := range p.Ops {
			line, next, lines := p.Header(op)
			if p.Format == applypatch.Unified {
				require.Regexp(t, `^(--- |diff --git )`, line)
				continue
			}
			if p.Dir() != "" {
				continue
			}
			require.Contains(t, line, op.Path)
			if op.MoveTo != "" {
				require.Regexp(t, `^\*\*\* Move to:`, next)
				require.Contains(t, next, op.MoveTo)
			}
			if strings.HasPrefix(line, "***") {
				continue
			}
			above := strings.TrimSpace(strings.Join(lines, "\n"))
			above = above[strings.LastIndex(above, "\n")+1:]
			require.Regexp(t, `^\s*\*\*\* (Begin Patch|Environment ID:|Delete File:)`, above, "%q is padded", line)
		}
	})
}

// A patch of lines that look like headers: all that name victim.txt are padded or signed and
// below a hunk's first line, so none may touch it. Each pair of bytes chooses a line.
func FuzzPaddedHeaders(f *testing.F) {
	padding := []string{"", " ", "  ", "\t", " \t", "\u00a0", "\v", "\r", "\ufeff", "+", "-", "- ", "+\t", " +", " -"}
	harmless := []string{
		"*** Update File: a.txt", "*** Add File: b.txt", "*** Move to: b.txt", "*** End Patch", "*** End of File", "@@",
		"@@ text", "@@ -1,2 +1,2 @@", "--- a/a.txt", "+++ b/a.txt", "diff --git a/a.txt b/a.txt", "", "text", "-old", "+new",
		" same", "\\ No newline at end of file", "```", "EOF", "-- ",
	}
	naming := []string{
		"*** Update File: victim.txt", "*** Add File: victim.txt", "*** Delete File: victim.txt",
		"*** delete file: victim.txt ***", "*** Move to: victim.txt", "*** Create File: victim.txt", "--- a/victim.txt",
		"+++ b/victim.txt", "--- victim.txt", "+++ victim.txt", "diff --git a/victim.txt b/victim.txt", "rename from victim.txt", "rename to victim.txt",
		"deleted file mode 100644\n --- a/victim.txt\n +++ /dev/null",
	}
	heads := []string{
		"*** Begin Patch\n*** Update File: a.txt\n text\n",
		"*** Begin Patch\n*** Update File: a.txt\n*** Move to: c.txt\n@@\n",
		"<<EOF\n*** Begin Patch\n*** Add File: a.txt\n+text\n", "--- a/a.txt\n+++ b/a.txt\n@@ -1,9 +1,9 @@\n text\n",
		"diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ @@\n text\n",
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		program := make([]byte, 2+2*r.IntN(12))
		for i := range program {
			program[i] = byte(r.Uint32())
		}
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) == 0 {
			return
		}
		text := heads[int(program[0])%len(heads)]
		for pair := range slices.Chunk(program[1:], 2) {
			pad, line := padding[int(pair[0])%len(padding)], int(pair[len(pair)-1])%(len(harmless)+len(naming))
			switch {
			case line < len(harmless):
				text += pad + harmless[line] + "\n"
			case pad != "" && !(strings.HasPrefix(pad, "-") || strings.HasPrefix(pad, "+")):
				text += pad + naming[line-len(harmless)] + "\n"
			case pad != "": // in a unified diff it must not make a header of it
				text += pad + strings.TrimLeft(naming[line-len(harmless)], "-+") + "\n"
			}
		}
		if p, err := applypatch.Parse(text + "*** End Patch\n"); err == nil {
			for _, path := range p.Paths() {
				require.NotContains(t, path, "victim", text)
			}
		}
	})
}

// Whatever the lines of a hunk are, they are no headers.
func FuzzHunkLinesAreNoHeaders(f *testing.F) {
	addCases(f, func(c *testCase) { f.Add(c.patch, " ") })
	f.Add("** Delete File: b.txt\n*** Delete File: b.txt\n\t*** End Patch\n*** End Patch", " -+")
	f.Add("-- a/b.txt\n++ b/b.txt\n@@ -1 +1 @@\n-- b.txt\n++ /dev/null", "-+ -+")
	f.Add("diff --git a/b.txt b/c.txt\nrename from b.txt\nrename to c.txt", " -+")
	f.Add("EndPAtCh", " ")
	f.Fuzz(func(t *testing.T, text, ops string) {
		var body strings.Builder
		var count [3]int
		for i, line := range strings.Split(text, "\n") {
			op := 2
			if ops != "" {
				op = int(ops[i%len(ops)]) % 3
			}
			count[op]++
			body.WriteString("-+ "[op:op+1] + line + "\n")
		}
		head := fmt.Sprintf("--- a/a.txt\n+++ b/a.txt\n@@ -1,%d +1,%d @@\n", count[0]+count[2], count[1]+count[2])
		for _, patch := range []string{
			"*** Begin Patch\n*** Update File: a.txt\n@@\n" + body.String() + "@@\n-x\n*** End Patch\n",
			"*** Begin Patch\n*** Update File: a.txt\n@@\n" + body.String() + "*** End Patch\n",
			head + body.String() + "@@ -9,1 +9,1 @@\n-x\n+y\n",
			head + body.String(),
			// These are malformed, which makes no header of a line either.
			"*** Update File: a.txt\n@@\n" + body.String() + "*** End Patch\n",
			"*** Begin Patch\n*** Update File: a.txt\n@@\n" + body.String(),
			"```diff\n*** Begin Patch\n*** Update File: a.txt\n@@\n" + body.String() + "*** End Patch\n```\n",
			"  *** Begin Patch\n  *** Update File: a.txt\n  @@\n  " +
				strings.ReplaceAll(body.String()+"+x\n", "\n", "\n  ") + "*** End Patch\n",
			"*** begin patch\n*** Update File: `a.txt`\n@@\nunsigned\n" + body.String() + "+x\n*** End Patch\n",
			"*** Begin Patch\n" + head + body.String() + "*** End Patch\n",
		} {
			p, err := applypatch.Parse(patch)
			require.NoError(t, err, patch)
			require.Equal(t, []string{"a.txt"}, p.Paths(), patch)
			require.Len(t, p.Ops, 1, patch)
		}
	})
}

// withoutLines drops what depends on how the patch is laid out, or was rewritten.
func withoutLines(p *applypatch.Patch) *applypatch.Patch {
	p = &applypatch.Patch{Format: p.Format, Ops: p.Ops}
	for i := range p.Ops {
		p.Ops[i].Line, p.Ops[i].Unique = 0, false
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
		if onlyEdits(p) {
			text, _ = call(t, all[0], patchArgs{patch})
			require.Equal(t, after, wholeTree(t, dir), "applied again, it changes something: %s", text)
		}
		if text, isError = call(t, all[1], nil); isError {
			require.Contains(t, text, "there is no patch to undo", "nothing was changed, so there is nothing to undo")
			require.Equal(t, before, after)
			return
		}
		require.Equal(t, before, wholeTree(t, dir), text)
	})
}

// onlyEdits reports whether the patch moves and deletes nothing: those that do may give each
// other's names to files, and do so again.
func onlyEdits(p *applypatch.Patch) bool {
	return !slices.ContainsFunc(p.Ops, func(op applypatch.FileOp) bool {
		return op.Kind == applypatch.Delete || op.MoveTo != ""
	})
}

// A patch that is applied changes nothing when it is applied again, in either format: it is
// refused, or the files stay the same. APPLY_PATCH_ROUNDS is the number of patches.
func TestAppliedTwice(t *testing.T) {
	t.Chdir(t.TempDir())
	applied := 0
	cases := rounds(t, 500)
	for seed := range cases {
		if checkAppliedTwice(t, uint64(seed)) {
			applied++
		}
	}
	t.Logf("applied %d of %d", applied, cases)
	require.Greater(t, applied, cases/3)
}

func FuzzAppliedTwice(f *testing.F) {
	f.Add(uint64(1000))
	f.Add(uint64(27709))
	f.Fuzz(func(t *testing.T, seed uint64) {
		t.Chdir(t.TempDir())
		checkAppliedTwice(t, seed)
	})
}

// checkAppliedTwice makes a patch from the seed, in one of the formats, and applies it twice in
// the working folder, which it leaves empty. It reports whether the patch applies once.
func checkAppliedTwice(t testing.TB, seed uint64) bool {
	c := newCodexCase(seed)
	p, err := applypatch.Parse(c.patch)
	if err != nil {
		return false
	}
	p.Ops = p.Ops[:1] // another may give the name to another file
	r := rand.New(rand.NewPCG(seed, 3))
	p.Format = applypatch.Format(r.IntN(2))
	for i := range p.Ops[0].Hunks {
		h := &p.Ops[0].Hunks[i]
		h.EndOfFile = h.EndOfFile && p.Format == applypatch.Codex
		if p.Format == applypatch.Unified && r.IntN(3) > 0 {
			h.OldStart, h.NewStart = r.IntN(20), 1+r.IntN(20)
		}
	}
	layFiles(t, ".", c.before)
	text, isError := call(t, applypatch.Tool, patchArgs{p.String()})
	once := tree(t, ".")
	if isError {
		require.Equal(t, c.before, once, text)
	} else {
		text, _ = call(t, applypatch.Tool, patchArgs{p.String()})
		require.Equal(t, once, tree(t, "."), "seed %d:\n%s\nto\n%q\n%s", seed, p, c.before, text)
	}
	for name := range once {
		require.NoError(t, os.Remove(name))
	}
	return !isError
}
