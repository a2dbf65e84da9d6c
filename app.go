package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"toolgate/aggregator"
	"toolgate/internal/approvals"
	"toolgate/internal/config"
	"toolgate/internal/console"
	"toolgate/internal/programs"
	"toolgate/policy"
	"toolgate/sandbox"
	"toolgate/server"
	"toolgate/tools"
	"toolgate/tools/applypatch"
	"toolgate/tools/files"
	"toolgate/tools/grep"
	"toolgate/tools/shell"
)

// toolSettings is what the built-in tools must know. The gate hands it to the
// worker, so that both have the same catalogue.
type toolSettings struct {
	Shell    shell.Options      `json:"shell"`
	Patch    applypatch.Options `json:"patch"`
	Watch    bool               `json:"watch,omitempty"`
	Enabled  []string           `json:"enabled,omitempty"`
	Disabled []string           `json:"disabled,omitempty"`
}

// catalog is every built-in tool that is offered. start starts a command
// inside the worker; the gate, which only describes calls, passes nil.
func catalog(o toolSettings, start shell.StartFunc) []tools.Tool {
	all := slices.Concat(
		shell.Tools(o.Shell, start),
		applypatch.New(o.Patch),
		[]tools.Tool{files.ReadFile, files.ListDir, files.ViewImage, files.WriteFile, grep.Tool},
	)
	return slices.DeleteFunc(all, func(t tools.Tool) bool {
		off := t.Name() == "write_file" && !slices.Contains(o.Enabled, t.Name())
		return off || slices.Contains(o.Disabled, t.Name())
	})
}

// builtins returns the settings of the built-in tools.
func (s *settings) builtins() (toolSettings, error) {
	c := s.config
	o := toolSettings{Watch: c.Tools.Watch, Enabled: c.Tools.Enabled, Disabled: c.Tools.Disabled}
	o.Shell = shell.Options{
		Environment: shell.Environment{
			Inherit:               c.Environment.Inherit,
			IgnoreDefaultExcludes: c.Environment.IgnoreDefaultExcludes,
			Keep:                  c.Environment.Keep,
			Exclude:               c.Environment.Exclude,
			IncludeOnly:           c.Environment.IncludeOnly,
			Set:                   c.Environment.Set,
		},
		Limits:          shell.Limits(c.Tools.Limits),
		MaxOutputTokens: c.Tools.OutputTokens,
		YieldMS:         c.Tools.YieldMS,
	}
	for _, name := range c.Tools.Enabled {
		if slices.Contains(shell.AliasNames, name) {
			o.Shell.Aliases = append(o.Shell.Aliases, name)
		}
	}
	o.Patch = applypatch.Options{Roots: s.policy.WritableRoots}
	if len(o.Enabled)+len(o.Disabled) == 0 {
		return o, nil // by far the most, and a client waits for our first answer
	}
	known := map[string]bool{}
	for _, t := range catalog(toolSettings{Shell: shell.Options{Aliases: shell.AliasNames}, Enabled: []string{"write_file"}}, nil) {
		known[t.Name()] = true
	}
	for _, name := range slices.Concat(o.Enabled, o.Disabled) {
		if !known[name] {
			return o, &policy.ValueError{What: "tool", Value: name, Known: list(slices.Sorted(maps.Keys(known)))}
		}
	}
	return o, nil
}

// settings is what flags, config and environment amount to.
type settings struct {
	config      config.Config
	rules       *ruleBook
	control     *controlFiles
	policy      *policy.Policy
	noRoots     string   // why there is no workspace to write in, "" when there is
	onlyServers []string // of the config, nil for all
	verbatim    bool     // wrap: names and schemas as they are
	environ     []string // of the worker
	configDir   string
	stateDir    string
	workDir     string // of workers: what they must remember, see [settings.private]
	log         *slog.Logger
}

