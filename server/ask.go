package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/internal/gate"
	"toolgate/internal/printable"
	"toolgate/internal/rawjson"
	"toolgate/policy"
)

// errCannotAsk says why the person at this client cannot be asked.
var errCannotAsk error = cannotAsk("this client has no way to ask its user: it does not declare elicitation")

// errNoRetry says why nobody can be asked about a subscription of a stateless client.
var errNoRetry error = cannotAsk("this request cannot carry a question in the revision " + statelessVersion)

// errUnseen is a client's own answer in place of its user's.
var errUnseen error = unseen{}

type unseen struct{}

func (unseen) Error() string { return "the client said no without showing the question" }

func (unseen) Is(target error) bool {
	return target == gate.ErrCannotAsk || target == gate.ErrAutoDeclined
}

// fasterThanAnybody reads a question and answers it.
const fasterThanAnybody = 200 * time.Millisecond

// A cannotAsk is a [policy.ErrCannotAsk] with its reason.
type cannotAsk string

func (c cannotAsk) Error() string { return string(c) }

func (c cannotAsk) Is(target error) bool { return target == gate.ErrCannotAsk }

// canAsk reports whether a client with these capabilities shows forms. Neither
// form nor url declared means form, as before URL mode existed.
func canAsk(caps *mcp.ClientCapabilities) bool {
	if caps == nil || caps.Elicitation == nil {
		return false
	}
	return caps.Elicitation.Form != nil || caps.Elicitation.URL == nil
}

// approver returns the function that puts the gate's questions to the client's
// user. Ask sends an elicitation.
func (r *request) approver(ask policy.ClientFunc) gate.AskFunc {
	return func(ctx context.Context, q gate.Question) (gate.Answer, error) {
		if !canAsk(r.caps) {
			return gate.No, errCannotAsk
		}
		params, err := marshal(form(q))
		if err != nil {
			return gate.No, err
		}
		ctx, cancel := context.WithTimeout(ctx, r.conn.s.opts.AskTimeout)
		defer cancel()
		asked := time.Now()
		for {
			raw, err := ask(ctx, "elicitation/create", params)
			if err != nil {
				return gate.No, fmt.Errorf("the question got no answer: %w", err)
			}
			var res mcp.ElicitResult
			if rawjson.Unmarshal(raw, &res) == nil && res.Action != "" {
				return answer(q, &res, time.Since(asked))
			}
			if !r.stateless {
				return gate.No, errors.New("the client's answer is no result of an elicitation")
			}
			// "missing answers: ask again"
		}
	}
}

// decisionField is the one field of the form.
const decisionField = "decision"

// form returns the question as an elicitation. The schema is flat, with one
// required enum, and has no title or description at its root: Codex answers
// "cancel" to those without showing them, and accepts an empty form unseen
// under full access.
func form(q gate.Question) *mcp.ElicitParams {
	choices := []gate.Answer{gate.Once}
	words := "once: this call only. "
	if !q.OnceOnly {
		choices = append(choices, gate.Session)
		words += "session: this call and, until this session ends, what the question says. "
	}
	if q.AlwaysRule != "" {
		choices = append(choices, gate.Always)
		words += "always: from now on, outside the sandbox, by adding to your rules: " + visible(q.AlwaysRule) + " "
	}
	choices = append(choices, gate.No)
	words += "no: do not run it."
	return &mcp.ElicitParams{
		Meta:    display(q),
		Mode:    "form",
		Message: Message(q),
		RequestedSchema: map[string]any{
			"type": "object",
			"properties": map[string]any{
				decisionField: map[string]any{
					"type":        "string",
					"title":       "Allow it?",
					"description": words,
					"enum":        choices,
				},
			},
			"required": []string{decisionField},
		},
	}
}

// display is what a client's dialog may show beside the message, in the names
// that Codex and Claude Code know. It is no codex_approval_kind: Codex would
// answer such a question without our field.
func display(q gate.Question) mcp.Meta {
	m := mcp.Meta{
		"tool_name": q.Action.Tool,
		"anthropic/permissionDisplay": map[string]any{
			"title":       "toolgate: " + q.Action.Tool,
			"description": visible(q.Reason),
		},
	}
	if args := q.Action.Arguments; len(args) > 0 && len(args) <= maxPreview && json.Valid(args) {
		m["tool_params"] = args
	}
	return m
}

