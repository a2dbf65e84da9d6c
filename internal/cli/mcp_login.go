package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"toolgate/internal/app"
	"toolgate/internal/config"
	"toolgate/internal/oauth"
	"toolgate/policy"
)

// loginTime bounds how long a login may take.
const loginTime = 10 * time.Minute

// loginOf returns a server that can be logged in to, and the store of its login. With url it need
// not be in the config, as with wrap.
func loginOf(name, url string) (oauth.Server, oauth.Store, config.MCPServer, error) {
	s := config.MCPServer{URL: url}
	_, state, _, err := app.Folders()
	if err != nil {
		return oauth.Server{}, oauth.Store{}, s, err
	}
	c, err := loadConfig()
	if err != nil {
		return oauth.Server{}, oauth.Store{}, s, err
	}
	if url == "" {
		s, err = serverNamed(name)
	} else {
		err = config.CheckServer(name, s)
	}
	switch {
	case err != nil:
	case s.URL == "":
		err = fmt.Errorf("the server %s is started here and needs no login", name)
	case !s.TakesLogin():
		err = fmt.Errorf("the server %s gets its token from the config; "+
			"remove bearer_token_env_var or the header Authorization there to log in", name)
	}
	return app.OAuthServer(name, s, c), app.TokenStore(state), s, err
}

func (p *program) mcpLogin() *cobra.Command {
	var address string
	var scopes []string
	var noBrowser bool
	cmd := &cobra.Command{
		Use:   "login NAME",
		Short: "Log in to a server over HTTP that asks for it",
		Long: `Login leads you to the server's authorization server, in a browser where there
is one, and keeps the tokens that it gives in a file that only you can read. A
toolgate that runs uses them at once, and renews them.

Where the browser cannot come back to this machine, log in with --no-browser
and paste the address of the page that the browser ends at.`,
		Example: `  toolgate mcp login docs
  toolgate mcp login docs --scopes read,write
  toolgate mcp login docs --no-browser`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, store, server, err := loginOf(args[0], address)
			if err != nil {
				return err
			}
			tooLate := fmt.Errorf("nobody logged in within %v", loginTime)
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), loginTime, tooLate)
			defer cancel()
			o := oauth.Options{
				Header: func() http.Header {
					h, _ := server.Headers() // without those whose variable is not set
					return h
				},
				Note:    func(text string) { fmt.Fprintf(p.stderr, "toolgate: note: %s\n", text) },
				OpenURL: func(address string) { p.visit(address, !noBrowser) },
				Scopes:  scopes,
			}
			if noBrowser {
				o.Pasted = p.lines()
			}
			g, err := oauth.Login(ctx, s, store, o)
			if err != nil {
				return fmt.Errorf("login to %s: %w", s.Name, err)
			}
			fmt.Fprintf(p.stderr, "toolgate: logged in to %s", s.Name)
			if len(g.Scopes) > 0 {
				fmt.Fprintf(p.stderr, ", for %q", g.Scopes)
			}
			fmt.Fprintln(p.stderr)
			return nil
		},
	}
	cmd.Flags().StringVar(&address, "url", "", "the server is at `URL` and not in the config, as for wrap")
	cmd.Flags().StringSliceVar(&scopes, "scopes", nil, "ask for these `SCOPES`, with commas between them")
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false,
		"open no browser, and take the address that it ends at from stdin")
	return cmd
}

// visit prints the address and opens it in a browser if possible.
func (p *program) visit(address string, open bool) {
	fmt.Fprintf(p.stdout, "Log in at this address:\n\n%s\n\n", address)
	if !open {
		fmt.Fprintln(p.stdout, "If the browser then cannot show its last page, paste the address of that page here.")
		return
	}
	name := os.Getenv("BROWSER")
	display := os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
	if name == "" && !display && runtime.GOOS != "darwin" && runtime.GOOS != "windows" {
		return // there is no screen to open it on
	}
	name, _, _ = strings.Cut(name, string(os.PathListSeparator))
	if err := p.openBrowser(name, address); err != nil {
		fmt.Fprintf(p.stderr, "toolgate: note: no browser was opened: %v\n", err)
	}
}

// openBrowser opens an address with the program name, "" for the default of this system.
func (p *program) openBrowser(name, address string) error {
	s, err := p.Load()
	if err != nil {
		return err
	}
	argv := []string{"xdg-open", address}
	switch {
	case name != "":
		argv[0] = name
	case runtime.GOOS == "darwin":
		argv[0] = "open"
	case runtime.GOOS == "windows":
		argv = []string{"rundll32", "url.dll,FileProtocolHandler", address}
	}
	root := filepath.VolumeName(s.StateDir) + string(filepath.Separator)
	cmd, err := s.Programs().Command(context.Background(), root, s.Environ, argv[0], argv[1:]...)
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go cmd.Wait() // ends with the browser, or with us
	return nil
}

// lines returns the lines of stdin.
func (p *program) lines() <-chan string {
	out := make(chan string)
	go func() { // ends with stdin, or with us
		for scan := bufio.NewScanner(p.stdin); scan.Scan(); {
			if strings.TrimSpace(scan.Text()) != "" {
				out <- scan.Text()
			}
		}
	}()
	return out
}

func (p *program) mcpLogout() *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:     "logout NAME",
		Short:   "Give up the login to a server",
		Example: "  toolgate mcp logout docs",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, store, _, err := loginOf(args[0], address)
			if _, unknown := errors.AsType[*policy.ValueError](err); err != nil && (unknown || s.URL == "") {
				return err
			}
			was, err := oauth.Logout(cmd.Context(), s, store, nil)
			switch {
			case errors.Is(err, oauth.ErrNotRevoked):
				fmt.Fprintf(p.stderr, "toolgate: note: %v\n", err)
			case err != nil:
				return err
			}
			if was {
				fmt.Fprintf(p.stderr, "toolgate: logged out of %s\n", s.Name)
			} else {
				fmt.Fprintf(p.stderr, "toolgate: nobody was logged in to %s\n", s.Name)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&address, "url", "", "the server is at `URL` and not in the config, as for wrap")
	return cmd
}

// loginState returns how toolgate authenticates to a server, in a word.
func loginState(name string, server config.MCPServer) string {
	switch {
	case server.URL == "":
		return ""
	case server.BearerTokenEnvVar != "":
		return "bearer token"
	case !server.TakesLogin():
		return "header"
	}
	s, store, _, err := loginOf(name, "")
	if err != nil {
		return ""
	}
	g, err := store.Load(s)
	switch {
	case err != nil:
		slog.Warn("reading a login", "downstream", name, "err", err)
		return "unknown"
	case g == nil:
		return "none"
	case g.AccessToken == "":
		return "login needed"
	}
	return "logged in"
}
