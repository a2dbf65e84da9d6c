package httpauth_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/internal/httpauth"
)

const secret = "tg_ALICEALICEALICEALICEALICE"

// inside says who it was that came in.
var inside = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	c, ok := httpauth.From(r.Context())
	fmt.Fprintf(w, "%s %v %q", c.Name, ok, r.Header.Get("Authorization"))
})

func get(h http.Handler, host string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "http://127.0.0.1:8321/mcp", nil)
	r.Host = host
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestRequire(t *testing.T) {
	d := httpauth.New(httpauth.Options{Loopback: true, Tokens: []httpauth.Token{httpauth.TokenOf("bob", "tg_BOB"), httpauth.TokenOf("alice", secret)}})
	h := d.Filter(d.Require(inside))
	for name, tt := range map[string]struct {
		headers []string
		status  int
		text    string
	}{
		"good":              {[]string{"Authorization", "Bearer " + secret}, 200, `token:alice true ""`},
		"in small letters":  {[]string{"Authorization", "bearer " + secret}, 200, `token:alice true ""`},
		"another":           {[]string{"Authorization", "Bearer tg_BOB"}, 200, `token:bob true ""`},
		"none":              {nil, 401, "a token is required"},
		"empty":             {[]string{"Authorization", ""}, 401, "a token is required"},
		"no secret":         {[]string{"Authorization", "Bearer "}, 401, "invalid token"},
		"wrong":             {[]string{"Authorization", "Bearer tg_X"}, 401, "invalid token"},
		"the beginning":     {[]string{"Authorization", "Bearer " + secret[:10]}, 401, "invalid token"},
		"more":              {[]string{"Authorization", "Bearer " + secret + "x"}, 401, "invalid token"},
		"the hash":          {[]string{"Authorization", "Bearer " + httpauth.TokenOf("alice", secret).HashText()}, 401, "invalid token"},
		"basic":             {[]string{"Authorization", "Basic " + secret}, 401, "a token is required"},
		"two":               {[]string{"Authorization", "Bearer " + secret, "Authorization", "Bearer tg_X"}, 401, "a token is required"},
		"in another header": {[]string{"X-Api-Key", secret}, 401, "a token is required"},
		"as a cookie":       {[]string{"Cookie", "Authorization=Bearer " + secret}, 401, "a token is required"},
	} {
		t.Run(name, func(t *testing.T) {
			w := get(h, "127.0.0.1:8321", tt.headers...)
			require.Equal(t, tt.status, w.Code)
			require.Contains(t, w.Body.String(), tt.text)
			require.Equal(t, tt.status == 401, w.Header().Get("WWW-Authenticate") != "")
			require.NotEmpty(t, w.Header().Get("X-Request-Id"))
			require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
		})
	}
	d.SetTokens(nil)
	require.Equal(t, 401, get(h, "127.0.0.1:8321", "Authorization", "Bearer "+secret).Code, "taken away")
	var zero httpauth.Options
	require.Equal(t, 401, get(httpauth.New(zero).Require(inside), "localhost", "Authorization", "Bearer ").Code)
}

func TestFilterRejectsForeignPages(t *testing.T) {
	own := httpauth.New(httpauth.Options{Loopback: true, Hosts: []string{"mcp.example.com", "other.example.com:8443"}, Origins: []string{"https://app.example.com"}})
	public := httpauth.New(httpauth.Options{Hosts: []string{"mcp.example.com"}})
	for _, tt := range []struct {
		host, origin string
		own, public  int
	}{
		{"127.0.0.1:8321", "", 200, 200},
		{"localhost", "", 200, 200},
		{"LOCALHOST:1", "", 200, 200},
		{"[::1]:8321", "", 200, 200},
		{"127.1.2.3", "", 200, 200},
		{"mcp.example.com", "", 200, 200},
		{"MCP.example.com:443", "", 200, 200},
		{"other.example.com:8443", "", 200, 403},
		{"192.0.2.7:8321", "", 403, 200},
		{"evil.example", "", 403, 403},
		{"evil.example:8321", "", 403, 403},
		{"localhost.evil.example", "", 403, 403},
		{"127.0.0.1.evil.example", "", 403, 403},
		{"evil-mcp.example.com", "", 403, 403},
		{"127.0.0.1@evil.example", "", 403, 403},
		{"", "", 403, 403},
		{"localhost:8321", "http://localhost:8321", 200, 200},
		{"localhost:8321", "http://localhost:8322", 403, 403},
		{"localhost:8321", "http://evil.example", 403, 403},
		{"localhost:8321", "null", 403, 403},
		{"localhost:8321", "file://localhost:8321", 403, 403},
		{"localhost:8321", "https://app.example.com", 200, 403},
		{"localhost:8321", "https://app.example.com.evil.example", 403, 403},
		{"localhost:8321", "https://evil.example#https://app.example.com", 403, 403},
		{"evil.example", "http://evil.example", 403, 403},
	} {
		t.Run(tt.host+" "+tt.origin, func(t *testing.T) {
			var headers []string
			if tt.origin != "" {
				headers = []string{"Origin", tt.origin}
			}
			require.Equal(t, tt.own, get(own.Filter(inside), tt.host, headers...).Code)
			require.Equal(t, tt.public, get(public.Filter(inside), tt.host, headers...).Code)
		})
	}
	require.Equal(t, 403, get(own.Filter(inside), "localhost", "Origin", "http://localhost", "Origin", "http://evil.example").Code, "each of them")
}

func TestFailedAttemptsAreSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slowed atomic.Int64
		d := httpauth.New(httpauth.Options{Loopback: true, Tokens: []httpauth.Token{httpauth.TokenOf("alice", secret)}, Refused: func(r string) {
			if r == "slowed" {
				slowed.Add(1)
			}
		}})
		h := d.Require(inside)
		began := time.Now()
		for range 50 {
			require.Equal(t, 401, get(h, "localhost", "Authorization", "Bearer tg_GUESS").Code)
		}
		require.GreaterOrEqual(t, time.Since(began), 2900*time.Millisecond)
		codes := make(chan int, 200)
		for range cap(codes) {
			go func() { codes <- get(h, "localhost", "Authorization", "Bearer tg_GUESS").Code }()
		}
		synctest.Wait()
		began = time.Now()
		require.Equal(t, 200, get(h, "localhost", "Authorization", "Bearer "+secret).Code, "who belongs does not wait")
		require.Zero(t, time.Since(began))
		seen := map[int]int{}
		for range cap(codes) {
			seen[<-codes]++
		}
		require.Greater(t, seen[429], 100, "and nobody can make many wait: %v", seen)
		require.EqualValues(t, seen[429], slowed.Load())
	})
}

func TestRateOfACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := httpauth.New(httpauth.Options{Loopback: true, Tokens: []httpauth.Token{httpauth.TokenOf("alice", secret), httpauth.TokenOf("bob", "tg_BOB")}, Rate: 2, Burst: 3})
		h := d.Require(inside)
		call := func(token string) *httptest.ResponseRecorder {
			return get(h, "localhost", "Authorization", "Bearer "+token)
		}
		for range 3 {
			require.Equal(t, 200, call(secret).Code)
		}
		w := call(secret)
		require.Equal(t, 429, w.Code)
		require.Equal(t, "1", w.Header().Get("Retry-After"))
		require.Equal(t, 200, call("tg_BOB").Code, "that is alice's affair")
		<-time.After(500 * time.Millisecond)
		require.Equal(t, 200, call(secret).Code)
		require.Equal(t, 429, call(secret).Code)
	})
}

func TestKeptToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "http-token")
	first, err := httpauth.LoadOrCreateToken(file)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(first), 40)
	again, err := httpauth.LoadOrCreateToken(file)
	require.NoError(t, err)
	require.Equal(t, first, again)
	if runtime.GOOS != "windows" {
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		require.NoError(t, os.Chmod(file, 0o644))
		_, err = httpauth.LoadOrCreateToken(file)
		require.ErrorContains(t, err, "may be read by others")
		require.NoError(t, os.Chmod(file, 0o600))
	}
	require.NoError(t, os.WriteFile(file, []byte("short\n"), 0o600))
	_, err = httpauth.LoadOrCreateToken(file)
	require.ErrorContains(t, err, "holds no token")
}

func TestParseToken(t *testing.T) {
	want := httpauth.TokenOf("alice", secret)
	got, err := httpauth.ParseToken("alice", want.HashText())
	require.NoError(t, err)
	require.Equal(t, want, got)
	for _, bad := range []string{"", secret, "sha256:", "sha256:00", want.HashText() + "00", "md5:" + want.HashText()[7:], strings.Replace(want.HashText(), "sha256:", "", 1)} {
		_, err := httpauth.ParseToken("alice", bad)
		require.Error(t, err, "%q", bad)
	}
}

// Strangers do not keep out who belongs.
func TestListenerLetsGoOfStrangersFirst(t *testing.T) {
	d := httpauth.New(httpauth.Options{Loopback: true, Tokens: []httpauth.Token{httpauth.TokenOf("alice", secret)}})
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := httpauth.LimitListener(inner, 3)
	srv := &http.Server{Handler: d.Require(inside), ConnContext: httpauth.ConnContext}
	go srv.Serve(l) // ends with Close
	defer srv.Close()

	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
	call := func() {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+inner.Addr().String(), nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+secret)
		resp, err := client.Do(r)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 200, resp.StatusCode)
	}
	call() // its connection is known now
	var strangers []net.Conn
	for range 20 {
		c, err := net.Dial("tcp", inner.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		strangers = append(strangers, c)
	}
	_, err = strangers[0].Read(make([]byte, 1))
	require.Error(t, err, "the first of them was let go")
	call()
	client.CloseIdleConnections()
	call() // and a new one finds room
	require.LessOrEqual(t, l.Open(), 3)
}

// An issuer is an authorization server.
type issuer struct {
	*httptest.Server
	key     *rsa.PrivateKey
	fetched int
	down    bool
}

