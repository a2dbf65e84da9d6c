// Those that have a system call table.

//go:build amd64 || arm64

package sandbox

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"toolgate/policy"
)

// TestNothingIsLostWithoutTheWorkersRows: over the filter that its worker has,
// the short one of a command refuses and tells of what the long one does.
func TestNothingIsLostWithoutTheWorkersRows(t *testing.T) {
	// The kernel takes what is strictest, and the newer filter's of two alike.
	both := func(older, newer action) action {
		kind := func(a action) action { return a & unix.SECCOMP_RET_ACTION_FULL }
		if kind(older) < kind(newer) {
			return older
		}
		return newer
	}
	args := []uint64{0, 1, 2, 3, 7, 10, 16, 17, unix.AF_NETLINK, someThread, 1<<32 - 1, 1 << 33, unix.O_CREAT, unix.S_ISUID, unix.S_IFBLK, unix.CLONE_NEWUSER, unix.TIOCSTI, unix.O_TMPFILE | unix.O_RDWR}
	for _, level := range []Level{Full, Bwrap, Landlock} {
		for _, network := range []policy.Network{policy.NetworkNone, policy.NetworkAll, policy.NetworkHosts} {
			plan := Plan{Level: level, Profile: policy.Profile{Mode: policy.WorkspaceWrite, Network: network}}
			worker := assemble(auditArch, workerFilterRules(plan))
			longPlain, longWatched := filters(plan, false)
			plain, watched := filters(plan, true)
			require.Less(t, 2*len(plain), len(longPlain))
			rnd := rand.New(rand.NewPCG(1, uint64(level)))
			refused, told := 0, 0
			for range 3000 {
				nr := rnd.Uint32N(480)
				var a [6]uint64
				for i := range a {
					a[i] = args[rnd.IntN(len(args))]
				}
				under := run(t, worker, auditArch, nr, a[:]...)
				for _, pair := range [][2][]bpfInstr{{longPlain, plain}, {longWatched, watched}} {
					want := both(under, run(t, pair[0], auditArch, nr, a[:]...))
					got := both(under, run(t, pair[1], auditArch, nr, a[:]...))
					require.Equal(t, want, got, "call %d %x, level %v, network %v", nr, a, level, network)
					switch got & unix.SECCOMP_RET_ACTION_FULL {
					case unix.SECCOMP_RET_ERRNO:
						refused++
					case unix.SECCOMP_RET_USER_NOTIF:
						told++
					}
				}
			}
			require.Greater(t, refused, 100)
			require.Greater(t, told, 10)
		}
	}
}
