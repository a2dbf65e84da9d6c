package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Digest returns a short hash of f. Equal profiles have equal digests.
func (f Profile) Digest() string {
	b, err := json.Marshal(f)
	if err != nil {
		panic("bug: a profile does not marshal: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}
