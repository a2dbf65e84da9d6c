package rules_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/testkit"
	"toolgate/policy/rules"
)

func TestRulesCommand(t *testing.T) {
	r := testkit.Rules(t, `
prefix_rule(pattern=["git", ["push", "fetch"]], decision="prompt", justification="it reaches the network")
prefix_rule(pattern=["git", "push", "--force"], decision="forbidden")
prefix_rule(pattern=["ls"])
prefix_rule(pattern=["npm"], decision="prompt", unless=[["npm", ["test", "ci"]]])
prefix_rule(pattern=["/opt/tool"], decision="allow")
prefix_rule(pattern=["make"])
host_executable(name="make", paths=["/opt/make/bin/make", "~/bin/make"])
`)
	r.Home = "/home/u"
	tests := []struct {
		name string
		argv []string
		want rules.Decision
	}{
		{"a prefix", []string{"git", "push", "origin"}, rules.Prompt},
		{"another alternative", []string{"git", "fetch"}, rules.Prompt},
		{"no alternative", []string{"git", "pull"}, rules.NoDecision},
		{"shorter than the pattern", []string{"git"}, rules.NoDecision},
		{"the strictest wins", []string{"git", "push", "--force"}, rules.Forbidden},
		{"the default is allow", []string{"ls", "-l"}, rules.Allow},
		{"words are compared whole", []string{"lsof"}, rules.NoDecision},
		{"a rule", []string{"npm", "publish"}, rules.Prompt},
		{"its exception", []string{"npm", "test"}, rules.NoDecision},
		{"a system path allows", []string{"/usr/bin/ls"}, rules.Allow},
		{"any other path does not", []string{"/tmp/ls"}, rules.NoDecision},
		{"a relative path does not", []string{"./ls"}, rules.NoDecision},
		{"any path restricts", []string{"/tmp/git", "push"}, rules.Prompt},
		{"a relative path restricts", []string{"./git", "push"}, rules.Prompt},
		{"another case restricts", []string{"GIT", "push"}, rules.Prompt},
		{"another case allows nothing", []string{"LS"}, rules.NoDecision},
		{"a Windows suffix restricts", []string{"git.exe", "push"}, rules.Prompt},
		{"an absolute pattern", []string{"/opt/tool", "x"}, rules.Allow},
		{"a listed path", []string{"/opt/make/bin/make"}, rules.Allow},
		{"a listed home path", []string{"/home/u/bin/make"}, rules.Allow},
		{"a path that is not listed", []string{"/usr/bin/make"}, rules.NoDecision},
		{"nothing", nil, rules.NoDecision},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, r.Command(tt.argv).Decision)
		})
	}
	m := r.Command([]string{"/usr/bin/git", "push", "x"}).Matches
	require.Len(t, m, 1)
	require.Equal(t, rules.Match{
		Decision: rules.Prompt, Prefix: []string{"git", "push"}, Program: "/usr/bin/git",
		Justification: "it reaches the network", File: "default.rules", Line: 2,
	}, m[0])
}

