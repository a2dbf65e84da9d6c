package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/internal/audit"
	"toolgate/internal/gate"
	"toolgate/policy"
)

// TestMain lets the test binary be a second process that records.
func TestMain(m *testing.M) {
	if dir := os.Getenv("AUDIT_TEST_DIR"); dir != "" {
		record(dir, os.Getenv("AUDIT_TEST_NAME"))
		return
	}
	os.Exit(m.Run())
}

const each = 300 // events of one process

func record(dir, name string) {
	log, err := audit.OpenLimited(dir, 20<<10, 1000)
	if err != nil {
		panic(err)
	}
	for i := range each {
		log.Record(event(fmt.Sprintf("%s-%d", name, i)))
	}
	if err := log.Close(); err != nil {
		panic(err)
	}
}

func event(id string) gate.Event {
	return gate.Event{Time: time.Now(), ID: id, Tool: "shell", Outcome: "ok", Args: json.RawMessage(`{"command":["ls"]}`)}
}

func ids(t *testing.T, dir string, f audit.Filter) []string {
	t.Helper()
	var got []string
	require.NoError(t, audit.Read(dir, f, func(e audit.Entry) error {
		got = append(got, e.Event.ID)
		return nil
	}))
	return got
}

func TestProcessesShareTheRecordWhileItIsPutAside(t *testing.T) {
	dir := t.TempDir()
	var procs sync.WaitGroup
	const processes = 4
	errs := make(chan error, processes)
	for p := range processes {
		procs.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "AUDIT_TEST_DIR="+dir, fmt.Sprintf("AUDIT_TEST_NAME=p%d", p))
			out, err := cmd.CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			errs <- err
		})
	}
	// A reader that follows meanwhile sees every event once, in each
	// process's order.
	seen := map[string]int{}
	next := map[string]int{}
	stop := errors.New("all are there")
	err := audit.Follow(t.Context(), dir, audit.Filter{}, func(e audit.Entry) error {
		name, _, _ := strings.Cut(e.Event.ID, "-")
		if want := fmt.Sprintf("%s-%d", name, next[name]); e.Event.ID != want {
			return fmt.Errorf("%s where %s should be", e.Event.ID, want)
		}
		next[name]++
		if seen[e.Event.ID]++; len(seen) == processes*each {
			return stop
		}
		return nil
	})
	require.ErrorIs(t, err, stop)
	procs.Wait()
	for range processes {
		require.NoError(t, <-errs)
	}
	require.Len(t, ids(t, dir, audit.Filter{}), processes*each)
	files, err := filepath.Glob(filepath.Join(dir, "audit.jsonl.*"))
	require.NoError(t, err)
	require.Greater(t, len(files), 5)
	for _, name := range files {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.LessOrEqual(t, info.Size(), int64(20<<10))
	}
}

func TestOldestIsDropped(t *testing.T) {
	dir := t.TempDir()
	log, err := audit.OpenLimited(dir, 1000, 2)
	require.NoError(t, err)
	for i := range 100 {
		log.Record(event(fmt.Sprint(i)))
	}
	require.NoError(t, log.Close())
	files, err := filepath.Glob(filepath.Join(dir, "audit.jsonl*"))
	require.NoError(t, err)
	require.Len(t, files, 3)
	got := ids(t, dir, audit.Filter{})
	require.Equal(t, "99", got[len(got)-1])
	require.Less(t, len(got), 30)
	require.Equal(t, []string{"98", "99"}, ids(t, dir, audit.Filter{Last: 2}))
}

func TestWhatCannotBePutAsideGrows(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "audit.jsonl.1", "in the way"), 0o700))
	log, err := audit.OpenLimited(dir, 300, 1)
	require.NoError(t, err)
	for i := range 5 {
		log.Record(event(fmt.Sprint(i)))
	}
	require.NoError(t, log.Close())
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "audit.jsonl.1")))
	require.Equal(t, []string{"0", "1", "2", "3", "4"}, ids(t, dir, audit.Filter{}))
}

func TestTheRecordIsItsOwnersAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes on windows")
	}
	dir := filepath.Join(t.TempDir(), "state")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "audit.jsonl"), nil, 0o644))
	log, err := audit.OpenLimited(dir, 10, 5)
	require.NoError(t, err)
	log.Record(event("1"))
	log.Record(event("2"))
	require.NoError(t, log.Close())
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 3)
	for _, f := range files {
		info, err := f.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode(), f.Name())
	}
}

