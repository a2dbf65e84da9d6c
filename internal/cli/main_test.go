package cli

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"toolgate/internal/app"
	"toolgate/internal/approvals"
	"toolgate/sandbox"
)

var update = flag.Bool("update", false, "rewrite the golden files of the scripts")

func TestMain(m *testing.M) {
	sandbox.Main()
	testscript.Main(m, map[string]func(){"toolgate": runAtLevel, "toolgate-none": unconfinedMain, rawPeer: runRawPeer, sdkPeer: runSDKPeer, webBrowser: runBrowser, probePeer: runProbePeer, moodyPeer: runMoodyPeer, "changing-server": changingServer, escapingPeer: runEscapingPeer})
}

// levelVariable names the best sandbox level that the program finds.
const levelVariable = "TOOLGATE_TEST_LEVEL"

// runAtLevel is the program on this system, or on one that can do no better than levelVariable says.
func runAtLevel() {
	var level sandbox.Level
	if level.UnmarshalText([]byte(os.Getenv(levelVariable))) == nil {
		app.Probe = func() sandbox.System { return bestAt(level) }
	}
	runProgram()
}

// unconfinedMain is the program where nothing can be confined, as on macOS and
// Windows.
func unconfinedMain() {
	app.CanConfine = func() bool { return false }
	runProgram()
}

// ownTemp is config for tests whose programs lie in the temporary folder: it is
// not one that commands can write.
const ownTemp = "\n[sandbox_workspace_write]\nexclude_slash_tmp = true\nexclude_tmpdir_env_var = true\n"

// TestScripts runs the stories in testdata/script: the program as a person or
// a client runs it, with a home and a workspace of its own.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "../../testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, ".home")
			if err := os.MkdirAll(home, 0o755); err != nil {
				return err
			}
			env.Setenv("HOME", home)
			env.Setenv("TOOLGATE_HOME", filepath.Join(home, "toolgate"))
			env.Setenv("XDG_CONFIG_HOME", "")
			env.Setenv("TMPDIR", "")
			ws := filepath.Join(env.WorkDir, "ws")
			if err := os.MkdirAll(ws, 0o755); err != nil {
				return err
			}
			env.Setenv("WS", ws)
			env.Cd = ws
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "sandbox":
				return need(t, "REQUIRE_SANDBOX", sandbox.Probe().Level() == sandbox.Full), nil
			case "root":
				return os.Geteuid() == 0, nil
			case "bash":
				_, err := exec.LookPath("bash")
				return err == nil, nil
			}
			return false, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// scrub FILE replaces what differs from run to run.
			"scrub": scrub,
			// firstid and lastid put the id of a waiting approval into $ID.
			"firstid": func(ts *testscript.TestScript, _ bool, _ []string) { waitingID(ts, 0) },
			"lastid":  func(ts *testscript.TestScript, _ bool, _ []string) { waitingID(ts, -1) },
		},
	})
}

// need reports ok, and fails instead where the environment says that what is
// missing must be there.
func need(t *testing.T, variable string, ok bool) bool {
	if !ok && os.Getenv(variable) != "" {
		t.Fatalf("%s is set, and this system cannot: %v", variable, sandbox.Probe().Why())
	}
	return ok && runtime.GOOS == "linux"
}

func waitingID(ts *testscript.TestScript, n int) {
	list, err := approvals.Open(filepath.Join(ts.Getenv("TOOLGATE_HOME"), "state", "approvals"))
	ts.Check(err)
	waiting, err := list.Waiting()
	ts.Check(err)
	if len(waiting) == 0 {
		ts.Fatalf("nothing waits")
	}
	ts.Setenv("ID", waiting[(n+len(waiting))%len(waiting)].ID)
}

func scrub(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: scrub stdout|FILE")
	}
	text := ts.ReadFile(args[0])
	text = strings.ReplaceAll(text, ts.Getenv("WORK"), "$WORK")
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "Wall time: ") {
			line = "Wall time: T seconds\n"
		}
		lines = append(lines, line)
	}
	name := args[0]
	if name == "stdout" || name == "stderr" {
		name = "out"
	}
	ts.Check(os.WriteFile(ts.MkAbs(name), []byte(strings.Join(lines, "")), 0o644))
}

// runProgram is the program, as a command of the scripts.
func runProgram() { os.Exit(Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
