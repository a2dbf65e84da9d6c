package sandbox_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"toolgate/policy"
	"toolgate/sandbox"
)

func init() {
	// spawned runs an op as a worker runs its commands.
	ops["spawned"] = func(args []string) error {
		plan, ok := sandbox.Current()
		if !ok {
			return errors.New("not in a sandbox")
		}
		s, err := sandbox.NewSpawner(plan)
		if err != nil {
			return err
		}
		cmd := again(args[0], args[1:]...)
		if err := s.Start(cmd); err != nil {
			return err
		}
		cmd.Wait()
		unix.Exit(cmd.ProcessState.ExitCode())
		return nil
	}
	// several does ops one after the other, each given as words, and prints
	// the errno of each.
	ops["several"] = func(args []string) error {
		for _, words := range args {
			argv := strings.Fields(words)
			errno := syscall.Errno(0)
			if err := ops[argv[0]](argv[1:]); err != nil {
				var ok bool
				if errno, ok = asErrno(err); !ok {
					return err
				}
			}
			fmt.Println(int(errno))
		}
		return nil
	}
	ops["udp"] = func(args []string) error { return dialSay("udp", args[0], "x") }
	ops["unix"] = func(args []string) error { return dialSay("unix", args[0], "x") }
	ops["listen"] = func(args []string) error {
		l, err := net.Listen("tcp", args[0])
		if err == nil {
			l.Close()
		}
		return err
	}
	ops["pair"] = func(args []string) error {
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		return err
	}
	// down switches loopback off, which takes a capability.
	ops["down"] = func(args []string) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		lo, err := unix.NewIfreq("lo")
		if err != nil {
			return err
		}
		return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
	}
	ops["descriptors"] = func(args []string) error {
		entries, err := os.ReadDir("/proc/self/fd")
		for _, e := range entries {
			if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.Contains(to, "socket") {
				fmt.Println(e.Name(), to)
			}
		}
		return err
	}
}

// withHosts is a profile with a list of hosts.
func withHosts(roots ...string) policy.Profile {
	p := workspace(roots...)
	p.Network = policy.NetworkHosts
	p.Hosts = policy.Hosts{Allow: []string{"example.com"}}
	return p
}

