package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"toolgate/internal/app"
	"toolgate/internal/clients"
	"toolgate/internal/config"
	"toolgate/internal/programs"
	"toolgate/policy"
)

// A checkedClient is an entry for toolgate in a client's config file.
type checkedClient struct {
	Client   string   `json:"client"`
	File     string   `json:"file"`
	Name     string   `json:"name,omitempty"`
	Start    string   `json:"start,omitempty"`           // command line or URL
	AnswerMS float64  `json:"first_answer_ms,omitempty"` // when it was started just now
	Problems []string `json:"problems,omitempty"`
}

// diagnoseClients finds the entries for toolgate in the clients' config files and checks whether they start.
func diagnoseClients(ctx context.Context, a *app.App, d *diagnosis) {
	known, err := clients.Here()
	if err != nil {
		return
	}
	for _, c := range known {
		for _, f := range c.Files {
			text, _, unread := readIfThere(f.Path)
			tables, err := f.Tables(text)
			if err := errors.Join(unread, err); err != nil {
				problem := fmt.Sprintf("its file cannot be read: %v", err)
				d.Clients = append(d.Clients, checkedClient{Client: c.Title, File: f.Path, Problems: []string{problem}})
				continue
			}
			d.Clients = append(d.Clients, checkEntries(ctx, a, c, f, tables)...)
		}
	}
	for _, c := range d.Clients {
		for _, problem := range c.Problems {
			d.problem("%s: %s (%s)", c.Client, problem, c.File)
		}
	}
}

// checkEntries checks the entries of one file that start toolgate.
func checkEntries(
	ctx context.Context, a *app.App, c clients.Client, f clients.File, tables map[string]map[string]any,
) []checkedClient {
	var found []checkedClient
	var twice []string
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		start := clients.StartOf(tables[name])
		if name != "toolgate" && !isUs(start) {
			if _, ours := a.Config.MCPServers[config.NameFrom(name)]; ours {
				twice = append(twice, name)
			}
			continue
		}
		e := checkedClient{Client: c.Title, File: f.Path, Name: name, Start: start.URL}
		if start.URL == "" {
			e.Start = strings.Join(append([]string{start.Command}, start.Args...), " ")
			e.check(ctx, a.Programs(), c.Name, start, tables[name])
		}
		e.checkKeys(c, tables[name])
		found = append(found, e)
	}
	if len(found) > 0 && len(twice) > 0 {
		found[0].Problems = append(found[0].Problems,
			fmt.Sprintf("%s also has %s of its own, whose calls bypass the policy; "+
				"remove them, or run `toolgate setup`", c.Title, strings.Join(twice, ", ")))
	}
	return found
}

func (e *checkedClient) problem(format string, args ...any) {
	e.Problems = append(e.Problems, fmt.Sprintf(format, args...))
}

// checkKeys reports keys of the client that get in toolgate's way.
func (e *checkedClient) checkKeys(c clients.Client, table map[string]any) {
	if table["disabled"] == true || table["enabled"] == false {
		e.problem("the entry %s is switched off there", e.Name)
	}
	if c.Name == "codex" {
		if table["required"] != true {
			e.problem("without required = true Codex waits about a second for the server and goes on without it")
		}
		if table["default_tools_approval_mode"] == nil {
			e.problem(`without default_tools_approval_mode = "approve" Codex asks, or refuses, ` +
				"before toolgate sees a call")
		}
	}
}

