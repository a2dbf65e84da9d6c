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
	"toolgate/policy"
	"toolgate/sandbox"
	"toolgate/tools"
	"toolgate/tools/applypatch"
	"toolgate/tools/shell"
)

// workerEnv carries what a worker must know.
const workerEnv = "TOOLGATE_WORKER"

// workerSettings is the value of workerEnv.
type workerSettings struct {
	Version string       `json:"version"`
	Private string       `json:"private,omitempty"` // folder that the worker may write and its commands may not
	Within  []string     `json:"within,omitempty"`  // [policy.Profile.Within]
	Hidden  []string     `json:"hidden,omitempty"`  // with Within
	Tools   ToolSettings `json:"tools"`
}

// launch starts a worker confined to f. It is an [aggregator.LaunchFunc].
func (a *App) launch(f policy.Profile) (*aggregator.Process, error) {
	know := workerSettings{Version: Version(), Tools: a.Tools}
	if f.Within != nil {
		know.Within, know.Hidden = f.Within, f.Hidden
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
		know.Private = own
		know.Tools.Patch.StateDir = filepath.Join(own, a.session)
	}
	if f.Mode == policy.DangerFullAccess {
		know.Tools.Patch.Roots = []string{string(filepath.Separator)} // after a yes, links may lead anywhere
	}
	for _, what := range plan.Unenforced {
		a.Log.Info("not enforced", "profile", f.String(), "level", plan.Level.String(), "what", what)
	}
	environ := slices.Clone(a.Environ)
	if f.Mode == policy.DangerFullAccess && a.Policy.Mode != policy.DangerFullAccess {
		environ = a.outsideEnv(&know.Tools.Shell)
	}
	settings, err := json.Marshal(know)
	if err != nil {
		return nil, err
	}
	cmd := plan.Command(a.Self, "worker")
	cmd.Looks = true
	cmd.Dir = a.Dir()
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
		a.Log.Warn("not protected", "what", note)
	}
	proc := &aggregator.Process{In: in, Out: out, Err: stderr, Level: plan.Level.String(), Wait: cmd.Wait, Kill: cmd.Kill, Look: cmd.Look}
	if w := OpenEgress(cmd, f, a.Rules.Rules, a.Gate, a.Log); w != nil {
		proc.Enter = w.enter
		proc.Wait = func() error {
			defer w.Close()
			return cmd.Wait()
		}
	}
	return proc, nil
}

// outsideEnv returns the environment of a worker whose commands run outside
// the sandbox, where others do not: its PATH has no folder that those can write.
func (a *App) outsideEnv(o *shell.Options) []string {
	find := a.Programs()
	o.ShortPath = true
	o.Environment.Set = maps.Clone(o.Environment.Set)
	for key, value := range o.Environment.Set {
		_, o.Environment.Set[key], _ = strings.Cut(find.Env([]string{key + "=" + value})[0], "=")
	}
	return find.Env(a.Environ)
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

// Plan returns how a process will be held to f. Rules and approvals that
// commands could write would be no rules: where this cannot be prevented, see
// [controlFiles.admit], there is no plan.
func (s *Settings) Plan(f policy.Profile) (sandbox.Plan, error) {
	return s.PlanOn(sandbox.Probe(), f)
}

// PlanOn is plan for the system sys.
func (s *Settings) PlanOn(sys sandbox.System, f policy.Profile) (sandbox.Plan, error) {
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
func (a *App) private(f policy.Profile, plan sandbox.Plan) string {
	if f.Mode != policy.WorkspaceWrite || plan.ABI == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(a.Policy.Workspace))
	dir := filepath.Join(a.WorkDir, hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		a.Log.Warn("patches are not safe against a crash", "err", err)
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

// RunWorker is the worker: the tools, on stdin and stdout, confined by whoever
// started it.
func RunWorker(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	var know workerSettings
	if err := json.Unmarshal([]byte(os.Getenv(workerEnv)), &know); err != nil {
		return errors.New("worker is started by toolgate itself, not by hand")
	}
	os.Unsetenv(workerEnv)
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
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
	offered := Catalog(know.Tools, start)
	if know.Within != nil {
		for i, t := range offered {
			offered[i] = tools.Within(t, know.Within, know.Hidden)
		}
	}
	err := tools.Serve(ctx, know.Version, offered, stdin, stdout, log)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