func TestAnUnfinishedLineSpoilsOnlyItself(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "audit.jsonl"), []byte(`{"time":"2026-01-0`), 0o600))
	log, err := audit.Open(dir)
	require.NoError(t, err)
	log.Record(event("1"))
	log.Record(event("2"))
	require.NoError(t, log.Close())
	require.Equal(t, []string{"1", "2"}, ids(t, dir, audit.Filter{}))
}

func TestWhatCannotBeWrittenIsReported(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	log, err := audit.Open(dir)
	require.NoError(t, err)
	log.Record(event("1"))
	require.NoError(t, os.RemoveAll(dir))
	log.Record(event("2"))
	log.Record(event("3"))
	require.ErrorContains(t, log.Close(), "2 calls are not recorded")
}

func TestAPanickingCallIsRecorded(t *testing.T) {
	log, dir := openLog(t)
	g := &gate.Gate{
		Policy: &policy.Policy{Approval: policy.Never, Mode: policy.DangerFullAccess, Workspace: "/w"},
		Run:    func(context.Context, gate.Call, policy.Profile) (gate.Outcome, error) { panic("oh") },
		Record: log.Record,
	}
	_, err := g.Call(t.Context(), gate.Call{ID: "7", Action: policy.Action{Tool: "x", Command: []string{"make"}}})
	require.Error(t, err)
	require.NoError(t, log.Close())
	require.Equal(t, []string{"7"}, ids(t, dir, audit.Filter{Outcome: "failed"}))
}

func TestFilter(t *testing.T) {
	log, dir := openLog(t)
	day := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for i, e := range []gate.Event{
		{ID: "a", Tool: "shell", Outcome: "ok", Caller: "stdio", Agent: "codex"},
		{ID: "b", Tool: "shell", Outcome: "refused", Caller: "cli"},
		{ID: "c", Server: "git", Tool: "shell", Outcome: "ok"},
		{ID: "d", Server: "git", Tool: "log", Outcome: "tool-error"},
	} {
		e.Time = day.Add(time.Duration(i) * time.Hour)
		log.Record(e)
	}
	require.NoError(t, log.Close())
	for _, tt := range []struct {
		name string
		f    audit.Filter
		want string
	}{
		{"all", audit.Filter{}, "abcd"},
		{"tool", audit.Filter{Tool: "shell"}, "abc"},
		{"server", audit.Filter{Tool: "git"}, "cd"},
		{"both", audit.Filter{Tool: "git/shell"}, "c"},
		{"outcome", audit.Filter{Outcome: "refused"}, "b"},
		{"since", audit.Filter{Since: day.Add(2 * time.Hour)}, "cd"},
		{"caller", audit.Filter{Caller: "cli"}, "b"},
		{"client", audit.Filter{Caller: "codex"}, "a"},
		{"last", audit.Filter{Last: 3}, "bcd"},
		{"last of some", audit.Filter{Last: 1, Outcome: "ok"}, "c"},
		{"none", audit.Filter{Tool: "no"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, strings.Join(ids(t, dir, tt.f), ""))
		})
	}
	require.Empty(t, ids(t, filepath.Join(dir, "missing"), audit.Filter{}))
	require.NoDirExists(t, filepath.Join(dir, "missing"), "reading makes nothing")
}

