package shell

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/policy"
	"toolgate/tools"
)

// aliases returns shell under the names that some models were trained with.
// All of them are off by default.
func (h *host) aliases() []tools.Tool {
	script := shellDef
	script.Name = "shell_command"
	script.Description = "Runs a shell script and returns its exit code and output. " + commandNotes
	script.Off = true
	catalog := []tools.Tool{tools.NewWithCall(h.options.publishes(script), describeScript, h.runScript)}
	for _, name := range []string{"local_shell", "container.exec"} {
		def := shellDef
		def.Name = name
		def.Off = true
		catalog = append(catalog, tools.NewWithCall(h.options.publishes(def), describeShell, h.runShell))
	}
	return catalog
}

type scriptInput struct {
	Command   string `json:"command" jsonschema:"shell script to run"`
	Workdir   string `json:"workdir,omitempty" jsonschema:"default the workspace; better than cd"`
	TimeoutMS int64  `json:"timeout_ms,omitempty" jsonschema:"end it after this time"`
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
	return h.runShell(ctx, call, in.shell())
}
