package shell_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/internal/testkit"
	"toolgate/policy/rules"
	"toolgate/policy/shell"
)

// stubs are the programs that scripts in these tests may start without harm:
// each only writes down what it was given.
var stubs = []string{
	"git", "rm", "show", "curl", "wget", "ssh", "scp", "rsync", "sudo", "doas", "su", "runuser", "pkexec", "chroot", "docker", "podman", "kubectl",
	"npm", "npx", "uv", "tmux", "screen", "systemd-run", "at", "batch", "crontab", "vim", "vi", "ed", "sqlite3", "socat", "nc", "watch",
	"strace", "unshare", "busybox", "fd", "parallel", "perf", "make", "go", "node", "ruby", "php", "fish", "tar", "cargo",
}

// recordEnd ends the record of one program. It is written at once with it, so
// that programs that run side by side do not mix.
const recordEnd = "--end of argv--"

// A recorder runs scripts in bash and sees which programs they started.
type recorder struct {
	bash, bin string
	permitted int // scripts that the rules let through
}

func newRecorder(t testing.TB) *recorder {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		if os.Getenv("REQUIRE_BASH") != "" {
			t.Fatal("bash is required and not there")
		}
		t.Skip("no bash")
	}
	r := &recorder{bash: bash, bin: t.TempDir()}
	stub := "#!/bin/sh\nprintf '%s\\0' \"${0##*/}\" \"$@\" '" + recordEnd + "' >> \"$RECORD\"\n"
	for _, name := range stubs {
		require.NoError(t, os.WriteFile(filepath.Join(r.bin, name), []byte(stub), 0o755))
	}
	return r
}

// run returns the argv of every stub that the script started.
func (r *recorder) run(t testing.TB, shell, script string) [][]string {
	t.Helper()
	dir := t.TempDir()
	record := filepath.Join(dir, ".record")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell, "-c", script)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + r.bin + ":/usr/bin:/bin", "HOME=" + dir, "RECORD=" + record, "GIT_CEILING_DIRECTORIES=/", "SHELL=/bin/sh"}
	cmd.WaitDelay = time.Second
	_ = cmd.Run() // how it ends does not matter
	b, err := os.ReadFile(record)
	if err != nil {
		return nil
	}
	var list [][]string
	for line := range bytes.SplitSeq(b, []byte("\x00"+recordEnd+"\x00")) {
		if len(line) > 0 {
			list = append(list, strings.Split(string(line), "\x00"))
		}
	}
	return list
}

// covers reports whether the command found can be the one that ran.
func covers(c shell.Command, argv []string) bool {
	if len(c.Argv) == 0 || filepath.Base(c.Argv[0]) != argv[0] {
		return false
	}
	return coversFrom(c, 1, argv[1:])
}

func coversFrom(c shell.Command, i int, args []string) bool {
	if i == len(c.Argv) {
		return len(args) == 0
	}
	hole := slices.IndexFunc(c.Holes, func(h shell.Hole) bool { return h.Index == i })
	switch {
	case hole < 0:
		home := strings.Contains(c.Argv[i], "~") // is left to whoever reads it
		return len(args) > 0 && (args[0] == c.Argv[i] || home) && coversFrom(c, i+1, args[1:])
	case c.Holes[hole].Many:
		for n := 0; n <= len(args); n++ {
			if coversFrom(c, i+1, args[n:]) {
				return true
			}
		}
		return false
	}
	return len(args) > 0 && strings.HasPrefix(args[0], c.Holes[hole].Prefix) && coversFrom(c, i+1, args[1:])
}

var oddDollar = regexp.MustCompile(`\$([^\w({'"?*@#$!-]|$)`)