func TestRedact(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"export GITHUB_TOKEN=abcdef; ls", "export GITHUB_TOKEN=[redacted]; ls"},
		{"curl -H 'Authorization: Bearer abc.def.ghi' https://x.y", "curl -H 'Authorization: [redacted]' https://x.y"},
		{"curl -H 'Authorization: Basic YWxhZGRpbjpvcGVu'", "curl -H 'Authorization: [redacted]'"},
		{"mysql --password hunter2 -u me", "mysql --password [redacted] -u me"},
		{"mysql --password=hunter2 -u me", "mysql --password=[redacted] -u me"},
		{`PASSWORD="a b c" make`, `PASSWORD=[redacted] make`},
		{"git clone https://me:s3cr3t@host/r.git", "git clone https://me:[redacted]@host/r.git"},
		{`{"api_key": "0123456789"}`, `{"api_key": [redacted]}`},
		{"AWS AKIAIOSFODNN7EXAMPLE here", "AWS [redacted] here"},
		{"ghp_" + strings.Repeat("a1", 18), "[redacted]"},
		{"github_pat_" + strings.Repeat("a1", 20), "[redacted]"},
		{"key sk-ant-api03-" + strings.Repeat("x", 30), "key [redacted]"},
		{"sk_live_" + strings.Repeat("x", 24), "[redacted]"},
		{"xoxb-1234567890-abc", "[redacted]"},
		{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc-def", "[redacted]"},
		{"a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb", "a\n[redacted]\nb"},
		{"-----BEGIN OPENSSH PRIVATE KEY-----\nnever ends", "[redacted]"},

		{"curl -H 'Authorization: ApiKey abc def' https://x.y", "curl -H 'Authorization: [redacted]' https://x.y"},
		{`curl -H "authorization: ApiKey abc$X" https://x.y`, `curl -H "authorization: [redacted]" https://x.y`},
		{`curl -H "Authorization: Bearer $(cat k)" https://x.y`, `curl -H "Authorization: [redacted]$(cat k)" https://x.y`},
		{`curl -H 'Authorization: Digest username="me", response="abcdef"' x`, `curl -H 'Authorization: [redacted]' x`},
		{`curl -H Authorization:\ ApiKey\ abc https://x.y`, `curl -H Authorization:[redacted] https://x.y`},
		{"GET / HTTP/1.1\nAuthorization: ApiKey abc\nHost: x", "GET / HTTP/1.1\nAuthorization: [redacted]\nHost: x"},
		{"Authorization: AWS4-HMAC-SHA256 Credential=AK/2, SignedHeaders=host, Signature=abcdef", "Authorization: [redacted]"},
		{"curl -H 'X-Api-Key: abc def' x", "curl -H 'X-Api-Key: [redacted]' x"},
		{"curl -H 'Cookie: a=1; session=abc' x", "curl -H 'Cookie: [redacted]' x"},
		{"Cookie: a=1; session=abc; b=2\nHost: x", "Cookie: [redacted]\nHost: x"},
		{"Set-Cookie: id=abc; Path=/; Secure", "Set-Cookie: [redacted]; Secure"},
		{"echo Cookie: abc; rm -rf x", "echo Cookie: [redacted]; rm -rf x"},
		{`curl -d '{"user":"me","password":"a \" b","n":1}' x`, `curl -d '{"user":"me","password":[redacted],"n":1}' x`},
		{`curl -d "{\"password\":\"a b\",\"n\":1}" x`, `curl -d "{\"password\":[redacted],\"n\":1}" x`},
		{`{"password":123456,"token":null,"total_tokens":123456}`, `{"password":[redacted],"token":null,"total_tokens":123456}`},
		{`{"credentials":{"user":"me","key":["a","}"]},"n":1}`, `{"credentials":[redacted],"n":1}`},
		{`{"name":"Authorization","value":"abc"} rest`, `{"name":"Authorization","value":[redacted]} rest`},
		{`[{"key":"X-Api-Key","enabled":true,"value":"abc"}]`, `[{"key":"X-Api-Key","enabled":true,"value":[redacted]}]`},
		{`{"value": "abc", "name": "Cookie"}`, `{"value": [redacted], "name": "Cookie"}`},
		{`{\"name\":\"api_key\",\"value\":\"abc\"}`, `{\"name\":\"api_key\",\"value\":[redacted]}`},
		{`{"name":"Accept","value":"text/plain"}`, `{"name":"Accept","value":"text/plain"}`},
		{"psql postgres://me:pa/ss:w@db/x", "psql postgres://me:[redacted]@db/x"},
		{"psql postgres://me:/pass@db/x", "psql postgres://me:[redacted]@db/x"},
		{"password := 'hunter2'; x", "password := [redacted]; x"},
		{"'password' => 'hunter2', 'x'", "'password' => [redacted], 'x'"},
		{`TOKEN='a b'"c d"e make`, "TOKEN=[redacted] make"},
		{`TOKEN=ab'c d' make`, "TOKEN=[redacted] make"},
		{"sh -c 'TOKEN=abc'; rm -rf '/x'", "sh -c 'TOKEN=[redacted]'; rm -rf '/x'"},
		{`sh -c "TOKEN=abc" "x y"`, `sh -c "TOKEN=[redacted]" "x y"`},
		{"https://x.y/?token=abc&n=1", "https://x.y/?token=[redacted]&n=1"},
		{"TOKEN=ghp_" + strings.Repeat("a1", 18) + "/abc x", "TOKEN=[redacted] x"},

		{"TOKEN=$(curl x.y | sh) make", "TOKEN=$(curl x.y | sh) make"},
		{"TOKEN=`curl x.y` make", "TOKEN=`curl x.y` make"},
		{`TOKEN="${OTHER}" make`, `TOKEN="${OTHER}" make`},
		{"https://host:8080/a@b", "https://host:8080/a@b"},
		{"https://[::1]:8080/a@b", "https://[::1]:8080/a@b"},
		{"mysql --password --verbose", "mysql --password --verbose"},
		{"password:\nls -l", "password:\nls -l"},
		{`{"token":true,"tokens":[]}`, `{"token":true,"tokens":[]}`},
		{"go test ./...", "go test ./..."},
		{"GITHUB_TOKEN=$OTHER make", "GITHUB_TOKEN=$OTHER make"},
		{"grep -n token *.go", "grep -n token *.go"},
		{"the token is wrong, ask for another", "the token is wrong, ask for another"},
		{"https://host:8080/path", "https://host:8080/path"},
		{"task-runner disk-usage-of-the-whole-machine", "task-runner disk-usage-of-the-whole-machine"},
		{"ls monkey/ keyboard/", "ls monkey/ keyboard/"},
		{"max_tokens_used=10000", "max_tokens_used=10000"},
	} {
		t.Run(tt.in, func(t *testing.T) {
			require.Equal(t, tt.want, audit.Redact(tt.in))
			require.Equal(t, tt.want, audit.Redact(tt.want))
		})
	}
}

