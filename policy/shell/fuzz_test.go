package shell_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/syntax"

	"toolgate/internal/testkit"
	"toolgate/policy/rules"
	"toolgate/policy/shell"
)

// quote returns s as one word for a shell.
func quote(s string) string {
	q, err := syntax.Quote(s, syntax.LangBash)
	if err != nil {
		panic(err)
	}
	return q
}

// A wrap puts a script inside another. line is a script; a wrap that takes
// words runs it with sh -c.
type wrap struct {
	name string
	wrap func(line string) string
}

// before returns a wrap that puts words before a command.
func before(words string) wrap {
	return wrap{words, func(line string) string { return words + " sh -c " + quote(line) }}
}

// around returns a wrap that takes the script as it is.
func around(format string) wrap {
	return wrap{format, func(line string) string { return fmt.Sprintf(format, line) }}
}

// quoted returns a wrap that takes the script as one quoted word.
func quoted(format string) wrap {
	return wrap{format, func(line string) string { return fmt.Sprintf(format, quote(line)) }}
}

// wraps are the known ways to run a script from within another.
var wraps = []wrap{
	around("%s"), around("( %s\n)"), around("{ %s\n}"), around("echo \"$( %s\n)\""), around("cat <( %s\n)"), around("echo x > >( %s\n)"),
	around("if true; then %s\nfi"), around("if %s\nthen :; fi"), around("while %s\ndo break; done"), around("until %s\ndo break; done"),
	around("for i in 1 2; do %s\ndone"), around("case x in x) %s\n;; esac"), around("f() { %s\n}; f"), around("g() { %s\n}"),
	around("! { %s\n}"), around("time { %s\n}"), around("true && { %s\n}"), around("false || { %s\n}"), around("true | { %s\n}"), around("{ %s\n} &"),
	around("x=$( %s\n)"), around("export X=\"$( %s\n)\""), around("[[ -n $( %s\n) ]]"), around("echo $(( 1 + $( %s\n) ))"), around("cat <<END1\n$( %s\n)\nEND1"),
	around("echo ${x:-$( %s\n)}"), around("a=( $( %s\n) )"), around("echo x > \"$( %s\n)\""), around("coproc { %s\n}"),
	quoted("bash -c %s"), quoted("sh -c %s"), quoted("bash -o pipefail -lc %s x y"), quoted("dash -ec %s"), quoted("zsh -c %s"), quoted("ksh -c %s"),
	quoted("eval %s"), quoted("bash <<< %s"), quoted("echo %s | bash"), quoted("printf '%%s\\n' %s | sh -s"), quoted("bash <(echo %s)"), quoted("source /dev/stdin <<< %s"),
	quoted("trap %s EXIT"), quoted("alias a=%s"), quoted("mapfile -C %s -c 1 x"), quoted("env -S \"bash -c\" %s"),
	quoted("find . -exec sh -c %s \\;"), quoted("find . -execdir bash -c %s {} +"), quoted("xargs -n1 -I{} sh -c %s"), quoted("xargs sh -c %s"),
	quoted("su root -c %s"), quoted("su - root -c %s"), quoted("runuser -u root -c %s"), quoted("script -qc %s /dev/null"), quoted("flock -n x -c %s"), quoted("watch -n1 %s"), {"parallel", func(line string) string { return "parallel " + quote(line+"\n:") + " ::: x" }},
	quoted("git -c alias.x=!%s x"), quoted("git -c core.pager=%s log"), quoted("git rebase --exec %s"), quoted("git submodule foreach %s"), quoted("git bisect run sh -c %s"),
	quoted("GIT_SSH_COMMAND=%s git fetch"), quoted("ssh -o ProxyCommand=%s host"), quoted("ssh host %s"), quoted("npx -c %s"), quoted("nix-shell --run %s"), quoted("hyperfine %s"),
	quoted("tar cf x --checkpoint-action=exec=%s ."), quoted("tar -I %s -cf x ."), quoted("rsync -e %s a b"), quoted("sort --compress-program=%s x"), quoted("split --filter=%s x"), quoted("rg --pre %s x"),
	quoted("tmux new -d %s"), quoted("busybox sh -c %s"), quoted("$SHELL -c %s"), quoted("make SHELL=%s"), quoted("socat - SYSTEM:%s"), quoted("nc -e %s host 1"),
	before("env"), before("env -i A=1"), before("sudo -n"), before("sudo -u root --"), before("doas"), before("nohup"), before("timeout 5"), before("timeout -k 1 --signal=TERM 5"),
	before("nice -n 3"), before("ionice -c3"), before("setsid -w"), before("stdbuf -o L"), before("taskset 1"), before("chrt -b 0"), before("command"), before("exec"), before("exec -a x"),
	before("builtin command"), before("chroot /"), before("unshare -rn"), before("nsenter -t 1 -m"), before("flock x"), before("strace -f -e trace=none"), before("ltrace -o x"), before("busybox"), before("caffeinate -i"),
	before("systemd-run --user"), before("docker run --rm -it alpine"), before("docker exec -it box"), before("kubectl exec pod --"), before("npm exec --"), before("uv run"), before("poetry run"), before("bundle exec"), before("conda run -n x"),
	before("xvfb-run -a"), before("dbus-run-session --"), before("prlimit --nofile=1"), before("setpriv --no-new-privs"), before("bwrap --ro-bind / / --dev /dev"), before("faketime now"), before("fakeroot"), before("proot -r /"),
	before("/usr/bin/time -f %e"), before("tini --"), before("gosu root"), before("/lib64/ld-linux-x86-64.so.2 /usr/bin/env"), before("fd -x"), before("parallel ::: x ; nohup"), before("gtimeout 1"), before("screen -dm"), before("watch -x"), before("linux64"), before("pkexec --user root"),
}

