package sandbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/sandbox"
)

func init() {
	// watched runs a shell script through a Spawner and prints, as JSON, what
	// the sandbox refused to it.
	ops["watched"] = func(args []string) error {
		plan, ok := sandbox.Current()
		if !ok {
			return errors.New("not in a sandbox")
		}
		s, err := sandbox.NewSpawner(plan)
		if err != nil {
			return err
		}
		cmd := exec.Command("/bin/sh", "-c", args[0])
		cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
		cmd.Dir = args[1]
		w, err := s.StartWatched(cmd)
		if err != nil {
			return err
		}
		cmd.Wait()
		text, err := json.Marshal(w.Denials())
		if err != nil {
			return err
		}
		fmt.Println(string(text))
		return nil
	}
	// watchedTwice starts a command that leaves a process behind, lets that
	// go on once the command has ended, and waits for it.
	ops["watchedTwice"] = func(args []string) error {
		plan, _ := sandbox.Current()
		s, err := sandbox.NewSpawner(plan)
		if err != nil {
			return err
		}
		hold, release, err := os.Pipe()
		if err != nil {
			return err
		}
		ended, end, err := os.Pipe()
		if err != nil {
			return err
		}
		cmd := exec.Command("/bin/sh", "-c", "(cat; echo late > late) <&3 3<&- &")
		cmd.Dir, cmd.Env = args[0], []string{"PATH=/usr/bin:/bin"}
		cmd.ExtraFiles = []*os.File{hold, end}
		if _, err := s.StartWatched(cmd); err != nil {
			return err
		}
		hold.Close()
		end.Close()
		if err := cmd.Wait(); err != nil {
			return err
		}
		release.Close()
		_, err = io.ReadAll(ended) // held by what was left behind
		return err
	}
}

// self is the path of this test's binary.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

func TestWatch(t *testing.T) {
	eachLevel(t, func(t *testing.T, level sandbox.Level) {
		root, outside := t.TempDir(), t.TempDir()
		victim := write(t, outside+"/victim", "old")
		write(t, root+"/.git/config", "old")
		plan := at(t, level, workspace(root))
		why := "it is read-only in the sandbox"
		if level == sandbox.Landlock {
			why = "it is outside the writable roots"
		}
		paths := func(script string) []string {
			errno, out := try(t, plan, "watched", script, root)
			require.Zero(t, errno)
			var denials []sandbox.Denial
			require.NoError(t, json.Unmarshal([]byte(out), &denials), "%q", out)
			var list []string
			for _, d := range denials {
				list = append(list, d.Op+" "+d.Path)
				if d.Op == "write" {
					require.Equal(t, why, d.Why)
				}
			}
			return list
		}
		for _, c := range []struct {
			script string
			want   []string
		}{
			{"echo a > new; mkdir d; mv new d/; rm -r d; touch .; echo > /dev/null", nil},
			{"cat /etc/passwd > copy; false", nil},
			{"echo a > " + victim, []string{"write " + victim}},
			{"echo a > " + outside + "/new 2>/dev/null; true", []string{"write " + outside + "/new"}},
			{"mkdir " + outside + "/d", []string{"write " + outside + "/d"}},
			{"rm " + victim + " " + victim, []string{"write " + victim}},
			{"echo > f; mv f " + outside + "/f", []string{"write " + outside + "/f"}},
			{"ln -s " + outside + " l; echo > l/x", []string{"write " + root + "/l/x"}},
			{"cd " + outside + "; echo > x; echo > ./y", []string{"write " + outside + "/x", "write " + outside + "/./y"}},
			{"(setsid sh -c 'echo > " + victim + "'; true)", []string{"write " + victim}},
			{"mkdir -p /usr/bin; rm /usr/nothing; touch -c /usr/nothing; ln -s x /usr/bin/env; false", nil},
			{"cat /no/such/file; test -e /x; exit 3", nil},
		} {
			require.Equal(t, c.want, paths(c.script), c.script)
		}
		if level != sandbox.Landlock {
			require.Equal(t, []string{"write " + root + "/.git/config"}, paths("echo a >> .git/config"))
			require.Equal(t, []string{"write " + root + "/.git"}, paths("mv .git gone"))
		}
	})
}

// What fails by a file's own permissions is not the sandbox's doing.
func TestWatchLeavesPermissionsAlone(t *testing.T) {
	root := t.TempDir()
	errno, out := try(t, at(t, sandbox.Full, workspace(root)), "watched", "echo > /proc/1/mem; echo > nodir/file; mkdir .; rm nothing", root)
	require.Zero(t, errno)
	require.Equal(t, "null", strings.TrimSpace(out))
}

func TestWatchSeesTheNetwork(t *testing.T) {
	for _, level := range []sandbox.Level{sandbox.Full, sandbox.Bwrap} {
		t.Run(level.String(), func(t *testing.T) {
			root := t.TempDir()
			plan := at(t, level, workspace(root))
			errno, out := try(t, plan, "watched", self(t)+" op socket 2 1 0; echo $?", root)
			require.Zero(t, errno)
			require.JSONEq(t, `[{"Op":"network","Path":"","Why":"the network is off"}]`, out)
		})
	}
}

// What a command leaves behind goes on: nobody answers it with an error when
// the command itself has ended.
func TestWatchOutlivesTheCommand(t *testing.T) {
	root := t.TempDir()
	errno, out := try(t, at(t, sandbox.Full, workspace(root)), "watchedTwice", root)
	require.Zero(t, errno, out)
	require.Equal(t, "late\n", content(t, root+"/late"))
}
