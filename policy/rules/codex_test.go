package rules_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"toolgate/internal/testkit"
	"toolgate/policy/rules"
)

// realRules is a rule file as Codex users have it, its comments and odd forms
// included. It must load unchanged.
const realRules = `
# ~/.codex/rules/default.rules

SAFE_GIT = ["status", "diff", "log", "show"]

prefix_rule(
    pattern = ["git", SAFE_GIT],
    match = ["git status", ["git", "log", "--oneline"]],
    not_match = ["git push"],
)

prefix_rule(
    pattern = ["git", "push"],
    decision = "prompt",
    justification = "pushing publishes your work",
    match = ["git push origin main"],
)
prefix_rule(pattern = ["git", "reset", "--hard"], decision = "forbidden", justification = "use ` + "`git stash`" + ` instead", not_match = ["git reset --keep", "git reset --merge"])
prefix_rule(pattern=["git", ["checkout", "restore"], ["--", "."]], decision="prompt")

[prefix_rule(pattern = ["npm", verb]) for verb in ["test", "ci", "run"]]
prefix_rule(pattern = ["npm", "publish"], decision = "forbidden")

def docker_rules(*subs):
    for s in subs:
        prefix_rule(pattern=["docker", s], decision="prompt", justification=f"docker {s}: asked {{about}}")

docker_rules("push", "rm")

for tool in ["go", "cargo"]:
    prefix_rule(pattern = [tool, ["build", "test", "vet", "check"]], decision = "allow")

prefix_rule(pattern=["ls"], match=[["ls"], ["ls", "-l"], ["ls", "-a", "."]])
prefix_rule(pattern=["cat"], match=["cat 'a file'", "cat -n README.md"])
prefix_rule(pattern=["rg"])
prefix_rule(pattern=["rm"], decision="prompt", justification="check what is deleted",)
prefix_rule(pattern=["sudo"], decision="forbidden")
prefix_rule(pattern=["sudo", "apt-get", "update"], decision="allow")
prefix_rule(pattern=["gh", "pr", ["view", "list"]], decision="allow", justification="reads only")
prefix_rule(pattern=["/opt/tools/deploy"], decision="prompt")

host_executable(name = "git", paths = ["/usr/bin/git", "/opt/homebrew/bin/git"])
host_executable(name = "rg", paths = ["~/.cargo/bin/rg"])

network_rule(host = "api.github.com", protocol = "https", decision = "allow")
network_rule(host = "169.254.169.254", protocol = "http", decision = "deny", justification = "cloud metadata")

# Written by "always allow" answers:
prefix_rule(pattern=["touch"], decision="allow")
prefix_rule(pattern=["/bin/bash", "-lc", "for f in *.go; do gofmt -l \"$f\"; done"], decision="allow")
prefix_rule(pattern=["python3", "scripts/gen.py"], decision="allow")
`

