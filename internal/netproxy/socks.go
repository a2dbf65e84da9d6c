package netproxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"toolgate/internal/hostname"
	"toolgate/policy"
)

// SOCKS5 (RFC 1928) with user names (RFC 1929). Of its commands only CONNECT is supported.
const (
	socksVersion = 5

	socksNoAuth       = 0
	socksUserPassword = 2
	socksNoMethod     = 0xff

	socksConnect = 1

	socksIPv4   = 1
	socksDomain = 3
	socksIPv6   = 4

	socksGranted         = 0
	socksFailed          = 1
	socksNotAllowed      = 2
	socksHostUnreachable = 4
	socksNoCommand       = 7
	socksNoAddressType   = 8
)

// serveSOCKS serves a client whose first byte has been read.
func (p *Proxy) serveSOCKS(c *clientConn) {
	command, err := socksGreet(c)
	if err != nil {
		return
	}
	t, code, err := socksRequest(c)
	if err != nil {
		socksReply(c, code)
		return
	}
	c.SetDeadline(time.Time{}) // a person may be asked
	who, err := p.authorize(p.ctx, command, t)
	if err != nil {
		socksReply(c, socksNotAllowed)
		return
	}
	server, err := p.connect(p.ctx, who, t)
	if err != nil {
		code := byte(socksHostUnreachable)
		if _, ok := errors.AsType[*Refusal](err); ok {
			code = socksNotAllowed
		}
		socksReply(c, code)
		return
	}
	if socksReply(c, socksGranted) != nil {
		server.Close()
		return
	}
	p.recordReached(who, t)
	p.tunnel(c, nil, server)
}

// socksGreet negotiates an authentication method and returns the user name, which
// identifies the command. Any password is accepted.
func socksGreet(c io.ReadWriter) (user string, err error) {
	methods, err := readLengthPrefixed(c)
	if err != nil {
		return "", err
	}
	method := byte(socksNoMethod)
	for _, m := range methods {
		if m == socksUserPassword || m == socksNoAuth && method == socksNoMethod {
			method = m
		}
	}
	if _, err := c.Write([]byte{socksVersion, method}); err != nil {
		return "", err
	}
	switch method {
	case socksNoAuth:
		return "", nil
	case socksNoMethod:
		return "", errors.New("no method in common")
	}
	version := make([]byte, 1)
	if _, err := io.ReadFull(c, version); err != nil {
		return "", err
	}
	name, err := readLengthPrefixed(c)
	if err != nil {
		return "", err
	}
	if _, err := readLengthPrefixed(c); err != nil {
		return "", err
	}
	_, err = c.Write([]byte{1, 0})
	return string(name), err
}

// socksRequest reads a request and returns its target. If err is not nil, code is the reply.
func socksRequest(c io.Reader) (t policy.HostTarget, code byte, err error) {
	head := make([]byte, 4) // version, command, reserved, address type
	if _, err := io.ReadFull(c, head); err != nil {
		return t, socksFailed, err
	}
	if head[0] != socksVersion || head[2] != 0 {
		return t, socksFailed, errors.New("not a SOCKS5 request")
	}
	var host string
	switch head[3] {
	case socksIPv4, socksIPv6:
		raw := make([]byte, 4)
		if head[3] == socksIPv6 {
			raw = make([]byte, 16)
		}
		if _, err := io.ReadFull(c, raw); err != nil {
			return t, socksFailed, err
		}
		addr, _ := netip.AddrFromSlice(raw)
		host = addr.String()
	case socksDomain:
		raw, err := readLengthPrefixed(c)
		if err != nil {
			return t, socksFailed, err
		}
		host = string(raw)
	default:
		return t, socksNoAddressType, fmt.Errorf("unknown address type %d", head[3])
	}
	port := make([]byte, 2)
	if _, err := io.ReadFull(c, port); err != nil {
		return t, socksFailed, err
	}
	if head[1] != socksConnect {
		return t, socksNoCommand, fmt.Errorf("unknown command %d", head[1])
	}
	t = policy.HostTarget{Port: binary.BigEndian.Uint16(port), Protocol: policy.ProtocolSOCKS}
	if t.Host, err = hostname.Parse(host); err != nil {
		return t, socksNotAllowed, err
	}
	if t.Port == 0 {
		return t, socksNotAllowed, errors.New("no port")
	}
	return t, socksGranted, nil
}

// readLengthPrefixed reads a byte string that is preceded by its length in one byte.
func readLengthPrefixed(r io.Reader) ([]byte, error) {
	n := make([]byte, 1)
	if _, err := io.ReadFull(r, n); err != nil {
		return nil, err
	}
	b := make([]byte, n[0])
	_, err := io.ReadFull(r, b)
	return b, err
}

// socksReply answers a request. It does not reveal the local address of the connection.
func socksReply(w io.Writer, code byte) error {
	_, err := w.Write([]byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0})
	return err
}
