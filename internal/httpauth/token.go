package httpauth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"toolgate/internal/atomicfile"
	"toolgate/internal/fileowner"
)

// A Token identifies a caller by a secret, of which only the hash is stored.
type Token struct {
	Name string
	Hash [sha256.Size]byte
}

// MinToken is the minimum length of a token, in bytes.
const MinToken = 20

// NewToken returns a random token.
func NewToken() string { return "tg_" + rand.Text() + rand.Text() }

// TokenOf returns the Token with the hash of secret.
func TokenOf(name, secret string) Token {
	return Token{Name: name, Hash: sha256.Sum256([]byte(secret))}
}

const hashPrefix = "sha256:"

// HashText returns t's hash as written in the config: "sha256:" and 64 hex digits.
func (t Token) HashText() string { return hashPrefix + hex.EncodeToString(t.Hash[:]) }

// ParseToken returns the Token with a hash from the config.
func ParseToken(name, hash string) (Token, error) {
	t := Token{Name: name}
	digits, ok := strings.CutPrefix(hash, hashPrefix)
	b, err := hex.DecodeString(digits)
	if !ok || err != nil || len(b) != len(t.Hash) {
		return Token{}, fmt.Errorf("the hash of token %q is not sha256: and 64 hex digits; "+
			"make one with `toolgate http token add`", name)
	}
	copy(t.Hash[:], b)
	return t, nil
}

// match returns the token with this secret. Its run time does not depend on
// whether and which token matches.
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

// LoadOrCreateToken returns the token in the file at path. If the file is missing,
// it creates one with a random token and mode 0600.
func LoadOrCreateToken(path string) (string, error) {
	for {
		b, err := fileowner.ReadFile(path)
		if err == nil {
			if token := strings.TrimSpace(string(b)); len(token) >= MinToken {
				return token, ownOnly(path)
			}
			return "", fmt.Errorf("%s holds no token; remove the file to create a new one", path)
		}
		if !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		token := NewToken()
		err = atomicfile.Create(path, []byte(token+"\n"))
		if errors.Is(err, os.ErrExist) {
			continue // another process has just created it
		}
		return token, err
	}
}

// ownOnly returns an error if other users can read the file.
func ownOnly(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	// Windows does not use permission bits for access control.
	if others := info.Mode().Perm() & 0o077; others != 0 && runtime.GOOS != "windows" {
		return fmt.Errorf("%s may be read by others (mode %o); chmod 600 it, or remove it to create a new one",
			path, info.Mode().Perm())
	}
	return nil
}
