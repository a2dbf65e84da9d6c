package console

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"toolgate/internal/atomicfile"
	"toolgate/internal/fileowner"
)

// An Announcement is a file that says where a console is running. Only its owner can
// read it, and no tool can. It contains a secret with which console and client
// authenticate each other, so that another process that later listens on the same port
// cannot impersonate the console.
type Announcement struct {
	About
	URL    string `json:"url"` // without path, such as "http://127.0.0.1:8321"
	Prefix string `json:"prefix"`
	Secret string `json:"secret"`

	file string
}

// Announce writes a file in dir that says that the console is at url, and returns a function that removes it.
func (c *Console) Announce(dir, url string) (remove func(), err error) {
	b, err := json.Marshal(Announcement{
		About:  c.opts.About,
		URL:    url,
		Prefix: prefix,
		Secret: hex.EncodeToString(c.secret),
	})
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, strings.ToLower(rand.Text()[:12])+".json")
	if err := atomicfile.Write(name, b, 0o600); err != nil {
		return nil, fmt.Errorf("announcing the console: %w", err)
	}
	return func() { os.Remove(name) }, nil
}

// Announcements returns the announcements in dir, newest first. Some of the consoles may
// have ended; [Announcement.Link] finds out.
func Announcements(dir string) ([]Announcement, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []Announcement
	for _, name := range names {
		b, err := fileowner.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // the console has just ended
		}
		if err != nil {
			return nil, err
		}
		n := Announcement{file: name}
		if json.Unmarshal(b, &n) != nil || n.URL == "" || n.Secret == "" {
			continue
		}
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b Announcement) int { return b.Started.Compare(a.Started) })
	return all, nil
}

// ErrGone is returned for a console that ended without removing its announcement.
var ErrGone = errors.New("no longer running")

// Link requests a login link for one browser from the console. If nothing answers, or
// something that does not know the secret, it removes the announcement and returns an
// error that wraps [ErrGone].
func (n Announcement) Link(ctx context.Context) (string, error) {
	secret, err := hex.DecodeString(n.Secret)
	if err != nil {
		return "", err
	}
	ask := codeRequest{Nonce: rand.Text()}
	ask.Proof = proof(secret, "ask", ask.Nonce)
	body, err := json.Marshal(ask)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.URL+n.Prefix+"/code", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	direct := &http.Client{Transport: &http.Transport{
		Proxy:             nil,
		DisableKeepAlives: true,
		// The certificate is for the server's public name, not for the loopback
		// address. The secret authenticates the console.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := direct.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			os.Remove(n.file)
			err = fmt.Errorf("%w: %w", ErrGone, err)
		}
		return "", err
	}
	defer res.Body.Close()
	var got codeReply
	b, err := io.ReadAll(io.LimitReader(res.Body, 4096))
	ok := err == nil && res.StatusCode == http.StatusOK && json.Unmarshal(b, &got) == nil
	if !ok || !hmac.Equal([]byte(got.Proof), []byte(proof(secret, "give", ask.Nonce, got.Code))) {
		os.Remove(n.file)
		return "", fmt.Errorf("%w: something else answers at %s", ErrGone, n.URL)
	}
	return n.URL + n.Prefix + "/#code=" + got.Code, nil
}

type codeRequest struct {
	Nonce string `json:"nonce"`
	Proof string `json:"proof"`
}

type codeReply struct {
	Code  string `json:"code"`
	Proof string `json:"proof"`
}

// proof returns an HMAC of the words, which proves knowledge of the secret.
func proof(secret []byte, words ...string) string {
	m := hmac.New(sha256.New, secret)
	for _, w := range words {
		fmt.Fprintf(m, "%d:%s", len(w), w)
	}
	return hex.EncodeToString(m.Sum(nil))
}

// issueCode returns a login code to a local client that knows the secret.
func (c *Console) issueCode(w http.ResponseWriter, r *http.Request) (any, error) {
	var in codeRequest
	if _, browser := r.Header["Origin"]; browser || r.Header.Get("Sec-Fetch-Site") != "" {
		return nil, &failure{http.StatusForbidden, errors.New("not for browsers")}
	}
	if err := read(w, r, &in); err != nil {
		return nil, err
	}
	if len(in.Nonce) < 16 || !hmac.Equal([]byte(in.Proof), []byte(proof(c.secret, "ask", in.Nonce))) {
		return nil, c.rejectCode(r)
	}
	code := c.logins.newCode()
	return codeReply{Code: code, Proof: proof(c.secret, "give", in.Nonce, code)}, nil
}
