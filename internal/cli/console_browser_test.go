package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// A person is a real Chromium on the console of a running toolgate.
type person struct {
	t   *testing.T
	ctx context.Context

	mu  sync.Mutex
	bad []string // what the browser complained about
}

// patience is how long the browser may take over anything.
const patience = time.Minute

// chromium returns the browser's path, and skips the test by name where there
// is none.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("REQUIRE_CHROMIUM") != "" {
		t.Fatal("REQUIRE_CHROMIUM is set, and there is no chromium")
	}
	t.Skip("there is no chromium")
	return ""
}

// startConsole starts toolgate with a console, opens the session of its
// client, which cannot ask its user, and a browser on the page.
func startConsole(t *testing.T, b *chrome, args ...string) (*client, *person) {
	t.Helper()
	return startConsoleAs(t, b, "some client", args...)
}

// startConsoleAs is startConsole for a client that calls itself by that name.
func startConsoleAs(t *testing.T, b *chrome, agent string, args ...string) (*client, *person) {
	t.Helper()
	c := startClient(t, append([]string{"-c", "console.enabled=true", "-c", "approval_wait=300", "-a", "on-request",
		"-c", "sandbox_workspace_write.exclude_slash_tmp=true", "-c", "sandbox_workspace_write.exclude_tmpdir_env_var=true"}, args...)...)
	t.Cleanup(func() { c.cmd.Process.Kill() }) // or it would wait for an answer
	name, err := json.Marshal(agent)
	require.NoError(t, err)
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":%s,"version":"1"}}}`, name))
	c.receive()
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c, b.open(t, c.consoleLink())
}

// consoleLink returns what `toolgate console` prints. The console comes up
// beside the first answers.
func (c *client) consoleLink() string {
	c.t.Helper()
	var out string
	c.eventually(func() bool {
		var err error
		out, _, err = c.run("console")
		return err == nil
	})
	return strings.TrimSpace(out)
}

// eventually waits until something is so.
func (c *client) eventually(so func() bool) {
	c.t.Helper()
	require.Eventually(c.t, so, patience, 50*time.Millisecond)
}

// complaints has the page itself note each violation of its policy.
const complaints = `document.addEventListener("securitypolicyviolation", e => console.error("csp: " + e.violatedDirective + " " + e.blockedURI));`

// A chrome is a running Chromium. It has its own sandbox off, which root and
// many containers cannot have: it shows nothing but our page.
type chrome struct{ ctx context.Context }

func startBrowser(t *testing.T) *chrome {
	t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, chromedp.WindowSize(1280, 800),
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(patience))
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(stop)
	ctx, _ := chromedp.NewContext(alloc)
	t.Cleanup(func() { chromedp.Cancel(ctx) })
	require.NoError(t, chromedp.Do(ctx))
	return &chrome{ctx}
}

// open opens a page of its own.
func (b *chrome) open(t *testing.T, link string) *person {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Do(ctx))
	p := &person{t: t, ctx: ctx}
	require.NoError(t, chromedp.Listen(ctx, p.listen))
	p.do(
		chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
			if _, err := cdp.Call(ctx, tab, log.Enable, cdp.Empty{}); err != nil {
				return err
			}
			_, err := cdp.Call(ctx, tab, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: complaints})
			return err
		}),
		chromedp.Navigate(link),
	)
	p.see(`#link.open`)
	return p
}

// listen notes what the browser finds wrong.
func (p *person) listen(ev any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		p.bad = append(p.bad, fmt.Sprintf("%s %s:%d", ev.ExceptionDetails.Text, ev.ExceptionDetails.URL, ev.ExceptionDetails.LineNumber))
	case *runtime.EventConsoleAPICalled:
		for _, a := range ev.Args {
			p.bad = append(p.bad, string(a.Value))
		}
	case *log.EventEntryAdded:
		p.bad = append(p.bad, ev.Entry.Text+" "+ev.Entry.URL)
	}
}

func (p *person) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	err := chromedp.Do(ctx, actions...)
	p.mu.Lock()
	defer p.mu.Unlock()
	require.NoError(p.t, err, "%v", p.bad)
}

// see waits until an element is there to be seen.
func (p *person) see(selector string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`!!document.querySelector(%q)?.checkVisibility()`, selector))
}

// until waits until a script says true.
func (p *person) until(script string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	var err error
	for again := true; again; again = err != nil && (strings.Contains(err.Error(), "navigated") || strings.Contains(err.Error(), "context with specified id")) {
		_, err = chromedp.Run(ctx, chromedp.Poll[any](script, chromedp.WithPollingInterval(20*time.Millisecond), chromedp.WithPollingTimeout(0)))
	}
	if err != nil {
		p.t.Log(p.text("body"))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	require.NoError(p.t, err, "%s: %v", script, p.bad)
}

func (p *person) text(selector string) string {
	p.t.Helper()
	return eval[string](p, fmt.Sprintf(`document.querySelector(%q).innerText`, selector))
}

func (p *person) click(selector string) {
	p.t.Helper()
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

// eval evaluates a script outside of the page's policy.
func eval[T any](p *person, script string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script))
	require.NoError(p.t, err, script)
	return v
}

