package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"toolgate/aggregator"
	"toolgate/internal/app"
	"toolgate/internal/gate"
	"toolgate/internal/limits"
	"toolgate/internal/printable"
	"toolgate/policy"
	"toolgate/policy/rules"
	"toolgate/sandbox"
)

// A diagnosis is the report of doctor.
type diagnosis struct {
	Version    string         `json:"version"`
	Level      sandbox.Level  `json:"level"`                // sandbox level in force
	Why        []string       `json:"why,omitempty"`        // what keeps it from a better one
	Unenforced []string       `json:"unenforced,omitempty"` // what the policy asks for and this level leaves out
	Notes      []string       `json:"notes,omitempty"`      // what the sandbox cannot do for the files as they are
	System     sandbox.System `json:"system"`
	Limits     string         `json:"limits"` // who holds sandboxes to them

	Mode      string   `json:"sandbox_mode"`
	Profile   string   `json:"permission_profile,omitempty"` // "" when the mode alone is in force
	Approval  string   `json:"approval_policy"`
	Workspace string   `json:"workspace"`
	Writable  []string `json:"writable_roots"`
	Hidden    []string `json:"hidden"`

	Paths   policy.Paths `json:"paths,omitzero"` // what the permission profile says of single paths
	Network string       `json:"network"`

	Config string            `json:"config"`
	State  string            `json:"state"`
	Found  map[string]string `json:"programs"` // optional programs, "" when missing

	AnswerMS float64         `json:"first_answer_ms"`   // start of the server until its first answer
	WorkerMS float64         `json:"worker_start_ms"`   // start of a worker until its first answer
	Servers  []checkedServer `json:"servers,omitempty"` // downstream ones

	Clients   []checkedClient `json:"clients"`              // entries for toolgate in clients' files
	IdleRules []rules.Unused  `json:"idle_rules,omitempty"` // those that can have no effect
	At        surroundings    `json:"surroundings"`
	Advice    []string        `json:"advice,omitempty"` // how to come to the level full
	Problems  []string        `json:"problems"`         // what is wrong and what to do
}

func (d *diagnosis) problem(format string, args ...any) {
	d.Problems = append(d.Problems, fmt.Sprintf(format, args...))
}

// doctor checks what the first call needs.
func (p *program) doctor(ctx context.Context, asJSON bool) error {
	a, err := p.Open()
	if err != nil {
		return err
	}
	defer a.Close()
	d := diagnose(ctx, a)
	if asJSON {
		err = p.printJSON(d)
	} else {
		p.printDiagnosis(d)
	}
	if err == nil && len(d.Problems) > 0 {
		return exitStatus(exitFailed)
	}
	return err
}

// existing returns the paths that exist. A profile also hides many that do not.
func existing(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
		_, err := os.Lstat(path)
		return err != nil
	})
}

func diagnose(ctx context.Context, a *app.App) diagnosis {
	sys := sandbox.Probe()
	prof := a.Policy.Profile()
	d := diagnosis{
		Version:   app.Version(),
		Level:     sys.Level(),
		Why:       sys.Why(),
		System:    sys,
		Mode:      a.Policy.Mode.String(),
		Profile:   prof.Name,
		Paths:     prof.Paths,
		Approval:  a.Policy.Approval.String(),
		Workspace: a.Policy.Workspace,
		Writable:  prof.WritableRoots,
		Hidden:    existing(a.Policy.Hidden),
		Network:   app.NetworkWords(prof),
		Config:    filepath.Join(a.ConfigDir, "config.toml"),
		State:     a.StateDir,
		Found:     map[string]string{},
		Limits:    limitWords(prof),
		Problems:  []string{},
		Clients:   []checkedClient{},
		At:        detectSurroundings(runtime.GOOS, "/"),
	}
	self, _ := os.Executable()
	d.Advice = advice(sys, d.At, self)
	for _, name := range []string{"bash", "git", "bwrap"} {
		d.Found[name], _ = exec.LookPath(name)
	}
	if a.NoRoots != "" {
		d.problem("nothing is writable: %s; start toolgate in a project folder or with -C FOLDER", a.NoRoots)
	}
	if a.Config.PrivateTmp && !app.CanConfine() {
		d.problem("private_tmp has no effect: this system cannot enforce the sandbox")
	}
	if !a.Records() {
		d.problem("calls are not recorded: %s cannot be written; set TOOLGATE_HOME to a writable folder", a.StateDir)
	}
	for _, fault := range slices.Concat(a.HookFaults(), a.FileFaults()) {
		d.problem("%v", fault)
	}
	diagnoseServers(ctx, a, &d)
	if find := a.Programs(); find.CanWrite(self) {
		d.problem("commands can write toolgate itself: %s; install it in another folder", self)
	} else if took, err := firstAnswer(ctx, find, []string{self, "-C", a.Policy.Workspace}, os.Environ()); err != nil {
		d.problem("toolgate does not serve: %v", err)
	} else {
		d.AnswerMS = took
	}
	diagnoseClients(ctx, a, &d)
	diagnoseRules(a, &d)
	plan, err := a.Plan(prof)
	if err != nil {
		what := "commands are not confined: %v; each one is asked for, and so is reading outside the workspace"
		if app.CanConfine() {
			what = "commands do not run: %v"
		}
		d.problem(what, err)
		return d
	}
	d.Unenforced = plan.Unenforced
	start := time.Now()
	list := gate.Call{
		Caller:    "doctor",
		Action:    policy.Action{Tool: "list_dir"},
		Arguments: json.RawMessage(`{"dir_path":"."}`),
	}
	ran, err := a.Workers.Run(ctx, list, prof)
	d.Notes = ran.Notes
	d.WorkerMS = float64(time.Since(start).Microseconds()) / 1000
	if err != nil {
		d.problem("the worker does not start: %v", err)
	}
	return d
}