// checkRun runs a script and checks that what ran was found, or that
// something was named opaque. A script that rules for show alone permit must
// start nothing else and write nothing.
func checkRun(t testing.TB, r *recorder, program, script string) [][]string {
	t.Helper()
	found := shell.Find([]string{program, "-c", script})
	for _, o := range found.Opaque {
		require.NotContains(t, o.Reason, "bug:", script)
	}
	if strings.HasSuffix(script, `\`) || strings.Contains(script, "$IFS") && oddDollar.MatchString(script) {
		return nil // bash drops a last backslash at times, and does not split a word with a lone $
	}
	ran := r.run(t, program, script)
	for _, argv := range ran {
		seen := slices.ContainsFunc(found.Commands, func(c shell.Command) bool { return covers(c, argv) })
		require.True(t, seen || len(found.Opaque) > 0, "%s ran but was not found: %q\nin:\n%s\nfound:\n%s", program, argv, script, describe(found))
	}
	if r.permits(t, program, script) {
		r.permitted++
		for _, argv := range ran {
			require.Equal(t, "show", argv[0], "%s: permitted:\n%s\nfound:\n%s", program, script, describe(found))
		}
	}
	return ran
}

// permits judges a script by rules that allow show and some builtins.
func (r *recorder) permits(t testing.TB, shell, script string) bool {
	allowed := testkit.Rules(t, `[prefix_rule(pattern=[name]) for name in ["show", "echo", "printf", "true", ":", "[", "read", "set", "shift", "trap", "alias", "export", "local", "eval"]]`)
	return allowed.Judge([]string{shell, "-c", script}).Decision == rules.Allow
}

// TestScriptsRun holds the table of scripts against bash: what bash really
// starts is found, and an innocent really does not push.
func TestScriptsRun(t *testing.T) {
	r := newRecorder(t)
	for _, c := range readScripts(t) {
		if strings.Contains(c.script, "/usr/bin/gi") || strings.HasPrefix(c.name, "what a model writes") {
			continue // these start programs that are no stubs
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			mine := *r // the count is not shared
			ran := checkRun(t, &mine, r.bash, c.script)
			push := slices.ContainsFunc(ran, func(argv []string) bool {
				return len(argv) > 1 && argv[0] == "git" && argv[1] == "push"
			})
			if c.kind == "innocent" {
				require.False(t, push, c.script)
			}
			if !push && c.kind == "evasion" {
				t.Logf("did not push here: %s %q", c.script, ran)
			}
		})
	}
}

// shellTokens are what random scripts are made of. None can do harm: the only
// programs among them are stubs, and nothing is written.
var shellTokens = []string{
	"show ", "show ", "show ", "git ", "a", "b", "push", " ", " ", "'", "'", `"`, `"`, `\`, "$", "{", "}", ",", "..", "*", "?", "[", "]", "~", "=", "!", "#",
	"$(", ")", "(", "`", "${x:-", "${x}", "$x", "x=", "$'", "\\x41", "\\n", "\n", ";", " && ", " || ", " | ", " & ", "<<<", "<<E\n", "\nE\n", "eval ", "command ",
	"env ", "bash -c ", "sh -c ", "if ", "; then ", "; fi", "for i in ", "; do ", "; done", "$i", "f() { ", "; }", "f ", `"$@"`, "$1", "$IFS", "<(", "$((", "))", "1", "-", "--",
	"xargs ", "case a in ", "*) ", " ;; esac", "[[ ", " ]]", "((", "echo ", "printf ", "%s", "set -- ", "shift; ", "{a,b}", "${x#", "${#x}", "$\"", "time ", "nohup ", "trap ", " EXIT", "alias ", "local ", "export ", "read x ", "!x", "|&", "coproc ",
}

func randomScript(choose func(n int) int, tokens int) string {
	var b strings.Builder
	for range tokens {
		b.WriteString(shellTokens[choose(len(shellTokens))])
	}
	return b.String()
}

// TestRandomScriptsRun holds random scripts against bash.
func TestRandomScriptsRun(t *testing.T) {
	r := newRecorder(t)
	n := 600
	seed := uint64(1)
	if s := os.Getenv("RANDOM_SCRIPTS"); s != "" { // a seed, for a longer run
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		n = 20000
	}
	if testing.Short() {
		n = 100
	}
	rnd := rand.New(rand.NewPCG(seed, 2))
	ran := 0
	for i := range n {
		script := "show " + randomScript(rnd.IntN, 1+rnd.IntN(14))
		shell := r.bash
		if i%3 == 0 && !strings.Contains(script, "{") { // braces are read as bash does, everywhere
			shell = "/bin/sh" // whatever shell that is here
		}
		ran += len(checkRun(t, r, shell, script))
	}
	require.Positive(t, ran)
	require.Positive(t, r.permitted)
	t.Logf("%d programs started by %d scripts, %d of them permitted", ran, n, r.permitted)
}

// FuzzAgainstBash is TestRandomScriptsRun with scripts that the fuzzer picks.
func FuzzAgainstBash(f *testing.F) {
	r := newRecorder(f)
	for _, seed := range []string{"\x00\x04\x0b\x05\x0c", "\x00\x1b\x03\x05\x1c", "\x2c\x0b\x00\x04\x0b"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, picks []byte) {
		if len(picks) > 24 {
			t.Skip()
		}
		i := 0
		checkRun(t, r, r.bash, randomScript(func(n int) int {
			i++
			return int(picks[i-1]) % n
		}, len(picks)))
	})
}

// TestRandomPlainScriptsRun holds scripts that an allow lifts the sandbox from
// against bash and sh: they start what was found in them, word by word, and
// nothing else.
func TestRandomPlainScriptsRun(t *testing.T) {
	r := newRecorder(t)
	parsed := testkit.Rules(t, `prefix_rule(pattern=["show"])`)
	tokens := []string{
		"show", "show ", "show a", " ", " ", "\t", "\n", "a", "b=c", "~", "'", "'", `"`, `"`, "'x y'", `"p;q"`, "''",
		"-", ".", "@", "%", "^", "#", `\`, "!", "*", "[", "{a,b}",
		"$x", "`", ";", "; show ", "&", "&&", " && show ", " || show ", "|", " | show ", "|&",
		">", "<", "<<", "(", ")", "if ", "time ", "read ", "eval ", "show=", "/", ":", "+", "=", "\\\n", "#\\\n",
	}
	rnd := rand.New(rand.NewPCG(1, 3))
	lifted, ran := 0, 0
	for range 20000 {
		var b strings.Builder
		b.WriteString("show ")
		for range 1 + rnd.IntN(6) {
			b.WriteString(tokens[rnd.IntN(len(tokens))])
		}
		script := b.String()
		if !parsed.Judge([]string{"bash", "-c", script}).LiftsSandbox {
			continue
		}
		lifted++
		if lifted%25 != 0 {
			continue // to start shells takes long
		}
		found := shell.Find([]string{"bash", "-c", script}).Commands
		for _, program := range []string{r.bash, "/bin/sh"} {
			for _, argv := range r.run(t, program, script) {
				ran++
				same := func(c shell.Command) bool { return slices.Equal(c.Argv, argv) }
				require.True(t, slices.ContainsFunc(found, same), "%s: %q ran %q", program, script, argv)
			}
		}
	}
	require.Greater(t, lifted, 1000)
	require.Greater(t, ran, 100)
}
