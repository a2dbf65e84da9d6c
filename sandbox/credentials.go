package sandbox

import (
	"path/filepath"
	"runtime"
	"strings"
)

// credentialNames are the paths of keys, tokens and sessions, relative to the home
// folder. They are files where the folder also contains what commands need.
var credentialNames = []string{
	// Keys and passwords.
	".ssh", ".gnupg", ".password-store", ".local/share/keyrings", ".local/share/kwalletd",
	".netrc", ".git-credentials", ".config/git/credentials", ".vault-token", ".pgpass", ".my.cnf",

	// Clouds and clusters.
	".aws", ".azure", ".config/gcloud", ".oci", ".kube", ".docker/config.json", ".config/doctl",
	".config/hcloud", ".config/rclone", ".s3cfg", ".boto", ".terraform.d/credentials.tfrc.json",
	".fly", ".config/flyctl", ".config/heroku", ".config/op",

	// Forges and registries.
	".config/gh", ".config/glab-cli", ".config/hub", ".npmrc", ".yarnrc.yml", ".pypirc",
	".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml",
	".gradle/gradle.properties", ".nuget/NuGet/NuGet.Config", ".config/composer/auth.json",

	// Agents.
	".codex/auth.json", ".claude/.credentials.json", ".claude.json", ".gemini/oauth_creds.json",
	".config/github-copilot", ".local/share/opencode/auth.json", ".config/goose/secrets.yaml",
	".cursor/mcp.json", ".config/Claude", ".copilot/mcp-config.json", ".codeium/windsurf/mcp_config.json",
	".config/Code/User/mcp.json", "Library/Application Support/Code/User/mcp.json",

	// Browsers and mail.
	".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium",
	".config/BraveSoftware", ".config/microsoft-edge", ".config/vivaldi", ".config/opera",
	"snap/firefox", "snap/chromium", ".var/app/org.mozilla.firefox", ".var/app/com.google.Chrome",

	// The same on macOS.
	"Library/Keychains", "Library/Cookies", "Library/Safari", "Library/Mail", "Library/Messages",
	"Library/Application Support/Firefox", "Library/Application Support/Google/Chrome",
	"Library/Application Support/BraveSoftware", "Library/Application Support/Microsoft Edge",
	"Library/Application Support/Claude", "Library/Application Support/com.apple.TCC",
}

// Credentials returns the paths below home that a profile should hide: whoever
// reads them can act as the user. Most do not exist; name them all, so that one that is
// created after a sandbox was started is hidden in it from [Cmd.Rescan] on.
func Credentials(home string) []string {
	var paths []string
	for _, name := range credentialNames {
		if runtime.GOOS == "darwin" || !strings.HasPrefix(name, "Library/") {
			paths = append(paths, filepath.Join(home, filepath.FromSlash(name)))
		}
	}
	return paths
}
