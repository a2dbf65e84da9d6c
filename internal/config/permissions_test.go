package config_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/config"
	"toolgate/policy"
)

// What can stand in ~/.codex/config.toml.
const codexProfiles = `
default_permissions = "dev"

[permissions.base]
description = "programs, and nothing of yours"

[permissions.base.workspace_roots]
"~/code/other" = true
"~/code/not-this" = false

[permissions.base.filesystem]
":minimal" = "read"
glob_scan_max_depth = 4
"~/go" = "read"

[permissions.dev]
extends = "base"

[permissions.dev.filesystem]
":tmpdir" = "write"
"~/.ssh" = "deny"
"~/go/pkg/**" = "write"

[permissions.dev.filesystem.":workspace_roots"]
"." = "write"
"docs" = "read"
"build/**" = "none"
"**/*.env" = "deny"

[permissions.dev.network]
enabled = true
domains = { "*.example.com" = "allow", "bad.example.com" = "deny" }

[permissions.quiet]
extends = "dev"
filesystem = { ":workspace_roots" = { "docs" = "write" }, "~/go/pkg/**" = "read" }
network.enabled = false

[permissions.look]
extends = ":read-only"

[permissions.work]
extends = ":workspace"
filesystem = { ":workspace_roots" = { "vendor" = "read" }, "/srv/data" = "write" }
`

var places = policy.Places{Workspaces: []string{"/w", "/home/u/code/other"}, Home: "/home/u", TempDir: "/var/t"}

func TestPermissionProfiles(t *testing.T) {
	c, err := load(t, codexProfiles)
	require.NoError(t, err)
	require.Equal(t, "dev", c.DefaultProfile)
	minimal := []string{"/bin", "/etc", "/home/u/go", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/run/NetworkManager/resolv.conf", "/run/current-system/sw", "/run/resolvconf", "/run/systemd/resolve", "/sbin", "/usr"}
	dev := policy.Paths{
		Restricted: true, Readable: minimal, GlobDepth: 4,
		ReadOnly:    []string{"/home/u/code/other/docs", "/w/docs"},
		Denied:      []string{"/home/u/code/other/build", "/w/build"}, // ~/.ssh is not among what can be read
		DeniedGlobs: []string{"/home/u/code/other/**/*.env", "/w/**/*.env"},
	}
	quiet := dev
	quiet.ReadOnly = nil
	for _, tt := range []struct {
		name    string
		roots   []string
		paths   policy.Paths
		network policy.Network
	}{
		{"dev", []string{"/home/u/code/other", "/home/u/go/pkg", "/var/t", "/w"}, dev, policy.NetworkHosts},
		{"quiet", []string{"/home/u/code/other", "/home/u/code/other/docs", "/var/t", "/w", "/w/docs"}, quiet, policy.NetworkNone},
		{"look", nil, policy.Paths{}, policy.NetworkNone},
		{":read-only", nil, policy.Paths{}, policy.NetworkNone},
		{":workspace", []string{"/home/u/code/other", "/tmp", "/var/t", "/w"}, policy.Paths{}, policy.NetworkNone},
		{"work", []string{"/home/u/code/other", "/srv/data", "/tmp", "/var/t", "/w"}, policy.Paths{ReadOnly: []string{"/home/u/code/other/vendor", "/w/vendor"}}, policy.NetworkNone},
	} {
		r, err := c.Permissions.Resolve(tt.name)
		require.NoError(t, err, tt.name)
		roots, paths, err := r.Compile(places)
		require.NoError(t, err, tt.name)
		require.Equal(t, tt.roots, roots, tt.name)
		require.Equal(t, tt.paths, paths, tt.name)
		network, hosts, err := r.Network.Parse()
		require.NoError(t, err, tt.name)
		require.Equal(t, tt.network, network, tt.name)
		require.Equal(t, network == policy.NetworkHosts, len(hosts.Allow) > 0, tt.name)
	}
	r, err := c.Permissions.Resolve("dev")
	require.NoError(t, err)
	require.Equal(t, []string{"~/code/other"}, r.WorkspaceRoots)
}

func TestPermissionProfilesThatAreNone(t *testing.T) {
	for _, tt := range []struct{ name, text, want, hint string }{
		{"a key", "[permissions.a]\nfiles = {}", `config.toml:2: unknown key "permissions.a.files"`, "keys"},
		{"an access", "[permissions.a.filesystem]\n\"/x\" = \"rw\"", `config.toml:2: permission profile a: filesystem: "/x": unknown access "rw"`, "access is one of: read, write, deny"},
		{"a number", "[permissions.a]\n[permissions.a.filesystem]\n\"/x\" = 1", `config.toml:3: permission profile a: filesystem: "/x" is neither an access mode nor a table`, ""},
		{"a table in a table", "[permissions.a.filesystem.\"/x\".\"y\"]\nz = \"read\"", `config.toml:1: permission profile a: filesystem: "/x y" is neither an access mode nor a table`, ""},
		{"a relative path", "[permissions.a.filesystem]\n\"/x\" = \"read\"\nsrc = \"read\"", `config.toml:3: permission profile a: filesystem: path "src": must begin with /, ~/ or one of :root, :minimal, :workspace_roots, :tmpdir, :slash_tmp`, ""},
		{"a place", "[permissions.a.filesystem]\n\":cwd\" = \"read\"", `config.toml:2: permission profile a: filesystem: unknown place ":cwd"`, "place is one of"},
		{"up", "[permissions.a.filesystem.\":workspace_roots\"]\n\"../x\" = \"read\"", `config.toml:1: permission profile a: filesystem: path "../x": must lead down, without . and .. in it`, ""},
		{"a pattern to write", "[permissions.a.filesystem]\n\"/x/*\" = \"write\"", `config.toml:2: permission profile a: filesystem: pattern "/x/*": a pattern can only be denied; name a path, or a folder with /** after it`, ""},
		{"the depth", "[permissions.a.filesystem]\nglob_scan_max_depth = 0", `config.toml:2: permission profile a: filesystem: glob_scan_max_depth must be a number of folders, at least 1`, ""},
		{"everything", "[permissions.a.filesystem]\n\":root\" = \"write\"", `config.toml:2: permission profile a: filesystem: the whole file system cannot be writable in a sandbox; name folders, or select :danger-full-access`, ""},
		{"the network", "[permissions.a.network]\nallow = true", `config.toml:1: permission profile a: network: unknown key "allow"`, ""},
		{"a host", "[permissions.a.network]\nenabled = true\ndomains = { \"x.org\" = \"yes\" }", `config.toml:1: permission profile a: network: domains: x.org is "yes"`, "it is one of: allow, deny"},
		{"a reserved name", "[permissions.\":a\"]\nextends = \"b\"", `permission profile ":a": names with a leading colon are reserved`, ""},
		{"a workspace folder", "[permissions.a.workspace_roots]\n\":root\" = true", `config.toml:2: permission profile a: workspace_roots: ":root" is not a folder`, ""},
		{"both kinds", "sandbox_mode = \"read-only\"\ndefault_permissions = \":workspace\"", `config.toml:2: sandbox_mode and default_permissions are both set, but are mutually exclusive`, "remove one of them; -s and -P on the command line apply to one run"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := load(t, tt.text)
			require.ErrorContains(t, err, tt.want)
			var e *config.Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, e.Hint, tt.hint)
		})
	}
	c, err := load(t, "[permissions.a]\nextends = \"b\"\n[permissions.b]\nextends = \"c\"\n[permissions.c]\nextends = \"a\"\n[permissions.d]\nextends = \":danger-full-access\"\n[permissions.e]\nextends = \"x\"")
	require.NoError(t, err, "what is extended may still come")
	for name, want := range map[string]string{
		"a": "permission profile a extends itself: a extends b extends c extends a",
		"d": "permission profile d extends :danger-full-access, which cannot be extended: it confines nothing",
		"e": `unknown permission profile "x"`,
		"f": `unknown permission profile "f"`,
	} {
		_, err := c.Permissions.Resolve(name)
		require.EqualError(t, err, want)
	}
	_, err = c.Permissions.Resolve("f")
	var v *policy.ValueError
	require.ErrorAs(t, err, &v)
	require.Equal(t, ":read-only, :workspace, :danger-full-access, a, b, c, d, e", v.Known)
}

