package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"toolgate/internal/hostname"
	"toolgate/policy/shell"
)

// An Error is a fault in a rule file.
type Error struct {
	File string
	Line int // 0 if the fault has no line
	Msg  string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Msg
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg)
}

// maxRuleSteps bounds the work of evaluating one rule file.
const maxRuleSteps = 5_000_000

// Parse reads one rule file: Starlark that calls
//
//	prefix_rule(pattern=["git", ["push", "fetch"]], decision="prompt",
//	    justification="…", match=["git push"], not_match=["git log"],
//	    unless=[["git", "push", "--dry-run"]])
//	host_executable(name="git", paths=["/usr/bin/git"])
//	network_rule(host="example.com", protocol="https", decision="allow")
//	tool_rule(server="github", tool="delete_*", args={"repo": "x"}, decision="forbidden")
//
// A decision is allow (the default of prefix_rule), prompt or forbidden. The
// examples in match and not_match are checked. The error is a *[Error].
func Parse(name string, src []byte) (*Rules, error) {
	p := ruleParser{file: name, rules: &Rules{}}
	thread := &starlark.Thread{
		Name:  name,
		Print: func(*starlark.Thread, string) {},
		Load: func(*starlark.Thread, string) (starlark.StringDict, error) {
			return nil, errors.New("a rule file cannot load another")
		},
	}
	thread.SetMaxExecutionSteps(maxRuleSteps)
	opts := &syntax.FileOptions{Set: true, TopLevelControl: true, GlobalReassign: true}
	globals := starlark.StringDict{
		"prefix_rule":     starlark.NewBuiltin("prefix_rule", p.prefixRule),
		"host_executable": starlark.NewBuiltin("host_executable", p.hostExecutable),
		"network_rule":    starlark.NewBuiltin("network_rule", p.networkRule),
		"tool_rule":       starlark.NewBuiltin("tool_rule", p.toolRule),
	}
	if _, err := starlark.ExecFileOptions(opts, thread, name, withoutFStrings(string(src)), globals); err != nil {
		return nil, ruleError(name, err)
	}
	for _, check := range p.examples {
		if err := p.check(check); err != nil {
			return nil, err
		}
	}
	return p.rules, nil
}

// ruleError converts an error of Starlark to an [Error].
func ruleError(name string, err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	e := &Error{File: name, Msg: err.Error()}
	var parse syntax.Error
	var names resolve.ErrorList
	var eval *starlark.EvalError
	switch {
	case errors.As(err, &parse):
		e.Line, e.Msg = int(parse.Pos.Line), parse.Msg
	case errors.As(err, &names):
		e.Line, e.Msg = int(names[0].Pos.Line), names[0].Msg
	case errors.As(err, &eval):
		e.Msg = eval.Msg
		for i := range eval.CallStack {
			if pos := eval.CallStack.At(i).Pos; pos.Line > 0 && pos.Filename() == name {
				e.Line = int(pos.Line)
				break
			}
		}
	}
	return e
}

type ruleParser struct {
	file     string
	rules    *Rules
	examples []ruleExamples
}

// ruleExamples are the examples of one rule, checked after the whole file is read.
type ruleExamples struct {
	rule       prefixRule
	match, not [][]string
}

func (p *ruleParser) here(thread *starlark.Thread) position {
	return position{p.file, int(thread.CallFrame(1).Pos.Line)}
}

// reviewers are the values of Codex's reviewer argument. They have no effect: a
// person is asked in any case.
var reviewers = []string{"", "user", "auto_review"}

func (p *ruleParser) prefixRule(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple,
	kwargs []starlark.Tuple) (starlark.Value, error) {
	var pattern starlark.Value
	var decision, justification, match, notMatch, unless, reviewer starlark.Value
	err := starlark.UnpackArgs(b.Name(), args, kwargs,
		"pattern", &pattern, "decision?", &decision, "match?", &match, "not_match?", &notMatch,
		"justification?", &justification, "unless?", &unless, "reviewer?", &reviewer)
	if err != nil {
		return nil, err
	}
	rule := prefixRule{position: p.here(thread), decision: Allow}
	if rule.decision, err = decisionOf(decision, Allow); err != nil {
		return nil, err
	}
	if rule.justification, err = justificationOf(justification); err != nil {
		return nil, err
	}
	if rule.pattern, err = patternOf(pattern); err != nil {
		return nil, err
	}
	if rule.unless, err = exceptionsOf(unless, rule.pattern); err != nil {
		return nil, err
	}
	if s, err := textOf("reviewer", reviewer); err != nil || !slices.Contains(reviewers, s) {
		return nil, fmt.Errorf("invalid reviewer: %s", reviewer)
	}
	ex := ruleExamples{rule: rule}
	if ex.match, err = examplesOf(match); err != nil {
		return nil, err
	}
	if ex.not, err = examplesOf(notMatch); err != nil {
		return nil, err
	}
	p.rules.prefixes = append(p.rules.prefixes, rule)
	p.examples = append(p.examples, ex)
	return starlark.None, nil
}