// settings reads flags, config and environment.
func (p *program) settings() (*settings, error) {
	s := &settings{environ: os.Environ()}
	var level slog.Level
	if err := level.UnmarshalText([]byte(p.flags.logLevel)); err != nil {
		return nil, &policy.ValueError{What: "log level", Value: p.flags.logLevel, Known: "debug, info, warn, error"}
	}
	s.log = slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: level}))

	var err error
	if s.configDir, s.stateDir, s.workDir, err = folders(); err != nil {
		return nil, err
	}
	// It must be there before the sandbox is planned, or it could not be hidden.
	for _, dir := range []string{s.stateDir, filepath.Join(s.configDir, "rules")} {
		if _, end, err := followLinks(dir); err == nil {
			dir = end // also where a symlink leads nowhere yet
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			s.log.Debug("a folder of our own is missing", "err", err)
		}
	}
	if err := p.findControl(s); err != nil {
		return nil, err
	}
	if s.config, err = config.Load(filepath.Join(s.configDir, "config.toml")); err != nil {
		return nil, err
	}
	for _, set := range p.flags.settings {
		if err := s.config.Set(set, "-c"); err != nil {
			return nil, err
		}
	}
	s.onlyServers = p.onlyServers
	rules, err := openRules(filepath.Join(s.configDir, "rules"), p.ownRules(s.configDir), s.control.check, s.log)
	if err != nil {
		return nil, err
	}
	s.rules = rules
	s.policy, s.noRoots, err = p.policy(s)
	return s, err
}

// findControl finds the files that the gate takes orders from. Where it was
// done before, what runs since is not kept from others: they must be the same.
func (p *program) findControl(s *settings) (err error) {
	if p.control == nil {
		p.control, err = findControlFiles(s.configDir, s.stateDir)
	} else {
		err = p.control.check(filepath.Join(s.configDir, "config.toml"))
	}
	s.control = p.control
	if _, end, err := followLinks(s.stateDir); err == nil {
		s.stateDir = end // a symlink that is changed later has no effect
	}
	return err
}

// ownRules returns the folder for what a caller over HTTP has answered with
// "always": that is nobody else's rule. "" stands for the user's own.
func (p *program) ownRules(configDir string) string {
	if p.caller == "" || p.caller == "token:default" {
		return ""
	}
	return filepath.Join(configDir, "rules", "callers", digest(p.caller)[:16])
}

// folders returns where the config, the state and the workers' own files live:
// below $TOOLGATE_HOME, else in the XDG folders. The last is apart from the
// others because no worker may see those.
func folders() (configDir, stateDir, workDir string, err error) {
	if home := os.Getenv("TOOLGATE_HOME"); home != "" {
		home, err := filepath.Abs(home)
		return home, filepath.Join(home, "state"), filepath.Join(home, "worker"), err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", "", "", fmt.Errorf("finding the config: %w (set TOOLGATE_HOME to a folder)", err)
	}
	from := func(name, fallback string) string {
		if dir := os.Getenv(name); filepath.IsAbs(dir) {
			return dir
		}
		return filepath.Join(home, fallback)
	}
	state := from("XDG_STATE_HOME", ".local/state")
	return filepath.Join(from("XDG_CONFIG_HOME", ".config"), "toolgate"), filepath.Join(state, "toolgate"), filepath.Join(state, "toolgate-worker"), nil
}

