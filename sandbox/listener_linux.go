package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"toolgate/policy"
)

// The way out of a network namespace is a socket that belongs to it and is
// held outside: the first process listens there, and hands the listener out
// through the door. What connects to it inside is accepted by the process that
// started the sandbox, without anything in between, and there is no file that
// a command could connect to instead.

// listenerSocketpair returns both ends of what the listener goes through.
func listenerSocketpair() (outside, inside *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("the door for the proxy: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "door"), os.NewFile(uintptr(fds[1]), "door"), nil
}

// sendListener listens in this network namespace and sends the listener out
// through the descriptor door, which it closes.
func sendListener(door int) error {
	defer unix.Close(door)
	if err := loopbackUp(); err != nil {
		return step("switching loopback on", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return step("a socket for the proxy", err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: policy.ProxyPort, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return step("listening for the proxy", err)
	}
	if err := unix.Listen(fd, 128); err != nil {
		return step("listening for the proxy", err)
	}
	return step("handing the proxy's listener out", unix.Sendmsg(door, []byte{0}, unix.UnixRights(fd), nil, 0))
}

// loopbackUp switches the namespace's loopback interface on, if bubblewrap has
// not done so.
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

// receiveListener takes the listener that sendListener has sent. It is there already:
// the first process reports after it.
func receiveListener(door *os.File) (net.Listener, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(int(door.Fd()), make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	if err != nil {
		return nil, fmt.Errorf("taking the proxy's listener: %w", err)
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
