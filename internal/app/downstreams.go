package app

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"toolgate/aggregator"
	"toolgate/internal/config"
	"toolgate/internal/gate"
	"toolgate/internal/netproxy"
	"toolgate/internal/programs"
	"toolgate/policy"
	"toolgate/sandbox"
	"toolgate/server"
	"toolgate/tools"
)

// newDownstreams returns the set of configured servers and starts them; with hold they start when
// a client has its first answer.
func (s *Settings) newDownstreams(hold bool) *aggregator.Downstreams {
	o := aggregator.DownstreamOptions{
		Version:  Version(),
		StateDir: s.StateDir,
		Roots:    s.workspaceRoots(),
		Log:      s.Log,
		Hold:     hold,
	}
	if !s.verbatim { // so that the name of a built-in tool, offered or not, always means the same
		o.Reserved = append(server.ReservedTools(), toolNames()...)
	}
	set := aggregator.NewDownstreams(o)
	for _, key := range s.Config.WithoutEffect() {
		s.Log.Warn("key has no effect here", "key", key)
	}
	set.Update(s.specs(s.Config.MCPServers))
	return set
}

// front returns the instructions and tools of the server itself. With Wrapped there are none: the
// one downstream server is published unchanged.
func (o *Options) front(s *Settings, offered ToolSettings) (instruct string, builtin []tools.Tool) {
	if o.Wrapped == nil {
		return Instructions(s), Catalog(offered, nil)
	}
	s.Config.MCPServers = map[string]config.MCPServer{o.Wrapped.Name: o.Wrapped.Server}
	s.verbatim = true
	return "", nil
}

// specs returns the enabled downstream servers of the config.
func (s *Settings) specs(servers map[string]config.MCPServer) []aggregator.Spec {
	var specs []aggregator.Spec
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		server := servers[name]
		if !server.IsEnabled() || s.onlyServers != nil && !slices.Contains(s.onlyServers, name) {
			continue
		}
		for _, key := range server.WithoutEffect() {
			s.Log.Warn("key has no effect here", "downstream", name, "key", key)
		}
		specs = append(specs, s.spec(name, server))
	}
	return specs
}

// spec translates one entry of the config for the aggregator.
func (s *Settings) spec(name string, server config.MCPServer) aggregator.Spec {
	profile := s.ServerProfile(name, server)
	spec := aggregator.Spec{
		Name:           name,
		Digest:         digestOf(server),
		Verbatim:       s.verbatim,
		Prefix:         server.Prefix,
		NameBudget:     server.NameBudget,
		SchemaMax:      server.ToolInputSchemaMaxBytes,
		Lazy:           server.Startup == "lazy",
		IdleStop:       server.IdleTime(),
		Required:       server.Required,
		Connect:        server.StartupReadiness == "connection",
		StartupTimeout: server.StartupTimeout(),
		ToolTimeout:    server.ToolTimeout,
		Published: func(tool string) bool {
			enabled := server.EnabledTools == nil || slices.Contains(server.EnabledTools, tool)
			return enabled && !slices.Contains(server.DisabledTools, tool)
		},
		Approval: server.Approval,
		Trusted:  server.Trusted,
		Profile:  profile,
		Limit:    func(tool string) int { return server.Tools[tool].OutputTokenLimit },
	}
	if server.URL != "" {
		spec.HTTP = &aggregator.HTTP{URL: server.URL, Tokens: s.Tokens(name, server), Header: server.Headers}
	} else {
		spec.Launch = func() (*aggregator.Process, error) { return s.launchServer(name, server, profile) }
	}
	return spec
}

