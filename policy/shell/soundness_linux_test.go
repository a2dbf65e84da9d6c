package shell_test

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/testkit"
	"toolgate/policy"
	"toolgate/policy/rules"
)

// allowRules are rule files under which a script may run outside the sandbox.
var allowRules = []string{
	`[prefix_rule(pattern=[name]) for name in ["ls", "cat", "echo", "cd", "pwd", ":", "true"]]
prefix_rule(pattern=["git", ["status", "log"]])`,

	`[prefix_rule(pattern=[name]) for name in ["ls", "cat", "echo", "cd", "pwd", ":", "true", "test", "[", "[[", "printf", "read", "set", "shift",
"unset", "export", "declare", "typeset", "local", "readonly", "eval", "trap", "alias", "let", "mapfile", "shopt", "wait", "type", "hash", "getopts",
"env", "nice", "timeout", "nohup", "setsid", "xargs", "find", "command", "builtin", "exec", "bash", "sh", "source", ".", "x"]]
prefix_rule(pattern=["git", ["status", "log"]])`,
}

// A soundness check holds verdicts against what bash does. It is used by one goroutine.
type soundness struct {
	root    *bashRoot
	allows  []*rules.Rules
	outside []*policy.Policy // one for each of allows
	careful []*policy.Policy // the same, with a rule that restricts a program that no script names

	restricting           map[string]*policy.Policy // by program and first argument
	ran, lifted, timedOut int                       // scripts
}

func newSoundness(t testing.TB) *soundness {
	s := &soundness{root: newBashRoot(t), restricting: make(map[string]*policy.Policy)}
	for _, text := range allowRules {
		s.allows = append(s.allows, testkit.Rules(t, text))
		s.outside = append(s.outside, soundnessPolicy(t, text))
		s.careful = append(s.careful, soundnessPolicy(t, text+"\n"+rules.PrefixRuleLine([]string{"nobody-names-this"}, "prompt")))
	}
	return s
}

func soundnessPolicy(t testing.TB, text string) *policy.Policy {
	parsed := testkit.Rules(t, text)
	p := testkit.Policy(policy.OnRequest, policy.WorkspaceWrite)
	p.Rules = func() *rules.Rules { return parsed }
	return p
}

// decideScript decides `bash -lc script`.
func decideScript(p *policy.Policy, script string) policy.Decision {
	return p.Decide(policy.Action{Tool: "shell", Command: []string{"bash", "-lc", script}})
}

func runsOutside(d policy.Decision) bool {
	return d.Verdict == policy.Allow && d.Profile.Mode == policy.DangerFullAccess
}

// check runs a script, unless no verdict about it can be wrong, and returns
// what is wrong with one, or "".
//
// A verdict is wrong if the script may run outside the sandbox, but starts a
// program that no rule allows or writes a file; or if it may run unasked,
// although a rule restricts a program that it starts.
func (s *soundness) check(t testing.TB, script string) string {
	t.Helper()
	lifted := make([]bool, len(s.outside))
	for i, p := range s.outside {
		lifted[i] = runsOutside(decideScript(p, script))
	}
	unasked := slices.IndexFunc(s.careful, func(p *policy.Policy) bool { return decideScript(p, script).Verdict == policy.Allow })
	if unasked < 0 && !slices.Contains(lifted, true) {
		return ""
	}
	did := s.root.run(t, script)
	s.ran++
	if did.TimedOut {
		s.timedOut++
	}
	if slices.Contains(lifted, true) {
		s.lifted++
	}
	for i, allowed := range s.allows {
		if !lifted[i] {
			continue
		}
		if len(did.Wrote) > 0 {
			return fmt.Sprintf("runs outside the sandbox under allow rules %d and writes %q", i, did.Wrote)
		}
		for _, p := range did.Ran {
			if p.Argv[0] == "bash" || p.Argv[0] == "sh" {
				continue // no rule needs to name the shell of a plain script
			}
			if allowed.Command(p.Argv).Decision != rules.Allow || p.Changed != "" {
				return fmt.Sprintf("runs outside the sandbox under allow rules %d and starts %q, changing %q", i, p.Argv, p.Changed)
			}
		}
	}
	if unasked < 0 || len(did.Wrote) > 0 {
		return "" // a file that a script writes and then runs is not always followed
	}
	for _, p := range did.Ran {
		for n := 1; n <= min(2, len(p.Argv)); n++ {
			prefix := slices.Clone(p.Argv[:n])
			// No rule has an empty word or a carriage return. Not resolved are ~, and the
			// arguments that mapfile -C adds.
			if prefix[n-1] == "" || strings.Contains(prefix[n-1], "\r") || n > 1 && (strings.Contains(prefix[1], "/home") || strings.HasPrefix(prefix[1], "/w") || strings.Contains(script, "-C")) {
				continue
			}
			prefix[0] = prefix[0][strings.LastIndexByte(prefix[0], '/')+1:]
			if d := decideScript(s.restrict(t, unasked, prefix), script); d.Verdict == policy.Allow {
				return fmt.Sprintf("runs unasked (outside: %t) and starts %q, though a rule restricts %q", runsOutside(d), p.Argv, prefix)
			}
		}
	}
	return ""
}