// TestRealRules has what Codex decides by the file, and where the answer here
// is another, why.
func TestRealRules(t *testing.T) {
	r := testkit.Rules(t, realRules)
	r.Home = "/home/u"
	const stricter, looser = "stricter", "looser"
	tests := []struct {
		script string
		codex  rules.Decision // what Codex does by the rules alone
		here   rules.Decision
		why    string // "" where both agree
	}{
		{"git status", rules.Allow, rules.Allow, ""},
		{"git status && ls -l | cat", rules.Allow, rules.Allow, ""},
		{"git status && make", rules.NoDecision, rules.NoDecision, ""},
		{"git push origin main", rules.Prompt, rules.Prompt, ""},
		{"ls && git push", rules.Prompt, rules.Prompt, ""},
		{"git reset --hard", rules.Forbidden, rules.Forbidden, ""},
		{"git reset --keep", rules.NoDecision, rules.NoDecision, ""},
		{"git checkout -- x", rules.Prompt, rules.Prompt, ""},
		{"git checkout main", rules.NoDecision, rules.NoDecision, ""},
		{"npm test", rules.Allow, rules.Allow, ""},
		{"npm publish", rules.Forbidden, rules.Forbidden, ""},
		{"go test ./... && cargo build", rules.Allow, rules.Allow, ""},
		{"rm x", rules.Prompt, rules.Prompt, ""},
		{"sudo apt-get update", rules.Forbidden, rules.Forbidden, ""}, // a longer allow is no exception
		{"gh pr view 1", rules.Allow, rules.Allow, ""},
		{"/usr/bin/git log", rules.Allow, rules.Allow, ""},
		{"/tmp/git log", rules.NoDecision, rules.NoDecision, ""}, // not among the paths of host_executable
		{"/home/u/.cargo/bin/rg x", rules.Allow, rules.Allow, ""},
		{"/opt/tools/deploy now", rules.Prompt, rules.Prompt, ""},
		{"touch x", rules.Allow, rules.Allow, ""},
		{`for f in *.go; do gofmt -l "$f"; done`, rules.Allow, rules.Allow, ""},
		{"python3 scripts/gen.py", rules.Allow, rules.Allow, ""},
		{"ls > out", rules.NoDecision, rules.NoDecision, ""},
		{"cat $x", rules.NoDecision, rules.NoDecision, ""},

		{"(git push)", rules.NoDecision, rules.Prompt, stricter},
		{`echo "$(git reset --hard)"`, rules.NoDecision, rules.Forbidden, stricter},
		{"bash -c 'npm publish'", rules.NoDecision, rules.Forbidden, stricter},
		{"env npm publish", rules.NoDecision, rules.Forbidden, stricter},
		{"git -C . push", rules.NoDecision, rules.Prompt, stricter},
		{"npm $x", rules.NoDecision, rules.Prompt, stricter},
		{"$x", rules.NoDecision, rules.Prompt, stricter},
		{"python3 -c 'print(1)'", rules.NoDecision, rules.Prompt, stricter},
		{"/tmp/ls", rules.Allow, rules.NoDecision, stricter},
		{"/tmp/git push", rules.NoDecision, rules.Prompt, stricter},
		{"tools/deploy now", rules.NoDecision, rules.Prompt, stricter},

		{"(git status)", rules.NoDecision, rules.Allow, looser},
		{"if true; then git status; fi", rules.NoDecision, rules.NoDecision, ""},
		{"git log 2>/dev/null | cat", rules.NoDecision, rules.Allow, looser},
		{"LC_ALL=C git log", rules.NoDecision, rules.Allow, looser},
		{"docker push x", rules.Prompt, rules.Prompt, ""},
		{"git status && bash -c 'git log'", rules.NoDecision, rules.Allow, looser},
	}
	for _, tt := range tests {
		j := r.Judge([]string{"/bin/bash", "-lc", tt.script})
		require.Equal(t, tt.here, j.Decision, "%s: %s", tt.script, j.Reason)
		if tt.why == "" {
			require.Equal(t, tt.codex, tt.here, tt.script)
		}
	}
	require.Equal(t, rules.Allow, r.Network("api.github.com", "https").Decision)
	require.Equal(t, rules.Forbidden, r.Network("169.254.169.254", "http").Decision)
}

// TestAllowCoversWhatItNames has rules that name a wrapper and its command.
func TestAllowCoversWhatItNames(t *testing.T) {
	r := testkit.Rules(t, `
prefix_rule(pattern=["sudo", "apt-get", "update"])
prefix_rule(pattern=["timeout"])
prefix_rule(pattern=["find"])
prefix_rule(pattern=["ls"])
prefix_rule(pattern=["python3", "-c", "print(1)"])
prefix_rule(pattern=["ssh", "build"])
prefix_rule(pattern=["npx", "tsc"])
prefix_rule(pattern=["git"])
prefix_rule(pattern=["watch", "sh", "-c", "make"])
prefix_rule(pattern=["watch", "f"])
prefix_rule(pattern=["doas", "sh", "-c"])
`)
	tests := []struct {
		script string
		want   rules.Decision
	}{
		{"sudo apt-get update -y", rules.Allow},
		{"sudo apt-get upgrade", rules.NoDecision},
		{"sudo -u x apt-get update", rules.NoDecision},
		{"timeout 5 ls", rules.Allow},
		{"timeout 5 make", rules.NoDecision},
		{"find . -name x", rules.Allow},
		{"find . -exec ls {} +", rules.NoDecision}, // what ls is given is not known
		{"find . -exec make +", rules.NoDecision},
		{"python3 -c 'print(1)'", rules.Allow},
		{"python3 -c 'print(2)'", rules.NoDecision},
		{"ssh build make test", rules.Allow}, // it runs elsewhere
		{"npx tsc -p .", rules.Allow},
		{"git log", rules.Allow},
		{"git -C dir log", rules.Allow},
		{"git -c core.pager='make x' log", rules.NoDecision},
		{"git -c core.pager=ls log", rules.Allow},
		{"", rules.NoDecision},
		{":", rules.NoDecision},

		// A program that only has the name of a wrapper is no wrapper.
		{"nohup ls", rules.Allow},
		{"/usr/bin/nohup ls", rules.Allow},
		{"./nohup ls", rules.NoDecision},
		{"/tmp/bash -c ls", rules.NoDecision},
		{"env -P /tmp ls", rules.NoDecision},

		// What is covered in one place is not in another.
		{"sudo apt-get update && apt-get update", rules.NoDecision},
		{"sudo sh -c make", rules.NoDecision},
		{"watch sh -c make; sh -c make", rules.NoDecision},
		{"f() { make; }; watch f; f", rules.NoDecision},
		{"watch sh -c make", rules.Allow},
		{"doas sh -c ls", rules.Allow},
		{"doas sh -c make", rules.NoDecision},
	}
	for _, tt := range tests {
		j := r.Judge([]string{"bash", "-c", tt.script})
		require.Equal(t, tt.want, j.Decision, "%s: %s", tt.script, j.Reason)
	}
}

