package httpauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/time/rate"
)

// OAuth configures an OAuth 2.1 resource server, which accepts the JWT access
// tokens of one authorization server.
type OAuth struct {
	Issuer   string   // of accepted tokens
	Audience string   // that tokens must have
	Resource string   // public URL of this server
	JWKSURL  string   // of the issuer's keys; "": taken from its metadata
	Scopes   []string // that a token must have, all of them
}

// algorithms are the accepted signature algorithms, all of them asymmetric: "none"
// and HMAC must not be accepted.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512,
	oidc.ES256, oidc.ES384, oidc.ES512,
	oidc.PS256, oidc.PS384, oidc.PS512,
	oidc.EdDSA,
}

// A verifier checks the tokens of an authorization server.
type verifier struct {
	o      OAuth
	client *http.Client

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier // nil until the issuer's keys are known
}

func newVerifier(o OAuth) *verifier {
	// A token with an unknown key ID causes the keys to be fetched again. Anyone can
	// send such tokens, so the requests to the issuer are limited.
	transport := &rateLimitedTransport{rate.NewLimiter(rate.Every(time.Second), 10)}
	return &verifier{o: o, client: &http.Client{Timeout: 10 * time.Second, Transport: transport}}
}

// A rateLimitedTransport fails requests that exceed the limit.
type rateLimitedTransport struct{ limiter *rate.Limiter }

func (t *rateLimitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.limiter.Allow() {
		return nil, errors.New("too many requests to the authorization server")
	}
	return http.DefaultTransport.RoundTrip(r)
}

// A scopeError reports a valid token without the required scopes.
type scopeError struct{ missing []string }

func (e *scopeError) Error() string {
	return "the token lacks the scope " + strings.Join(e.missing, " ")
}

// caller verifies the token and returns its subject as a caller. The error is a
// *scopeError, wraps [auth.ErrInvalidToken], or says that the keys are unavailable.
func (v *verifier) caller(ctx context.Context, token string) (Caller, error) {
	check, err := v.tokenVerifier(ctx)
	if err != nil {
		return Caller{}, err
	}
	t, err := check.Verify(ctx, token)
	if err != nil {
		return Caller{}, fmt.Errorf("%w: %w", auth.ErrInvalidToken, err)
	}
	var claims struct {
		Scope  string   `json:"scope"`
		Scp    []string `json:"scp"`
		Nonce  string   `json:"nonce"`
		AtHash string   `json:"at_hash"`
	}
	if err := t.Claims(&claims); err != nil || t.Subject == "" || claims.Nonce != "" || claims.AtHash != "" {
		return Caller{}, fmt.Errorf("%w: not an access token with a subject", auth.ErrInvalidToken)
	}
	have := append(strings.Fields(claims.Scope), claims.Scp...)
	var missing []string
	for _, s := range v.o.Scopes {
		if !slices.Contains(have, s) {
			missing = append(missing, s)
		}
	}
	if missing != nil {
		return Caller{}, &scopeError{missing}
	}
	return Caller{Name: "oauth:" + t.Subject + "@" + t.Issuer, OAuth: true}, nil
}

// tokenVerifier returns the verifier of signatures. The first call discovers the
// location of the keys; failures are not cached.
func (v *verifier) tokenVerifier(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.verifier != nil {
		return v.verifier, nil
	}
	keys := v.o.JWKSURL
	if keys == "" {
		var err error
		if keys, err = v.discover(ctx); err != nil {
			return nil, fmt.Errorf("finding the keys of %s: %w", v.o.Issuer, err)
		}
	}
	// The key set outlives the request that needs it first.
	set := oidc.NewRemoteKeySet(oidc.ClientContext(context.Background(), v.client), keys)
	conf := &oidc.Config{ClientID: v.o.Audience, SupportedSigningAlgs: algorithms}
	v.verifier = oidc.NewVerifier(v.o.Issuer, set, conf)
	return v.verifier, nil
}

// discover returns the URL of the issuer's keys, from its metadata (RFC 8414 or
// OpenID Connect Discovery).
func (v *verifier) discover(ctx context.Context) (string, error) {
	issuer, err := url.Parse(v.o.Issuer)
	if err != nil {
		return "", err
	}
	path := strings.TrimSuffix(issuer.Path, "/")
	root := issuer.Scheme + "://" + issuer.Host
	var errs []error
	for _, u := range []string{
		root + "/.well-known/oauth-authorization-server" + path,
		root + "/.well-known/openid-configuration" + path,
		root + path + "/.well-known/openid-configuration",
	} {
		keys, err := v.metadata(ctx, u, issuer.Host)
		if err == nil {
			return keys, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// metadata returns the URL of the keys from the metadata at u. It must be https, or on
// the issuer's own host.
func (v *verifier) metadata(ctx context.Context, u, issuerHost string) (keys string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return "", err
	}
	resp, err := v.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", u, resp.Status)
	}
	var meta struct {
		Issuer  string `json:"issuer"`
		JWKSURI string `json:"jwks_uri"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&meta); err != nil {
		return "", fmt.Errorf("%s: %w", u, err)
	}
	if meta.Issuer != v.o.Issuer || meta.JWKSURI == "" {
		return "", fmt.Errorf("%s: unexpected issuer %q or missing jwks_uri (%q)", u, meta.Issuer, meta.JWKSURI)
	}
	if keys, err := url.Parse(meta.JWKSURI); err != nil || keys.Scheme != "https" && keys.Host != issuerHost {
		return "", fmt.Errorf("%s: jwks_uri %q is not https", u, meta.JWKSURI)
	}
	return meta.JWKSURI, nil
}

// metadataPath is the location of protected resource metadata (RFC 9728).
const metadataPath = "/.well-known/oauth-protected-resource"

// MountMetadata adds the protected resource metadata to mux, which tells clients
// where to get a token. It needs no authentication. Without OAuth it does nothing.
func (a *Authenticator) MountMetadata(mux *http.ServeMux) {
	if a.oauth == nil {
		return
	}
	o := a.oauth.o
	metadata := &oauthex.ProtectedResourceMetadata{
		Resource:               o.Resource,
		AuthorizationServers:   []string{o.Issuer},
		ScopesSupported:        o.Scopes,
		BearerMethodsSupported: []string{"header"},
		ResourceName:           "toolgate",
	}
	// Unlike the SDK's handler, this one sets no CORS headers, which would let pages of
	// other origins read the response.
	serve := func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(metadata)
		case http.MethodOptions:
			w.WriteHeader(http.StatusNoContent)
		default:
			http.Error(w, "Method not allowed", http.StatusMethodNotAllowed)
		}
	}
	mux.HandleFunc(metadataPath, serve)
	if u, err := url.Parse(o.Resource); err == nil && strings.Trim(u.Path, "/") != "" {
		mux.HandleFunc(metadataPath+strings.TrimSuffix(u.Path, "/"), serve)
	}
}

// metadataURL returns the URL of the resource's metadata.
func (o OAuth) metadataURL() string {
	u, err := url.Parse(o.Resource)
	if err != nil {
		return ""
	}
	u.Path = metadataPath + strings.TrimSuffix(u.Path, "/")
	return u.String()
}
