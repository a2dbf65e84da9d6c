package policy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// commandVar reports whether a variable's value is a command that programs
// start.
func commandVar(name string) bool {
	switch name {
	case "GIT_SSH_COMMAND", "GIT_SSH", "GIT_PAGER", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_EXTERNAL_DIFF", "GIT_ASKPASS", "GIT_PROXY_COMMAND",
		"SSH_ASKPASS", "SUDO_ASKPASS", "SUDO_EDITOR", "PAGER", "MANPAGER", "EDITOR", "VISUAL", "FCEDIT", "HGEDITOR", "SVN_EDITOR", "BROWSER",
		"PROMPT_COMMAND", "LESSOPEN", "LESSCLOSE", "RSYNC_RSH", "CVS_RSH", "FZF_DEFAULT_COMMAND",
		"GH_PAGER", "GH_EDITOR", "GH_BROWSER", "SYSTEMD_PAGER", "PSQL_PAGER", "PSQL_EDITOR", "AWS_PAGER", "BAT_PAGER", "DELTA_PAGER",
		"CC", "CXX", "CPP", "LD", "AR", "FC", "RUSTC", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "MAKE", "CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER":
		return true
	}
	return strings.HasPrefix(name, "CARGO_") && (strings.HasSuffix(name, "_RUNNER") || strings.HasSuffix(name, "_LINKER") || strings.HasSuffix(name, "_WRAPPER"))
}

// codeVars are the variables by which programs are made to load code, each
// with the words in its value that do so; none stands for any value.
var codeVars = map[string][]string{
	"PATH": nil, "BASH_ENV": nil, "ENV": nil, "SHELLOPTS": nil, "BASHOPTS": nil, "IFS": nil, "PS4": nil,
	"ZDOTDIR": nil, "FPATH": nil, "fpath": nil, "HOME": nil, "XDG_CONFIG_HOME": nil,
	"PYTHONPATH": nil, "PYTHONSTARTUP": nil, "PYTHONHOME": nil, "PYTHONBREAKPOINT": nil, "PYTHONINSPECT": nil,
	"NODE_PATH": nil, "NODE_OPTIONS": {"require", "import", "loader", "-r"},
	"PERL5LIB": nil, "PERL5OPT": nil, "PERL5DB": nil, "PERLLIB": nil, "RUBYLIB": nil, "RUBYOPT": nil,
	"LUA_INIT": nil, "LUA_PATH": nil, "LUA_CPATH": nil, "CLASSPATH": nil,
	"JAVA_TOOL_OPTIONS": {"agent", "@"}, "_JAVA_OPTIONS": {"agent", "@"}, "JDK_JAVA_OPTIONS": {"agent", "@"},
	"MAVEN_OPTS": {"agent", "@"}, "GRADLE_OPTS": {"agent", "@"},
	"GIT_EXEC_PATH": nil, "GIT_TEMPLATE_DIR": nil, "GIT_DIR": nil, "GIT_COMMON_DIR": nil,
	"GIT_CONFIG": nil, "GIT_CONFIG_GLOBAL": nil, "GIT_CONFIG_SYSTEM": nil, "GIT_CONFIG_PARAMETERS": nil, "GIT_CONFIG_COUNT": nil,
	"MAKEFILES": nil, "MAKEFLAGS": {"eval", "=", "-f"}, "GOFLAGS": {"exec"}, "RUSTFLAGS": {"linker"},
	"TAR_OPTIONS": {"exec", "command", "-I", "-F"}, "RIPGREP_CONFIG_PATH": nil, "LESSKEY": nil, "LESSKEYIN": nil,
	"GCONV_PATH": nil, "LOCPATH": nil, "TERMINFO": nil, "npm_config_script_shell": nil, "NPM_CONFIG_SCRIPT_SHELL": nil,
}

// loadsCode reports whether setting a variable makes programs run other code.
func loadsCode(name string, value word) bool {
	if parts, ok := codeVars[name]; ok {
		return value.hole || len(parts) == 0 || slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(value.text, p) })
	}
	for _, prefix := range []string{"LD_", "DYLD_", "BASH_FUNC_", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// variable looks at a value that is given to a variable which programs act on.
func (f *finder) variable(sc scope, name string, value word) {
	if commandVar(name) {
		if value.hole || value.text != "" {
			f.script(sc.in(name+"="), value, syntax.LangBash, nil)
		}
		return
	}
	if loadsCode(name, value) {
		f.opaque(sc, name+"="+value.text, "%s changes which code runs", name)
	}
	if strings.HasPrefix(name, "PS") && len(name) == 3 && !value.hole {
		f.expanded(sc.in(name+"="), value.text)
	}
}