// TestShellAnywhere has a call whose own shell is not a trusted one.
func TestShellAnywhere(t *testing.T) {
	r := testkit.Rules(t, `prefix_rule(pattern=["ls"])`)
	require.Equal(t, rules.Allow, r.Judge([]string{"/bin/bash", "-lc", "ls"}).Decision)
	require.Equal(t, rules.Allow, r.Judge([]string{"zsh", "-c", "ls"}).Decision)
	require.Equal(t, rules.NoDecision, r.Judge([]string{"./bash", "-lc", "ls"}).Decision)
	require.Equal(t, rules.NoDecision, r.Judge([]string{"/tmp/sh", "-c", "ls"}).Decision)
}

// TestJudgementJSON is what policy check prints: Codex's words, and where.
func TestJudgementJSON(t *testing.T) {
	r := testkit.Rules(t, `prefix_rule(pattern=["git", "push"], decision="prompt", justification="ask first")`)
	j := r.Judge([]string{"bash", "-lc", "ls; (/usr/bin/git push)"})
	b, err := json.Marshal(j)
	require.NoError(t, err)
	require.JSONEq(t, `{
		"decision": "prompt",
		"reason": "`+"`/usr/bin/git push` in `bash -c > ( )`"+`: ask first (default.rules:1)",
		"matchedRules": [{
			"command": ["/usr/bin/git", "push"],
			"path": "bash -c > ( )",
			"prefixRuleMatch": {
				"decision": "prompt", "matchedPrefix": ["git", "push"], "resolvedProgram": "/usr/bin/git",
				"justification": "ask first", "file": "default.rules", "line": 1
			}
		}],
		"found": {"commands": [
			{"argv": ["bash", "-lc", "ls; (/usr/bin/git push)"], "through": true},
			{"argv": ["ls"], "path": "bash -c"},
			{"argv": ["/usr/bin/git", "push"], "path": "bash -c > ( )"}
		]}
	}`, string(b))
	b, err = json.Marshal(r.Judge([]string{"ls"}))
	require.NoError(t, err)
	require.JSONEq(t, `{"matchedRules": [], "found": {"commands": [{"argv": ["ls"]}]}}`, string(b))
}

