package sandbox_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"toolgate/sandbox"
)

func init() {
	// juggle exchanges two folders until it is ended.
	ops["juggle"] = func(args []string) error {
		fmt.Println("on")
		for {
			if err := unix.Renameat2(unix.AT_FDCWD, args[0], unix.AT_FDCWD, args[1], unix.RENAME_EXCHANGE); err != nil {
				return err
			}
		}
	}
	// churn makes and removes a file until it is ended.
	ops["churn"] = func(args []string) error {
		fmt.Println("on")
		for {
			if err := os.WriteFile(args[0], nil, 0o644); err != nil {
				return err
			}
			if err := os.Remove(args[0]); err != nil {
				return err
			}
		}
	}
	// build makes and removes folders, and in them one with the given name, until it is ended.
	ops["build"] = func(args []string) error {
		fmt.Println("on")
		for i := 0; ; i = (i + 1) % 20 {
			dir := fmt.Sprintf("%s/build%d", args[0], i)
			if err := os.MkdirAll(dir+"/"+args[1]+"/hooks", 0o755); err != nil {
				return err
			}
			if err := os.RemoveAll(fmt.Sprintf("%s/build%d", args[0], (i+10)%20)); err != nil {
				return err
			}
		}
	}
	ops["append either"] = func(args []string) error {
		err := appendTo(args[0])
		if err != nil {
			err = appendTo(args[1])
		}
		return err
	}
}

// A sandbox is set up while another, that may write the same root, moves a
// repository about in it, so that the search for what is to be protected finds
// it in no place it looks at.
func TestSetUpBesideAnotherSandbox(t *testing.T) {
	t.Parallel()
	for _, level := range []sandbox.Level{sandbox.Full, sandbox.Bwrap} {
		t.Run(level.String(), func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			hook := "/.git/hooks/pre-commit"
			write(t, root+"/n1"+hook, "old")
			require.NoError(t, os.MkdirAll(root+"/n2", 0o755))
			plan := at(t, level, workspace(root))
			juggler := plan.Command("", "op", "juggle", root+"/n1", root+"/n2")
			juggler.Dir = "/"
			out, err := juggler.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, juggler.Start())
			_, err = io.ReadFull(out, make([]byte, 3))
			require.NoError(t, err)
			refused := 0
			for range 8 {
				cmd := plan.Command("", "op", "append either", root+"/n1"+hook, root+"/n2"+hook)
				cmd.Dir = "/"
				var errs bytes.Buffer
				cmd.Stderr = &errs
				if err := cmd.Start(); err != nil {
					refused++
					continue
				}
				err := cmd.Wait()
				require.Error(t, err, "the hook was written; notes: %q", cmd.Notes())
			}
			t.Logf("%d of 8 were not started", refused)
			juggler.Kill()
			juggler.Wait()
			text, err := os.ReadFile(root + "/n1" + hook)
			if err != nil {
				text, err = os.ReadFile(root + "/n2" + hook)
			}
			require.NoError(t, err)
			require.Equal(t, "old", string(text))
		})
	}
}

// Where files come and go in a folder, a sandbox is set up all the same.
func TestSetUpBesideWork(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	hook := write(t, root+"/n1/.git/hooks/pre-commit", "old")
	plan := at(t, sandbox.Full, workspace(root))
	work := plan.Command("", "op", "churn", root+"/made")
	work.Dir = "/"
	out, err := work.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, work.Start())
	_, err = io.ReadFull(out, make([]byte, 3))
	require.NoError(t, err)
	for range 3 {
		errno, _ := try(t, plan, "append", hook)
		require.Equal(t, refused[sandbox.Full], errno)
	}
	work.Kill()
	work.Wait()
}

// A shared root, in which other programs make and remove repositories, is not
// waited for: what is gone needs no protection, and everything else has it.
func TestSetUpBesideBuild(t *testing.T) {
	for _, level := range []sandbox.Level{sandbox.Full, sandbox.Bwrap} {
		for _, named := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/named %v", level, named), func(t *testing.T) {
				root, shared := t.TempDir(), t.TempDir()
				hook := write(t, shared+"/n/.git/hooks/pre-commit", "old")
				p := workspace(root, shared)
				if named { // by its path, as any folder of the user
					require.NoError(t, os.Chmod(shared, 0o777|os.ModeSticky))
				} else {
					p.SharedRoots = []string{shared}
				}
				plan := at(t, level, p)
				made := ".git"
				if level == sandbox.Bwrap {
					made = "plain" // bubblewrap fails if what it is to mount goes away
				}
				build := exec.Command(self(t), "op", "build", shared, made)
				out, err := build.StdoutPipe()
				require.NoError(t, err)
				require.NoError(t, build.Start())
				defer build.Process.Kill()
				_, err = io.ReadFull(out, make([]byte, 3))
				require.NoError(t, err)
				for range 8 {
					cmd := plan.Command("", "op", "append", hook)
					cmd.Dir = "/"
					var errs bytes.Buffer
					cmd.Stderr = &errs
					require.NoError(t, cmd.Start(), "%s", &errs)
					require.Error(t, cmd.Wait(), "the hook was written")
				}
				build.Process.Kill()
				build.Wait()
				require.Equal(t, "old", content(t, hook))
			})
		}
	}
}
