package app

import (
	"context"
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
	"slices"
	"strings"
	"time"

	"toolgate/aggregator"
	"toolgate/internal/bytestring"
	"toolgate/internal/gate"
	"toolgate/internal/limits"
	"toolgate/policy"
	"toolgate/sandbox"
	"toolgate/tools"
	"toolgate/tools/applypatch"
	"toolgate/tools/files"
	"toolgate/tools/shell"
)

// workerEnv is the variable that holds the [workerSettings].
const workerEnv = "TOOLGATE_WORKER"

// workerSettings is what the gate tells a worker, as JSON.
type workerSettings struct {
	Version string       `json:"version"`
	Private string       `json:"private,omitempty"` // folder that the worker may write and its commands may not
	Within  []string     `json:"within,omitempty"`  // [policy.Profile.Within]
	Hidden  []string     `json:"hidden,omitempty"`  // with Within
	Tools   ToolSettings `json:"tools"`
	Grouped bool         `json:"grouped,omitempty"` // descriptors 3 to 5 are [limits.Group.Files]
}

// launch starts a worker confined to f. It is an [aggregator.LaunchFunc].
func (a *App) launch(f policy.Profile) (*aggregator.Process, error) {
	settings := workerSettings{Version: Version(), Tools: a.Tools}
	if f.Within != nil {
		settings.Within, settings.Hidden = f.Within, f.Hidden
	}
	plan, err := a.Plan(f)
	if err != nil {
		return nil, err
	}
	if own := a.private(f, plan); own != "" {
		with := f
		with.WritableRoots = append(slices.Clone(f.WritableRoots), own)
		if plan, err = a.Plan(with); err != nil {
			return nil, err
		}
		settings.Private = own
		settings.Tools.Patch.StateDir = filepath.Join(own, a.session)
		settings.Tools.Patch.LockFile = filepath.Join(own, patchLock)
	}
	if f.Mode == policy.DangerFullAccess {
		settings.Tools.Patch.Roots = []string{string(filepath.Separator)} // approved: links may lead anywhere
		if dir, err := a.privateDir(); err == nil {
			settings.Tools.Patch.LockFile = filepath.Join(dir, patchLock)
		}
	}
	for _, what := range plan.Unenforced {
		a.Log.Info("not enforced", "profile", f.String(), "level", plan.Level.String(), "what", what)
	}
	environ := a.Environ
	if f.Mode == policy.DangerFullAccess && a.Policy.Mode != policy.DangerFullAccess {
		environ = a.outsideEnv(&settings.Tools.Shell)
	}
	settings.Tools.Shell.Folders = f.WritableRoots
	if f.Mode == policy.DangerFullAccess {
		settings.Tools.Shell.Folders = a.Policy.WritableRoots
	}
	cmd := plan.Command(a.Self, "worker")
	group := a.Group(cmd, f, true)
	settings.Grouped = group != nil
	value, err := json.Marshal(bytestring.Escape(settings))
	if err != nil {
		return nil, group.End(err)
	}
	cmd.Rlimits = a.Limits().Rlimits()
	cmd.AllowRescan = true
	cmd.Dir = a.Policy.Workspace
	environ = TmpEnv(settings.Tools.Shell.Environment.ApplyToWorker(environ), plan)
	cmd.Env = append(environ, workerEnv+"="+string(value))
	proc, err := a.start(cmd, plan, a.Gate, a.Log)
	if err != nil {
		return nil, group.End(err)
	}
	wait := proc.Wait
	proc.Wait = func() error { return group.End(wait()) }
	proc.Rescan = cmd.Rescan
	return proc, nil
}

