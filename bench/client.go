package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// A caller is a client of one MCP server, as thin as one can be, so that what
// is measured is the server.
type caller interface {
	request(method, params string) (json.RawMessage, error)
	close()
}

const (
	hello       = `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// callTool calls a tool and makes sure that it worked.
func callTool(c caller, name, args string) error {
	res, err := c.request("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args))
	if err != nil {
		return err
	}
	var r struct {
		IsError bool            `json:"isError"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(res, &r); err != nil {
		return err
	}
	if r.IsError {
		return fmt.Errorf("%s: %.300s", name, r.Content)
	}
	return nil
}

// stdioCaller talks to a server that it has started.
type stdioCaller struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	n   int
}

// startStdio starts a server and opens a session.
func startStdio(ctx context.Context, dir string, env []string, argv ...string) (*stdioCaller, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, env
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &stdioCaller{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 1<<20)}
	if _, err = c.request("initialize", hello); err == nil {
		_, err = io.WriteString(c.in, initialized+"\n")
	}
	if err != nil {
		c.close()
	}
	return c, err
}

func (c *stdioCaller) request(method, params string) (json.RawMessage, error) {
	c.n++
	if _, err := fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", c.n, method, params); err != nil {
		return nil, err
	}
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		if res, ok, err := answer(line, c.n); ok {
			return res, err
		}
	}
}

// answer returns the result in a message, when it is the answer to request n.
func answer(line []byte, n int) (json.RawMessage, bool, error) {
	var m struct {
		ID     json.RawMessage
		Method string
		Result json.RawMessage
		Error  json.RawMessage
	}
	if err := json.Unmarshal(line, &m); err != nil || m.Method != "" || string(m.ID) != fmt.Sprint(n) {
		return nil, false, nil
	}
	if m.Error != nil {
		return nil, true, errors.New(string(m.Error))
	}
	return m.Result, true, nil
}

func (c *stdioCaller) close() {
	c.in.Close()
	defer time.AfterFunc(3*time.Second, func() { c.cmd.Process.Kill() }).Stop()
	c.cmd.Wait()
}

// httpCaller talks to a server over streamable HTTP.
type httpCaller struct {
	url     string
	token   string
	session string
	client  *http.Client
	n       int
	cmd     *exec.Cmd
}

// startHTTP starts a server that will listen at url, and opens a session as
// soon as it does.
func startHTTP(ctx context.Context, dir string, env []string, url, token string, argv ...string) (*httpCaller, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &httpCaller{url: url, token: token, client: &http.Client{Timeout: 20 * time.Second}, cmd: cmd}
	var err error
	for range 200 {
		if _, err = c.request("initialize", hello); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	var res *http.Response
	if err == nil {
		res, err = c.post(initialized)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	io.Copy(io.Discard, res.Body)
	return c, res.Body.Close()
}

func (c *httpCaller) post(body string) (*http.Response, error) {
	req, err := http.NewRequest("POST", c.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
		req.Header.Set("MCP-Protocol-Version", "2025-06-18")
	}
	return c.client.Do(req)
}

func (c *httpCaller) request(method, params string) (json.RawMessage, error) {
	c.n++
	res, err := c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.n, method, params))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if s := res.Header.Get("Mcp-Session-Id"); s != "" {
		c.session = s
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %.200s", res.Status, body)
	}
	for line := range bytes.Lines(body) {
		line = bytes.TrimPrefix(bytes.TrimSpace(line), []byte("data:"))
		if r, ok, err := answer(line, c.n); ok {
			return r, err
		}
	}
	return nil, fmt.Errorf("no answer in %.200s", body)
}

// close ends the server and what it started.
func (c *httpCaller) close() {
	group := -c.cmd.Process.Pid
	syscall.Kill(group, syscall.SIGTERM)
	time.AfterFunc(2*time.Second, func() { syscall.Kill(group, syscall.SIGKILL) })
	c.cmd.Wait()
}
