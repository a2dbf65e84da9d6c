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

// mayImport is the picture in ARCHITECTURE.md as a table: what each room may
// import of this module and of others. Tests may import more.
var mayImport = map[string][]string{
	"relay":      {},
	"policy":     {"lazyregexp", "relay", "mvdan.cc/sh/v3", "go.starlark.net", "golang.org/x/sync", "golang.org/x/net/idna"},
	"egress":     {"policy"},
	"sandbox":    {"policy", "golang.org/x/sys", "golang.org/x/net"},
	"wire":       {"relay", "github.com/modelcontextprotocol/go-sdk", "github.com/segmentio/encoding", "golang.org/x/sys"},
	"tools":      {"policy", "wire", "github.com/modelcontextprotocol/go-sdk", "github.com/google/jsonschema-go", "golang.org/x/sys"},
	"tools/*":    {"lazyregexp", "policy", "wire", "tools", "tools/ignore", "github.com/modelcontextprotocol/go-sdk", "github.com/google/jsonschema-go", "golang.org/x/sys", "golang.org/x/text", "golang.org/x/image", "github.com/creack/pty", "github.com/sourcegraph/go-diff", "github.com/bmatcuk/doublestar/v4", "github.com/rogpeppe/go-internal/diff"},
	"aggregator": {"lazyregexp", "policy", "relay", "sandbox", "wire", "oauth", "github.com/modelcontextprotocol/go-sdk"},
	"server":     {"aggregator", "policy", "relay", "tools", "wire", "audit", "github.com/modelcontextprotocol/go-sdk"},
	"door":       {"github.com/modelcontextprotocol/go-sdk", "golang.org/x/time", "github.com/coreos/go-oidc/v3"},
	"config":     {"lazyregexp", "policy", "github.com/pelletier/go-toml/v2"},
	"clients":    {"lazyregexp", "config", "github.com/pelletier/go-toml/v2", "go.yaml.in/yaml/v3"},
	"audit":      {"lazyregexp", "policy", "golang.org/x/sys"},
	"approvals":  {"policy"},
	"oauth":      {"github.com/modelcontextprotocol/go-sdk", "golang.org/x/sys"},
	"hooks":      {"lazyregexp", "config", "policy", "programs"},
	"programs":   {},
	"lazyregexp": {},
	"npm":        {}, // a program of its own, which makes the npm packages
	"console":    {"approvals", "audit", "policy", "wire", "golang.org/x/net/netutil"},

	"oauth/oauthtest": {},
	"audit/metrics":   {"policy"},
	"audit/telemetry": {"policy", "go.opentelemetry.io/otel"},
}

// pure lists what policy must not touch.
var pure = []string{"os", "os/exec", "net", "net/http", "syscall", "io/ioutil"}

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

func TestImportsGoDownOnly(t *testing.T) {
	for _, p := range packages(t) {
		room := strings.TrimPrefix(p.ImportPath, "toolgate/")
		if room == "toolgate" {
			continue // main wires everything
		}
		allowed, ok := mayImport[room]
		if !ok && path.Dir(room) == "tools" {
			allowed, ok = mayImport["tools/*"]
		}
		require.True(t, ok, "%s has no line in the table", room)
		for _, imp := range p.Imports {
			own, isOwn := strings.CutPrefix(imp, "toolgate/")
			switch {
			case isOwn:
				require.Contains(t, allowed, own, "%s imports %s", room, own)
			case strings.Contains(strings.Split(imp, "/")[0], "."):
				ok := slices.ContainsFunc(allowed, func(a string) bool { return imp == a || strings.HasPrefix(imp, a+"/") })
				require.True(t, ok, "%s imports %s", room, imp)
			}
		}
		if room == "policy" {
			for _, imp := range pure {
				require.NotContains(t, p.Imports, imp, "policy is pure")
			}
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, p := range packages(t) {
		if strings.Contains(p.ImportPath, "/internal/") {
			continue
		}
		require.NotEmpty(t, p.Doc, "%s has no package comment", p.ImportPath)
	}
}