func TestJudgeScripts(t *testing.T) {
	r := testkit.Rules(t, `
prefix_rule(pattern=["git", "push"], decision="forbidden", justification="use a pull request")
prefix_rule(pattern=["ls"])
prefix_rule(pattern=["cat"])
`)
	tests := []struct {
		name   string
		script string
		want   rules.Decision
	}{
		{"every segment allowed", "ls && cat x | ls", rules.Allow},
		{"one is not", "ls && wc", rules.NoDecision},
		{"a file is written", "ls > x", rules.NoDecision},
		{"nothing is written", "ls 2>/dev/null", rules.Allow},
		{"a variable in an allowed command", "cat $x", rules.NoDecision},
		{"a pattern in an allowed command", "cat *.go", rules.Allow},
		{"a variable that loads modules", "PYTHONPATH=x ls", rules.NoDecision},
		{"a variable that loads code", "LD_PRELOAD=x ls", rules.Prompt},
		{"one set before", "export LD_PRELOAD=x; ls", rules.Prompt},
		{"another program for a name", "PATH=$PWD/x:$PATH make", rules.Prompt},
		{"programs from elsewhere", "PATH=x make", rules.Prompt},
		{"a folder whose name has a dollar sign", "PATH='$PATH' make", rules.Prompt},
		{"more programs", "PATH=/opt/go/bin:$HOME/.cargo/bin:$PATH:node_modules/.bin make", rules.NoDecision},
		{"more programs for all", `export PATH="$HOME/go/bin:$PATH"; make`, rules.NoDecision},
		{"a startup file", "BASH_ENV=x bash -c ls", rules.Prompt},
		{"a startup file for sh", "ENV=x sh -i -c ls", rules.Prompt},
		{"a variable read from input", "read PATH; make", rules.Prompt},
		{"a variable that is printed", "printf -v BASH_ENV %s x; export BASH_ENV; bash -c ls", rules.Prompt},
		{"an exported function", "env 'BASH_FUNC_ls%%=() { git push; }' bash -c ls", rules.Prompt},
		{"an exported function with a command", "ls() { git push; }; export -f ls; bash -c ls", rules.Forbidden},
		{"a command in a variable of any name", "X='git push' own-tool", rules.Prompt},
		{"one for all programs", "export X='git push'; own-tool", rules.Prompt},
		{"a pager", "PAGER='git push' man ls", rules.Forbidden},
		{"a variable that holds code", "PERL5OPT=x ls", rules.Prompt},
		{"a harmless variable", "LC_ALL=C ls", rules.Allow},
		{"forbidden in a substitution", `echo "$(git push)"`, rules.Forbidden},
		{"the words as text", `echo "git push"`, rules.NoDecision},
		{"forbidden in a nested shell", "bash -c 'git push'", rules.Forbidden},
		{"allowed in a nested shell", "bash -c 'ls'", rules.Allow},
		{"maybe forbidden", "git $x", rules.Prompt},
		{"opaque", "$x", rules.Prompt},
		{"no rule", "git status", rules.NoDecision},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := r.Judge([]string{"/bin/bash", "-lc", tt.script})
			require.Equal(t, tt.want, j.Decision, j.Reason)
		})
	}
	j := r.Judge([]string{"/bin/bash", "-lc", "if true; then git push; fi"})
	require.Equal(t, "`git push` in `bash -c`: use a pull request (default.rules:2)", j.Reason)
}

func TestRulesErrors(t *testing.T) {
	tests := []struct{ src, want string }{
		{"prefix_rule(pattern=[])", "x.rules:1: invalid pattern element: pattern cannot be empty"},
		{"\nprefix_rule(pattern=['a'], decision='bogus')", "x.rules:2: invalid decision: bogus"},
		{"prefix_rule(pattern=['a'], justification=' ')", "x.rules:1: justification cannot be empty"},
		{"prefix_rule(pattern=['a', []])", "x.rules:1: invalid pattern element: pattern element alternatives cannot be empty"},
		{"prefix_rule(pattern=['a'],\n  match=['b c'])", "x.rules:1: match example does not match the rule: b c"},
		{"prefix_rule(pattern=['a'], not_match=[['a', 'b']])", "x.rules:1: not_match example matches the rule: a b"},
		{"prefix_rule(pattern=['a', 'b'], unless=[['c', 'd']])", "x.rules:1: an unless pattern must begin like the rule's pattern (c)"},
		{"x = ", "x.rules:1: got end of file, want primary expression"},
		{"load('a', 'b')", "x.rules:1: cannot load a: a rule file cannot load another"},
		{"\n\nnope()", "x.rules:3: undefined: nope"},
		{"host_executable(name='a/b', paths=[])", "x.rules:1: host_executable name must be a bare executable name (got a/b)"},
		{"host_executable(name='a', paths=['b/a'])", "x.rules:1: host_executable paths must be absolute or start with ~/ (got b/a)"},
		{"network_rule(host='*.x', protocol='https', decision='allow')", "x.rules:1: network_rule host must be a specific host; wildcards are not allowed"},
		{"network_rule(host='x', protocol='ftp', decision='allow')", "x.rules:1: network_rule protocol must be one of http, https, socks5_tcp, socks5_udp (got ftp)"},
		{"tool_rule('s', 't')", "x.rules:1: tool_rule needs a decision: allow, prompt or forbidden"},
		{"def f():\n  prefix_rule(pattern=[1])\nf()", "x.rules:2: invalid pattern element: pattern element must be a string or list of strings (got int)"},
		{"[x for x in range(100000000)]", "x.rules:1: Starlark computation cancelled: too many steps"},
	}
	for _, tt := range tests {
		_, err := rules.Parse("x.rules", []byte(tt.src))
		var fault *rules.Error
		require.ErrorAs(t, err, &fault, tt.src)
		require.EqualError(t, err, tt.want)
	}
}

