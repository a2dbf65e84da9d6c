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
	p := ruleParser{file: name, rules: &Rules{hosts: make(map[string][]string)}}
	thread := &starlark.Thread{
		Name:  name,
		Print: func(*starlark.Thread, string) {},
		Load: func(*starlark.Thread, string) (starlark.StringDict, error) {
			return nil, errors.New("a rule file cannot load another")
		},
	}
	thread.SetMaxExecutionSteps(maxRuleSteps)
	opts := &syntax.FileOptions{Set: true, TopLevelControl: true, GlobalReassign: true}
	globals := make(starlark.StringDict)
	for name, read := range map[string]func(*arguments){
		"prefix_rule":     p.prefixRule,
		"host_executable": p.hostExecutable,
		"network_rule":    p.networkRule,
		"tool_rule":       p.toolRule,
	} {
		globals[name] = starlark.NewBuiltin(name,
			func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (
				starlark.Value, error,
			) {
				a := arguments{name: name, args: args, kwargs: kwargs, line: int(thread.CallFrame(1).Pos.Line)}
				read(&a)
				return starlark.None, a.err
			})
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

func (p *ruleParser) prefixRule(a *arguments) {
	var pattern, decision, justification, match, notMatch, unless, reviewer starlark.Value
	if !a.unpack("pattern", &pattern, "decision?", &decision, "match?", &match, "not_match?", &notMatch,
		"justification?", &justification, "unless?", &unless, "reviewer?", &reviewer) {
		return
	}
	rule := prefixRule{effect: p.effect(a, decision, Allow, justification), pattern: a.pattern(pattern)}
	rule.unless = a.exceptions(unless, rule.pattern)
	// Codex's reviewer has no effect: a person is asked in any case.
	known := []string{"", "user", "auto_review"}
	if s, ok := starlark.AsString(reviewer); !isNone(reviewer) && (!ok || !slices.Contains(known, s)) {
		a.fail("invalid reviewer: %s", reviewer)
	}
	p.rules.prefixes = append(p.rules.prefixes, rule)
	p.examples = append(p.examples, ruleExamples{rule, a.examples(match), a.examples(notMatch)})
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

func (p *ruleParser) hostExecutable(a *arguments) {
	var name string
	var list starlark.Iterable
	if !a.unpack("name", &name, "paths", &list) {
		return
	}
	if name == "" {
		a.fail("host_executable name cannot be empty")
	}
	if strings.ContainsAny(name, `/\`) || name == "." || name == ".." {
		a.fail("host_executable name must be a bare executable name (got %s)", name)
	}
	paths := a.strings("host_executable path", list)
	for _, path := range paths {
		if !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "~/") && !startsAtDrive(path) {
			a.fail("host_executable paths must be absolute or start with ~/ (got %s)", path)
		}
		if shell.ProgramName(path) != shell.ProgramName(name) {
			a.fail("host_executable path %s must end in %s", path, name)
		}
	}
	p.rules.hosts[name] = paths
}

func (p *ruleParser) networkRule(a *arguments) {
	var host, protocol, decision string
	var justification starlark.Value
	if !a.unpack("host", &host, "protocol", &protocol, "decision", &decision, "justification?", &justification) {
		return
	}
	var rule networkRule
	var err error
	if rule.host, err = parseHost(host); err != nil {
		a.fail("%w", err)
	}
	var ok bool
	if rule.protocol, ok = parseProtocol(protocol); !ok {
		a.fail("network_rule protocol must be one of http, https, socks5_tcp, socks5_udp (got %s)", protocol)
	}
	if decision == "deny" {
		decision = "forbidden"
	}
	rule.effect = p.effect(a, starlark.String(decision), NoDecision, justification)
	p.rules.networks = append(p.rules.networks, rule)
}

func (p *ruleParser) toolRule(a *arguments) {
	var server, tool, decision, justification starlark.Value
	var wanted *starlark.Dict
	if !a.unpack("server", &server, "tool", &tool, "args?", &wanted, "decision?", &decision,
		"justification?", &justification) {
		return
	}
	rule := toolRule{servers: a.alternatives("server", server), tools: a.alternatives("tool", tool)}
	if wanted != nil {
		rule.args = a.arg("args", wanted).object
	}
	rule.effect = p.effect(a, decision, NoDecision, justification)
	p.rules.tools = append(p.rules.tools, rule)
}

// effect reads the arguments that all rules have. Without a fallback, the decision must
// be given.
func (p *ruleParser) effect(
	a *arguments, decision starlark.Value, fallback Decision, justification starlark.Value,
) effect {
	e := effect{File: p.file, Line: a.line, decision: fallback}
	if !isNone(decision) {
		s := a.text("decision", decision)
		if e.decision = Decision(slices.Index(decisionNames, s)); e.decision <= NoDecision {
			a.fail("invalid decision: %s", s)
		}
	} else if fallback == NoDecision {
		a.fail("%s needs a decision: allow, prompt or forbidden", a.name)
	}
	if !isNone(justification) {
		e.justification = a.text("justification", justification)
		if strings.TrimSpace(e.justification) == "" {
			a.fail("justification cannot be empty")
		}
	}
	return e
}

// arguments are those of one call of a rule's function. They keep the first error; what
// their methods return after it is not used.
type arguments struct {
	name   string // of the function
	args   starlark.Tuple
	kwargs []starlark.Tuple
	line   int
	err    error
}

func (a *arguments) fail(format string, args ...any) {
	if a.err == nil {
		a.err = fmt.Errorf(format, args...)
	}
}

// unpack stores the arguments, see [starlark.UnpackArgs], and reports whether they fit.
func (a *arguments) unpack(pairs ...any) bool {
	a.err = starlark.UnpackArgs(a.name, a.args, a.kwargs, pairs...)
	return a.err == nil
}

func isNone(v starlark.Value) bool { return v == nil || v == starlark.None }

func (a *arguments) text(what string, v starlark.Value) string {
	s, ok := starlark.AsString(v)
	if !ok {
		a.fail("%s must be a string (got %s)", what, v.Type())
	}
	return s
}

func (a *arguments) strings(what string, list starlark.Iterable) []string {
	var out []string
	for v := range starlark.Elements(list) {
		out = append(out, a.text(what, v))
	}
	return out
}

// list reads a list or tuple. Fault is the error, with the type that v has instead.
func (a *arguments) list(v starlark.Value, fault string) starlark.Iterable {
	list, ok := sequence(v)
	if !ok {
		a.fail("%s (got %s)", fault, v.Type())
	}
	return list
}

// sequence returns v if it is a list or tuple, otherwise a tuple of v.
func sequence(v starlark.Value) (list starlark.Iterable, ok bool) {
	switch v := v.(type) {
	case *starlark.List:
		return v, true
	case starlark.Tuple:
		return v, true
	}
	return starlark.Tuple{v}, false
}

// alternatives reads a string or a list of strings.
func (a *arguments) alternatives(what string, v starlark.Value) []string {
	if s, ok := starlark.AsString(v); ok {
		return []string{s}
	}
	out := a.strings(what+" alternative", a.list(v, what+" must be a string or list of strings"))
	if len(out) == 0 {
		a.fail("%s alternatives cannot be empty", what)
	}
	return out
}

// pattern reads the words of a pattern.
func (a *arguments) pattern(v starlark.Value) [][]string {
	var out [][]string
	for e := range starlark.Elements(a.list(v, "invalid pattern: it must be a list")) {
		var element arguments
		out = append(out, element.alternatives("pattern element", e))
		if element.err != nil {
			a.fail("invalid pattern element: %w", element.err)
		}
	}
	if len(out) == 0 {
		a.fail("invalid pattern element: pattern cannot be empty")
	}
	return out
}

// exceptions reads the patterns of unless. One that can never match together with the
// rule's pattern is an error.
func (a *arguments) exceptions(v starlark.Value, pattern [][]string) [][][]string {
	if isNone(v) {
		return nil
	}
	var out [][][]string
	for e := range starlark.Elements(a.list(v, "unless must be a list of patterns")) {
		u := a.pattern(e)
		out = append(out, u)
		if len(u) < len(pattern) {
			a.fail("an unless pattern must be at least as long as the rule's pattern")
			continue
		}
		for i, alternatives := range pattern {
			if !slices.ContainsFunc(u[i], func(s string) bool { return slices.Contains(alternatives, s) }) {
				a.fail("an unless pattern must begin like the rule's pattern (%s)", strings.Join(u[i], "|"))
			}
		}
	}
	return out
}

// examples reads example commands: lists of words, or lines that are split as by a
// shell.
func (a *arguments) examples(v starlark.Value) [][]string {
	if isNone(v) {
		return nil
	}
	var out [][]string
	for e := range starlark.Elements(a.list(v, "examples must be a list")) {
		if s, ok := starlark.AsString(e); ok {
			argv, err := shell.Split(s)
			if err != nil {
				a.fail("example string has invalid shell syntax")
			}
			if len(argv) == 0 {
				a.fail("example cannot be an empty string")
			}
			out = append(out, argv)
			continue
		}
		argv := a.strings("example tokens", a.list(e, "example must be a string or list of strings"))
		if len(argv) == 0 {
			a.fail("example cannot be an empty list")
		}
		out = append(out, argv)
	}
	return out
}

// arg reads a tool_rule's pattern for an argument.
func (a *arguments) arg(name string, v starlark.Value) argPattern {
	if d, ok := v.(*starlark.Dict); ok {
		p := argPattern{object: make(map[string]argPattern)}
		for _, item := range d.Items() {
			key := a.text(name+": a name", item[0])
			p.object[key] = a.arg(key, item[1])
		}
		return p
	}
	var p argPattern
	list, _ := sequence(v)
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
			a.fail("%s: a value must be a string, number, bool or None (got %s)", name, e.Type())
		}
	}
	if len(p.values) == 0 {
		a.fail("%s: the list of values is empty", name)
	}
	return p
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
