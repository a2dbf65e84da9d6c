package shell

import (
	"context"
	"errors"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/policy"
	"toolgate/tools"
)

// AliasNames are the names under which models that were trained with them may
// be given shell too. None is offered unless [Options] asks for it.
var AliasNames = []string{"shell_command", "local_shell", "container.exec"}

// aliases returns the tools that o asks for. Names that are no alias are left
// out.
func (h *host) aliases() []tools.Tool {
	var catalog []tools.Tool
	for _, name := range AliasNames {
		if !slices.Contains(h.options.Aliases, name) {
			continue
		}
		def := shellDef
		def.Name = name
		if name == "shell_command" {
			def.Description = "Runs a shell script and returns its exit code and output. " + shellManners
			catalog = append(catalog, tools.NewWithCall(def, describeScript, h.runScript))
			continue
		}
		catalog = append(catalog, tools.NewWithCall(def, describeShell, h.runShell))
	}
	return catalog
}

type scriptInput struct {
	Command   string `json:"command" jsonschema:"shell script to run"`
	Workdir   string `json:"workdir,omitempty" jsonschema:"default the workspace; better than cd"`
	TimeoutMS int64  `json:"timeout_ms,omitempty" jsonschema:"end it after this"`
	Login     bool   `json:"login,omitempty" jsonschema:"read the user's profile"`
	escalation
}

func (in scriptInput) shell() shellInput {
	return shellInput{
		Command:    commandArgument{script: in.Command, login: in.Login},
		Workdir:    in.Workdir,
		TimeoutMS:  in.TimeoutMS,
		escalation: in.escalation,
	}
}

func describeScript(in scriptInput) (policy.Action, error) {
	if in.Command == "" {
		return policy.Action{}, errors.New(`"command" is empty; give a shell script`)
	}
	return describeShell(in.shell())
}

func (h *host) runScript(ctx context.Context, call *tools.Call, in scriptInput) (*mcp.CallToolResult, error) {
	if _, err := describeScript(in); err != nil {
		return nil, err
	}
	return h.runShell(ctx, call, in.shell())
}