// digestOf returns a digest that changes when a server's configuration does.
func digestOf(parts ...any) string {
	b, err := json.Marshal(parts)
	if err != nil {
		panic("bug: a config does not marshal: " + err.Error()) // it came from TOML
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}

// ServerProfile returns the profile of a server's process. By default it reads everything that is
// not hidden, writes only its own folder and has no network.
func (s *Settings) ServerProfile(name string, server config.MCPServer) policy.Profile {
	word, roots := server.Confinement()
	// A list of allowed hosts is enforced in every mode, which takes a sandbox.
	if word == "none" || word == "" && s.Policy.Mode == policy.DangerFullAccess && server.AllowedDomains == nil {
		return policy.Profile{Mode: policy.DangerFullAccess, Network: policy.NetworkAll}
	}
	f := policy.Profile{
		Mode:             policy.WorkspaceWrite,
		WritableRoots:    []string{s.serverFolder(name, server)},
		ReadOnlySubpaths: s.Policy.ReadOnlySubpaths,
		Hidden:           s.Policy.Hidden,
		ReadOnlyPaths:    s.Policy.ReadOnlyPaths,
		// Denied paths are denied to servers, too. Restricted reads are not applied: the server could not start.
		Paths: policy.Paths{
			Denied:      s.Policy.Paths.Denied,
			DeniedGlobs: s.Policy.Paths.DeniedGlobs,
			GlobDepth:   s.Policy.Paths.GlobDepth,
		},
	}
	for _, r := range roots {
		if real, err := filepath.EvalSymlinks(r); err == nil {
			r = real
		}
		f.WritableRoots = append(f.WritableRoots, filepath.Clean(r))
	}
	if word == "workspace-write" {
		f.WritableRoots = append(f.WritableRoots, s.Policy.WritableRoots...)
		f.SharedRoots = s.Policy.SharedRoots
		f.TempDir = s.Policy.TempDir
	}
	f.Network, f.Hosts, _ = server.Reach() // a fault was told when the config was read, and is no network
	return f
}

// serverFolder returns the only folder that a server may write: it starts there and keeps its
// caches there. It is in the state folder, which is hidden from commands.
func (s *Settings) serverFolder(name string, server config.MCPServer) string {
	clean := strings.NewReplacer(":", "_", "@", "_", "/", "_", ".", "_", `\`, "_").Replace(name)
	if clean != name {
		clean += "-" + digestOf(name)[:8]
	}
	if s.verbatim { // its name is its program's, such as npx
		clean += "-" + digestOf(server.Command, server.Args)[:8]
	}
	return filepath.Join(s.StateDir, "servers", clean)
}

// serverDir returns the folder that a server starts in: by default its own, because what a program
// runs can depend on its working folder and commands can write the workspace.
func (s *Settings) serverDir(server config.MCPServer, own string) string {
	switch {
	case server.Cwd == config.CwdWorkspace:
		return s.Policy.Workspace
	case server.Cwd == "":
		return own
	case filepath.IsAbs(server.Cwd):
		return server.Cwd
	}
	return filepath.Join(s.Policy.Workspace, server.Cwd)
}

// launchServer starts a downstream server on stdio, confined to its profile.
func (s *Settings) launchServer(name string, server config.MCPServer, f policy.Profile) (*aggregator.Process, error) {
	if !s.verbatim && startsItself(server) {
		return nil, errStartsItself
	}
	own := s.serverFolder(name, server)
	for _, dir := range []string{own, filepath.Join(own, "tmp")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("its folder: %w", err)
		}
	}
	real, err := filepath.EvalSymlinks(own)
	if err != nil {
		real = own
	}
	if len(f.WritableRoots) > 0 && f.WritableRoots[0] == own {
		f.WritableRoots = append([]string{real}, f.WritableRoots[1:]...)
	}
	plan, err := s.Plan(f)
	if err != nil {
		if errors.Is(err, sandbox.ErrUnsupported) {
			err = fmt.Errorf("%w; set sandbox = \"none\" in [mcp_servers.%s] to run it unconfined", err, name)
		}
		return nil, err
	}
	for _, what := range plan.Unenforced {
		s.Log.Info("not enforced", "downstream", name, "level", plan.Level.String(), "what", what)
	}
	dir := s.serverDir(server, own)
	// Package runners such as npx search every parent folder for programs.
	above := func(root string) bool { return policy.Below(filepath.ToSlash(real), filepath.ToSlash(root)) }
	i := slices.IndexFunc(s.Policy.WritableRoots, above)
	if i >= 0 && dir == own && s.Policy.Mode == policy.WorkspaceWrite {
		s.Log.Warn("commands can write above the working folder of the server; set TOOLGATE_HOME to a folder elsewhere",
			"downstream", name, "writable", s.Policy.WritableRoots[i])
	}
	env := s.serverEnv(server, own, f)
	command, err := s.serverProgram(name, server.Command, dir, env, f)
	if err != nil {
		return nil, err
	}
	cmd := plan.Command(append([]string{command}, server.Args...)...)
	cmd.Dir, cmd.Env = dir, s.Programs().Env(env)
	if f.Mode != policy.DangerFullAccess {
		cmd.Rlimits = s.Limits().Rlimits()
	}
	// Nobody is asked about hosts, because it is unknown which call a connection belongs to.
	group := s.Group(cmd, f, false)
	proc, err := s.start(cmd, plan, nil, s.Log.With("downstream", name))
	if err != nil {
		return nil, group.End(err)
	}
	if f.Mode != policy.DangerFullAccess {
		wait, end := proc.Wait, s.WatchLimits(cmd, f, group)
		proc.Wait = func() error { return end(group.End(wait())) }
	}
	return proc, nil
}

// serverProgram returns the path of a server's program. A program that commands can write starts
// only if the config names its path, and only in a sandbox.
func (s *Settings) serverProgram(name, command, dir string, env []string, f policy.Profile) (string, error) {
	find := s.Programs()
	find.Dir = dir
	path, err := find.Find(command, env)
	fault, ok := errors.AsType[*programs.WritableError](err)
	if !ok || filepath.Base(command) == command {
		return path, err
	}
	if f.Mode == policy.DangerFullAccess && s.Policy.Mode != policy.DangerFullAccess {
		return "", fmt.Errorf("%w, so it does not start without a sandbox", fault)
	}
	s.Log.Warn("commands can write the program of a server", "downstream", name, "path", fault.Path)
	return fault.Path, nil
}

// start starts cmd with pipes and its proxy, if it has one, which asks through g. It makes the
// output pipes itself because Wait closes those of cmd while they are being read.
func (s *Settings) start(
	cmd *sandbox.Cmd, plan sandbox.Plan, g *gate.Gate, log *slog.Logger,
) (*aggregator.Process, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stderr, stderrW, err := os.Pipe()
	if err != nil {
		out.Close()
		outW.Close()
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = outW, stderrW
	err = cmd.Start()
	outW.Close()
	stderrW.Close()
	if err != nil {
		in.Close()
		out.Close()
		stderr.Close()
		return nil, err
	}
	for _, note := range cmd.Notes() {
		log.Warn("sandbox", "note", note)
	}
	proc := &aggregator.Process{
		In: in, Out: out, Err: stderr, Level: plan.Level.String(),
		Wait: cmd.Wait, Kill: cmd.Kill, Notes: cmd.Notes,
		Term: func() error { return terminateProcess(cmd.Pid()) },
	}
	if w := s.OpenEgress(cmd, plan.Profile, g, log); w != nil {
		proc.Wait = func() error {
			defer w.Close()
			return cmd.Wait()
		}
		if g != nil {
			proc.Enter = w.enter
		}
	}
	return proc, nil
}

// InheritedVars are the variables that every server inherits: what programs need to run and to
// find certificates. The list is Codex's.
var InheritedVars = []string{
	"HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TZ", "USER", "__CF_USER_TEXT_ENCODING",
	"CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "REQUESTS_CA_BUNDLE",
	"SSL_CERT_FILE", "SSL_CERT_DIR",
	"APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROGRAMDATA", "PROGRAMFILES",
	"SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE", "WINDIR",
}

// serverEnv returns a server's environment: the inherited variables, those of its entry and, if
// the server is confined, folders for the caches of package runners.
func (s *Settings) serverEnv(server config.MCPServer, own string, f policy.Profile) []string {
	vars := map[string]string{}
	names := append(slices.Clone(InheritedVars), server.PassedOn()...)
	if f.Mode == policy.DangerFullAccess {
		names = append(names, "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR")
	}
	for _, line := range s.Environ {
		key, value, _ := strings.Cut(line, "=")
		isKey := func(n string) bool { return n == key || runtime.GOOS == "windows" && strings.EqualFold(n, key) }
		if slices.ContainsFunc(names, isKey) {
			vars[key] = value
		}
	}
	if f.Mode != policy.DangerFullAccess {
		vars["TMPDIR"] = filepath.Join(own, "tmp")
		vars["XDG_CACHE_HOME"] = own
		vars["npm_config_cache"] = filepath.Join(own, "npm")
		vars["UV_CACHE_DIR"] = filepath.Join(own, "uv")
		vars["UV_TOOL_DIR"] = filepath.Join(own, "uv-tools")
	}
	maps.Copy(vars, server.Env)
	if f.Network == policy.NetworkHosts {
		for _, v := range netproxy.Environ("", f.Hosts) {
			key, value, _ := strings.Cut(v, "=")
			vars[key] = value
		}
	}
	above, _ := depth() // else this process would not serve
	vars[depthVariable] = strconv.Itoa(above + 1)
	var env []string
	for _, key := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, key+"="+vars[key])
	}
	return env
}

// workspaceRoots returns the answer to roots/list for clients without roots: the workspace.
func (s *Settings) workspaceRoots() json.RawMessage {
	uri := url.URL{Scheme: "file", Path: filepath.ToSlash(s.Policy.Workspace)}
	root := map[string]string{"uri": uri.String(), "name": filepath.Base(s.Policy.Workspace)}
	b, err := json.Marshal(map[string]any{"roots": []any{root}})
	if err != nil {
		panic("bug: roots do not marshal: " + err.Error()) // strings always do
	}
	return b
}