func newIssuer(t *testing.T) *issuer {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	i := &issuer{key: key}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, r *http.Request) {
		if i.down {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		json.NewEncoder(w).Encode(map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, r *http.Request) {
		i.fetched++
		e := base64.RawURLEncoding.EncodeToString(big.NewInt(int64(i.key.E)).Bytes())
		json.NewEncoder(w).Encode(map[string]any{"keys": []any{map[string]string{"kty": "RSA", "kid": "k1", "alg": "RS256", "use": "sig", "n": base64.RawURLEncoding.EncodeToString(i.key.N.Bytes()), "e": e}}})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

func part(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// token returns a token with claims, signed as header says.
func (i *issuer) token(t *testing.T, header map[string]string, claims map[string]any) string {
	text := part(header) + "." + part(claims)
	sum := sha256.Sum256([]byte(text))
	var sig []byte
	var err error
	switch header["alg"] {
	case "RS256":
		sig, err = rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, sum[:])
	case "HS256": // with the public key as the shared secret, an old trick
		der, _ := x509.MarshalPKIXPublicKey(&i.key.PublicKey)
		mac := sha256.Sum256(append(der, text...))
		sig = mac[:]
	}
	require.NoError(t, err)
	return text + "." + base64.RawURLEncoding.EncodeToString(sig)
}

func TestOAuth(t *testing.T) {
	const resource = "https://mcp.example.com/mcp"
	i := newIssuer(t)
	d := httpauth.New(httpauth.Options{Loopback: true, OAuth: &httpauth.OAuth{Issuer: i.URL, Audience: resource, Resource: resource, Scopes: []string{"tools"}}})
	mux := http.NewServeMux()
	d.MountMetadata(mux)
	mux.Handle("/", d.Require(inside))
	good := func() map[string]any {
		return map[string]any{"iss": i.URL, "aud": resource, "sub": "alice", "scope": "other tools", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix()}
	}
	rs := map[string]string{"alg": "RS256", "kid": "k1", "typ": "at+jwt"}
	try := func(token string) *httptest.ResponseRecorder {
		return get(mux, "localhost", "Authorization", "Bearer "+token)
	}

	i.down = true
	require.Equal(t, 503, try(i.token(t, rs, good())).Code, "nobody's fault")
	i.down = false
	w := try(i.token(t, rs, good()))
	require.Equal(t, 200, w.Code, w.Body)
	require.Contains(t, w.Body.String(), "oauth:alice@"+i.URL+" true")

	for name, change := range map[string]map[string]any{
		"expired":          {"exp": time.Now().Add(-time.Minute).Unix()},
		"no expiry":        {"exp": nil},
		"not yet":          {"nbf": time.Now().Add(time.Hour).Unix()},
		"another audience": {"aud": "https://other.example.com/mcp"},
		"no audience":      {"aud": nil},
		"another issuer":   {"iss": "https://evil.example"},
		"no subject":       {"sub": nil},
		"an ID token":      {"nonce": "n"},
	} {
		claims := good()
		maps.Copy(claims, change)
		maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
		w := try(i.token(t, rs, claims))
		require.Equal(t, 401, w.Code, name)
		require.Contains(t, w.Header().Get("WWW-Authenticate"), `error="invalid_token"`, name)
		require.Contains(t, w.Header().Get("WWW-Authenticate"), `resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"`)
	}
	lacking := good()
	lacking["scope"] = "other"
	w = try(i.token(t, rs, lacking))
	require.Equal(t, 403, w.Code)
	require.Contains(t, w.Header().Get("WWW-Authenticate"), `error="insufficient_scope"`)
	require.Contains(t, w.Header().Get("WWW-Authenticate"), `scope="tools"`)

	require.Equal(t, 401, try(part(map[string]string{"alg": "none"})+"."+part(good())+".").Code, "unsigned")
	require.Equal(t, 401, try(i.token(t, map[string]string{"alg": "HS256", "kid": "k1"}, good())).Code, "signed with what everybody knows")
	other := &issuer{Server: i.Server}
	var err error
	other.key, err = rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	require.Equal(t, 401, try(other.token(t, rs, good())).Code, "somebody else's key")
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	sum := sha256.Sum256([]byte("x"))
	sig, err := ecdsa.SignASN1(rand.Reader, ec, sum[:])
	require.NoError(t, err)
	require.Equal(t, 401, try(part(map[string]string{"alg": "ES256", "kid": "k1"})+"."+part(good())+"."+base64.RawURLEncoding.EncodeToString(sig)).Code)
	require.Equal(t, 401, try("a.b.c").Code)

	// Tokens that anybody can make do not make us ask the issuer each time.
	before := i.fetched
	for n := range 25 {
		try(other.token(t, map[string]string{"alg": "RS256", "kid": fmt.Sprint("made-up-", n)}, good()))
	}
	require.LessOrEqual(t, i.fetched-before, 12)

	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), "GET", path, nil))
		require.Equal(t, 200, w.Code)
		require.JSONEq(t, fmt.Sprintf(`{"resource":%q,"authorization_servers":[%q],"scopes_supported":["tools"],"bearer_methods_supported":["header"],"resource_name":"toolgate"}`, resource, i.URL), w.Body.String())
		require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
	}
}