// check checks the examples of a rule against that rule alone.
func (p *ruleParser) check(ex ruleExamples) error {
	alone := Rules{prefixes: []prefixRule{ex.rule}, hosts: p.rules.hosts}
	fault := func(format string, args ...any) error {
		return &Error{File: p.file, Line: ex.rule.Line, Msg: fmt.Sprintf(format, args...)}
	}
	for _, argv := range ex.not {
		if len(alone.Command(argv).Matches) > 0 {
			return fault("not_match example matches the rule: %s", shell.Join(argv))
		}
	}
	for _, argv := range ex.match {
		if len(alone.Command(argv).Matches) == 0 {
			return fault("match example does not match the rule: %s", shell.Join(argv))
		}
	}
	return nil
}

func (p *ruleParser) hostExecutable(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple,
	kwargs []starlark.Tuple) (starlark.Value, error) {
	var name string
	var list starlark.Iterable
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "name", &name, "paths", &list); err != nil {
		return nil, err
	}
	if name == "" {
		return nil, errors.New("host_executable name cannot be empty")
	}
	if strings.ContainsAny(name, `/\`) || name == "." || name == ".." {
		return nil, fmt.Errorf("host_executable name must be a bare executable name (got %s)", name)
	}
	paths, err := stringsOf("host_executable path", list)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "~/") && !startsAtDrive(path) {
			return nil, fmt.Errorf("host_executable paths must be absolute or start with ~/ (got %s)", path)
		}
		if shell.ProgramName(path) != shell.ProgramName(name) {
			return nil, fmt.Errorf("host_executable path %s must end in %s", path, name)
		}
	}
	if p.rules.hosts == nil {
		p.rules.hosts = make(map[string][]string)
	}
	p.rules.hosts[name] = paths
	return starlark.None, nil
}

func (p *ruleParser) networkRule(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple,
	kwargs []starlark.Tuple) (starlark.Value, error) {
	var host, protocol, decision string
	var justification starlark.Value
	err := starlark.UnpackArgs(b.Name(), args, kwargs, "host", &host, "protocol", &protocol, "decision", &decision,
		"justification?", &justification)
	if err != nil {
		return nil, err
	}
	rule := networkRule{position: p.here(thread)}
	if rule.host, err = parseHost(host); err != nil {
		return nil, err
	}
	var ok bool
	if rule.protocol, ok = parseProtocol(protocol); !ok {
		return nil, fmt.Errorf("network_rule protocol must be one of http, https, socks5_tcp, socks5_udp (got %s)",
			protocol)
	}
	if decision == "deny" {
		decision = "forbidden"
	}
	if rule.decision, ok = parseDecision(decision); !ok {
		return nil, fmt.Errorf("invalid decision: %s", decision)
	}
	if rule.justification, err = justificationOf(justification); err != nil {
		return nil, err
	}
	p.rules.networks = append(p.rules.networks, rule)
	return starlark.None, nil
}

func (p *ruleParser) toolRule(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple,
	kwargs []starlark.Tuple) (starlark.Value, error) {
	var server, tool, decision, justification starlark.Value
	var wanted *starlark.Dict
	err := starlark.UnpackArgs(b.Name(), args, kwargs, "server", &server, "tool", &tool, "args?", &wanted,
		"decision?", &decision, "justification?", &justification)
	if err != nil {
		return nil, err
	}
	rule := toolRule{position: p.here(thread)}
	if rule.servers, err = alternativesOf("server", server); err != nil {
		return nil, err
	}
	if rule.tools, err = alternativesOf("tool", tool); err != nil {
		return nil, err
	}
	if wanted != nil {
		pattern, err := argOf("args", wanted)
		if err != nil {
			return nil, err
		}
		rule.args = pattern.object
	}
	if rule.decision, err = decisionOf(decision, NoDecision); err != nil {
		return nil, err
	}
	if rule.decision == NoDecision {
		return nil, errors.New("tool_rule needs a decision: allow, prompt or forbidden")
	}
	if rule.justification, err = justificationOf(justification); err != nil {
		return nil, err
	}
	p.rules.tools = append(p.rules.tools, rule)
	return starlark.None, nil
}

func isNone(v starlark.Value) bool { return v == nil || v == starlark.None }

func textOf(what string, v starlark.Value) (string, error) {
	if isNone(v) {
		return "", nil
	}
	s, ok := starlark.AsString(v)
	if !ok {
		return "", fmt.Errorf("%s must be a string (got %s)", what, v.Type())
	}
	return s, nil
}

func decisionOf(v starlark.Value, fallback Decision) (Decision, error) {
	if isNone(v) {
		return fallback, nil
	}
	s, err := textOf("decision", v)
	if err != nil {
		return NoDecision, err
	}
	r, ok := parseDecision(s)
	if !ok {
		return NoDecision, fmt.Errorf("invalid decision: %s", s)
	}
	return r, nil
}

func justificationOf(v starlark.Value) (string, error) {
	s, err := textOf("justification", v)
	if err == nil && !isNone(v) && strings.TrimSpace(s) == "" {
		err = errors.New("justification cannot be empty")
	}
	return s, err
}

func stringsOf(what string, list starlark.Iterable) ([]string, error) {
	var out []string
	for v := range starlark.Elements(list) {
		s, ok := starlark.AsString(v)
		if !ok {
			return nil, fmt.Errorf("%s must be a string (got %s)", what, v.Type())
		}
		out = append(out, s)
	}
	return out, nil
}

// alternativesOf reads a string or a list of strings.
func alternativesOf(what string, v starlark.Value) ([]string, error) {
	if s, ok := starlark.AsString(v); ok {
		return []string{s}, nil
	}
	list, ok := sequence(v)
	if !ok {
		return nil, fmt.Errorf("%s must be a string or list of strings (got %s)", what, v.Type())
	}
	out, err := stringsOf(what+" alternative", list)
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%s alternatives cannot be empty", what)
	}
	return out, err
}

// sequence returns v if it is a list or tuple.
func sequence(v starlark.Value) (starlark.Iterable, bool) {
	switch v := v.(type) {
	case *starlark.List:
		return v, true
	case starlark.Tuple:
		return v, true
	}
	return nil, false
}

// patternOf reads the words of a pattern.
func patternOf(v starlark.Value) ([][]string, error) {
	list, ok := sequence(v)
	if !ok {
		return nil, fmt.Errorf("invalid pattern: it must be a list (got %s)", v.Type())
	}
	var out [][]string
	for e := range starlark.Elements(list) {
		alternatives, err := alternativesOf("pattern element", e)
		if err != nil {
			return nil, fmt.Errorf("invalid pattern element: %w", err)
		}
		out = append(out, alternatives)
	}
	if len(out) == 0 {
		return nil, errors.New("invalid pattern element: pattern cannot be empty")
	}
	return out, nil
}

// exceptionsOf reads the patterns of unless. One that can never match together
// with the rule's pattern is an error.
func exceptionsOf(v starlark.Value, pattern [][]string) ([][][]string, error) {
	if isNone(v) {
		return nil, nil
	}
	list, ok := sequence(v)
	if !ok {
		return nil, fmt.Errorf("unless must be a list of patterns (got %s)", v.Type())
	}
	var out [][][]string
	for e := range starlark.Elements(list) {
		u, err := patternOf(e)
		if err != nil {
			return nil, err
		}
		if len(u) < len(pattern) {
			return nil, errors.New("an unless pattern must be at least as long as the rule's pattern")
		}
		for i, alternatives := range pattern {
			if !slices.ContainsFunc(u[i], func(s string) bool { return slices.Contains(alternatives, s) }) {
				return nil, fmt.Errorf("an unless pattern must begin like the rule's pattern (%s)",
					strings.Join(u[i], "|"))
			}
		}
		out = append(out, u)
	}
	return out, nil
}

// examplesOf reads example commands: lists of words, or lines that are split as
// by a shell.
func examplesOf(v starlark.Value) ([][]string, error) {
	if isNone(v) {
		return nil, nil
	}
	list, ok := sequence(v)
	if !ok {
		return nil, fmt.Errorf("examples must be a list (got %s)", v.Type())
	}
	var out [][]string
	for e := range starlark.Elements(list) {
		argv, err := exampleOf(e)
		if err != nil {
			return nil, err
		}
		out = append(out, argv)
	}
	return out, nil
}

func exampleOf(v starlark.Value) ([]string, error) {
	if s, ok := starlark.AsString(v); ok {
		argv, err := shell.Split(s)
		if err != nil {
			return nil, errors.New("example string has invalid shell syntax")
		}
		if len(argv) == 0 {
			return nil, errors.New("example cannot be an empty string")
		}
		return argv, nil
	}
	list, ok := sequence(v)
	if !ok {
		return nil, fmt.Errorf("example must be a string or list of strings (got %s)", v.Type())
	}
	argv, err := stringsOf("example tokens", list)
	if err == nil && len(argv) == 0 {
		err = errors.New("example cannot be an empty list")
	}
	return argv, err
}

// argOf reads a tool_rule's pattern for an argument.
func argOf(name string, v starlark.Value) (argPattern, error) {
	if d, ok := v.(*starlark.Dict); ok {
		p := argPattern{object: make(map[string]argPattern)}
		for _, item := range d.Items() {
			key, ok := starlark.AsString(item[0])
			if !ok {
				return p, fmt.Errorf("%s: a name must be a string (got %s)", name, item[0].Type())
			}
			inner, err := argOf(key, item[1])
			if err != nil {
				return p, err
			}
			p.object[key] = inner
		}
		return p, nil
	}
	list, ok := sequence(v)
	if !ok {
		list = starlark.Tuple{v}
	}
	var p argPattern
	for e := range starlark.Elements(list) {
		switch e := e.(type) {
		case starlark.NoneType:
			p.values = append(p.values, nil)
		case starlark.Bool:
			p.values = append(p.values, bool(e))
		case starlark.String:
			p.values = append(p.values, string(e))
		case starlark.Int, starlark.Float:
			n, _ := starlark.AsFloat(e)
			p.values = append(p.values, n)
		default:
			return p, fmt.Errorf("%s: a value must be a string, number, bool or None (got %s)", name, e.Type())
		}
	}
	if len(p.values) == 0 {
		return p, fmt.Errorf("%s: the list of values is empty", name)
	}
	return p, nil
}

// parseProtocol returns the normal name of a protocol.
func parseProtocol(s string) (string, bool) {
	switch s {
	case "http", "https", "socks5_tcp", "socks5_udp":
		return s, true
	case "https_connect", "http-connect":
		return "https", true
	}
	return s, false
}

// parseHost returns a host name or address in normal form: lower case, without
// port, brackets or final dot.
func parseHost(raw string) (string, error) {
	host := strings.TrimSpace(raw)
	if strings.ContainsAny(host, "/?#") {
		return "", errors.New("network_rule host must be a hostname or IP literal, without scheme or path")
	}
	if inside, ok := strings.CutPrefix(host, "["); ok {
		in, rest, ok := strings.Cut(inside, "]")
		if !ok || rest != "" && !isPort(rest) {
			return "", fmt.Errorf("network_rule host is no bracketed IPv6 address: %s", raw)
		}
		host = in
	} else if name, port, ok := strings.Cut(host, ":"); ok && name != "" && isPort(":"+port) {
		host = name
	}
	host = strings.ToLower(strings.TrimRight(host, "."))
	switch {
	case host == "":
		return "", errors.New("network_rule host cannot be empty")
	case strings.Contains(host, "*"):
		return "", errors.New("network_rule host must be a specific host; wildcards are not allowed")
	case strings.ContainsAny(host, " \t\r\n"):
		return "", errors.New("network_rule host cannot contain whitespace")
	}
	if one, err := hostname.Parse(host); err == nil {
		return one, nil // the form that the proxy compares
	}
	return host, nil
}

// isPort reports whether s is a colon followed by digits.
func isPort(s string) bool {
	digits, ok := strings.CutPrefix(s, ":")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// startsAtDrive reports whether path is an absolute Windows path.
func startsAtDrive(path string) bool {
	return len(path) > 2 && path[1] == ':' && (path[2] == '/' || path[2] == '\\')
}
