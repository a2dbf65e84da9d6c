package main_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mayImport is the drawing in ARCHITECTURE.md as a table, from the bottom up: what
// each package may import of this module and of others. Tests may import more.
var mayImport = map[string][]string{
	"internal/atomicfile": {},
	"internal/filelock":   {"golang.org/x/sys"},
	"internal/fileowner":  {"golang.org/x/sys"},
	"internal/sse":        {},
	"internal/lazyregexp": {},
	"internal/rawjson":    {"github.com/segmentio/encoding"},
	"internal/stdio":      {"internal/rawjson", goSDK, "golang.org/x/sys"},
	"internal/programs":   {},
	"internal/bytestring": {},
	"internal/ignore":     {},
	"internal/limits":     {"golang.org/x/sys"},

	"internal/printable": {},

	"internal/hostname": {"golang.org/x/net/idna"},

	"policy/shell":  {"internal/lazyregexp", "mvdan.cc/sh/v3"},
	"policy/rules":  {"policy/shell", "internal/hostname", "internal/lazyregexp", "go.starlark.net"},
	"policy":        {"internal/bytestring", "policy/rules", "policy/shell", "internal/hostname", "go.starlark.net"},
	"internal/gate": {"policy"},

	"sandbox": {"internal/bytestring", "policy", "golang.org/x/sys", "golang.org/x/net"},

	"tools": {"policy", "internal/rawjson", "internal/stdio", goSDK, "github.com/google/jsonschema-go", "golang.org/x/sys"},
	"tools/*": {
		"internal/filelock", "internal/lazyregexp", "internal/limits", "internal/rawjson", "internal/ignore", "policy", "tools", goSDK, "github.com/google/jsonschema-go",
		"golang.org/x/sys", "golang.org/x/text", "golang.org/x/image", "github.com/creack/pty", "github.com/sourcegraph/go-diff",
		"github.com/rogpeppe/go-internal/diff",
	},

	"internal/oauth":           {"internal/atomicfile", "internal/filelock", "internal/fileowner", "internal/printable", goSDK},
	"internal/oauth/oauthtest": {},
	"internal/netproxy":        {"internal/gate", "internal/hostname", "policy", "policy/rules", "golang.org/x/sync"},
	"internal/httpauth":        {"internal/atomicfile", "internal/fileowner", goSDK, "golang.org/x/time", "github.com/coreos/go-oidc/v3"},
	"internal/config":          {"internal/atomicfile", "internal/fileowner", "internal/lazyregexp", "policy", "github.com/pelletier/go-toml/v2"},
	"internal/clients": {
		"internal/lazyregexp", "internal/config",
		"github.com/pelletier/go-toml/v2", "github.com/tailscale/hujson", "go.yaml.in/yaml/v3",
	},
	"internal/audit":           {"internal/filelock", "internal/gate", "internal/lazyregexp", "internal/printable", "policy"},
	"internal/audit/metrics":   {"internal/gate"},
	"internal/audit/telemetry": {"internal/gate", "go.opentelemetry.io/otel"},
	"internal/approvals":       {"internal/atomicfile", "internal/fileowner", "internal/gate", "policy"},
	"internal/hooks":           {"internal/fileowner", "internal/gate", "internal/lazyregexp", "internal/config", "internal/programs", "policy", "policy/shell", "golang.org/x/sys"},
	"internal/console": {
		"internal/approvals", "internal/atomicfile", "internal/audit", "internal/fileowner", "internal/gate", "internal/rawjson",
		"golang.org/x/net/netutil",
	},

	"aggregator/schema": {"internal/lazyregexp", "internal/rawjson", "policy"},
	"aggregator": {
		"aggregator/schema", "internal/atomicfile", "internal/bytestring", "internal/fileowner", "internal/gate", "internal/oauth", "internal/rawjson", "internal/sse", "internal/stdio",
		"policy", "sandbox", goSDK,
	},
	"server": {
		"aggregator", "aggregator/schema", "internal/gate", "internal/printable", "internal/rawjson", "internal/stdio", "policy", "tools", goSDK,
	},

	"internal/app": {
		"aggregator", "aggregator/schema", "policy", "policy/rules", "policy/shell", "sandbox", "server",
		"tools", "tools/applypatch", "tools/files", "tools/grep", "tools/shell",
		"internal/approvals", "internal/audit", "internal/audit/metrics", "internal/audit/telemetry", "internal/bytestring",
		"internal/config", "internal/console", "internal/filelock", "internal/fileowner", "internal/gate", "internal/hooks", "internal/httpauth", "internal/lazyregexp", "internal/limits",
		"internal/netproxy", "internal/oauth",
		"internal/programs", goSDK, "github.com/fsnotify/fsnotify", "golang.org/x/sys",
	},
	"internal/cli": {
		"aggregator", "policy", "policy/rules", "policy/shell", "sandbox", "server", "tools",
		"internal/app", "internal/approvals", "internal/atomicfile", "internal/audit", "internal/clients", "internal/config",
		"internal/console", "internal/fileowner", "internal/gate", "internal/httpauth", "internal/lazyregexp", "internal/limits", "internal/netproxy", "internal/oauth", "internal/printable", "internal/programs",
		goSDK, "github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/rogpeppe/go-internal/diff", "github.com/pelletier/go-toml/v2",
	},
	"toolgate": {"internal/cli", "sandbox"},

	"internal/testkit": {"policy", "policy/rules", "github.com/stretchr/testify"}, // for tests

	"npm": {}, // a program that makes the npm packages
}

const goSDK = "github.com/modelcontextprotocol/go-sdk"

// pure lists what policy must not touch.
var pure = []string{"os", "os/exec", "net", "net/http", "syscall", "time"}

type listedPackage struct {
	ImportPath, Doc, Name string
	Imports               []string
}

func packages(t *testing.T) []listedPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Doc,Name,Imports", "./...").Output()
	require.NoError(t, err)
	var list []listedPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listedPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		list = append(list, p)
	}
	require.Greater(t, len(list), 8)
	return list
}

// TestImportsGoDownOnly holds the table against what the packages import. A
// package may import another only if that is allowed here, and the table itself
// has no circle, since the compiler allows none.
func TestImportsGoDownOnly(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, "toolgate/")
		if _, ok := mayImport[name]; !ok && path.Dir(name) == "tools" {
			name = "tools/*"
		}
		allowed, ok := mayImport[name]
		require.True(t, ok, "%s has no line in the table", name)
		seen[name] = true
		for _, imp := range p.Imports {
			own, isOwn := strings.CutPrefix(imp, "toolgate/")
			switch {
			case isOwn:
				require.Contains(t, allowed, own, "%s imports %s", name, own)
			case strings.Contains(strings.Split(imp, "/")[0], "."):
				ok := slices.ContainsFunc(allowed, func(a string) bool { return imp == a || strings.HasPrefix(imp, a+"/") })
				require.True(t, ok, "%s imports %s", name, imp)
			}
		}
		if strings.HasPrefix(name, "policy") {
			for _, imp := range pure {
				require.NotContains(t, p.Imports, imp, "%s is pure", name)
			}
		}
	}
	for name := range mayImport {
		require.True(t, seen[name], "%s is in the table and not in the tree", name)
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, p := range packages(t) {
		require.NotEmpty(t, p.Doc, "%s has no package comment", p.ImportPath)
	}
}
