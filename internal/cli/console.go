package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"toolgate/internal/console"
	"toolgate/internal/printable"
)

func (p *program) consoleCommand() *cobra.Command {
	var open, serve bool
	cmd := &cobra.Command{
		Use:   "console [GATE]",
		Short: "Print a link to the page that shows calls and answers questions",
		Long: `Console prints a link to the page of each running toolgate that has one, which
are those with [console] enabled = true in the config. A link lets one
browser in, once, and within two minutes. GATE chooses among several: a process
id, or a part of a workspace's path.

With --serve it serves a page itself until it is interrupted: what waits for a
yes, the calls of every toolgate of yours, and the rules.`,
		Example: `  toolgate console --open
  toolgate console ~/src/app
  toolgate console --serve`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if serve {
				if len(args) > 0 {
					return errors.New("--serve takes no GATE: the page is that of the command itself")
				}
				return p.serveConsole(cmd.Context(), open)
			}
			return p.printConsoles(cmd.Context(), strings.Join(args, ""), open)
		},
	}
	cmd.Flags().BoolVar(&open, "open", false, "open the link in your browser")
	cmd.Flags().BoolVar(&serve, "serve", false, "serve a page until interrupted")
	return cmd
}

// printConsoles prints links to the running consoles, or to those that which selects.
func (p *program) printConsoles(ctx context.Context, which string, open bool) error {
	s, err := p.Load()
	if err != nil {
		return err
	}
	all, err := console.Announcements(s.ConsolesDir())
	if err != nil {
		return err
	}
	type running struct {
		console.Announcement
		link string
	}
	var list []running
	for _, n := range all {
		if which != "" && strconv.Itoa(n.PID) != which && !strings.Contains(n.Workspace, which) {
			continue
		}
		link, err := n.Link(ctx)
		if errors.Is(err, console.ErrGone) {
			s.Log.Info("a console has ended", "url", n.URL, "err", err)
			continue
		}
		if err != nil {
			return fmt.Errorf("asking the toolgate of %s for a link: %w", n.Workspace, err)
		}
		list = append(list, running{n, link})
	}
	if len(list) == 0 {
		return errNoConsole
	}
	for _, r := range list {
		if len(list) > 1 {
			since := r.Started.Local().Format("15:04:05")
			fmt.Fprintf(p.stdout, "%d  %s  since %s\n  ", r.PID, printable.Line(r.Workspace), since)
		}
		fmt.Fprintln(p.stdout, r.link)
	}
	switch {
	case !open:
		return nil
	case len(list) > 1:
		return errors.New("there are several; name the one to open by its process id")
	}
	return p.openLink(list[0].link)
}

var errNoConsole = errors.New("no toolgate with a console runs")

// openLink opens a link in the user's browser.
func (p *program) openLink(link string) error {
	if err := p.openBrowser("", link); err != nil {
		return fmt.Errorf("opening the browser: %w; open the link yourself", err)
	}
	return nil
}

// serveConsole serves a console without a gate until ctx ends.
func (p *program) serveConsole(ctx context.Context, open bool) error {
	s, err := p.Load()
	if err != nil {
		return err
	}
	c, err := s.NewConsole()
	if err != nil {
		return err
	}
	url, stop, err := c.Serve(s.Config.Console.Address, s.ConsolesDir())
	if err != nil {
		return err
	}
	defer stop()
	link := c.Link(url)
	fmt.Fprintln(p.stdout, link)
	if open {
		if err := p.openLink(link); err != nil {
			s.Log.Warn("no browser", "err", err)
		}
	}
	<-ctx.Done()
	return nil
}
