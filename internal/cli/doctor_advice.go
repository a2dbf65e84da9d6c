package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"toolgate/sandbox"
)

// surroundings is what determines how to get a better sandbox level.
type surroundings struct {
	OS        string `json:"os"`                  // in Go's words
	Distro    string `json:"distro,omitempty"`    // ID of os-release
	Kernel    string `json:"kernel,omitempty"`    // its release
	Container string `json:"container,omitempty"` // docker, podman, kubernetes, or "container" for another
	WSL       int    `json:"wsl,omitempty"`       // 1 or 2

	AppArmorRestricts bool `json:"apparmor_restricts_userns,omitempty"` // Ubuntu since 23.10
	NoUserns          bool `json:"userns_off,omitempty"`                // user.max_user_namespaces is 0
	NoUsernsClone     bool `json:"userns_clone_off,omitempty"`          // Debian's older switch
}

// detectSurroundings detects the surroundings, with root in place of /.
func detectSurroundings(goos, root string) surroundings {
	at := surroundings{OS: goos}
	if goos != "linux" {
		return at
	}
	read := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(root, name))
		return strings.TrimSpace(string(text))
	}
	there := func(name string) bool { return fileThere(filepath.Join(root, name)) }
	for line := range strings.SplitSeq(read("etc/os-release"), "\n") {
		if id, ok := strings.CutPrefix(line, "ID="); ok {
			at.Distro = strings.Trim(id, `"'`)
		}
	}
	at.Kernel = read("proc/sys/kernel/osrelease")
	switch {
	case strings.Contains(at.Kernel, "Microsoft"): // as version 1 writes it
		at.WSL = 1
	case strings.Contains(at.Kernel, "microsoft"):
		at.WSL = 2
	}
	switch groups := read("proc/1/cgroup"); {
	case there("var/run/secrets/kubernetes.io"), strings.Contains(groups, "kubepods"):
		at.Container = "kubernetes"
	case there(".dockerenv"), strings.Contains(groups, "docker"):
		at.Container = "docker"
	case there("run/.containerenv"):
		at.Container = "podman"
	case strings.Contains(groups, "lxc"), there("run/host/container-manager"):
		at.Container = "container"
	}
	at.AppArmorRestricts = read("proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1"
	at.NoUserns = read("proc/sys/user/max_user_namespaces") == "0"
	at.NoUsernsClone = read("proc/sys/kernel/unprivileged_userns_clone") == "0"
	return at
}

// advice returns the steps to level full, none if it is in force. Self is the path of this program.
func advice(sys sandbox.System, at surroundings, self string) []string {
	if sys.Level() == sandbox.Full {
		return nil
	}
	switch at.OS {
	case "windows":
		return []string{
			"Windows has nothing that toolgate confines commands with; run it in WSL 2, where it has all of Linux:",
			"  wsl --install",
			"and give the client the command: wsl -- toolgate -C /home/you/project",
		}
	case "darwin":
		return []string{"toolgate confines nothing on macOS; run it in a Linux virtual machine or " +
			"container to have commands confined"}
	case "linux":
	default:
		return []string{"toolgate confines commands on Linux alone"}
	}
	switch {
	case at.WSL == 1:
		return []string{
			"WSL 1 has no Linux kernel, and so no sandbox; move the distribution to WSL 2, in PowerShell:",
			"  wsl --set-version " + cmp.Or(at.Distro, "DISTRIBUTION") + " 2",
		}
	case at.Container != "":
		return append(containerAdvice(at), hostAdvice(at)...)
	}
	var steps []string
	if !sys.Namespaces.OK && !sys.Bwrap.OK {
		steps = append(steps, namespaceAdvice(at, self)...)
	}
	if !sys.Landlock.OK {
		steps = append(steps, landlockAdvice(at)...)
	}
	return steps
}

func containerAdvice(at surroundings) []string {
	switch at.Container {
	case "kubernetes":
		return []string{
			"Kubernetes keeps user namespaces from containers; the pod's spec can allow them, after " +
				"which toolgate's own sandbox is the stricter one:",
			"  hostUsers: false",
			"  securityContext: {seccompProfile: {type: Unconfined}, appArmorProfile: {type: " +
				"Unconfined}, procMount: Unmasked}",
		}
	case "docker", "podman":
		return []string{
			"the container keeps user namespaces from programs; start it so that toolgate's own " +
				"sandbox, which is the stricter one, can be made:",
			"  " + at.Container + " run --security-opt seccomp=unconfined --security-opt apparmor=unconfined " +
				"--security-opt systempaths=unconfined …",
		}
	}
	return []string{"the container keeps user namespaces from programs; allow nesting in its " +
		"settings (LXC: security.nesting=true)"}
}

// hostAdvice returns what the machine around a container must allow, as far as it can be detected inside.
func hostAdvice(at surroundings) []string {
	switch {
	case at.NoUserns:
		steps := namespaceAdvice(surroundings{NoUserns: true}, "")
		return append([]string{"and on the machine that it runs on:"}, steps[1:]...)
	case at.AppArmorRestricts:
		return []string{"and on the machine that it runs on, whose AppArmor keeps user namespaces " +
			"from programs without a profile:",
			"  echo kernel.apparmor_restrict_unprivileged_userns=0 | sudo tee " +
				"/etc/sysctl.d/60-userns.conf && sudo sysctl --system"}
	}
	return nil
}

func namespaceAdvice(at surroundings, self string) []string {
	switch {
	case at.NoUserns:
		return []string{"user namespaces are switched off; switch them on, and keep that over a restart:",
			"  echo user.max_user_namespaces=15000 | sudo tee /etc/sysctl.d/60-userns.conf && sudo sysctl --system"}
	case at.NoUsernsClone:
		return []string{"user namespaces are root's alone; open them to all, and keep that over a restart:",
			"  echo kernel.unprivileged_userns_clone=1 | sudo tee /etc/sysctl.d/60-userns.conf && sudo sysctl --system"}
	case at.AppArmorRestricts:
		return []string{
			"AppArmor lets only programs with a profile make user namespaces, as on Ubuntu since " +
				"23.10; give this program one:",
			fmt.Sprintf("  printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile toolgate %s "+
				"flags=(unconfined) {\\n  userns,\\n}\\n' | sudo tee /etc/apparmor.d/toolgate", self),
			"  sudo apparmor_parser -r /etc/apparmor.d/toolgate",
			"the profile is for the program at that path; without it, toolgate uses bubblewrap " +
				"where that one has a profile",
		}
	}
	return []string{"user namespaces cannot be made here, see above why; with them, toolgate can " +
		"hide folders and keep names read-only"}
}

func landlockAdvice(at surroundings) []string {
	if at.WSL == 2 {
		return []string{"the kernel has no Landlock; take the newest one, in PowerShell:", "  wsl --update"}
	}
	return []string{"the kernel has no Landlock (Linux 5.13 and newer have it; the boot parameter lsm= must name it)"}
}