func TestProposePrefix(t *testing.T) {
	r := testkit.Rules(t, `prefix_rule(pattern=["ls"])`)
	shell := func(script string) []string { return []string{"/bin/bash", "-lc", script} }
	tests := []struct {
		name         string
		argv, wanted []string
		want         []string
	}{
		{"the model's", shell("npm run build"), []string{"npm", "run"}, []string{"npm", "run"}},
		{"one that is not its beginning", shell("npm run build"), []string{"npm", "test"}, []string{"npm", "run", "build"}},
		{"none", shell("npm run build"), nil, []string{"npm", "run", "build"}},
		{"longer than the command", shell("npm run"), []string{"npm", "run", "build"}, []string{"npm", "run"}},
		{"git alone", shell("git fetch origin"), []string{"git"}, []string{"git", "fetch", "origin"}},
		{"git with more", shell("git fetch origin"), []string{"git", "fetch"}, []string{"git", "fetch"}},
		{"python", shell("python3 x.py"), []string{"python3"}, []string{"python3", "x.py"}},
		{"python 3.12", shell("python3.12 x.py"), []string{"python3.12"}, []string{"python3.12", "x.py"}},
		{"node", shell("node x.js"), []string{"node"}, []string{"node", "x.js"}},
		{"sudo", shell("sudo apt update"), []string{"sudo"}, []string{"sudo", "apt", "update"}},
		{"env", shell("env A=1 make test"), []string{"env", "A=1"}, []string{"env", "A=1", "make", "test"}},
		{"timeout", shell("timeout 5 make"), []string{"timeout", "5"}, []string{"make"}},
		{"a folder away", shell("/usr/bin/python3 x.py"), []string{"/usr/bin/python3"}, []string{"/usr/bin/python3", "x.py"}},
		{"what is permitted is left out", shell("ls && make test"), nil, []string{"make", "test"}},
		{"the second part", shell("make a && make b"), []string{"make", "b"}, []string{"make", "b"}},
		{"an opaque script as a whole", shell("make $x"), nil, shell("make $x")},
		{"a script that writes as a whole", shell("make > log"), nil, shell("make > log")},
		{"a script that cannot be parsed as a whole", shell("if"), nil, shell("if")},
		{"nothing destructive", shell("rm -rf build"), nil, nil},
		{"nothing destructive inside", shell("make && find . -delete"), []string{"make"}, nil},
		{"nothing that is permitted", shell("ls"), nil, nil},
		{"nothing at all", nil, nil, nil},
		{"no shell", []string{"make", "test"}, []string{"make"}, []string{"make"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := r.ProposePrefix(tt.argv, tt.wanted)
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.want != nil, ok)
			if !ok {
				return
			}
			// The rule that it would write permits the call, once what else
			// the call holds is permitted too.
			again := testkit.Rules(t, rules.PrefixRuleLine(got, "allow"))
			for range 3 {
				more, ok := again.ProposePrefix(tt.argv, nil)
				if !ok {
					break
				}
				again.Add(testkit.Rules(t, rules.PrefixRuleLine(more, "allow")))
			}
			require.Equal(t, rules.Allow, again.Judge(tt.argv).Decision)
		})
	}
}

func TestRuleLine(t *testing.T) {
	require.Equal(t, `prefix_rule(pattern=["touch"], decision="allow")`, rules.PrefixRuleLine([]string{"touch"}, "allow"))
}

func FuzzRuleLine(f *testing.F) {
	f.Add("git", "push")
	f.Add("/bin/bash", "echo \"$x\"\n\t\\ 'q' ")
	f.Add("a\x00b", "\x7f\x01 é ✓ \u2028")
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == "" || !utf8.ValidString(a) || !utf8.ValidString(b) {
			t.Skip()
		}
		for _, decision := range []string{"allow", "prompt", "forbidden"} {
			line := rules.PrefixRuleLine([]string{a, b}, decision)
			require.NotContains(t, line, "\n")
			r, err := rules.Parse("x.rules", []byte(line+"\n"))
			require.NoError(t, err, line)
			m := r.Command([]string{a, b, "more"})
			require.Equal(t, decision, m.Decision.String(), line)
			require.Zero(t, r.Command([]string{a, b + "x"}).Decision)
		}
	})
}

// FuzzParseRules feeds anything: only RuleErrors come back, with the file.
func FuzzParseRules(f *testing.F) {
	f.Add(realRules)
	f.Add(`tool_rule(server=["a", "b*"], tool="*", args={"x": [1, True, None, "y*"], "o": {"p": 2.5}}, decision="prompt")`)
	f.Add(`prefix_rule(pattern=["a"], unless=[["a", "b"]], match=["a 'b c'"], not_match=[["b"]])`)
	f.Add("prefix_rule(pattern=[" + strings.Repeat("[", 100))
	f.Add("def f(): f()\nf()")
	f.Fuzz(func(t *testing.T, src string) {
		if strings.Contains(src, "*") && strings.ContainsAny(src, "0123456789") && len(src) < 64 {
			t.Skip("a repeated string can be as large as memory")
		}
		r, err := rules.Parse("x.rules", []byte(src))
		if err != nil {
			var fault *rules.Error
			require.ErrorAs(t, err, &fault)
			require.Equal(t, "x.rules", fault.File)
			require.NotEmpty(t, fault.Msg)
			require.Nil(t, r)
			return
		}
		r.Judge([]string{"bash", "-c", "git push; a b; $x"})
		r.Tool("a", "b", json.RawMessage(`{"x":1}`))
	})
}

// BenchmarkJudge judges a script of 200 commands, as a model writes them.
func BenchmarkJudge(b *testing.B) {
	r := testkit.Rules(b, realRules)
	script := strings.Repeat("cd src/pkg && go test -run 'Test' ./... 2>&1 | tail -n 20\n"+
		"if [ -f out.txt ]; then grep -n \"error: $pattern\" out.txt; fi\n", 40)
	argv := []string{"/bin/bash", "-lc", script}
	b.ReportAllocs()
	for b.Loop() {
		r.Judge(argv)
	}
}