// answer reads what came back. Only accept with one of the offered words is a
// yes: decline, cancel, accept without the field or with another word are no.
//
// A decline or cancel that comes faster than anybody can read is the
// client's own: Codex's exec and Claude Code's -p answer so without showing the
// question. It is a no, and the user may still be reached by the waiting list.
func answer(q gate.Question, res *mcp.ElicitResult, after time.Duration) (gate.Answer, error) {
	if res == nil || res.Action != "accept" {
		if after < fasterThanAnybody {
			return gate.No, errUnseen
		}
		return gate.No, nil
	}
	word, _ := res.Content[decisionField].(string)
	switch a := gate.Answer(word); {
	case a == gate.Once, a == gate.Session && !q.OnceOnly, a == gate.Always && q.AlwaysRule != "":
		return a, nil
	}
	return gate.No, nil
}

// Message says what will happen, in the words of the call itself. What the
// model says about it stands last and is marked as the model's.
func Message(q gate.Question) string {
	a := q.Action
	var b strings.Builder
	switch {
	case a.Request:
		a.Tool = fmt.Sprintf("the request %s to the server %s", visible(a.Tool), visible(a.Server))
	case a.Server != "":
		a.Tool = fmt.Sprintf("the tool %s of the server %s", visible(a.Tool), visible(a.Server))
	}
	switch {
	case q.Stage == gate.Widen:
		fmt.Fprintf(&b, "Run %s again, outside the sandbox?\n", a.Tool)
	case q.Stage == gate.Reach && q.Host != nil:
		fmt.Fprintf(&b, "Let %s reach the host %s (%s, port %d)?\n", a.Tool, visible(q.Host.Host),
			q.Host.Protocol, q.Host.Port)
	default:
		fmt.Fprintf(&b, "Allow %s?\n", a.Tool)
	}
	if len(a.Command) > 0 {
		fmt.Fprintf(&b, "\n  %s\n", strings.ReplaceAll(visible(commandLine(a.Command)), "\n", "\n  "))
		fmt.Fprintf(&b, "\nFolder: %s\n", oneLine(q.Folder()))
	}
	for i, file := range q.Seen.Existing() {
		if i == 0 {
			b.WriteString("\nFiles that it runs, as they are now:\n")
		}
		fmt.Fprintf(&b, "  %s\n", oneLine(file))
	}
	if len(a.Writes) > 0 {
		b.WriteString("\nFiles it changes:\n")
		for i, change := range a.ChangeLines() {
			if i == policy.MaxChanges {
				fmt.Fprintf(&b, "  … and %d more\n", len(a.Writes)-i)
				break
			}
			fmt.Fprintf(&b, "  %s\n", oneLine(change))
		}
	}
	if a.Preview != "" {
		fmt.Fprintf(&b, "\n%s\n", clip(visible(strings.TrimRight(a.Preview, "\n")), maxPreview))
	}
	fmt.Fprintf(&b, "\nWhy you are asked: %s.\n", visible(q.Reason))
	if q.Grants != "" {
		fmt.Fprintf(&b, "A yes for the session also covers, until it ends: %s.\n", visible(q.Grants))
	}
	if a.Justification != "" {
		fmt.Fprintf(&b, "The model says: %q\n", clip(a.Justification, 500))
	}
	return b.String()
}

const maxPreview = 4000

// commandLine returns argv as a person would type it; a script given to a
// shell is shown as it is.
func commandLine(argv []string) string {
	if len(argv) == 3 && (argv[1] == "-c" || argv[1] == "-lc") {
		return argv[0] + " " + argv[1] + ":\n" + argv[2]
	}
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = quoteWord(w)
	}
	return strings.Join(words, " ")
}

func quoteWord(w string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("@%_+=:,./-", r)
	}
	if w != "" && strings.IndexFunc(w, func(r rune) bool { return !plain(r) }) < 0 {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// visible makes control and direction characters visible, so that nothing in
// a command can hide another part of it from the person who reads it.
func visible(s string) string { return printable.Text(s) }

// oneLine is visible for a path, which may hold the end of a line.
func oneLine(s string) string { return strings.ReplaceAll(visible(s), "\n", "␊") }

// clip shortens s to about n bytes and says so. Both ends are kept: what is
// hidden must not be what matters most.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	head, tail := strings.ToValidUTF8(s[:n/2], ""), strings.ToValidUTF8(s[len(s)-n/2:], "")
	return fmt.Sprintf("%s\n… %d bytes not shown …\n%s", head, len(s)-len(head)-len(tail), tail)
}
