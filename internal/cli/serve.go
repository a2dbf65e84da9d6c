package cli

import (
	"context"

	"github.com/spf13/cobra"

	"toolgate/internal/app"
)

func (p *program) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve [DIR...]",
		Short: "Serve MCP on stdin and stdout (the default), or over HTTP",
		Long: `Serve is what toolgate does without a command: it serves one client on stdin
and stdout. The first DIR is the workspace, as with -C, and the others are
writable beside it, as with --add-dir. With --http it serves many at once over streamable HTTP. Each must
bring a token: the one in $TOOLGATE_HTTP_TOKEN, else one that is made once, in
a file whose path is printed.`,
		Example: `  toolgate serve -C ~/src/app
  toolgate serve -C ~/src/app --http 127.0.0.1:8321`,
		RunE: func(cmd *cobra.Command, dirs []string) error {
			if err := absolute("serve", dirs); err != nil {
				return err
			}
			if len(dirs) > 0 && p.Dir == "" {
				p.Dir, dirs = dirs[0], dirs[1:]
			}
			p.AddDirs = append(p.AddDirs, dirs...)
			return p.serve(cmd.Context())
		},
	}
	httpFlags(cmd, &p.http)
	return cmd
}

// serve serves one client on stdin and stdout until stdin ends, or callers over HTTP until ctx does.
func (p *program) serve(ctx context.Context) error {
	if p.http.Addr != "" {
		return p.ServeHTTP(ctx, p.http)
	}
	return p.ServeStdio(ctx, p.stdin, p.raw.stdout)
}

// httpFlags registers the flags of h.
func httpFlags(cmd *cobra.Command, h *app.HTTPOptions) {
	f := cmd.Flags()
	f.StringVar(&h.Addr, "http", "", "serve streamable HTTP at `HOST:PORT`, path /mcp, instead of stdio")
	f.StringVar(&h.TLSCert, "tls-cert", "", "certificate `FILE` (PEM) for --http")
	f.StringVar(&h.TLSKey, "tls-key", "", "private key `FILE` (PEM) for --http")
	f.BoolVar(&h.BehindProxy, "behind-proxy", false, "a proxy that speaks TLS stands before --http")
}