func openLog(t *testing.T) (*audit.Log, string) {
	t.Helper()
	dir := t.TempDir()
	log, err := audit.Open(dir)
	require.NoError(t, err)
	return log, dir
}

// line records e and returns the one line of the record.
func line(t *testing.T, e gate.Event) string {
	t.Helper()
	log, dir := openLog(t)
	log.Record(e)
	require.NoError(t, log.Close())
	b, err := os.ReadFile(filepath.Join(dir, "audit.jsonl"))
	require.NoError(t, err)
	require.Equal(t, 1, bytes.Count(b, []byte("\n")))
	return string(b)
}

func TestSecretsOfACallAreNotKept(t *testing.T) {
	const secret = "hunter2hunter2"
	for _, tt := range []struct {
		name string
		e    gate.Event
	}{
		{"by field", gate.Event{Args: json.RawMessage(`{"auth":{"password":"` + secret + `"}}`)}},
		{"list by field", gate.Event{Args: json.RawMessage(`{"tokens":["` + secret + `"]}`)}},
		{"nested, by field", gate.Event{Args: json.RawMessage(`{"credentials":{"user":"me","a":[{"b":"` + secret + `"}]}}`)}},
		{"by a name beside it", gate.Event{Args: json.RawMessage(`{"headers":[{"name":"Authorization","value":"` + secret + `"}]}`)}},
		{"by a key beside it", gate.Event{Args: json.RawMessage(`{"env":[{"Value":{"x":"` + secret + `"},"Key":"API_TOKEN"}]}`)}},
		{"JSON in an argument", gate.Event{Args: json.RawMessage(`{"body":"{\"a\":{\"password\":\"` + secret + `\"}}"}`)}},
		{"JSON in JSON in an argument", gate.Event{Args: json.RawMessage(`{"body":"{\"a\":\"{\\\"password\\\":\\\"` + secret + `\\\"}\"}"}`)}},
		{"a header", gate.Event{Args: json.RawMessage(`{"headers":["Authorization: ApiKey ` + secret + `"]}`)}},
		{"a second cookie", gate.Event{Args: json.RawMessage(`{"command":["curl","-H","Cookie: a=1; session=` + secret + `"]}`)}},
		{"word behind an option", gate.Event{Args: json.RawMessage(`{"command":["mysql","--password","` + secret + `"]}`)}},
		{"argv", gate.Event{Action: policy.Action{Command: []string{"mysql", "--password", secret}}}},
		{"script", gate.Event{Action: policy.Action{Command: []string{"bash", "-c", "TOKEN=" + secret + " x"}}}},
		{"justification", gate.Event{Action: policy.Action{Justification: "with password: " + secret}}},
		{"reason", gate.Event{Reason: "`curl -H 'Authorization: Bearer " + secret + "'` is odd"}},
		{"error", gate.Event{Error: "https://me:" + secret + "@host is down"}},
		{"rewritten", gate.Event{Rewritten: json.RawMessage(`{"secret":"` + secret + `"}`)}},
		{"behind much text", gate.Event{Args: json.RawMessage(`{"x":"` + strings.Repeat("y", 1980) + ` TOKEN=` + secret + strings.Repeat("z", 9000) + `"}`)}},
		{"preview", gate.Event{Action: policy.Action{Preview: secret}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := line(t, tt.e)
			require.NotContains(t, got, secret)
			require.NotContains(t, got, secret[:7])
		})
	}
	require.NotContains(t, line(t, gate.Event{Args: json.RawMessage(`{"pin":{"password":12345678}}`)}), "12345678")
	require.Contains(t, line(t, gate.Event{Args: json.RawMessage(`{"keys":["enter"],"max_output_tokens":12345678901234567890,"tokens":7}`)}), `{"keys":["enter"],"max_output_tokens":12345678901234567890,"tokens":7}`)
}