// policy builds the policy in force; noRoots says why nothing is writable
// though the mode would allow it.
func (p *program) policy(s *settings) (pol *policy.Policy, noRoots string, err error) {
	pol = &policy.Policy{
		Mode:             policy.WorkspaceWrite,
		ReadOnlySubpaths: sandbox.Protected(s.config.WorkspaceWrite.AllowGitWrites),
		Confines:         canConfine,
		Rules:            s.rules.Rules,
	}
	if pol.Approval, pol.Granular, err = s.config.Approval(); err != nil {
		return nil, "", err
	}
	if p.flags.approval != "" {
		if pol.Approval, err = policy.ParseApproval(p.flags.approval); err != nil {
			return nil, "", err
		}
	}
	for _, word := range []string{s.config.SandboxMode, p.flags.sandbox} {
		if word == "" {
			continue
		}
		if pol.Mode, err = policy.ParseMode(word); err != nil {
			return nil, "", err
		}
	}
	if pol.Network, pol.Hosts, err = s.config.WorkspaceWrite.Network(); err != nil {
		return nil, "", err
	}
	if w := s.config.WorkspaceWrite; w.AllowedDomains != nil && !w.NetworkAccess {
		s.log.Warn("allowed_domains has no effect, because network_access is false")
	}
	profile := s.selected(p.flags)
	if mode, ok := builtinModes[profile]; ok {
		pol.Mode, pol.Profiled = mode, profile
		profile = ""
	}
	if profile != "" || pol.Mode == policy.ReadOnly {
		pol.Network, pol.Hosts = policy.NetworkNone, policy.Hosts{} // that table is not about them
	}
	pol.Version = func() string { return version() + s.rules.Digest() + pol.Approval.String() + pol.Profile().Digest() }
	if pol.Workspace, noRoots, err = workspace(p.flags.dir); err != nil {
		return nil, "", err
	}
	if noRoots == "" {
		pol.ReadRoots = []string{pol.Workspace}
	}
	if profile != "" {
		if err := p.profiled(s, profile, pol, noRoots == ""); err != nil {
			return nil, "", err
		}
	} else if noRoots == "" {
		pol.WritableRoots, pol.SharedRoots, err = p.roots(pol.Workspace, s)
		shared := func(root string) bool { return slices.Contains(pol.SharedRoots, root) }
		pol.ReadRoots = slices.DeleteFunc(slices.Clone(pol.WritableRoots), shared)
	}
	if err == nil {
		err = s.control.addHooks(s.config.Hooks, pol.Workspace)
	}
	pol.Hidden, pol.ReadOnlyPaths = s.protected()
	return pol, noRoots, err
}

// canConfine is asked for at the first call, because finding out takes longer
// than a client's greeting may.
var canConfine = sync.OnceValue(func() bool { return sandbox.Probe().Level() != sandbox.None })

// workspace returns the folder that relative paths count from, and why it may
// not be written, "" when it may. A folder that holds everything the user has
// is no workspace. Without dir it is the current folder, or the root of the file system
// where that cannot be used.
func workspace(dir string) (real, noRoots string, err error) {
	if dir == "" {
		if real, err = directory("the current folder", "."); err != nil {
			return filepath.VolumeName(os.TempDir()) + string(filepath.Separator), err.Error(), nil
		}
	} else if real, err = directory("workspace", dir); err != nil {
		return "", "", err
	}
	if filepath.Dir(real) == real {
		return real, "the whole file system is no workspace", nil
	}
	if home, err := os.UserHomeDir(); err == nil {
		if home, err := filepath.EvalSymlinks(home); err == nil && policy.Below(filepath.ToSlash(home), filepath.ToSlash(real)) {
			return real, fmt.Sprintf("%s holds your whole home folder", real), nil
		}
	}
	return real, "", nil
}

// roots returns the folders that may be written: the workspace, those that
// were named, and the temporary ones unless the config says otherwise. Shared
// are those of the last that are nothing else.
func (p *program) roots(workspace string, s *settings) (roots, shared []string, err error) {
	roots = []string{workspace}
	for _, dir := range slices.Concat(p.flags.addDirs, s.config.WorkspaceWrite.WritableRoots) {
		real, err := directory("writable root", dir)
		if err != nil {
			return nil, nil, err
		}
		roots = append(roots, real)
	}
	var temp []string
	if !s.config.WorkspaceWrite.ExcludeSlashTmp && runtime.GOOS != "windows" {
		temp = append(temp, "/tmp")
	}
	if dir := os.Getenv("TMPDIR"); dir != "" && !s.config.WorkspaceWrite.ExcludeTmpdirEnvVar {
		temp = append(temp, dir)
	}
	for _, dir := range temp {
		// A temporary folder that is not there, or is no folder of its own,
		// is left out: the tools work without it.
		real, err := filepath.EvalSymlinks(dir)
		if err != nil || !filepath.IsAbs(real) || filepath.Dir(real) == real || slices.Contains(roots, real) {
			continue
		}
		roots, shared = append(roots, real), append(shared, real)
	}
	slices.Sort(roots)
	return slices.Compact(roots), shared, nil
}

