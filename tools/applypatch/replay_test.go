package applypatch_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/tools/applypatch"
)

// The commits of this repository, as patches of their parents, give the files of the commit
// or are refused for a reason that a reader of the patch can see. APPLY_PATCH_ROUNDS is the
// number of commits, the latest first.
func TestReplaysCommits(t *testing.T) {
	r := &repository{t, lookForGit(t), ""}
	dir, err := exec.CommandContext(t.Context(), r.program, "rev-parse", "--show-toplevel", "HEAD").Output()
	if r.dir, _, _ = strings.Cut(string(dir), "\n"); err != nil {
		if os.Getenv("REQUIRE_COMMITS") != "" {
			t.Fatalf("REQUIRE_COMMITS is set, but this is not a repository with commits: %v", err)
		}
		t.Skip("this is not a repository with commits")
	}
	outcomes := map[string]map[string]int{}
	most := fmt.Sprintf("--max-count=%d", rounds(t, 8))
	commits := strings.Fields(r.git("", "rev-list", "--no-merges", most, "HEAD"))
	for _, commit := range commits {
		c := r.commit(commit)
		if len(c.after)+len(c.before) == 0 {
			continue
		}
		for name, patch := range map[string]string{
			"unified 3": c.diff("-U3"), "unified 1": c.diff("-U1"), "unified 0": c.diff("-U0"), "codex 3": c.codex(),
		} {
			if outcomes[name] == nil {
				outcomes[name] = map[string]int{}
			}
			outcomes[name][c.replay(name, patch)]++
		}
	}
	for name, count := range outcomes {
		t.Logf("%s: %v", name, count)
		require.NotZero(t, count["identical"], name)
	}
}

// A repository is a checkout of git.
type repository struct {
	t       *testing.T
	program string
	dir     string
}

func (r *repository) git(stdin string, args ...string) string {
	cmd := exec.CommandContext(r.t.Context(), r.program, append([]string{"-c", "core.quotePath=true"}, args...)...)
	cmd.Dir, cmd.Stdin = r.dir, strings.NewReader(stdin)
	out, err := cmd.Output()
	require.NoError(r.t, err, args)
	return string(out)
}

// A commit is the change of text files by a commit.
type commit struct {
	*repository
	id, parent    string
	paths         []string // as pathspecs
	before, after map[string]string
}

// emptyTree is the parent of a commit without one.
const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

func (r *repository) commit(id string) *commit {
	c := &commit{repository: r, id: id, parent: emptyTree}
	if line := strings.Fields(r.git("", "rev-list", "--parents", "-n1", id)); len(line) > 1 {
		c.parent = line[1]
	}
	var before, after []string
	for line := range strings.Lines(r.git("", "diff", "--numstat", "--no-renames", c.parent, id)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if f[0] == "-" || strings.HasPrefix(f[2], `"`) {
			continue // binary, or a name that would have to be unquoted
		}
		c.paths = append(c.paths, ":(literal)"+f[2])
		before, after = append(before, c.parent+":"+f[2]), append(after, id+":"+f[2])
	}
	c.before, c.after = r.contents(before), r.contents(after)
	return c
}

// contents returns the contents of objects such as COMMIT:PATH by path, without those that
// do not exist.
func (r *repository) contents(names []string) map[string]string {
	files := map[string]string{}
	out := bufio.NewReader(strings.NewReader(r.git(strings.Join(names, "\n")+"\n", "cat-file", "--batch=%(objectsize)")))
	for _, name := range names {
		head, err := out.ReadString('\n')
		require.NoError(r.t, err)
		var size int
		if _, err := fmt.Sscanf(head, "%d\n", &size); err != nil {
			continue // "NAME missing"
		}
		data := make([]byte, size+len("\n"))
		_, err = io.ReadFull(out, data)
		require.NoError(r.t, err)
		_, path, _ := strings.Cut(name, ":")
		files[path] = string(data[:size])
	}
	return files
}

func (c *commit) diff(context string) string {
	args := []string{"diff", "--no-color", "--no-ext-diff", "-M", context, c.parent, c.id, "--"}
	return c.git("", append(args, c.paths...)...)
}

// codex returns the diff in Codex's format, without changes of modes.
func (c *commit) codex() string {
	p, err := applypatch.Parse(c.diff("-U3"))
	require.NoError(c.t, err)
	p.Format = applypatch.Codex
	var ops []applypatch.FileOp
	for _, op := range p.Ops {
		for i := range op.Hunks {
			op.Hunks[i].OldStart, op.Hunks[i].NewStart = 0, 0
		}
		if op.Kind == applypatch.Delete {
			op.Hunks = nil
		}
		if op.Kind != applypatch.Update || op.MoveTo != "" || len(op.Hunks) > 0 {
			ops = append(ops, op)
		}
	}
	p.Ops = ops
	return p.String()
}

func withoutLineEnds(files map[string]string) map[string]string {
	for name, data := range files {
		files[name] = strings.ReplaceAll(data, "\r\n", "\n")
	}
	return withoutLastNewline(files)
}

// replay applies the patch and returns what came of it.
func (c *commit) replay(name, patch string) string {
	dir := c.t.TempDir()
	layFiles(c.t, dir, c.before)
	c.t.Chdir(dir)
	text, isError := call(c.t, applypatch.Tool, patchArgs{patch})
	got := tree(c.t, ".")
	if isError {
		require.Equal(c.t, c.before, got, "%s, %s", c.id, name)
		for _, why := range []string{"is ambiguous", "would fit again", "is already applied", "links and submodules"} {
			if strings.Contains(text, why) {
				return why
			}
		}
		require.Fail(c.t, "refused", "%s, %s: %s", c.id, name, text)
	}
	want := maps.Clone(c.after)
	if strings.HasPrefix(name, "codex") { // it says nothing about line ends
		want, got = withoutLineEnds(want), withoutLineEnds(got)
	}
	for path := range want {
		require.Equal(c.t, want[path], got[path], "%s, %s: %s", c.id, name, path)
	}
	require.Len(c.t, got, len(want), "%s, %s", c.id, name)
	return "identical"
}
