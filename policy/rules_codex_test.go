package policy_test

// realRules is a rule file as Codex users have it, its comments and odd forms
// included. It must load unchanged.
const realRules = `
# ~/.codex/rules/default.rules

SAFE_GIT = ["status", "diff", "log", "show"]

prefix_rule(
    pattern = ["git", SAFE_GIT],
    match = ["git status", ["git", "log", "--oneline"]],
    not_match = ["git push"],
)

prefix_rule(
    pattern = ["git", "push"],
    decision = "prompt",
    justification = "pushing publishes your work",
    match = ["git push origin main"],
)
prefix_rule(pattern = ["git", "reset", "--hard"], decision = "forbidden", justification = "use ` + "`git stash`" + ` instead", not_match = ["git reset --keep", "git reset --merge"])
prefix_rule(pattern=["git", ["checkout", "restore"], ["--", "."]], decision="prompt")

[prefix_rule(pattern = ["npm", verb]) for verb in ["test", "ci", "run"]]
prefix_rule(pattern = ["npm", "publish"], decision = "forbidden")

for tool in ["go", "cargo"]:
    prefix_rule(pattern = [tool, ["build", "test", "vet", "check"]], decision = "allow")

prefix_rule(pattern=["ls"], match=[["ls"], ["ls", "-l"], ["ls", "-a", "."]])
prefix_rule(pattern=["cat"], match=["cat 'a file'", "cat -n README.md"])
prefix_rule(pattern=["rg"])
prefix_rule(pattern=["rm"], decision="prompt", justification="check what is deleted",)
prefix_rule(pattern=["sudo"], decision="forbidden")
prefix_rule(pattern=["sudo", "apt-get", "update"], decision="allow")
prefix_rule(pattern=["gh", "pr", ["view", "list"]], decision="allow", justification="reads only")
prefix_rule(pattern=["/opt/tools/deploy"], decision="prompt")

host_executable(name = "git", paths = ["/usr/bin/git", "/opt/homebrew/bin/git"])
host_executable(name = "rg", paths = ["~/.cargo/bin/rg"])

network_rule(host = "api.github.com", protocol = "https", decision = "allow")
network_rule(host = "169.254.169.254", protocol = "http", decision = "deny", justification = "cloud metadata")

# Written by "always allow" answers:
prefix_rule(pattern=["touch"], decision="allow")
prefix_rule(pattern=["/bin/bash", "-lc", "for f in *.go; do gofmt -l \"$f\"; done"], decision="allow")
prefix_rule(pattern=["python3", "scripts/gen.py"], decision="allow")
`
