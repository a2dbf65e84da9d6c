package grep

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"toolgate/internal/ignore"
)

// fileTypes are the file types of ripgrep that matter most, by name and by what else
// models call them.
var fileTypes = map[string]string{
	"c": "*.{c,h,H,cats}", "cpp": "*.{C,cc,cpp,cxx,H,h,hh,hpp,hxx,inl,c++,h++}", "cs": "*.cs",
	"clojure": "*.{clj,cljc,cljs,cljx}", "cmake": "{*.cmake,CMakeLists.txt}", "css": "*.{css,scss}", "dart": "*.dart",
	"docker": "*Dockerfile*", "elixir": "*.{ex,eex,exs,heex,leex,livemd}", "erlang": "*.{erl,hrl}", "go": "*.go",
	"graphql": "*.{graphql,graphqls}", "haskell": "*.{hs,lhs,cpphs,c2hs,hsc}",
	"html": "*.{htm,html,ejs}", "java": "*.{java,jsp,jspx,properties}", "js": "*.{js,jsx,vue,cjs,mjs}",
	"json": "{*.json,composer.lock,*.sarif}", "kotlin": "*.{kt,kts}", "lua": "*.lua",
	"make": "{[Gg][Nn][Uu]makefile,[Mm]akefile,*.{mk,mak}}", "md": "*.{markdown,md,mdown,mdwn,mkd,mkdn,mdx}",
	"php": "*.{php,php3,php4,php5,php7,php8,pht,phtml}", "proto": "*.proto", "ps": "*.{cdxml,ps1,ps1xml,psd1,psm1}",
	"py": "*.{py,pyi}", "r": "*.{R,r,Rmd,Rnw}", "rst": "*.rst",
	"ruby": "{*.{gemspec,rb,rbw},Gemfile,Rakefile,config.ru}",
	"rust": "*.rs", "scala": "*.{scala,sbt}", "sh": "{*.{bash,csh,ksh,sh,tcsh,zsh},.bashrc,.profile,.zshrc}",
	"sql": "*.{sql,psql}", "svelte": "*.svelte", "swift": "*.swift", "tf": "*.{tf,tfvars}",
	"toml": "{*.toml,Cargo.lock}",
	"ts":   "*.{ts,tsx,cts,mts}", "txt": "*.txt", "vue": "*.vue", "xml": "*.{xml,xsd,xsl,xslt,svg,rng}",
	"yaml": "*.{yaml,yml}", "zig": "*.zig",
}

// typeAliases are further names of types.
var typeAliases = map[string]string{
	"c++": "cpp", "csharp": "cs", "bash": "sh", "shell": "sh", "dockerfile": "docker", "golang": "go", "hs": "haskell",
	"javascript": "js", "jsx": "js", "kt": "kotlin", "makefile": "make", "markdown": "md", "powershell": "ps",
	"protobuf": "proto",
	"python":   "py", "rb": "ruby", "rs": "rust", "terraform": "tf", "tsx": "ts", "typescript": "ts", "yml": "yaml",
}

// fileType returns the names of files of the type.
func fileType(name string) (*ignore.List, error) {
	plain := strings.TrimPrefix(strings.ToLower(strings.TrimSpace(name)), ".")
	if alias, ok := typeAliases[plain]; ok {
		plain = alias
	}
	glob, ok := fileTypes[plain]
	if !ok {
		known := strings.Join(slices.Sorted(maps.Keys(fileTypes)), ", ")
		const format = "type %q is unknown; use include with a glob such as *.%s, or one of %s"
		return nil, fmt.Errorf(format, name, plain, known)
	}
	return ignore.ParseGlob(glob)
}
