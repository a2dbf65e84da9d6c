package sandbox_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
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
