package cli

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHTTPCallersOfAnAuthorizationServer: each subject is a caller of its own,
// in the workspace that they all have.
func TestHTTPCallersOfAnAuthorizationServer(t *testing.T) {
	needSandbox(t)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	b64 := base64.RawURLEncoding.EncodeToString
	var issuer *httptest.Server
	issuer = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, issuer.URL, issuer.URL+"/keys")
		case "/keys":
			fmt.Fprintf(w, `{"keys":[{"kty":"RSA","kid":"k","alg":"RS256","use":"sig","n":%q,"e":%q}]}`, b64(key.N.Bytes()), b64(big.NewInt(int64(key.E)).Bytes()))
		default:
			http.NotFound(w, r)
		}
	}))
	defer issuer.Close()
	token := func(subject, audience string) string {
		claims, err := json.Marshal(map[string]any{"iss": issuer.URL, "aud": audience, "sub": subject, "scope": "tools", "exp": time.Now().Add(time.Hour).Unix()})
		require.NoError(t, err)
		text := b64([]byte(`{"alg":"RS256","kid":"k"}`)) + "." + b64(claims)
		sum := sha256.Sum256([]byte(text))
		sig, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
		require.NoError(t, err)
		return text + "." + b64(sig)
	}

	const resource = "https://mcp.example.com/mcp"
	theirs := t.TempDir()
	s := startWeb(t, fmt.Sprintf("approval_wait = 0\n[http.oauth]\nissuer = %q\nresource = %q\nscopes = [\"tools\"]\nworkspace = %q\n", issuer.URL, resource, filepath.ToSlash(theirs)))
	resp, _ := (&webCaller{s: s}).do("POST", "/mcp", greeting)
	require.Equal(t, 401, resp.StatusCode)
	require.Contains(t, resp.Header.Get("WWW-Authenticate"), `resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"`)
	_, body := (&webCaller{s: s}).do("GET", "/.well-known/oauth-protected-resource/mcp", "")
	require.Contains(t, body, issuer.URL)
	resp, _ = (&webCaller{s: s, token: token("ann", "https://other.example.com/mcp")}).do("POST", "/mcp", greeting)
	require.Equal(t, 401, resp.StatusCode, "a token for somebody else")

	ann, ben := s.session(token("ann", resource)), s.session(token("ben", resource))
	m, _ := ann.call("exec_command", `{"cmd":"pwd; echo secret-of-ann; sleep 1000","yield_time_ms":250}`)
	require.Contains(t, m.text(), theirs)
	m, _ = ben.call("list_sessions", `{}`)
	require.Contains(t, m.text(), "no sessions")
	resp, _ = (&webCaller{s: s, token: ben.token, session: ann.session}).do("DELETE", "/mcp", "")
	require.Equal(t, 404, resp.StatusCode)
	m, _ = s.session(webToken).call("shell", `{"command":["pwd"]}`)
	require.Contains(t, m.text(), s.ws, "the server's own token is as it was")
	require.Contains(t, s.run("audit", "--json"), `"caller":"oauth:ann@`+issuer.URL+`"`)
}