// snapshot has the worker of profile f take a snapshot. It is a [gate.Gate.Snapshot].
func (a *App) snapshot(
	ctx context.Context, c gate.Call, f policy.Profile, names []string,
) (s policy.Snapshot, err error) {
	args, err := json.Marshal(files.SnapshotInput{Dir: c.Action.Dir, Files: names})
	if err != nil {
		return s, err
	}
	out, err := a.Workers.Run(ctx, gate.Call{
		ID:        c.ID,
		Caller:    c.Caller,
		Action:    policy.Action{Tool: policy.SnapshotTool, ReadOnly: true},
		Arguments: args,
	}, f)
	if err != nil {
		return s, err
	}
	var res struct {
		Content []struct{ Text string }
	}
	if err := json.Unmarshal(out.Result, &res); err != nil || len(res.Content) == 0 {
		return s, errors.New("the worker's answer is no snapshot")
	}
	err = json.Unmarshal([]byte(res.Content[0].Text), &s)
	return s, err
}

// Limits returns the limits of a sandbox.
func (s *Settings) Limits() limits.Limits { return limits.Limits(s.Config.Limits) }

// Group has cmd, which will be confined to f, start in a control group of its own, and
// returns the group, which the caller ends. It is nil where limits are only watched. Worker
// tells that cmd is one.
func (s *Settings) Group(cmd *sandbox.Cmd, f policy.Profile, worker bool) *limits.Group {
	if _, err := limits.Delegated(); err != nil || f.Mode == policy.DangerFullAccess {
		return nil
	}
	group, err := s.Limits().NewGroup(worker)
	if err != nil {
		s.Log.Warn("limits are only watched", "err", err)
		return nil
	}
	cmd.Cgroup = group.Dir
	if worker {
		cmd.ExtraFiles = group.Files[:]
	}
	return group
}

// WatchLimits kills cmd, which has been started, perhaps in group, and is confined to f,
// when it exceeds the limits. The caller calls end with the error of its Wait, and gets the
// reason instead.
func (s *Settings) WatchLimits(cmd *sandbox.Cmd, f policy.Profile, group *limits.Group) (end func(error) error) {
	return limits.NewWatcher(s.Limits(), f.WritableRoots, group).Watch(cmd.Pid(), cmd.Kill)
}

// outsideEnv returns the environment of a worker whose commands run outside the sandbox
// while those of other workers do not. Its PATH has no folder that the others can write.
func (a *App) outsideEnv(o *shell.Options) []string {
	find := a.Programs()
	o.ShortPath = true
	o.Environment.Set = maps.Clone(o.Environment.Set)
	for key, value := range o.Environment.Set {
		_, o.Environment.Set[key], _ = strings.Cut(find.Env([]string{key + "=" + value})[0], "=")
	}
	return find.Env(a.Environ)
}

// watched starts commands such that the kernel reports each call that the sandbox refuses.
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

// Plan returns how a process is held to f. The error is [sandbox.ErrUnsupported] if this
// system cannot enforce f or cannot protect the control files, see [controlFiles.admit].
func (s *Settings) Plan(f policy.Profile) (sandbox.Plan, error) {
	return s.PlanOn(Probe(), f)
}

// PlanOn is [Settings.Plan] for the system sys.
func (s *Settings) PlanOn(sys sandbox.System, f policy.Profile) (sandbox.Plan, error) {
	plan, err := sandbox.NewPlan(f, sys)
	if err == nil {
		err = s.control.admit(plan)
	}
	if err == nil && plan.Level == sandbox.Landlock {
		err = s.keepsOut(f)
	}
	if err != nil {
		return sandbox.Plan{}, err
	}
	return plan, nil
}

// keepsOut returns an error if the workspace of another caller lies in a writable root, where
// Landlock cannot hide it.
func (s *Settings) keepsOut(f policy.Profile) error {
	for _, other := range s.Policy.Others {
		for _, root := range f.WritableRoots {
			if policy.Below(other, root) {
				return fmt.Errorf("%w: another caller's workspace lies in %s, which commands may write, "+
					"and this system cannot hide it; give each caller a workspace outside those of the others",
					sandbox.ErrUnsupported, root)
			}
		}
	}
	return nil
}