func TestLongCallsAreCut(t *testing.T) {
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf("/w/%d", i)
	}
	manyArgs, err := json.Marshal(map[string]any{"list": many, "text": many})
	require.NoError(t, err)
	for _, tt := range []struct {
		name string
		e    gate.Event
		want string
	}{
		{"one string", gate.Event{Args: json.RawMessage(`{"input":"` + strings.Repeat("x", 500_000) + `"}`)}, "x[… of 500000 bytes]"},
		{"more than is looked into", gate.Event{Args: json.RawMessage(`{"input":"` + strings.Repeat("x", 2<<20) + `"}`)}, `"2097164 bytes, not kept"`},
		{"many strings", gate.Event{Args: manyArgs}, "more]"},
		{"command", gate.Event{Action: policy.Action{Command: []string{"bash", "-c", strings.Repeat("é", 1<<20)}}}, "bytes]"},
		{"paths", gate.Event{Action: policy.Action{Writes: many}}, "[936 more]"},
		{"error", gate.Event{Error: strings.Repeat("e ", 1<<20)}, "bytes]"},
		{"not JSON", gate.Event{Args: json.RawMessage(`{"a`)}, `"3 bytes, not JSON"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := line(t, tt.e)
			require.Contains(t, got, tt.want)
			require.Less(t, len(got), 20<<10)
			require.True(t, json.Valid([]byte(got)))
		})
	}
}

func TestLineForAPerson(t *testing.T) {
	e := audit.Entry{Event: gate.Event{
		Time: time.Date(2026, 11, 1, 12, 0, 0, 0, time.Local), Tool: "shell", Outcome: "refused", Duration: 1500 * time.Millisecond,
		Action: policy.Action{Command: []string{"bash", "-c", "echo \x1b]0;x\a\u202e\nls"}}, Asked: "no", AnsweredBy: "client", Error: "denied: the user said no",
	}}
	require.Equal(t, `2026-11-01 12:00:00  refused        1.5s  shell  echo \u001b]0;x\u0007\u202e\nls  [asked: no by client]  - denied: the user said no`, e.String())
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"password":"x"}`), "TOKEN=abc", "a")
	f.Add([]byte("{\"a\":\"\x00\xff\"}"), "\xff\xfe-----BEGIN PRIVATE KEY-----", "\x1b")
	dir := f.TempDir()
	log, err := audit.OpenLimited(dir, 4<<10, 1)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, args []byte, command, reason string) {
		id := fmt.Sprint(time.Now().UnixNano())
		log.Record(gate.Event{Time: time.Now(), ID: id, Args: args, Action: policy.Action{Command: []string{"sh", "-c", command}}, Reason: reason})
		require.Equal(t, []string{id}, ids(t, dir, audit.Filter{Last: 1}))
		once := audit.Redact(command)
		require.Equal(t, once, audit.Redact(once), "redacting twice changes nothing")
	})
}

