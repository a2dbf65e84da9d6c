package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// A packedBundle is a bundle in the entry for the MCP registry.
type packedBundle struct{ Name, SHA256 string }

// registryEntry writes server.json, the description of the server in the MCP registry. It
// lists the bundles that are packed in dir as toolgate-VERSION-OS-CPU.mcpb, which will be
// attached to the release.
func registryEntry(version, dir, file string) error {
	if err := checkVersion(version); err != nil {
		return err
	}
	var packed []packedBundle
	for _, t := range targets {
		name := fmt.Sprintf("toolgate-%s-%s.mcpb", version, t)
		text, err := os.ReadFile(filepath.Join(dir, name))
		if dir == "" || os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		packed = append(packed, packedBundle{name, hex.EncodeToString(sum[:])})
	}
	text, err := document("server.json", map[string]any{"version": version, "bundles": packed})
	if err != nil {
		return err
	}
	return writeFile(file, text, 0o644)
}
