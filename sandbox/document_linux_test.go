package sandbox_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/sandbox"
)

var update = flag.Bool("update", false, "write the tables of docs/sandbox.md anew")

const document = "../docs/sandbox.md"

// TestDocument compares the tables of the document with what TestEscape
// requires: a cell that says stopped is a cell that it has tried.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	want := replaceBetween(t, string(text), "attempts", attemptTable())
	want = replaceBetween(t, want, "peers", peerTable(t))
	if *update {
		require.NoError(t, os.WriteFile(document, []byte(want), 0o644))
		return
	}
	require.True(t, want == string(text), "the document is stale; run go test ./sandbox -run TestDocument -update")
}

// replaceBetween puts table between the marks of name.
func replaceBetween(t *testing.T, text, name, table string) string {
	t.Helper()
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
	head, rest, ok := strings.Cut(text, begin)
	require.True(t, ok, "no mark %s", begin)
	_, tail, ok := strings.Cut(rest, end)
	require.True(t, ok, "no mark %s", end)
	return head + begin + "\n" + table + "\n" + end + tail
}

func attemptTable() string {
	var b strings.Builder
	b.WriteString("| attempt | full | bwrap | landlock |\n| --- | --- | --- | --- |\n")
	for _, a := range attempts {
		fmt.Fprintf(&b, "| %s |", strings.ReplaceAll(a.name, "_", " "))
		for _, level := range []sandbox.Level{sandbox.Full, sandbox.Bwrap, sandbox.Landlock} {
			cell := "stopped"
			if why := a.open[level]; why != "" {
				cell = "**open**: " + why
			} else if p, ok := a.partly[level]; ok {
				cell = "stopped, but not " + p.why
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// peerTable is of the attempts that were made in the sandboxes of others too
// and that one of us does not stop; of the rest it gives the number.
func peerTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| attempt | toolgate, full |")
	for _, p := range peerList {
		fmt.Fprintf(&b, " %s |", p.name)
	}
	b.WriteString("\n| --- | ---" + strings.Repeat(" | ---", len(peerList)) + " |\n")
	all, peers := 0, readPeers(t)
	for _, a := range attempts {
		cells, ok := peers[a.name]
		if !ok {
			continue
		}
		delete(peers, a.name)
		own := "stopped"
		if a.open[sandbox.Full] != "" {
			own = "open"
			if strings.HasPrefix(a.needs, "root") {
				own = "open for root"
			}
		} else if p, ok := a.partly[sandbox.Full]; ok {
			own = "stopped, but not " + p.why
		}
		row := append([]string{own}, cells...)
		if !slices.ContainsFunc(row, func(cell string) bool { return cell != "stopped" }) {
			all++
			continue
		}
		fmt.Fprintf(&b, "| %s | %s |\n", strings.ReplaceAll(a.name, "_", " "), strings.Join(row, " | "))
	}
	require.Empty(t, peers, "no such attempts")
	fmt.Fprintf(&b, "\nAnother %d of them are stopped by all four.", all)
	return b.String()
}