// protected returns the paths that nothing run for a model may read, ours and
// the user's credentials, and those that it may not change: what hooks run, and
// the symlinks that lead to any of them.
func (s *settings) protected() (hidden, readOnly []string) {
	hidden, readOnly = s.control.hidden(), s.control.readOnly()
	if home, err := os.UserHomeDir(); err == nil {
		for _, p := range sandbox.Credentials(home) {
			links, end, err := followLinks(p)
			if err != nil {
				continue
			}
			if _, err := os.Lstat(end); err == nil {
				hidden = append(hidden, end)
				readOnly = slices.AppendSeq(readOnly, maps.Keys(links))
			}
		}
	}
	slices.Sort(hidden)
	slices.Sort(readOnly)
	return slices.Compact(hidden), slices.Compact(readOnly)
}

// dir is the working folder of what is started.
func (s *settings) dir() string { return s.policy.Workspace }

// programs finds the programs that the gate starts outside the sandbox. What is
// kept from commands by mounts alone counts as writable where there are none,
// and so do names in folders that many programs share, which are not searched.
func (s *settings) programs() programs.Finder {
	pol := s.policy
	f := programs.Finder{Dir: pol.Workspace, Writable: slices.Clone(pol.WritableRoots)}
	if s.noRoots == "" {
		f.Writable = append(f.Writable, pol.Workspace)
	}
	f.Kept = func(path string) bool {
		if sandbox.Probe().Level() < sandbox.Bwrap || pol.Mode == policy.DangerFullAccess {
			return false
		}
		below := func(kept string) bool { return policy.Below(path, kept) }
		if slices.ContainsFunc(pol.Hidden, below) || slices.ContainsFunc(pol.ReadOnlyPaths, below) {
			return true
		}
		return slices.ContainsFunc(pol.WritableRoots, func(root string) bool {
			return policy.Below(path, root) && !slices.Contains(pol.SharedRoots, root) && pol.ReadOnlyName(root, path)
		})
	}
	return f
}

// An app is the wired program. Close it.
type app struct {
	*settings
	server      *server.Server
	workers     *aggregator.Workers
	downstreams *aggregator.Downstreams
	offered     toolSettings
	session     string // names this process's folder among those of workers
	gate        *policy.Gate
	observers   *observers
	self        string           // program to run workers with, "" is this one
	outputs     *console.Outputs // nil when no console wants them
	caller      string           // over HTTP the one whose gate this is
	page        consoleHolder
}

// afterGreeting is how long downstream servers are not started after the first
// answer, unless one is needed: the client asks for the lists now, and has
// them from what is saved.
const afterGreeting = 150 * time.Millisecond

