package shell

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"toolgate/internal/lazyregexp"
	"toolgate/tools"
)

// A waitResult is the reason why waiting for a command ended.
type waitResult int

const (
	ended     waitResult = iota // the command ended
	matched                     // the expression matched
	expired                     // the limit was reached
	cancelled                   // the call was cancelled
)

// await waits until p has ended, until matches, limit has passed or ctx ends. It
// reports the last line of output as progress. A limit of 0 means none; until may be
// nil.
func (p *process) await(ctx context.Context, call *tools.Call, limit time.Duration, until *matcher) waitResult {
	var expiry <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		expiry = timer.C
	}
	var tick <-chan time.Time
	if call.WantsProgress() {
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		var more <-chan struct{}
		if until != nil {
			more = p.out.more() // before matching, so that nothing is missed
			if until.matches(p.out) {
				p.awaitQuiet()
				return matched
			}
		}
		select {
		case <-p.done:
			if until != nil && until.matches(p.out) {
				return matched // the last thing printed
			}
			return ended
		case <-more:
		case <-expiry:
			return expired
		case <-ctx.Done():
			return cancelled
		case <-tick:
			call.Progress(p.lastLine())
		}
	}
}

// waited returns a line about the result of waiting, for the model.
func waited(waitFor string, what waitResult) string {
	switch {
	case waitFor == "":
		return ""
	case what == matched:
		return fmt.Sprintf("Waited for: %q, which was printed\n", waitFor)
	case what == expired && waitFor == "exit":
		return "Waited for: exit, which has not come yet\n"
	case what == expired:
		return fmt.Sprintf("Waited for: %q, which was not printed yet\n", waitFor)
	case what == ended && waitFor != "exit":
		return fmt.Sprintf("Waited for: %q, which was not printed before the end\n", waitFor)
	}
	return ""
}

// awaitQuiet waits briefly for the rest of a line that was just printed, or the
// prompt after it.
func (p *process) awaitQuiet() {
	limit := time.After(100 * time.Millisecond)
	for {
		select {
		case <-p.out.more():
		case <-p.done:
			return
		case <-time.After(10 * time.Millisecond):
			return
		case <-limit:
			return
		}
	}
}

// escapes matches the escape sequences and control characters of a terminal.
var escapes = lazyregexp.New("\x1b(\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(\x07|\x1b\\\\)?|[@-Z\\\\-_])" +
	"|[\x00-\x08\x0b-\x1f\x7f]")

// lastLine returns the last line of output that is not blank, or how long the
// command has been running.
func (p *process) lastLine() string {
	const most = 200
	total, _ := p.out.size()
	b := bytes.ReplaceAll(p.out.read(max(0, total-2048), total), []byte{'\r'}, []byte{'\n'})
	lines := strings.Split(strings.ToValidUTF8(string(b), ""), "\n")
	for _, line := range slices.Backward(lines) {
		line = strings.TrimSpace(escapes.ReplaceAllString(line, ""))
		if line == "" {
			continue
		}
		if len(line) > most {
			line = tools.Cut(line, most) + "..."
		}
		return line
	}
	return fmt.Sprintf("running for %d s", int(time.Since(p.started).Seconds()))
}

// A matcher searches the output for an expression, line by line.
type matcher struct {
	re   *regexp.Regexp
	next int64 // start of the first line that was not searched yet
}

// newMatcher returns a matcher for the output from the given offset, or nil if expr
// only waits for the end.
func newMatcher(expr string, from int64) (*matcher, error) {
	if expr == "" || expr == "exit" {
		return nil, nil
	}
	if _, err := regexp.Compile(expr); err != nil {
		reason := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
		return nil, fmt.Errorf("wait_for %q is no regular expression: %s; give one of RE2, or exit", expr, reason)
	}
	re, err := regexp.Compile("(?m)" + expr)
	return &matcher{re, from}, err
}

// matches reports whether the expression matches a line printed since the last call,
// or an incomplete line, such as a prompt.
func (m *matcher) matches(out *capture) bool {
	const window = 32 << 10 // of a longer line, only the end is searched
	total, _ := out.size()
	for m.next < total {
		b := out.read(m.next, min(total, m.next+window))
		if len(b) == 0 {
			m.next = max(m.next+1, total-window) // lost
			continue
		}
		if m.re.Match(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))) {
			return true
		}
		if nl := bytes.LastIndexByte(b, '\n'); nl >= 0 {
			m.next += int64(nl) + 1
		} else if len(b) == window {
			m.next += window / 2
		} else {
			return false // an incomplete line; search it again when it is longer
		}
	}
	return false
}