// check reports whether the command exists, has valid flags and starts.
func (e *checkedClient) check(
	ctx context.Context, find programs.Finder, client string, s clients.Start, table map[string]any,
) {
	path, fault := find.Find(s.Command, os.Environ())
	writable, _ := errors.AsType[*programs.WritableError](fault)
	if writable != nil {
		path = writable.Path
	}
	runner, words := throughRunner(s)
	if runner == "" {
		words = s.Args
	}
	var err error
	if path, err = exec.LookPath(path); err != nil && runner == "" {
		e.problem("there is no program %s; `toolgate setup` writes the path of this one", s.Command)
		return
	}
	switch {
	case runner != "":
		e.problem("it starts toolgate through %s, which takes a program of the workspace before toolgate's; "+
			"`toolgate setup %s` writes the path of this one", runner, client)
	case writable != nil:
		e.problem("%v; `toolgate setup %s` writes the path of a program that they cannot write", writable, client)
	}
	if i := slices.Index(words, "toolgate"); i >= 0 && commandName(s.Command) == "cmd" {
		words = words[i+1:]
	}
	if err := checkArguments(words); err != nil {
		e.problem("it would not start: %v", err)
		return
	}
	if runner != "" || writable != nil || !isUs(clients.Start{Command: s.Command}) ||
		slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "${") }) {
		return // starting it may fetch something, or is the client's alone
	}
	env := os.Environ()
	if own, ok := table["env"].(map[string]any); ok {
		for key, v := range own {
			env = append(env, fmt.Sprintf("%s=%v", key, v))
		}
	}
	took, err := firstAnswer(ctx, find, append([]string{path}, words...), env)
	if err != nil {
		e.problem("it does not start: %v", err)
		return
	}
	e.AnswerMS = took
}

// checkArguments parses a command line of toolgate and returns what is wrong with it.
func checkArguments(words []string) error {
	p := &program{}
	cmd, rest, err := p.command().Find(words)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return err
	}
	if p.Sandbox != "" {
		if _, err := policy.ParseMode(p.Sandbox); err != nil {
			return err
		}
	}
	if p.Approval != "" {
		if _, err := policy.ParseApproval(p.Approval); err != nil {
			return err
		}
	}
	variable := func(dir string) bool { return strings.Contains(dir, "${") } // the client knows what it is
	p.AddDirs = slices.DeleteFunc(p.AddDirs, variable)
	if variable(p.Dir) {
		return absolute("--add-dir", p.AddDirs)
	}
	return p.checkDirectories(cmd)
}

// startTime bounds the start of a server: the shortest time that clients wait.
const startTime = 10 * time.Second

// firstAnswer starts a server in the workspace and returns the milliseconds from the start to the
// answer to initialize.
func firstAnswer(ctx context.Context, find programs.Finder, argv, env []string) (ms float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	cmd, err := find.Command(ctx, find.Dir, env, argv[0], argv[1:]...)
	if err != nil {
		return 0, err
	}
	cmd.WaitDelay = time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",`+
		`"capabilities":{},"clientInfo":{"name":"toolgate-doctor","version":"1"}}}`+"\n")
	line, _ := bufio.NewReader(out).ReadBytes('\n')
	took := time.Since(begun)
	in.Close()
	io.Copy(io.Discard, out)
	err = cmd.Wait()
	var answer struct {
		Result struct{ ServerInfo struct{ Name string } }
	}
	switch {
	case json.Unmarshal(line, &answer) == nil && answer.Result.ServerInfo.Name != "":
		return float64(took.Microseconds()) / 1000, nil
	case ctx.Err() != nil:
		return 0, fmt.Errorf("no answer within %v", startTime)
	case stderr.Len() > 0:
		first, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return 0, fmt.Errorf("%s", first)
	case err != nil:
		return 0, err
	}
	return 0, fmt.Errorf("it answers with something else: %.80q", line)
}

// diagnoseRules reports the rules that have no effect.
func diagnoseRules(a *app.App, d *diagnosis) {
	there := func(name string) bool { return inPath(name) || filepath.IsAbs(name) && fileThere(name) }
	d.IdleRules = a.Rules.Rules().Unused(there, slices.Collect(maps.Keys(a.Config.MCPServers)))
}

func inPath(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}

func fileThere(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// printMore prints clients, servers, rules and start-up time.
func printMore(d diagnosis, out func(string, ...any)) {
	for _, c := range d.Clients {
		words := c.Start
		if c.AnswerMS > 0 {
			words += fmt.Sprintf(" (answers in %.0f ms)", c.AnswerMS)
		}
		if len(c.Problems) > 0 {
			words += ": see below"
		}
		out("client           %s: %s", c.Client, strings.TrimPrefix(words, ": "))
	}
	if len(d.Clients) == 0 {
		out("client           none has an entry for toolgate; `toolgate setup` writes one")
	}
	for _, r := range d.IdleRules {
		out("rule             %s", r)
	}
	if len(d.Advice) > 0 {
		out("")
		out("For a better sandbox level:")
		for _, line := range d.Advice {
			out("%s", line)
		}
	}
}
