package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/sandbox"
)

// TestSurroundings are told apart by what lies around.
func TestSurroundings(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  surroundings
	}{
		"Ubuntu": {map[string]string{"etc/os-release": "NAME=x\nID=ubuntu\n", "proc/sys/kernel/osrelease": "6.8.0-31-generic\n", "proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n", "proc/1/cgroup": "0::/init.scope\n"},
			surroundings{OS: "linux", Distro: "ubuntu", Kernel: "6.8.0-31-generic", AppArmorRestricts: true}},
		"WSL 2":      {map[string]string{"proc/sys/kernel/osrelease": "5.15.90.1-microsoft-standard-WSL2"}, surroundings{OS: "linux", Kernel: "5.15.90.1-microsoft-standard-WSL2", WSL: 2}},
		"WSL 1":      {map[string]string{"proc/sys/kernel/osrelease": "4.4.0-19041-Microsoft"}, surroundings{OS: "linux", Kernel: "4.4.0-19041-Microsoft", WSL: 1}},
		"Docker":     {map[string]string{".dockerenv": "", "proc/1/cgroup": "0::/"}, surroundings{OS: "linux", Container: "docker"}},
		"Docker, v1": {map[string]string{"proc/1/cgroup": "12:pids:/docker/abc\n"}, surroundings{OS: "linux", Container: "docker"}},
		"Podman":     {map[string]string{"run/.containerenv": ""}, surroundings{OS: "linux", Container: "podman"}},
		"Kubernetes": {map[string]string{".dockerenv": "", "proc/1/cgroup": "0::/kubepods/x\n"}, surroundings{OS: "linux", Container: "kubernetes"}},
		"hardened":   {map[string]string{"proc/sys/user/max_user_namespaces": "0", "proc/sys/kernel/unprivileged_userns_clone": "0"}, surroundings{OS: "linux", NoUserns: true, NoUsernsClone: true}},
		"nothing":    {nil, surroundings{OS: "linux"}},
	} {
		root := t.TempDir()
		for file, text := range tt.files {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(root, file), []byte(text), 0o644))
		}
		require.Equal(t, tt.want, detectSurroundings("linux", root), name)
	}
	require.Equal(t, surroundings{OS: "darwin"}, detectSurroundings("darwin", t.TempDir()))
}

// TestAdvice: each place where people ask how to get the level full has its
// own answer.
func TestAdvice(t *testing.T) {
	yes, no := sandbox.Support{OK: true}, sandbox.Support{Why: "no"}
	full := sandbox.System{OS: "linux", Seccomp: yes, Landlock: yes, Namespaces: yes}
	landlock := sandbox.System{OS: "linux", Seccomp: yes, Landlock: yes, Namespaces: no, Bwrap: no}
	none := sandbox.System{OS: "linux", Seccomp: yes, Landlock: no, Namespaces: no, Bwrap: no}
	bwrap := sandbox.System{OS: "linux", Seccomp: yes, Landlock: yes, Namespaces: no, Bwrap: yes}
	for name, tt := range map[string]struct {
		sys  sandbox.System
		at   surroundings
		want string
	}{
		"full":                     {full, surroundings{OS: "linux", AppArmorRestricts: true}, ""},
		"bubblewrap does":          {bwrap, surroundings{OS: "linux", AppArmorRestricts: true}, ""},
		"Ubuntu":                   {landlock, surroundings{OS: "linux", AppArmorRestricts: true}, "profile toolgate /opt/toolgate flags=(unconfined)"},
		"Ubuntu, load it":          {landlock, surroundings{OS: "linux", AppArmorRestricts: true}, "sudo apparmor_parser -r /etc/apparmor.d/toolgate"},
		"Docker":                   {landlock, surroundings{OS: "linux", Container: "docker", AppArmorRestricts: true}, "docker run --security-opt seccomp=unconfined"},
		"Docker on Ubuntu":         {landlock, surroundings{OS: "linux", Container: "docker", AppArmorRestricts: true}, "kernel.apparmor_restrict_unprivileged_userns=0"},
		"Docker, switched off":     {landlock, surroundings{OS: "linux", Container: "docker", NoUserns: true}, "on the machine that it runs on"},
		"Podman":                   {none, surroundings{OS: "linux", Container: "podman"}, "podman run --security-opt"},
		"Kubernetes":               {landlock, surroundings{OS: "linux", Container: "kubernetes"}, "hostUsers: false"},
		"WSL 1":                    {sandbox.System{OS: "linux"}, surroundings{OS: "linux", WSL: 1, Distro: "debian"}, "wsl --set-version debian 2"},
		"WSL 2 with an old kernel": {none, surroundings{OS: "linux", WSL: 2}, "wsl --update"},
		"switched off":             {landlock, surroundings{OS: "linux", NoUserns: true}, "user.max_user_namespaces=15000"},
		"root's alone":             {landlock, surroundings{OS: "linux", NoUsernsClone: true}, "kernel.unprivileged_userns_clone=1"},
		"for another reason":       {landlock, surroundings{OS: "linux"}, "see above why"},
		"macOS":                    {sandbox.System{OS: "darwin"}, surroundings{OS: "darwin"}, "virtual machine"},
		"Windows":                  {sandbox.System{OS: "windows"}, surroundings{OS: "windows"}, "WSL 2"},
	} {
		got := strings.Join(advice(tt.sys, tt.at, "/opt/toolgate"), "\n")
		if tt.want == "" {
			require.Empty(t, got, name)
			continue
		}
		require.Contains(t, got, tt.want, name)
	}
}

func TestWordsOfAClientsEntry(t *testing.T) {
	dir := t.TempDir()
	for _, words := range [][]string{{}, {"serve"}, {"serve", dir}, {"-C", dir, "-s", "read-only", "-a", "never"}, {"-C", "${workspaceFolder}"}, {"wrap", "--", "npx", "-y", "x"}} {
		require.NoError(t, checkArguments(words), "%q", words)
	}
	for want, words := range map[string][]string{
		"unknown command":      {"server"},
		"unknown flag":         {"--workspace", dir},
		"unknown shorthand":    {"-x"},
		"unknown sandbox mode": {"-s", "readonly"},
		"unknown approval":     {"-a", "always"},
		"no such directory":    {"-C", filepath.Join(dir, "gone")},
		"-C \"\": ":            {"-C", ""},
		"--add-dir ":           {"-C", "${workspaceFolder}", "--add-dir", filepath.Join(dir, "gone")},
	} {
		require.ErrorContains(t, checkArguments(words), want)
	}
}