// From a network namespace with one way out, that way leads to whoever holds
// the listener, and there is no other.
func TestOneWayOut(t *testing.T) {
	// What would be reached without the sandbox.
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer udp.Close()
	path := filepath.Join(t.TempDir(), "socket")
	daemon, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer daemon.Close()
	require.NoError(t, os.Chmod(path, 0o777))
	go accept(daemon, "daemon")
	go accept(tcp, "host")
	conn, err := net.Dial("tcp", tcp.Addr().String())
	require.NoError(t, err, "the control")
	conn.Close()

	refusedOr := func(errs ...syscall.Errno) []syscall.Errno { return errs }
	_, port, err := net.SplitHostPort(tcp.Addr().String())
	require.NoError(t, err)
	family := func(n, kind, proto int) []string { return []string{fmt.Sprint(n), fmt.Sprint(kind), fmt.Sprint(proto)} }
	attempts := []struct {
		op   string
		args []string
		want []syscall.Errno
	}{
		{"dial", []string{tcp.Addr().String()}, refusedOr(unix.ECONNREFUSED)},
		{"dial", []string{"[::1]:" + port}, refusedOr(unix.ECONNREFUSED, unix.EADDRNOTAVAIL, unix.ENETUNREACH, unix.EAFNOSUPPORT)},
		{"dial", []string{"[::ffff:127.0.0.1]:" + port}, refusedOr(unix.ECONNREFUSED)},
		{"dial", []string{"192.0.2.1:80"}, refusedOr(unix.ENETUNREACH)},
		{"dial", []string{"[2001:db8::1]:80"}, refusedOr(unix.ENETUNREACH, unix.EADDRNOTAVAIL, unix.EAFNOSUPPORT)},
		{"udp", []string{"192.0.2.1:53"}, refusedOr(unix.ENETUNREACH)},
		{"udp", []string{udp.LocalAddr().String()}, refusedOr(0, unix.ECONNREFUSED)}, // sent, into the void
		{"unix", []string{path}, refusedOr(unix.EPERM)},
		{"unix", []string{"@toolgate-test"}, refusedOr(unix.EPERM)},
		{"pair", nil, refusedOr(unix.EPERM)},
		{"socket", family(unix.AF_UNIX, unix.SOCK_STREAM, 0), refusedOr(unix.EPERM)},
		{"socket", family(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE), refusedOr(unix.EPERM)},
		{"socket", family(unix.AF_PACKET, unix.SOCK_RAW, 0), refusedOr(unix.EPERM)},
		{"socket", family(unix.AF_VSOCK, unix.SOCK_STREAM, 0), refusedOr(unix.EPERM)},
		{"socket", family(unix.AF_ALG, unix.SOCK_SEQPACKET, 0), refusedOr(unix.EPERM)},
		{"socket", family(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP), refusedOr(unix.EPERM)},
		{"socket", family(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6), refusedOr(unix.EPERM)},
		{"socket", family(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP), refusedOr(unix.EPERM)},
		{"socket", family(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP), refusedOr(unix.EPERM)},
		{"socket", family(unix.AF_INET, unix.SOCK_STREAM, 0), refusedOr(0)},
		{"socket", family(unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_TCP), refusedOr(0)},
		{"listen", []string{"127.0.0.1:8080"}, refusedOr(0)}, // a server of its own
		{"listen", []string{policy.ProxyAddress}, refusedOr(unix.EADDRINUSE)},
		{"down", nil, refusedOr(unix.EPERM)},
	}
	for _, level := range []sandbox.Level{sandbox.Full, sandbox.Bwrap} {
		t.Run(level.String(), func(t *testing.T) {
			plan := at(t, level, withHosts(t.TempDir()))
			for as, args := range map[string][]string{"worker": {"several"}, "command": {"spawned", "several"}} {
				for _, a := range attempts {
					args = append(args, strings.Join(append([]string{a.op}, a.args...), " "))
				}
				errno, out := try(t, plan, args[0], args[1:]...)
				require.Zero(t, errno)
				lines := strings.Fields(out)
				require.Len(t, lines, len(attempts), "%s: something was answered: %s", as, out)
				for i, a := range attempts {
					n, err := strconv.Atoi(lines[i])
					require.NoError(t, err)
					require.Contains(t, a.want, syscall.Errno(n), "%s: %s %q", as, a.op, a.args)
				}
			}
			t.Run("the way", func(t *testing.T) { theWay(t, plan, nil) })
			t.Run("the way of a command", func(t *testing.T) { theWay(t, plan, []string{"spawned"}) })
			_, out := try(t, plan, "descriptors")
			require.Empty(t, out, "the listener, or what it went through, was left open")
		})
	}
	require.NoError(t, udp.SetReadDeadline(time.Now()))
	_, _, err = udp.ReadFrom(make([]byte, 1))
	require.Error(t, err, "a datagram got out")
}

// theWay dials the proxy's address inside and is answered from outside.
func theWay(t *testing.T, plan sandbox.Plan, how []string) {
	cmd := plan.Command(append(append([]string{"", "op"}, how...), "dial", policy.ProxyAddress)...)
	var out strings.Builder
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", &out, os.Stderr
	require.NoError(t, cmd.Start())
	require.NotNil(t, cmd.Listener())
	go accept(cmd.Listener(), "from outside")
	require.NoError(t, cmd.Wait())
	require.Equal(t, "from outside", out.String())
	_, err := cmd.Listener().Accept()
	require.ErrorIs(t, err, net.ErrClosed, "it ends with the process")
}

// accept answers every connection of l with text.
func accept(l net.Listener, text string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		c.Write([]byte(text))
		c.Close()
	}
}

func TestOnlyHostsHaveAWayOut(t *testing.T) {
	for _, network := range []policy.Network{policy.NetworkNone, policy.NetworkAll} {
		p := withHosts(t.TempDir())
		p.Network = network
		cmd := at(t, sandbox.Full, p).Command("", "op", "say")
		cmd.Dir = "/"
		require.NoError(t, cmd.Run())
		require.Nil(t, cmd.Listener())
	}
}

// Landlock knows no addresses: there the list could not be held, so nothing
// starts.
func TestLandlockHoldsNoList(t *testing.T) {
	_, err := planAt(sandbox.Landlock, withHosts(t.TempDir()))
	require.ErrorIs(t, err, sandbox.ErrUnsupported)
	require.ErrorContains(t, err, "needs a network namespace")
}