// private returns the folder that a worker of this workspace may write and its commands
// may not. It is "" if the commands could not be kept out or nothing is writable.
func (a *App) private(f policy.Profile, plan sandbox.Plan) string {
	if f.Mode != policy.WorkspaceWrite || plan.ABI == 0 {
		return ""
	}
	dir, err := a.privateDir()
	if err != nil {
		a.Log.Warn("patches are not journaled", "err", err)
		return ""
	}
	if slices.ContainsFunc(f.WritableRoots, func(root string) bool { return policy.Below(dir, root) }) {
		return "" // commands could write it
	}
	return dir
}

// patchLock is the lock file in the private folder of a workspace: while a worker changes
// files by a patch, the others wait.
const patchLock = "lock"

// privateDir returns the folder for the workers of this workspace and makes it if it does not exist.
func (a *App) privateDir() (string, error) {
	dir := a.privateName()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

func (s *Settings) privateName() string {
	sum := sha256.Sum256([]byte(s.Policy.Workspace))
	return filepath.Join(s.WorkDir, hex.EncodeToString(sum[:8]))
}

// unfinishedPatches reports whether a worker of this workspace has left a patch unfinished, or is
// about to finish it.
func (s *Settings) unfinishedPatches() bool {
	sessions, _ := os.ReadDir(s.privateName())
	return slices.ContainsFunc(sessions, func(d os.DirEntry) bool {
		return d.IsDir() && applypatch.Unfinished(filepath.Join(s.privateName(), d.Name()))
	})
}

// recover has a worker recover unfinished patches, which it does as it starts. The gate itself
// does not write to the workspace.
func (a *App) recover() {
	const most = 30 * time.Second // another process may hold the lock
	if !a.unfinishedPatches() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	a.Workers.Warm(ctx, a.caller, a.Policy.Profile())
}

// keepSessions is how long the files that a session's patches replaced are kept.
const keepSessions = 7 * 24 * time.Hour

// recoverPatches completes or reverts the patches that workers of this workspace left
// unfinished, and removes what old sessions kept for undo_patch.
func recoverPatches(ctx context.Context, settings workerSettings, log *slog.Logger) {
	if settings.Private == "" {
		return
	}
	sessions, err := os.ReadDir(settings.Private)
	if err != nil {
		log.Warn("searching for unfinished patches", "err", err)
		return
	}
	for _, s := range sessions {
		if !s.IsDir() {
			continue // the lock
		}
		dir := filepath.Join(settings.Private, s.Name())
		o := applypatch.Options{StateDir: dir, LockFile: settings.Tools.Patch.LockFile}
		notes, err := applypatch.Recover(ctx, o)
		for _, n := range notes {
			log.Warn("unfinished patch", "note", n)
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

// RunWorker serves the built-in tools on stdin and stdout. The process is confined by the gate that started it.
func RunWorker(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	var settings workerSettings
	if err := json.Unmarshal([]byte(os.Getenv(workerEnv)), &settings); err != nil {
		return errors.New("worker is started by toolgate, not by hand")
	}
	os.Unsetenv(workerEnv)
	settings = bytestring.Unescape(settings)
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	var start shell.StartFunc
	var threads *os.File
	if settings.Grouped {
		settings.Tools.Shell.Group = limits.GroupFrom(settings.Tools.Shell.Limits, 3)
		threads = settings.Tools.Shell.Group.Files[0]
	}
	if plan, ok := sandbox.Current(); ok {
		if settings.Private != "" {
			plan = plan.Without(settings.Private)
		}
		spawner, err := sandbox.NewSpawnerIn(plan, threads)
		if err != nil {
			return fmt.Errorf("preparing to start commands: %w", err)
		}
		start = shell.Plain(spawner.Start)
		if settings.Tools.Watch {
			start = watched(spawner)
		}
		if plan.Profile.Network == policy.NetworkHosts {
			start = proxied(start, plan.Profile.Hosts, log)
		}
	}
	recoverPatches(ctx, settings, log)
	offered := Catalog(settings.Tools, start)
	if settings.Within != nil {
		for i, t := range offered {
			offered[i] = tools.Within(t, settings.Within, settings.Hidden)
		}
	}
	offered = append(offered, files.Snapshot)
	err := tools.Serve(ctx, settings.Version, offered, stdin, stdout, log)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