// FuzzPlantedSecret: wherever docs/audit.md promises it, whatever is around it and whatever it
// is, a secret does not appear.
func FuzzPlantedSecret(f *testing.F) {
	const simple, spaced, quoted = "", " ;,|&:={}[]()", "'"
	places := []struct{ text, more string }{ // what the secret may have beside letters, digits and a few signs
		{"TOKEN=%s make", simple},
		{"export MY_API_KEY=%s; make", simple},
		{"PASSWORD='%s' make", spaced},
		{"mysql --password %s -u me", simple},
		{"mysql --password=%s -u me", simple},
		{"mysql --password '%s' -u me", spaced},
		{"curl -H 'Authorization: ApiKey %s' https://x.y", spaced},
		{"curl -H 'X-Auth-Token: %s' https://x.y", spaced},
		{"Authorization: ApiKey %s", simple},
		{"Authorization: Basic %s\nHost: x.y", simple},
		{"curl -H 'Cookie: a=1; session=%s; b=2' https://x.y", spaced},
		{"Cookie: a=1; session=%s; b=2", simple},
		{"Bearer %s", simple},
		{"https://me:%s@x.y/z", simple},
		{"postgres://me:a/%s@x.y/z", simple},
		{`{"password":"%s"}`, spaced + quoted},
		{`{"a":[{"client_secret": "%s", "b":1}]}`, spaced + quoted},
		{`{\"password\":\"%s\"}`, spaced + quoted},
		{`{"a":"{\\\"password\\\":\\\"%s\\\"}"}`, spaced + quoted},
		{`{"credentials":{"user":"me","list":["%s"]}}`, spaced + quoted},
		{`{"name":"Authorization","value":"%s"}`, spaced + quoted},
		{`{"value":"%s","key":"X-Api-Key"}`, spaced + quoted},
		{"-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----", spaced + quoted},
	}
	for i := range places {
		f.Add(i, "hunter2", "x=1; ", " && make")
		f.Add(i, "a b'c;d", "don't ", "\"x")
	}
	f.Fuzz(func(t *testing.T, i int, chosen, before, after string) {
		place := places[uint(i)%uint(len(places))]
		secret := "S3cr3t" + strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.+~%!?*"+place.more, r) {
				return r
			}
			return -1
		}, chosen) + "3nd"
		text := fmt.Sprintf(place.text, secret)
		require.NotContains(t, audit.Redact(text), "S3cr3t", text)
		require.NotContains(t, audit.Redact(text), "3nd", text)

		// In arguments, and with text before and after that opens and closes nothing.
		plain := func(s string) string {
			return strings.Map(func(r rune) rune {
				if strings.ContainsRune("\"'\\`$", r) {
					return -1
				}
				return r
			}, s)
		}
		around := plain(before) + "\n" + text + "\n" + plain(after)
		args, err := json.Marshal(map[string]any{"command": []string{"bash", "-c", around}, "x": text})
		require.NoError(t, err)
		got := string(audit.Encode(gate.Event{Args: args, Reason: around}))
		require.NotContains(t, got, "S3cr3t", around)
		require.NotContains(t, got, "3nd", around)

		whole, err := json.Marshal(map[string]any{"a": map[string]any{"my_secret": []any{map[string]any{chosen: "S3cr3t" + chosen + "3nd"}}}})
		require.NoError(t, err)
		got = string(audit.Encode(gate.Event{Args: whole}))
		require.NotContains(t, got, "S3cr3t")
	})
}

// TestPlainArgumentsAreKeptAsSent: in their order, every member of them.
func TestPlainArgumentsAreKeptAsSent(t *testing.T) {
	for _, args := range []string{`{"z":1.50,"a":"é <b>","a":null}`, `{}`, `{"n":9007199254740993}`, `{ "b" : [ 1, "x" ] }`} {
		log, dir := openLog(t)
		e := event("1")
		e.Args = json.RawMessage(args)
		log.Record(e)
		require.NoError(t, log.Close())
		require.NoError(t, audit.Read(dir, audit.Filter{}, func(e audit.Entry) error {
			var want, got bytes.Buffer
			require.NoError(t, json.Compact(&want, []byte(args)))
			require.NoError(t, json.Compact(&got, e.Event.Args))
			require.Equal(t, want.String(), strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(got.String()))
			return nil
		}))
	}
}

func BenchmarkRecord(b *testing.B) {
	b.ReportAllocs()
	log, err := audit.Open(b.TempDir())
	require.NoError(b, err)
	defer log.Close()
	e := event("1")
	e.Action = policy.Action{Tool: "shell", Command: []string{"bash", "-c", "go test ./... && echo done"}}
	for b.Loop() {
		log.Record(e)
	}
}