// restrict returns a policy with the allow rules i in which commands starting with prefix
// are asked about.
func (s *soundness) restrict(t testing.TB, i int, prefix []string) *policy.Policy {
	key := fmt.Sprint(i) + strings.Join(prefix, "\x00")
	p := s.restricting[key]
	if p == nil {
		p = soundnessPolicy(t, allowRules[i]+"\n"+rules.PrefixRuleLine(prefix, "prompt"))
		if len(s.restricting) < 10_000 {
			s.restricting[key] = p
		}
	}
	return p
}

// minimize drops from a script what a fault of its kind does not need.
func (s *soundness) minimize(t testing.TB, script string) string {
	kind := func(script string) string {
		what, _, _ := strings.Cut(s.check(t, script), " and ")
		return what
	}
	fault := kind(script)
	for size := len(script) / 2; size > 0; {
		shorter := false
		for at := 0; at+size <= len(script); {
			if less := script[:at] + script[at+size:]; kind(less) == fault {
				script, shorter = less, true
			} else {
				at++
			}
		}
		if !shorter {
			size /= 2
		}
	}
	return script
}

// TestSoundnessCorpus has every script for which a verdict was wrong once, as
// Go strings.
func TestSoundnessCorpus(t *testing.T) {
	s := newSoundness(t)
	f, err := os.Open("testdata/soundness.txt")
	require.NoError(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		script, err := strconv.Unquote(lines.Text())
		require.NoError(t, err, lines.Text())
		if fault := s.check(t, script); fault != "" {
			t.Errorf("%q %s", script, fault)
		}
	}
	require.NoError(t, lines.Err())
}

// TestSoundness holds verdicts about random scripts against bash. Set
// SOUNDNESS_SCRIPTS for more of them, and SOUNDNESS_SEED for others.
func TestSoundness(t *testing.T) {
	count, seed := envNumber(t, "SOUNDNESS_SCRIPTS", 500), envNumber(t, "SOUNDNESS_SEED", 1)
	var next atomic.Uint64
	var mu sync.Mutex
	var workers sync.WaitGroup
	ran, lifted, timedOut, faults := 0, 0, 0, 0
	for range runtime.GOMAXPROCS(0) {
		s := newSoundness(t)
		workers.Go(func() {
			for i := next.Add(1); i <= count; i = next.Add(1) {
				script := randomBashScript(seed, i)
				fault := s.check(t, script)
				mu.Lock()
				if fault != "" && faults < 20 {
					faults++
					less := s.minimize(t, script)
					t.Errorf("seed %d, script %d: %q\n%s %s", seed, i, script, strconv.Quote(less), s.check(t, less))
				}
				mu.Unlock()
			}
			mu.Lock()
			defer mu.Unlock()
			ran += s.ran
			lifted += s.lifted
			timedOut += s.timedOut
		})
	}
	workers.Wait()
	require.Greater(t, ran, int(count/20))
	require.Greater(t, lifted, int(count/100))
	t.Logf("%d scripts, %d of them run, %d of those outside the sandbox, %d stopped after %v", count, ran, lifted, timedOut, scriptTimeout)
}

func envNumber(t testing.TB, name string, byDefault uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return byDefault
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, name)
	return n
}