// open wires the program.
func (p *program) open() (*app, error) {
	s, err := p.settings()
	if err != nil {
		return nil, err
	}
	offered, err := s.builtins()
	if err != nil {
		return nil, err
	}
	a := &app{settings: s, offered: offered, caller: p.caller, session: strings.ToLower(rand.Text()[:12])}
	a.workers = aggregator.NewWorkers(a.launch, s.log)
	words, builtin := p.front(s, offered)
	a.downstreams = s.newDownstreams(builtin, p.answersFirst)
	gate := &policy.Gate{Policy: s.policy, Run: a.run}
	a.gate = gate
	if a.outputs = p.outputs; a.outputs == nil && s.config.Console.Enabled {
		a.outputs = &console.Outputs{}
	}
	if a.outputs != nil {
		gate.Run = a.runAndKeep
	}
	if a.observers, err = s.observe(gate); err != nil {
		return nil, err
	}
	a.observers.tell = p.onEvent
	gate.Keep = s.rules.Keep
	if waiting, err := approvals.Open(filepath.Join(s.stateDir, "approvals")); err != nil {
		s.log.Warn("there is no waiting list", "err", err)
	} else {
		waiting.Words = server.Message
		waiting.Wait = p.approvalWait(s)
		gate.Later = waiting.Ask
		if a.outputs != nil { // there is a console to show it
			gate.Beside = waiting.Beside
		}
	}
	a.server = server.New(server.Options{
		Version:      version(),
		Instructions: words,
		Catalog:      builtin,
		Outside:      a.outside,
		TempDir:      os.TempDir(),
		Gate:         gate,
		Downstreams:  a.downstreams,
		Schemas:      schemaProfile(s.config),
		Log:          s.log,
		Answered: func() {
			go a.downstreams.Tools() // it is about to be asked for them
			time.AfterFunc(afterGreeting, a.downstreams.Begin)
		},
		Opened: func(caller string) {
			a.startConsole()
			a.workers.Warm(context.Background(), caller, s.policy.Profile())
		},
	})
	return a, nil
}

// run runs a call where its tool is. It is a [policy.RunFunc].
func (a *app) run(ctx context.Context, c policy.Call, f policy.Profile) (policy.Outcome, error) {
	if c.Action.Server != "" {
		return a.downstreams.Run(ctx, c, f)
	}
	return a.workers.Run(ctx, c, f)
}

// approvalWait is how long a call waits on the waiting list. On the command
// line it does not: whoever typed it is there to say yes and repeat it.
func (p *program) approvalWait(s *settings) time.Duration {
	switch w := s.config.ApprovalWait; {
	case p.oneCall:
		return -1
	case w == nil:
		return 0
	case *w <= 0:
		return -1
	default:
		return time.Duration(*w * float64(time.Second))
	}
}

// outside reports whether a session runs outside the sandbox, where the
// policy would have a new command run in it.
func (a *app) outside(caller, session string) bool {
	f, ok := a.workers.SessionProfile(caller, session)
	return ok && f.Mode == policy.DangerFullAccess && a.policy.Mode != policy.DangerFullAccess
}

// close ends what is behind and the record.
func (a *app) close() {
	a.page.close()
	var ends sync.WaitGroup
	ends.Go(a.workers.Close)
	ends.Go(a.downstreams.Close)
	ends.Wait()
	a.observers.close(a.log)
}

// workerEnv carries what a worker must know.
const workerEnv = "TOOLGATE_WORKER"

// workerSettings is the value of workerEnv.
type workerSettings struct {
	Version string       `json:"version"`
	Private string       `json:"private,omitempty"` // folder that the worker may write and its commands may not
	Within  []string     `json:"within,omitempty"`  // [policy.Profile.Within]
	Hidden  []string     `json:"hidden,omitempty"`  // with Within
	Tools   toolSettings `json:"tools"`
}

// launch starts a worker confined to f. It is an [aggregator.LaunchFunc].
func (a *app) launch(f policy.Profile) (*aggregator.Process, error) {
	know := workerSettings{Version: version(), Tools: a.offered}
	if f.Within != nil {
		know.Within, know.Hidden = f.Within, f.Hidden
	}
	plan, err := a.plan(f)
	if err != nil {
		return nil, err
	}
	if own := a.private(f, plan); own != "" {
		with := f
		with.WritableRoots = append(slices.Clone(f.WritableRoots), own)
		if plan, err = a.plan(with); err != nil {
			return nil, err
		}
		know.Private = own
		know.Tools.Patch.StateDir = filepath.Join(own, a.session)
	}
	if f.Mode == policy.DangerFullAccess {
		know.Tools.Patch.Roots = []string{string(filepath.Separator)} // after a yes, links may lead anywhere
	}
	for _, what := range plan.Unenforced {
		a.log.Info("not enforced", "profile", f.String(), "level", plan.Level.String(), "what", what)
	}
	environ := slices.Clone(a.environ)
	if f.Mode == policy.DangerFullAccess && a.policy.Mode != policy.DangerFullAccess {
		environ = a.outsideEnv(&know.Tools.Shell)
	}
	settings, err := json.Marshal(know)
	if err != nil {
		return nil, err
	}
	cmd := plan.Command(a.self, "worker")
	cmd.Looks = true
	cmd.Dir = a.dir()
	cmd.Env = append(environ, workerEnv+"="+string(settings))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	for _, note := range cmd.Notes() {
		a.log.Warn("not protected", "what", note)
	}
	proc := &aggregator.Process{In: in, Out: out, Err: stderr, Level: plan.Level.String(), Wait: cmd.Wait, Kill: cmd.Kill, Look: cmd.Look}
	if w := openWay(cmd, f, a.rules.Rules, a.gate, a.log); w != nil {
		proc.Enter = w.enter
		proc.Wait = func() error {
			defer w.close()
			return cmd.Wait()
		}
	}
	return proc, nil
}

