package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// variable analyzes the value of a variable, if programs act on it.
func (f *finder) variable(sc scope, name string, value word) {
	switch {
	case commandVar(name):
		if value.hole || value.text != "" {
			f.script(sc.in(name+"="), value, syntax.LangBash, nil)
		}
	case len(name) == 3 && strings.HasPrefix(name, "PS"): // a prompt is expanded when it is printed
		if value.hole {
			f.opaque(sc, name+"="+value.text, "%s is expanded as a prompt, which can run commands", name)
		}
		f.expanded(sc.in(name+"="), value.text)
	case slices.Contains(integerVars, name) && value.hole:
		f.opaque(sc, name+"="+value.text, "bash evaluates what is assigned to %s, which can run commands", name)
	case (name == "BASH_ENV" || name == "ENV") && value.proc != nil:
		f.procScript(sc, value, name, syntax.LangBash, nil)
	case holdsCode(name, value):
		f.opaque(sc, name+"="+value.text, "%s can hold commands", name)
	case name == "PATH" && !keepsPrograms(value), replacesPrograms(name):
		f.opaque(sc, name+"="+value.text, "%s changes which programs run", name)
	case slices.Contains(codeFileVars, name):
		f.blockAllow(sc, name+"="+value.text, "%s changes which code runs", name)
	}
}

// integerVars are the variables that are integers in bash from the start.
var integerVars = strings.Fields("RANDOM SRANDOM SECONDS EPOCHSECONDS HISTCMD LINENO OPTIND BASHPID BASH_SUBSHELL " +
	"PPID UID EUID")

// commandVar reports whether the variable's value is a command that programs start.
func commandVar(name string) bool {
	switch name {
	case "GIT_SSH_COMMAND", "GIT_SSH", "GIT_PAGER", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_EXTERNAL_DIFF",
		"GIT_ASKPASS", "GIT_PROXY_COMMAND",
		"SSH_ASKPASS", "SUDO_ASKPASS", "SUDO_EDITOR", "PAGER", "MANPAGER", "EDITOR", "VISUAL", "FCEDIT", "HGEDITOR",
		"SVN_EDITOR", "BROWSER",
		"PROMPT_COMMAND", "LESSOPEN", "LESSCLOSE", "RSYNC_RSH", "CVS_RSH", "FZF_DEFAULT_COMMAND",
		"GH_PAGER", "GH_EDITOR", "GH_BROWSER", "SYSTEMD_PAGER", "PSQL_PAGER", "PSQL_EDITOR", "AWS_PAGER",
		"BAT_PAGER", "DELTA_PAGER",
		"CC", "CXX", "CPP", "LD", "AR", "FC", "RUSTC", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "MAKE",
		"CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER":
		return true
	}
	return strings.HasPrefix(name, "CARGO_") &&
		(strings.HasSuffix(name, "_RUNNER") || strings.HasSuffix(name, "_LINKER") ||
			strings.HasSuffix(name, "_WRAPPER"))
}

// codeVars are the variables whose value can contain commands, each with the words
// that indicate it; nil means any value can.
var codeVars = map[string][]string{
	"PERL5OPT": nil, "PERL5DB": nil, "RUBYOPT": nil, "LUA_INIT": nil, "NODE_OPTIONS": {"data:", "eval"},
	"GIT_CONFIG_PARAMETERS": nil, "GIT_CONFIG_COUNT": nil,
	"MAKEFLAGS": {"eval", "=", "-f"}, "GNUMAKEFLAGS": {"eval", "=", "-f"},
	"GOFLAGS": {"exec", "vettool"}, "RUSTFLAGS": {"linker"},
	"TAR_OPTIONS": {"exec", "command", "-I", "-F"}, "SHELLOPTS": {"xtrace"},
}

// holdsCode reports whether the value of a variable can contain commands.
func holdsCode(name string, value word) bool {
	parts, ok := codeVars[name]
	if !ok {
		return hasPrefix(name, "BASH_FUNC_", "GIT_CONFIG_VALUE_")
	}
	return value.hole || len(parts) == 0 ||
		slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(value.text, p) })
}

// replacesPrograms reports whether the variable makes programs run other code than
// their own: shells with startup files, programs with libraries, git with aliases.
func replacesPrograms(name string) bool {
	return slices.Contains([]string{"BASH_ENV", "ENV", "ZDOTDIR", "FPATH", "fpath", "HOME", "XDG_CONFIG_HOME",
		"GIT_EXEC_PATH", "GIT_CONFIG", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "npm_config_script_shell",
		"NPM_CONFIG_SCRIPT_SHELL"}, name) || hasPrefix(name, "LD_", "DYLD_", "GIT_CONFIG_KEY_")
}

// keepsPrograms reports whether a value of PATH leaves every name with the program that it
// had, or one from a folder that commands seldom write: what is before the old
// value must be such a folder.
func keepsPrograms(value word) bool {
	if strings.Count(value.text, "$") != strings.Count(value.script, unknownVar) {
		return false // a dollar sign in quotes is part of a name
	}
	for dir := range strings.SplitSeq(value.text, ":") {
		switch {
		case dir == "$PATH" || dir == "${PATH}":
			return true
		case strings.Contains(dir, "..") || !hasPrefix(dir, "/usr/", "/bin", "/sbin", "/opt/", "/snap/", "/nix/",
			"$HOME/.", "${HOME}/.", "$HOME/go/bin", "~/.", "~/go/bin"):
			return false
		}
	}
	return true
}

// codeFileVars are the variables that decide from which files programs load code. They
// hide no command, but an allow is for programs without such a variable.
var codeFileVars = []string{
	"PATH", "BASHOPTS", "SHELLOPTS",
	"PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONBREAKPOINT", "NODE_PATH", "NODE_OPTIONS",
	"PERL5LIB", "PERLLIB", "RUBYLIB", "LUA_PATH", "LUA_CPATH", "CLASSPATH",
	"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "MAVEN_OPTS", "GRADLE_OPTS",
	"GIT_TEMPLATE_DIR", "GIT_DIR", "GIT_COMMON_DIR",
	"MAKEFILES", "MAKEFLAGS", "GOFLAGS", "RUSTFLAGS", "TAR_OPTIONS", "RIPGREP_CONFIG_PATH", "LESSKEY", "LESSKEYIN",
	"GCONV_PATH", "LOCPATH", "TERMINFO",
}

// assigner analyzes the builtins that set variables to values that are not known, and
// those that hand variables to all programs that follow.
func (f *finder) assigner(sc scope, name string, words []word, i int) {
	switch {
	case name == "read", name == "printf" && len(words) > 1 && strings.HasPrefix(words[1].text, "-v"):
		for _, w := range words[1:] {
			if name == "printf" && slices.Contains(integerVars, w.text) {
				continue // the text is an argument, which is analyzed as a subscript
			}
			f.variable(sc, strings.TrimPrefix(w.text, "-v"), word{hole: true, text: "…", script: unknownVar})
		}
	case name == "export", name == "declare", name == "typeset":
		f.suspect(i, words[1:])
	}
}
