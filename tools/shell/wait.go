package shell

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"toolgate/internal/lazyregexp"
	"toolgate/tools"
)

// An waitResult is why waiting for a command ended.
type waitResult int

const (
	ended     waitResult = iota // the command has
	matched                     // what was waited for was printed
	expired                     // the time has passed
	cancelled                   // the call was
)

// await waits until p has ended, what until looks for is printed, limit has
// passed or ctx ends, and tells call of the last line printed in the
// meantime. A limit of 0 is none; until may be nil.
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
			more = p.out.more() // before looking, so that nothing is missed
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

// waited says in a line how waiting for something went.
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

// awaitQuiet waits a moment for what belongs to a line that was just printed, such
// as its end, or the prompt after it.
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

// escapes are the sequences that move a terminal's cursor and set colours.
var escapes = lazyregexp.New("\x1b(\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(\x07|\x1b\\\\)?|[@-Z\\\\-_])|[\x00-\x08\x0b-\x1f\x7f]")

// lastLine returns the last line printed that says something, or how long the
// command has been running.
func (p *process) lastLine() string {
	const most = 200
	total, _ := p.out.size()
	b := bytes.ReplaceAll(p.out.read(max(0, total-2048), total), []byte{'\r'}, []byte{'\n'})
	lines := strings.Split(strings.ToValidUTF8(string(b), ""), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		line := strings.TrimSpace(escapes.ReplaceAllString(lines[i], ""))
		if line == "" {
			continue
		}
		if len(line) > most {
			line = string(tools.WholeRunes([]byte(line[:most]))) + "..."
		}
		return line
	}
	return fmt.Sprintf("running for %d s", int(time.Since(p.started).Seconds()))
}

// A matcher looks for an expression in what is printed, line by line.
type matcher struct {
	re   *regexp.Regexp
	next int64 // the beginning of the first line not yet looked at
}

// newMatcher returns a matcher for what is printed from the byte from on, or
// nil when expr looks for nothing but the end.
func newMatcher(expr string, from int64) (*matcher, error) {
	if expr == "" || expr == "exit" {
		return nil, nil
	}
	if _, err := regexp.Compile(expr); err != nil {
		return nil, fmt.Errorf("wait_for %q is no regular expression: %s; give one of RE2, or exit", expr, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	re, err := regexp.Compile("(?m)" + expr)
	return &matcher{re, from}, err
}

// matches reports whether the expression matches a line printed since the last
// matches, or a begun one, such as a prompt.
func (m *matcher) matches(out *capture) bool {
	const window = 32 << 10 // of a longer line only the end is looked at
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
			return false // a begun line: look again when it is longer
		}
	}
	return false
}