// requireFound checks that `target arg` is among the commands of a script.
func requireFound(t *testing.T, script string) {
	t.Helper()
	f := shell.Find([]string{"bash", "-c", script})
	for _, o := range f.Opaque {
		require.NotContains(t, o.Reason, "bug:", script)
	}
	require.True(t, slices.ContainsFunc(f.Commands, func(c shell.Command) bool {
		return len(c.Argv) >= 2 && c.Argv[0] == "target" && c.Argv[1] == "arg"
	}), "not found in:\n%s\nfound:\n%s", script, describe(f))
}

func TestEveryWrapper(t *testing.T) {
	for _, w := range wraps {
		t.Run(w.name, func(t *testing.T) { requireFound(t, w.wrap("target arg")) })
	}
}

// TestWrappersInWrappers puts every known wrapper in every other.
func TestWrappersInWrappers(t *testing.T) {
	for _, outer := range wraps {
		for _, inner := range wraps {
			requireFound(t, outer.wrap(inner.wrap("target arg")))
		}
	}
}

// FuzzWrappers nests wrappers at random.
func FuzzWrappers(f *testing.F) {
	f.Add([]byte{1, 2, 3})
	for i := range wraps {
		f.Add([]byte{byte(i), byte(i + 1), byte(i * 7)})
	}
	f.Fuzz(func(t *testing.T, picks []byte) {
		if len(picks) > 5 {
			t.Skip("quotes in quotes grow too fast")
		}
		script := "target arg"
		for _, p := range picks {
			script = wraps[int(p)%len(wraps)].wrap(script)
		}
		if len(script) < 64<<10 {
			requireFound(t, script)
		}
	})
}

// FuzzCommands feeds anything: nothing may panic, and what comes back must be
// whole.
func FuzzCommands(f *testing.F) {
	for _, c := range readScripts(f) {
		f.Add(c.script)
	}
	for _, s := range hostile() {
		if len(s) < 4096 {
			f.Add(s)
		}
	}
	rs := testkit.Rules(f, `prefix_rule(pattern=["git", ["push", "fetch"]], decision="forbidden")`)
	f.Fuzz(func(t *testing.T, script string) {
		for _, program := range []string{"bash", "sh", "zsh", "ksh"} {
			found := shell.Find([]string{program, "-c", script})
			for _, o := range found.Opaque {
				require.NotContains(t, o.Reason, "bug:", "%s: %q", program, script)
			}
			for _, c := range found.Commands {
				require.NotEmpty(t, c.Argv)
				for _, h := range c.Holes {
					require.Less(t, h.Index, len(c.Argv))
				}
				c.Dangerous()
				c.ReadOnly()
			}
		}
		argv := []string{"bash", "-lc", script}
		j := rs.Judge(argv)
		if j.Decision == rules.Allow {
			t.Fatalf("permitted by rules that permit nothing: %q", script)
		}
		(*rules.Rules)(nil).ProposePrefix(argv, nil)
	})
}