func TestRulesNetworkAndTools(t *testing.T) {
	r := testkit.Rules(t, `
network_rule(host="API.example.com.", protocol="https", decision="allow")
network_rule(host="api.example.com", protocol="https", decision="deny", justification="not today")
tool_rule(server="github", tool="delete_*", decision="forbidden")
tool_rule(server="github", tool="merge", args={"repo": ["main", "prod-*"], "opts": {"force": True}}, decision="prompt")
tool_rule(server="*", tool="read", args={"n": 1}, decision="allow")
`)
	require.Equal(t, rules.Forbidden, r.Network("api.example.com:443", "https").Decision)
	require.Equal(t, rules.NoDecision, r.Network("api.example.com", "http").Decision)
	tests := []struct {
		server, tool, args string
		want               rules.Decision
	}{
		{"github", "delete_repo", `{}`, rules.Forbidden},
		{"gitlab", "delete_repo", `{}`, rules.NoDecision},
		{"github", "merge", `{"repo":"prod-x","opts":{"force":true}}`, rules.Prompt},
		{"github", "merge", `{"repo":"dev","opts":{"force":true}}`, rules.NoDecision},
		{"github", "merge", `{"repo":"main"}`, rules.NoDecision},
		{"github", "merge", `{"repo":"dev","repo":"main","opts":{"force":true}}`, rules.Prompt},
		{"github", "merge", `[`, rules.Prompt},
		{"github", "merge", `{"Repo":"main","OPTS":{"Force":true}}`, rules.Prompt},
		{"github", "merge", `{"repo":"dev","Repo":"main","opts":{"force":false,"FORCE":true}}`, rules.Prompt},
		{"any", "read", `{"N":1}`, rules.NoDecision},
		{"any", "read", `{"n":1,"N":2}`, rules.NoDecision},
		{"any", "read", `{"n":1,"N":1}`, rules.Allow},
		{"any", "read", `{"n":1.0}`, rules.Allow},
		{"any", "read", `{"n":1,"n":2}`, rules.NoDecision},
		{"any", "read", `nonsense`, rules.NoDecision},
		{"any", "read", ``, rules.NoDecision},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, r.Tool(tt.server, tt.tool, json.RawMessage(tt.args)).Decision, "%s %s %s", tt.server, tt.tool, tt.args)
	}
}

func TestNilRules(t *testing.T) {
	var r *rules.Rules
	require.Zero(t, r.Command([]string{"rm"}))
	require.Zero(t, r.Network("x", "http"))
	require.Zero(t, r.Tool("s", "t", nil))
	require.False(t, r.Restricts())
	require.Equal(t, rules.NoDecision, r.Judge([]string{"bash", "-c", "$x"}).Decision)
}

func TestFStrings(t *testing.T) {
	r := testkit.Rules(t, "name = 'x'\n# f\"{a}\"\no = \"\"\"f'{name}\n\"\"\"\nprefix_rule(pattern=[f\"{name}-tool\", f'it\\'s {name} {{x}}', \"{name}\", r\"f\\{name}\"], justification=f\"\"\"two\nlines of {name}\"\"\")\n")
	m := r.Command([]string{"x-tool", "it's x {x}", "{name}", `f\{name}`})
	require.Equal(t, rules.Allow, m.Decision)
	require.Equal(t, "two\nlines of x", m.Matches[0].Justification)
	require.Equal(t, 5, m.Matches[0].Line)

	_, err := rules.Parse("x.rules", []byte("a = 1\nprefix_rule(pattern=[f'{missing}'])"))
	require.EqualError(t, err, "x.rules:2: undefined: missing")
}

func TestRulesAdd(t *testing.T) {
	r := testkit.Rules(t, `
prefix_rule(pattern=["make"])
host_executable(name="make", paths=["/a/make"])
network_rule(host="x", protocol="https", decision="allow")
`)
	r.Add(nil)
	r.Add(testkit.Rules(t, `
prefix_rule(pattern=["make", "deploy"], decision="forbidden")
host_executable(name="make", paths=["/b/make"])
host_executable(name="go", paths=["/b/go"])
network_rule(host="x", protocol="https", decision="prompt")
tool_rule(server="", tool="shell", decision="prompt")
`))
	require.Equal(t, rules.Allow, r.Command([]string{"make"}).Decision)
	require.Equal(t, rules.Forbidden, r.Command([]string{"make", "deploy"}).Decision)
	require.Equal(t, rules.NoDecision, r.Command([]string{"/a/make"}).Decision)
	require.Equal(t, rules.Allow, r.Command([]string{"/b/make"}).Decision)
	require.Equal(t, rules.Prompt, r.Network("x", "https_connect").Decision)
	require.Equal(t, rules.Prompt, r.Tool("", "shell", nil).Decision)
	require.Equal(t, rules.NoDecision, r.Tool("x", "shell", nil).Decision)
}