func (p *person) keys(keys string) { p.t.Helper(); p.do(chromedp.KeyEvent(keys)) }

// atEase requires that the browser found nothing wrong.
func (p *person) atEase() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(p.t, p.bad)
}

// TestConsoleInChromium is what a person sees and does on the page, through
// the whole program.
func TestConsoleInChromium(t *testing.T) {
	b := startBrowser(t)
	for _, part := range []struct {
		name string
		test func(*testing.T, *chrome)
	}{
		{"answers", consoleAnswers},
		{"takes no hasty answer", consoleTakesNoHastyAnswer},
		{"and others", consoleAndOthers},
		{"servers", consoleServersView},
		{"sessions", consoleSessionsView},
		{"terminal", consoleTerminal},
		{"rules", consoleRulesView},
		{"shows what models write as text", consoleShowsWhatModelsWriteAsText},
		{"looks", consoleLooks},
		{"over HTTP", consoleOverHTTP},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, b) })
	}
}

// outside asks for a command that needs a yes.
func outside(argv ...string) string {
	b, _ := json.Marshal(map[string]any{"command": argv, "sandbox_permissions": "require_escalated", "justification": "it must be there"})
	return string(b)
}

func consoleAnswers(t *testing.T, b *chrome) {
	needSandbox(t)
	c, p := startConsole(t, b)
	p.see("#view-approvals .none")

	t.Run("yes", func(t *testing.T) {
		p.t, c.t = t, t
		c.start("shell", outside("touch", filepath.Join(c.home, "yes")))
		p.see(".card.armed")
		require.Contains(t, p.text(".card .command"), "touch "+filepath.Join(c.home, "yes"))
		require.Contains(t, p.text(".card blockquote"), "it must be there")
		require.Contains(t, p.text(".card .facts"), "outside the sandbox")
		require.Contains(t, p.text(".card .facts"), c.ws)
		require.Contains(t, p.text(".card .expires"), "the call waits")
		require.NoFileExists(t, filepath.Join(c.home, "yes"))
		p.click(".card .answer.once")
		m := c.receive()
		require.False(t, m.Result.IsError, m.text())
		require.FileExists(t, filepath.Join(c.home, "yes"))
	})
	t.Run("no", func(t *testing.T) {
		p.t, c.t = t, t
		p.see("#view-approvals .none")
		c.start("shell", outside("touch", filepath.Join(c.home, "no")))
		p.see(".card.armed")
		p.click(".card .answer.no")
		m := c.receive()
		require.True(t, m.Result.IsError)
		require.Contains(t, m.text(), "the user said no")
		require.NoFileExists(t, filepath.Join(c.home, "no"))
	})
	t.Run("always, by keys alone", func(t *testing.T) {
		p.t, c.t = t, t
		p.see("#view-approvals .none")
		c.start("shell", outside("touch", filepath.Join(c.home, "always")))
		p.see(".card")
		p.keys("j")
		p.see(".card.armed:focus")
		require.Contains(t, p.text(".card .always"), "prefix_rule(")
		p.keys("a")
		m := c.receive()
		require.False(t, m.Result.IsError, m.text())
		rules, err := os.ReadFile(filepath.Join(c.home, "state", "rules", "default.rules"))
		require.NoError(t, err)
		require.Contains(t, string(rules), fmt.Sprintf(`prefix_rule(pattern=["touch", %q], decision="allow")`, filepath.Join(c.home, "always")))
	})
	t.Run("by tab and enter", func(t *testing.T) {
		p.t, c.t = t, t
		p.see("#view-approvals .none")
		c.start("shell", outside("touch", filepath.Join(c.home, "tab")))
		p.see(".card.armed")
		focus := ""
		for range 20 {
			p.keys(kb.Tab)
			if focus = eval[string](p, `document.activeElement.dataset.answer || ""`); focus == "once" {
				break
			}
		}
		require.Equal(t, "once", focus)
		p.see(".card.armed")
		p.keys(kb.Enter)
		require.False(t, c.receive().Result.IsError)
	})
	t.Run("the calls", func(t *testing.T) {
		p.t, c.t = t, t
		p.keys("2")
		p.see("#view-calls .row:nth-child(4)")
		all := p.text("#view-calls .rows")
		require.Contains(t, all, "refused")
		require.Contains(t, all, filepath.Join(c.home, "yes"))
		require.Contains(t, all, "always")
		p.keys("/")
		require.Equal(t, "filter", eval[string](p, `document.activeElement.id`))
		eval[any](p, `document.activeElement.value = ""`) // the driver types the key that led here, too
		p.keys("refused")
		shown := eval[[]string](p, `[...document.querySelectorAll("#view-calls .row")].filter(r => !r.hidden).map(r => r.querySelector(".outcome").textContent)`)
		require.Equal(t, []string{"refused"}, shown)
		p.keys(kb.Escape)
		p.keys("j")
		p.keys(kb.Enter)
		p.see("#view-calls .row[open] .command")
		require.Contains(t, p.text("#view-calls .row[open] .details"), "by waiting list")
	})
	p.t = t
	p.atEase()
}