func (p *program) printDiagnosis(d diagnosis) {
	out := func(format string, args ...any) {
		fmt.Fprintln(p.stdout, printable.Line(fmt.Sprintf(format, args...)))
	}
	out("toolgate %s", d.Version)
	out("")
	level := d.Level.String()
	if d.Mode == policy.DangerFullAccess.String() {
		level += ", but the mode is danger-full-access: nothing is confined"
	}
	out("sandbox level    %s", level)
	each := func(word string, list []string) {
		for _, what := range list {
			out("  %-14s %s", word, what)
		}
	}
	each("not used", d.Why)
	each("not enforced", d.Unenforced)
	each("note", d.Notes)
	if runtime.GOOS == "linux" {
		out("limits           %s", d.Limits)
	}
	if d.Profile != "" {
		out("profile          %s", d.Profile)
	}
	out("sandbox mode     %s", d.Mode)
	out("approval policy  %s", d.Approval)
	out("network          %s", d.Network)
	out("workspace        %s", d.Workspace)
	each("writable", d.Writable)
	if d.Paths.Restricted {
		out("  reading        only what is writable, and what follows")
	}
	each("readable", d.Paths.Readable)
	each("read-only", d.Paths.ReadOnly)
	each("denied", slices.Concat(d.Paths.Denied, d.Paths.DeniedGlobs))
	each("hidden", d.Hidden)
	out("config           %s", d.Config)
	out("record           %s", filepath.Join(d.State, "audit.jsonl"))
	for _, name := range []string{"bash", "git", "bwrap"} {
		out("%-16s %s", name, cmp.Or(d.Found[name], "not found; toolgate works without it"))
	}
	if d.AnswerMS > 0 {
		out("first answer in  %.1f ms", d.AnswerMS)
	}
	if d.WorkerMS > 0 {
		out("worker starts in %.1f ms", d.WorkerMS)
	}
	printServers(d, out)
	printMore(d, out)
	out("")
	if len(d.Problems) == 0 {
		out("no problems found")
	}
	for _, problem := range d.Problems {
		out("problem: %s", problem)
	}
}

// limitWords says how sandboxes are held to the limits.
func limitWords(f policy.Profile) string {
	d, err := limits.Delegated()
	switch {
	case f.Mode == policy.DangerFullAccess:
		return "watched, because nothing is confined"
	case err == nil:
		return strings.Join(d.Controllers, " and ") + " by control group, others watched"
	}
	return fmt.Sprintf("watched: %v; to use control groups, start toolgate with "+
		"systemd-run --user --scope -p Delegate=yes toolgate …", err)
}

func (p *program) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this system can enforce, what is wrong and what to do",
		Long: `Doctor tries what the first call would need: which sandbox level is in force and
why it is no better one, with the steps to level full on Ubuntu, in containers
and in WSL; how soon toolgate answers, as started here and as each MCP client's
config file says; the servers behind it, each started once; and the rules that
can have no effect. It exits with 1 where something is wrong.`,
		Example: "  toolgate doctor --json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.doctor(cmd.Context(), asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return cmd
}

// A checkedServer is the state of a downstream server.
type checkedServer struct {
	aggregator.Status
	Sandbox string `json:"sandbox,omitempty"` // of its process
}

// diagnoseServers starts every server once and reports its problems.
func diagnoseServers(ctx context.Context, a *app.App, d *diagnosis) {
	for _, key := range a.Config.WithoutEffect() {
		d.problem("the key %s has no effect here; take it out", key)
	}
	for _, st := range a.Downstreams.Check(ctx) {
		c := checkedServer{Status: st}
		server := a.Config.MCPServers[st.Name]
		if server.URL == "" {
			c.Sandbox = listed(st.Name, server).Sandbox
			if a.ServerProfile(st.Name, server).Mode == policy.DangerFullAccess {
				c.Sandbox = "none"
			}
		}
		d.Servers = append(d.Servers, c)
		if st.State != aggregator.Ready && st.Error != "" {
			d.problem("the server %s does not run: %s", st.Name, st.Error)
		}
		for _, f := range st.Faults {
			d.problem("server %s: %s", st.Name, f)
		}
		for _, key := range server.WithoutEffect() {
			d.problem("server %s: the key %s has no effect here; take it out", st.Name, key)
		}
	}
}

func printServers(d diagnosis, out func(string, ...any)) {
	for _, s := range d.Servers {
		words := fmt.Sprintf("%s, %d tools", s.State, s.Tools)
		if s.Server != "" {
			words += ", MCP " + s.Server
		}
		if s.Sandbox != "" {
			words += ", sandbox: " + s.Sandbox
		}
		if s.Level != "" {
			words += " (level " + s.Level + ")"
		}
		out("server %-9s %s", s.Name, words)
	}
}
