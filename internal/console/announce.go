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
)

// A Announcement says where a running console is, in a file that only its owner can
// read and that lies where no tool can. It holds a secret by which the two
// sides know each other; what listens on that port after the gate has died
// cannot pass for it.
type Announcement struct {
	About
	URL    string `json:"url"` // without a path, such as "http://127.0.0.1:8321"
	Prefix string `json:"prefix"`
	Secret string `json:"secret"`

	file string
}

func newSecret() []byte {
	b := make([]byte, 32)
	rand.Read(b) // does not fail
	return b
}

// Announce writes the file in dir that says that the console is at url, and
// returns what removes it.
func (c *Console) Announce(dir, url string) (remove func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("telling where the console is: %w", err)
	}
	b, err := json.Marshal(Announcement{About: c.opts.About, URL: url, Prefix: c.opts.Prefix, Secret: hex.EncodeToString(c.secret)})
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, "new-*") // 0600
	if err != nil {
		return nil, fmt.Errorf("telling where the console is: %w", err)
	}
	name := filepath.Join(dir, strings.ToLower(rand.Text()[:12])+".json")
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
		return nil, fmt.Errorf("telling where the console is: %w", err)
	}
	return func() { os.Remove(name) }, nil
}

// Announcements returns what running consoles have written in dir, the newest
// first. Whether each still runs shows when it is asked for a link.
func Announcements(dir string) ([]Announcement, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []Announcement
	for _, name := range names {
		b, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // it has just ended
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

// ErrGone says that a console has ended without removing its notice.
var ErrGone = errors.New("it does not run any more")

// Link asks the console for a link that lets one browser in. When what
// answers does not know the secret, or nothing does, the notice is removed and
// the error wraps [ErrGone].
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
		// The certificate is made out to the name that others know the server
		// by, and not to the loopback. Who is there shows by the secret.
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
	var give codeReply
	b, err := io.ReadAll(io.LimitReader(res.Body, 4096))
	if err != nil || res.StatusCode != http.StatusOK || json.Unmarshal(b, &give) != nil || !hmac.Equal([]byte(give.Proof), []byte(proof(secret, "give", ask.Nonce, give.Code))) {
		os.Remove(n.file)
		return "", fmt.Errorf("%w: something else answers at %s", ErrGone, n.URL)
	}
	return n.URL + n.Prefix + "/#code=" + give.Code, nil
}

type codeRequest struct {
	Nonce string `json:"nonce"`
	Proof string `json:"proof"`
}

type codeReply struct {
	Code  string `json:"code"`
	Proof string `json:"proof"`
}

// proof shows that one knows the secret, without telling it.
func proof(secret []byte, words ...string) string {
	m := hmac.New(sha256.New, secret)
	for _, w := range words {
		fmt.Fprintf(m, "%d:%s", len(w), w)
	}
	return hex.EncodeToString(m.Sum(nil))
}

// issueCode gives a code to who knows the secret, which is no browser.
func (c *Console) issueCode(w http.ResponseWriter, r *http.Request) {
	var in codeRequest
	if _, browser := r.Header["Origin"]; browser || r.Header.Get("Sec-Fetch-Site") != "" {
		fail(w, http.StatusForbidden, errors.New("this is not for browsers"))
		return
	}
	if !read(w, r, &in) {
		return
	}
	if len(in.Nonce) < 16 || !hmac.Equal([]byte(in.Proof), []byte(proof(c.secret, "ask", in.Nonce))) {
		c.rejectCode(w, r)
		return
	}
	code := c.logins.newCode()
	reply(w, codeReply{Code: code, Proof: proof(c.secret, "give", in.Nonce, code)})
}
