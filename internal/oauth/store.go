package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"toolgate/internal/atomicfile"
	"toolgate/internal/filelock"
	"toolgate/internal/fileowner"
)

// A Grant is the stored state of one server: the client registration and the tokens.
type Grant struct {
	URL      string `json:"url"`      // of the MCP server; the tokens are sent nowhere else
	Resource string `json:"resource"` // that the tokens are valid for

	Issuer             string `json:"issuer,omitempty"`
	TokenEndpoint      string `json:"token_endpoint,omitempty"`
	RevocationEndpoint string `json:"revocation_endpoint,omitempty"`

	ClientID      string    `json:"client_id,omitempty"`
	ClientSecret  string    `json:"client_secret,omitempty"`
	ClientAuth    string    `json:"client_auth,omitempty"`
	RedirectURI   string    `json:"redirect_uri,omitempty"`
	Registered    bool      `json:"registered,omitempty"` // dynamically
	SecretExpires time.Time `json:"secret_expires,omitzero"`

	AccessToken  string    `json:"access_token,omitempty"`
	RefreshToken string    `json:"refresh_token,omitempty"`
	Expires      time.Time `json:"expires,omitzero"` // zero: unknown
	Scopes       []string  `json:"scopes,omitempty"` // granted

	Needs []string `json:"needs,omitempty"` // scopes that were required but not granted yet
	Why   string   `json:"why,omitempty"`   // why a login is needed
}

// A Store keeps grants, in one file per server that only the user can read. Its methods
// may be used concurrently, also by several processes.
type Store struct {
	Dir string
}

// file returns the path of a server's file. Server names may contain characters that file
// names may not, and may differ only in case.
func (s Store) file(server string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, server)
	if clean != server {
		sum := sha256.Sum256([]byte(server))
		clean += "-" + hex.EncodeToString(sum[:6])
	}
	return filepath.Join(s.Dir, clean+".json")
}

// Load returns the stored grant of the server. It returns nil if there is none, if it is for
// another URL or resource, or if it would send a client secret of the config to an
// authorization server that this is not for.
func (s Store) Load(server Server) (*Grant, error) {
	b, err := fileowner.ReadFile(s.file(server.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var g Grant
	if err := json.Unmarshal(b, &g); err != nil {
		return nil, fmt.Errorf("reading %s: %w", s.file(server.Name), err)
	}
	if g.URL != server.URL || server.Resource != "" && g.Resource != server.Resource {
		return nil, nil
	}
	if !g.Registered && g.ClientSecret != "" && server.checkIssuer(g.Issuer) != nil {
		return nil, nil
	}
	return &g, nil
}

// save stores the grant of the server atomically.
func (s Store) save(server string, g *Grant) error {
	b, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(s.file(server), append(b, '\n'), 0o600)
}

// stamp identifies the version of a server's file; nil means that it is missing.
func (s Store) stamp(server string) os.FileInfo {
	info, err := os.Stat(s.file(server))
	if err != nil {
		return nil
	}
	return info
}

func sameStamp(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// lock locks the server's file across processes until unlock is called. A refresh token is
// valid once: if two processes use it, the authorization server may revoke both.
func (s Store) lock(ctx context.Context, server string) (unlock func(), err error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(s.file(server)+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := filelock.Lock(ctx, f, 0); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