// An entry from the command line adds to a profile of the file.
func TestPermissionProfilesFromTheCommandLine(t *testing.T) {
	c, err := load(t, codexProfiles)
	require.NoError(t, err)
	require.NoError(t, c.Set(`permissions.look.network.enabled=true`, "-c"))
	require.NoError(t, c.Set(`permissions.look.filesystem.":workspace_roots"="write"`, "-c"))
	r, err := c.Permissions.Resolve("look")
	require.NoError(t, err)
	require.True(t, r.Network.Enabled)
	roots, paths, err := r.Compile(places)
	require.NoError(t, err)
	require.Equal(t, places.Workspaces, []string{roots[1], roots[0]})
	require.False(t, paths.Restricted)
	require.ErrorContains(t, c.Set(`permissions.look.filesystem.x="write"`, "-c"), `-c: permission profile look: filesystem: path "x"`)
}

// What the document shows can be pasted.
func TestPermissionsDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/permissions.md")
	require.NoError(t, err)
	blocks := strings.Split(string(text), "```toml\n")[1:]
	require.Len(t, blocks, 2)
	found := map[string]policy.Paths{}
	for _, b := range blocks {
		block, _, _ := strings.Cut(b, "```")
		c, err := load(t, block)
		require.NoError(t, err)
		for name := range c.Permissions {
			r, err := c.Permissions.Resolve(name)
			require.NoError(t, err)
			_, paths, err := r.Compile(policy.Places{Workspaces: []string{"/home/u/app"}, Home: "/home/u"})
			require.NoError(t, err)
			found[name] = paths
		}
	}
	require.Equal(t, policy.Paths{ReadOnly: []string{"/home/u/app/docs"}, Denied: []string{"/home/u/.config/app"}, DeniedGlobs: []string{"/home/u/app/**/*.env"}}, found["dev"])
	require.True(t, found["closed"].Restricted)
	require.Equal(t, policy.Paths{Readable: []string{"/home/u/app"}, Denied: []string{"/home/u", "/home/u/app/secrets"}, DeniedGlobs: []string{"/home/u/app/**/.env*"}}, found["look"])
}