// hostile returns scripts made to take long or go deep.
func hostile() []string {
	nest := func(open, end string, n int) string {
		return strings.Repeat(open, n) + "git push" + strings.Repeat(end, n)
	}
	quotes := "git push"
	for range 12 {
		quotes = "sh -c " + quote(quotes)
	}
	double := "f0() { git push; }\n"
	for i := range 40 {
		double += fmt.Sprintf("f%d() { f%d; f%d; }\n", i+1, i, i)
	}
	args := "f() { f \"$@\" x; }; f a"
	self := "f() { f; g; }; g() { f; g; }; f"
	return []string{
		nest("$(", ")", 10000), nest("(", ")", 20000), nest("{ ", ";}", 20000), nest("\"$(", ")\"", 5000), nest("if ", "; then :; fi", 10000), nest("`", "`", 1),
		nest("<(", ")", 10000), nest("$((", "))", 10000), nest("${x:-", "}", 10000), nest("[[ (", ") ]]", 1000), nest("! ", "", 20000), nest("env ", "", 20000),
		nest("sudo ", "", 5000), nest("eval ", "", 5000), nest("case x in x) ", ";; esac", 5000),
		strings.Repeat("git push;", 25000), strings.Repeat("x=$x$x$x;", 2000) + "$x", strings.Repeat("{a,b}", 30), "echo {1..1000000000}", "{1..9}{1..9}{1..9}{1..9} push",
		strings.Repeat("a", 1<<20), strings.Repeat("$a", 50000), strings.Repeat("<<E\n", 5000), quotes, double + "f40", args, self,
		"alias a='a a a'; a", "alias a='b b'; alias b='a a'; a", "trap 'trap \"trap x EXIT\" EXIT' EXIT", strings.Repeat("a|", 20000) + "a",
		"x='$x'; eval \"$x\"; bash -c \"$x$x\"", "printf '%s' " + strings.Repeat("x ", 20000) + "| bash", "awk '" + strings.Repeat("{", 20000) + "'",
		"sed '" + strings.Repeat("s/a/b/;", 20000) + "'", "python3 -c '" + strings.Repeat("os.system(", 20000) + "'", "git -c alias.a='!git a' a", "git -c alias.a=a a",
		"((" + strings.Repeat("! ", 50000) + "1))", "((" + strings.Repeat("-", 100000) + "1))", "((" + strings.Repeat("1+", 50000) + "1))", "((" + strings.Repeat("1?1:", 30000) + "1))",
		"[[ " + strings.Repeat("! ", 50000) + "a ]]", "[[ " + strings.Repeat("a && ", 30000) + "a ]]", strings.Repeat("time ", 30000) + "git push", strings.Repeat("a && ", 40000) + "git push", "if a; then b; " + strings.Repeat("elif a; then b; ", 10000) + "else git push; fi",
		strings.Repeat("coproc ", 1000) + "git push", strings.Repeat("A=$(b) ", 20000) + "git push", strings.Repeat("PATH=x; ", 200) + "$x", strings.Repeat("$x; ", 200) + "git push", "x=" + strings.Repeat("a[", 900) + "$(git push)",
		"find . " + strings.Repeat("-exec x \\; ", 20000), "a=" + strings.Repeat("'$('", 5000), strings.Repeat("f() { ", 2000) + "git push" + strings.Repeat("; }", 2000),
	}
}

// TestHostileScripts holds the bounds: each script ends, soon, and a hidden
// command is seen or something is named opaque.
func TestHostileScripts(t *testing.T) {
	for i, script := range hostile() {
		found := shell.Find([]string{"bash", "-c", script})
		require.LessOrEqual(t, len(found.Commands), 5000)
		for _, o := range found.Opaque {
			require.NotContains(t, o.Reason, "bug:")
		}
		if strings.Contains(script, "git push") {
			seen := slices.ContainsFunc(found.Commands, func(c shell.Command) bool { return c.String() == "git push" })
			require.True(t, seen || len(found.Opaque) > 0, "script %d", i)
		}
	}

	// Much that only taints must not push out what hides.
	rs := testkit.Rules(t, `prefix_rule(pattern=["git", "push"], decision="forbidden")`)
	script := ""
	for i := range 300 {
		script += fmt.Sprintf("PYTHONPATH=%d; ", i)
	}
	require.Equal(t, rules.NoDecision, rs.Judge([]string{"bash", "-c", script[:500]}).Decision)
	require.Equal(t, rules.Prompt, rs.Judge([]string{"bash", "-c", script + "$x"}).Decision)
}

// script200 is a script of 200 commands, as a model writes them.
func script200() string {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "cd src/pkg%d && go test -run 'Test%d' ./... 2>&1 | tail -n 20\n", i, i)
		fmt.Fprintf(&b, "if [ -f out%d.txt ]; then grep -n \"error: $pattern\" out%d.txt; fi\n", i, i)
	}
	return b.String()
}

func BenchmarkCommands(b *testing.B) {
	for _, s := range []struct{ name, script string }{
		{"one", "git status"},
		{"nested", "sudo env X=1 nohup timeout 5 bash -c 'sh -c \"git push\"'"},
		{"200", script200()},
	} {
		b.Run(s.name, func(b *testing.B) {
			argv := []string{"/bin/bash", "-lc", s.script}
			b.ReportAllocs()
			for b.Loop() {
				shell.Find(argv)
			}
		})
	}
}
