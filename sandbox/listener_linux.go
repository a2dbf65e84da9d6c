package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"toolgate/policy"
)

// The only way out of the network namespace is a listening socket that belongs to
// the namespace and is held outside. The first process opens it and sends it out
// over a socket pair. Connections made inside are then accepted by the process
// that started the sandbox, with no relay in between and no socket file that a
// command could connect to.

// listenerSocketpair returns both ends of the socket pair for the listener.
func listenerSocketpair() (outside, inside *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socket pair for the proxy's listener: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "listener"), os.NewFile(uintptr(fds[1]), "listener"), nil
}

// sendListener listens in this network namespace and sends the listener over the
// socket to, which it closes.
func sendListener(to int) error {
	defer unix.Close(to)
	if err := loopbackUp(); err != nil {
		return step("bringing up loopback", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return step("socket for the proxy", err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: policy.ProxyPort, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return step("listening for the proxy", err)
	}
	if err := unix.Listen(fd, 128); err != nil {
		return step("listening for the proxy", err)
	}
	return step("sending the proxy's listener", unix.Sendmsg(to, []byte{0}, unix.UnixRights(fd), nil, 0))
}

// loopbackUp brings up the namespace's loopback interface, unless bubblewrap has
// done so.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, lo); err != nil {
		return err
	}
	if lo.Uint16()&unix.IFF_UP != 0 {
		return nil
	}
	lo.SetUint16(lo.Uint16() | unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// receiveListener receives the listener that sendListener sent. It does not wait:
// the first process reports only after sending it.
func receiveListener(from *os.File) (net.Listener, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(int(from.Fd()), make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	if err != nil {
		return nil, fmt.Errorf("receiving the proxy's listener: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(errors.New("the sandbox sent no listener for the proxy"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.Join(errors.New("the sandbox sent no listener for the proxy"), err)
	}
	f := os.NewFile(uintptr(fds[0]), "proxy")
	defer f.Close()
	return net.FileListener(f)
}
