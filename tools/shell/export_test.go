package shell

import "toolgate/tools"

// ToolsWithSpool returns the tools as Tools does, with so many bytes for all output
// that does not fit in memory.
func ToolsWithSpool(o Options, bytes int64) []tools.Tool {
	h := newHost(o, nil)
	h.spooled.left.Store(bytes)
	return h.tools()
}