// outsideEnv returns the environment of a worker whose commands run outside
// the sandbox, where others do not: its PATH has no folder that those can write.
func (a *app) outsideEnv(o *shell.Options) []string {
	find := a.programs()
	o.ShortPath = true
	o.Environment.Set = maps.Clone(o.Environment.Set)
	for key, value := range o.Environment.Set {
		_, o.Environment.Set[key], _ = strings.Cut(find.Env([]string{key + "=" + value})[0], "=")
	}
	return find.Env(a.environ)
}

// instructions is what the model is told about the server. Codex shows the
// first 250 characters only where it defers tools, Claude Code the first 2,048.
func instructions(s *settings) string {
	var b strings.Builder
	b.WriteString("Run commands (shell), edit files (apply_patch), read (read_file), list (list_dir) and search (grep_files) " +
		"in the user's workspace")
	pol := s.policy
	if sandbox.Guess().Level() == sandbox.None {
		b.WriteString(". This system confines nothing. ")
	} else {
		b.WriteString(", confined by a sandbox. ")
	}
	switch {
	case s.noRoots != "":
		fmt.Fprintf(&b, "Nothing can be written: %s; the user must start toolgate with -C FOLDER.\n", s.noRoots)
	case pol.Mode == policy.ReadOnly:
		b.WriteString("Nothing can be written.\n")
	case pol.Mode == policy.DangerFullAccess:
		b.WriteString("The sandbox is off.\n")
	default:
		fmt.Fprintf(&b, "Workspace: %s\n", pol.Workspace)
	}
	fmt.Fprintf(&b, "\nRelative paths count from %s. Sandbox mode: %s. Approval policy: %s.\n", pol.Workspace, pol.Mode, pol.Approval)
	b.WriteString(pathWords(pol.Profile()))
	if pol.Mode == policy.WorkspaceWrite && s.noRoots == "" {
		fmt.Fprintf(&b, "Writable: %s; but not .git, .codex and other names that run code later.\n", list(pol.WritableRoots))
	}
	if pol.Mode != policy.DangerFullAccess {
		if pol.Network == policy.NetworkNone {
			b.WriteString("Commands have no network.\n")
		}
		if pol.Network == policy.NetworkHosts {
			fmt.Fprintf(&b, "Commands reach %s, through the proxy in HTTPS_PROXY.\n", networkWords(pol.Profile()))
		}
		if pol.Approval == policy.Never {
			b.WriteString("Nobody can be asked for more; what the sandbox denies stays denied.\n")
		} else {
			b.WriteString("When a command needs more, send it again with sandbox_permissions \"require_escalated\" and a one-sentence justification; the user is asked. Do not ask for it before the sandbox has denied something.\n")
		}
	}
	b.WriteString("Prefer grep_files and read_file to shell commands for looking at files, and apply_patch for changing them.\n")
	return b.String()
}

