package httpauth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A Token lets its holder in. The token itself is not kept: a hash is enough
// to know it by, and of a random one it tells nothing.
type Token struct {
	Name string
	Hash [sha256.Size]byte
}

// MinToken is the least length of a token that a user may choose.
const MinToken = 20

// NewToken returns a random token.
func NewToken() string { return "tg_" + rand.Text() + rand.Text() }

// TokenOf returns the Token for a secret.
func TokenOf(name, secret string) Token {
	return Token{Name: name, Hash: sha256.Sum256([]byte(secret))}
}

const hashPrefix = "sha256:"

// HashText returns t's hash as it stands in the config.
func (t Token) HashText() string { return hashPrefix + hex.EncodeToString(t.Hash[:]) }

// ParseToken returns the Token with a hash from the config.
func ParseToken(name, hash string) (Token, error) {
	t := Token{Name: name}
	digits, ok := strings.CutPrefix(hash, hashPrefix)
	b, err := hex.DecodeString(digits)
	if !ok || err != nil || len(b) != len(t.Hash) {
		return Token{}, fmt.Errorf("the hash of token %q is not sha256: and 64 hex digits; make one with `toolgate http token add`", name)
	}
	copy(t.Hash[:], b)
	return t, nil
}

// match returns the token that secret is. It takes the same time whichever
// it is, and whether it is one.
func match(tokens []Token, secret string) (Token, bool) {
	given := sha256.Sum256([]byte(secret))
	found := -1
	for i, t := range tokens {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(t.Hash[:], given[:]), i, found)
	}
	if found < 0 {
		return Token{}, false
	}
	return tokens[found], true
}

// LoadOrCreateToken returns the token in the file at path, made there for its owner
// alone if it is missing.
func LoadOrCreateToken(path string) (string, error) {
	for {
		b, err := os.ReadFile(path)
		if err == nil {
			if token := strings.TrimSpace(string(b)); len(token) >= MinToken {
				return token, ownOnly(path)
			}
			return "", fmt.Errorf("%s holds no token; remove it and a new one is made", path)
		}
		if !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return "", err
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, os.ErrExist) {
			continue // another process has just made it
		}
		if err != nil {
			return "", err
		}
		token := NewToken()
		_, err = f.WriteString(token + "\n")
		return token, errors.Join(err, f.Close())
	}
}

// ownOnly refuses a file that others may read.
func ownOnly(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if others := info.Mode().Perm() & 0o077; others != 0 && !windows {
		return fmt.Errorf("%s may be read by others (mode %o); chmod 600 it, or remove it and a new one is made", path, info.Mode().Perm())
	}
	return nil
}
