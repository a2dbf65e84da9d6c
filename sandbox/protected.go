package sandbox

// A protectedName is a name that a profile keeps read-only, and where its program
// documents that it runs what the file says.
type protectedName struct{ name, source string }

// protectedNames are files that run code unasked as soon as an agent, an editor or a
// shell starts in a folder, or version control is used there. What runs only when the
// user runs it, such as a Makefile or package.json, is not among them: changing that is
// ordinary work. In a folder that a tool also fills itself, a pattern names the files, so
// that the rest stays writable when they are missing.
var protectedNames = []protectedName{
	// Agents: their MCP servers, hooks and permissions.
	{".toolgate", "this program"},
	{".codex", "https://developers.openai.com/codex/config-advanced"},
	{".agents", "https://developers.openai.com/codex/skills"},
	{".claude/settings.json", "https://code.claude.com/docs/en/settings"},
	{".claude/settings.local.json", "https://code.claude.com/docs/en/settings"},
	{".mcp.json", "https://code.claude.com/docs/en/mcp"},
	{".cursor", "https://cursor.com/docs/context/mcp"},
	{".gemini/settings.json", "https://geminicli.com/docs/cli/configuration"},
	{".kiro", "https://kiro.dev/docs/cli/chat/configuration"},
	{".roo/mcp.json", "https://docs.roocode.com/features/mcp/using-mcp-in-roo"},
	{".windsurf/mcp.json", "https://docs.windsurf.com/windsurf/cascade/mcp"},
	{".windsurf/hooks.json", "https://docs.windsurf.com/windsurf/cascade/hooks"},
	{"opencode.json", "https://opencode.ai/docs/config"},
	{"opencode.jsonc", "https://opencode.ai/docs/config"},
	{".opencode", "https://opencode.ai/docs/plugins"},

	// Editors: tasks, language servers and scripts of the folder.
	{".vscode", "https://code.visualstudio.com/docs/editing/workspaces/workspace-trust"},
	{".idea", "https://www.jetbrains.com/help/idea/project-security.html"},
	{".zed", "https://zed.dev/docs/worktree-trust"},
	{".helix", "https://docs.helix-editor.com/languages.html"},
	{".nvim.lua", "https://neovim.io/doc/user/options.html#'exrc'"},
	{".nvimrc", "https://neovim.io/doc/user/options.html#'exrc'"},
	{".exrc", "https://vimhelp.org/options.txt.html#'exrc'"},

	// Shells, when the folder is entered.
	{".envrc", "https://direnv.net/man/direnv.1.html"},
	{"mise.toml", "https://mise.jdx.dev/hooks.html"},
	{"mise.local.toml", "https://mise.jdx.dev/configuration.html"},
	{".mise.toml", "https://mise.jdx.dev/configuration.html"},
	{".mise.local.toml", "https://mise.jdx.dev/configuration.html"},
	{".mise", "https://mise.jdx.dev/configuration.html"},
	{".config/mise*", "https://mise.jdx.dev/configuration.html"},

	// Version control besides git: hooks, editors and aliases.
	{".husky", "https://typicode.github.io/husky/how-to.html"},
	{".hg/hgrc", "https://www.mercurial-scm.org/doc/hgrc.5.html"},
	{".jj", "https://docs.rs/crate/jj-cli/0.41.0/source/docs/design/secure-config.md"},

	// Language servers run cargo when the folder is opened, and cargo its wrappers.
	{".cargo/config*", "https://doc.rust-lang.org/cargo/reference/config.html"},
}

// Protected returns the names that a profile should keep read-only below its
// writable roots, at any depth: changing them runs code or widens permissions
// later, outside the sandbox.
//
// With gitWrites, git can commit, but the files that make git run programs stay
// read-only. That is a weaker guarantee: a file that git reads and that does not
// exist yet, such as .git/commondir, can be created.
func Protected(gitWrites bool) []string {
	var names []string
	for _, p := range protectedNames {
		names = append(names, p.name)
	}
	if !gitWrites {
		return append(names, ".git")
	}
	return append(names,
		".git/hooks", ".git/config", ".git/info",
		// Patterns, because these may be missing.
		".git/config.worktree*", ".git/commondir*", ".git/modules*", ".git/worktrees*",
	)
}