func TestNetworkHosts(t *testing.T) {
	r := testkit.Rules(t, `
network_rule(host="Example.com", protocol="https", decision="allow")
network_rule(host="[2001:DB8::1]:443", protocol="https", decision="allow")
network_rule(host="10.0.0.1:8080", protocol="https", decision="forbidden")
`)
	for host, want := range map[string]rules.Decision{
		"example.com":      rules.Allow,
		"EXAMPLE.com.":     rules.Allow,
		"example.com:8443": rules.Allow,
		"www.example.com":  rules.NoDecision,
		"example.com.evil": rules.NoDecision,
		"2001:db8::1":      rules.Allow,
		"[2001:db8::1]":    rules.Allow,
		"2001:db8::2":      rules.NoDecision,
		"10.0.0.1":         rules.Forbidden,
		"":                 rules.NoDecision,
		"http://x/":        rules.NoDecision,
		"[::1":             rules.NoDecision,
		"a b":              rules.NoDecision,
	} {
		require.Equal(t, want, r.Network(host, "https").Decision, host)
	}
}

// TestExamples has the ways to write an example.
func TestExamples(t *testing.T) {
	for _, good := range []string{
		`'git  commit -m "a b" x'`, `"git commit -m 'a b' x"`, `'git commit -m a\\ b x'`, `'git commit -m "a"\' \'b x'`, `["git", "commit", "-m", "a b", "x"]`, `("git", "commit", "-m", "a b", "x")`,
	} {
		testkit.Rules(t, `prefix_rule(pattern=["git", "commit", "-m", "a b", "x"], match=[`+good+`])`)
	}
	for bad, want := range map[string]string{
		`"git 'x"`: "x.rules:1: example string has invalid shell syntax",
		`'git "x'`: "x.rules:1: example string has invalid shell syntax",
		`"git \\"`: "x.rules:1: example string has invalid shell syntax",
		`""`:       "x.rules:1: example cannot be an empty string",
		`[]`:       "x.rules:1: example cannot be an empty list",
		`[1]`:      "x.rules:1: example tokens must be a string (got int)",
		`1`:        "x.rules:1: example must be a string or list of strings (got int)",
	} {
		_, err := rules.Parse("x.rules", []byte(`prefix_rule(pattern=["git"], match=[`+bad+`])`))
		require.EqualError(t, err, want)
	}
	_, err := rules.Parse("x.rules", []byte(`prefix_rule(pattern=["git"], match="git x")`))
	require.EqualError(t, err, "x.rules:1: examples must be a list (got string)")
}

func TestToolGlobs(t *testing.T) {
	r := testkit.Rules(t, `tool_rule(server="git*", tool=["a*b*c", "x"], decision="prompt", args={"s": "*.env", "n": [None, 2, True]})`)
	tests := []struct {
		server, tool, args string
		want               rules.Decision
	}{
		{"git", "x", `{"s":".env","n":2}`, rules.Prompt},
		{"github", "abc", `{"s":"a/.env","n":null}`, rules.Prompt},
		{"github", "a-b-b-c", `{"s":"a/.env","n":true}`, rules.Prompt},
		{"github", "a-c-b", `{"s":"a/.env","n":true}`, rules.NoDecision},
		{"hub", "x", `{"s":".env","n":2}`, rules.NoDecision},
		{"git", "x", `{"s":".envrc","n":2}`, rules.NoDecision},
		{"git", "x", `{"s":".env","n":3}`, rules.NoDecision},
		{"git", "x", `{"s":".env","n":"2"}`, rules.NoDecision},
		{"git", "x", `{"s":[".env"],"n":2}`, rules.NoDecision},
		{"git", "x", `{"n":2}`, rules.NoDecision},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, r.Tool(tt.server, tt.tool, json.RawMessage(tt.args)).Decision, "%s %s %s", tt.server, tt.tool, tt.args)
	}
	for _, bad := range []string{
		`tool_rule(server=1, tool="x", decision="allow")`, `tool_rule(server="s", tool=[], decision="allow")`,
		`tool_rule(server="s", tool="x", args={"a": []}, decision="allow")`, `tool_rule(server="s", tool="x", args={1: 2}, decision="allow")`,
		`tool_rule(server="s", tool="x", args={"a": [[1]]}, decision="allow")`, `tool_rule(server="s", tool="x", decision="maybe")`,
		`tool_rule(server="s", tool="x", decision="allow", justification="")`, `tool_rule(server="s", tool="x", decision=1)`,
	} {
		_, err := rules.Parse("x.rules", []byte(bad))
		require.Error(t, err, bad)
	}
}