// watched starts commands under the eyes of the kernel, which tells of each
// call that the sandbox refuses.
func watched(s *sandbox.Spawner) shell.StartFunc {
	return func(cmd *exec.Cmd) (func() []tools.Denial, error) {
		w, err := s.StartWatched(cmd)
		if err != nil {
			return nil, err
		}
		return func() []tools.Denial {
			var list []tools.Denial
			for _, d := range w.Denials() {
				list = append(list, tools.Denial{Op: d.Op, Path: d.Path, Why: d.Why})
			}
			return list
		}, nil
	}
}

// plan returns how a process will be held to f. Rules and approvals that
// commands could write would be no rules: where this cannot be prevented, see
// [controlFiles.admit], there is no plan.
func (s *settings) plan(f policy.Profile) (sandbox.Plan, error) {
	return s.planOn(sandbox.Probe(), f)
}

// planOn is plan for the system sys.
func (s *settings) planOn(sys sandbox.System, f policy.Profile) (sandbox.Plan, error) {
	plan, err := sandbox.NewPlan(f, sys)
	if err == nil {
		err = s.control.admit(plan)
	}
	if err != nil {
		return sandbox.Plan{}, err
	}
	return plan, nil
}

// private returns the folder that a worker of this workspace may write for
// itself, "" when there is none: when nothing would keep its commands out of
// it, or nothing is written anyway.
func (a *app) private(f policy.Profile, plan sandbox.Plan) string {
	if f.Mode != policy.WorkspaceWrite || plan.ABI == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(a.policy.Workspace))
	dir := filepath.Join(a.workDir, hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		a.log.Warn("patches are not safe against a crash", "err", err)
		return ""
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || slices.ContainsFunc(f.WritableRoots, func(root string) bool { return policy.Below(real, root) }) {
		return "" // below a folder that commands may write, it would not be private
	}
	return real
}

// keepSessions is how long what a session's patches replaced is kept.
const keepSessions = 7 * 24 * time.Hour

// recoverPatches brings to an end what workers of this workspace left in the
// middle of a patch, and removes what old sessions kept for undo_patch. A
// session's folder is locked while its patch is under way.
func recoverPatches(know workerSettings, log *slog.Logger) {
	if know.Private == "" {
		return
	}
	sessions, err := os.ReadDir(know.Private)
	if err != nil {
		log.Warn("looking for unfinished patches", "err", err)
		return
	}
	for _, s := range sessions {
		dir := filepath.Join(know.Private, s.Name())
		notes, err := applypatch.Recover(dir)
		for _, n := range notes {
			log.Warn("an unfinished patch", "note", n)
		}
		if err != nil {
			log.Warn("recovering an unfinished patch", "err", err)
			continue
		}
		if info, err := s.Info(); err == nil && time.Since(info.ModTime()) > keepSessions {
			os.RemoveAll(dir)
		}
	}
}

// workerMain is the worker: the tools, on stdin and stdout, confined by whoever
// started it.
func (p *program) workerMain(ctx context.Context) error {
	var know workerSettings
	if err := json.Unmarshal([]byte(os.Getenv(workerEnv)), &know); err != nil {
		return errors.New("worker is started by toolgate itself, not by hand")
	}
	os.Unsetenv(workerEnv)
	log := slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	var start shell.StartFunc
	if plan, ok := sandbox.Current(); ok {
		if know.Private != "" {
			plan = plan.Without(know.Private)
		}
		spawner, err := sandbox.NewSpawner(plan)
		if err != nil {
			return fmt.Errorf("preparing to start commands: %w", err)
		}
		start = shell.Plain(spawner.Start)
		if know.Tools.Watch {
			start = watched(spawner)
		}
		if plan.Profile.Network == policy.NetworkHosts {
			start = proxied(start, plan.Profile.Hosts, log)
		}
	}
	recoverPatches(know, log)
	offered := catalog(know.Tools, start)
	if know.Within != nil {
		for i, t := range offered {
			offered[i] = tools.Within(t, know.Within, know.Hidden)
		}
	}
	err := tools.Serve(ctx, know.Version, offered, p.stdin, p.stdout, log)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
