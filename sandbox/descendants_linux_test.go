package sandbox_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"toolgate/sandbox"
)

func init() {
	// hopper says its number. For each byte that it reads it forks away: it
	// starts another in its place and ends. The last one stays.
	ops["hopper"] = func(args []string) error {
		fmt.Println(os.Getpid())
		n, err := strconv.Atoi(args[0])
		if err != nil || n == 0 {
			return hang()
		}
		if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
			return err
		}
		next := again("hopper", strconv.Itoa(n-1))
		next.Stdin = os.Stdin
		return next.Start()
	}
	// bury starts a hopper and ends it, while it forks away in the middle of
	// each of the first passes. With an argument the first pass misses it.
	ops["bury"] = func(args []string) error {
		const hops = 4
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return err
		}
		hopper := exec.Command("/proc/self/exe", "op", "hopper", strconv.Itoa(hops))
		in, err := hopper.StdinPipe()
		if err != nil {
			return err
		}
		out, err := hopper.StdoutPipe()
		if err != nil {
			return err
		}
		if err := hopper.Start(); err != nil {
			return err
		}
		says := bufio.NewReader(out)
		at := 0
		arrive := func() {
			line, _ := says.ReadString('\n')
			fmt.Sscan(line, &at)
		}
		arrive()
		passes, missed := 0, len(args) > 0
		sandbox.EndDescendants(os.Getpid(), func(self int) []int {
			found := sandbox.Descendants(self)
			if missed {
				missed = false
				return nil
			}
			if passes++; passes <= hops {
				was := at
				in.Write([]byte("x"))
				arrive()
				// Gone, and not buried.
				unix.Waitid(unix.P_PID, was, nil, unix.WEXITED|unix.WNOWAIT, nil)
			}
			return found
		})
		if passes <= hops {
			return fmt.Errorf("it was over after %d passes", passes)
		}
		if left := sandbox.Descendants(os.Getpid()); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	}
}

// A process that forks away each time that it is looked for is ended all the
// same. Nothing here takes time: where it were not found, this would not end.
func TestEndOfWhatForksAway(t *testing.T) {
	for _, args := range [][]string{nil, {"missed"}} {
		cmd := exec.Command("/proc/self/exe", append([]string{"op", "bury"}, args...)...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
}
