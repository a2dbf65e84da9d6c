package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// A Report is one run.
type Report struct {
	Made        time.Time         `json:"made"`
	Machine     string            `json:"machine"`
	Programs    map[string]string `json:"programs"` // name to version
	Comparisons []Result          `json:"comparisons"`
}

// Markdown returns the report as tables.
func (r Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, on %s.", r.Made.Format("2 January 2006"), r.Machine)
	var programs []string
	for _, name := range slices.Sorted(maps.Keys(r.Programs)) {
		programs = append(programs, strings.TrimSpace(name+" "+r.Programs[name]))
	}
	fmt.Fprintf(&b, " Programs: %s.\n", strings.Join(programs, ", "))
	for _, c := range r.Comparisons {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n| | median ms | 90 %% ms | times %s | memory |\n| --- | --- | --- | --- | --- |\n", c.Name, c.What, c.Base)
		for _, row := range c.Rows {
			name := row.Name
			if row.Note != "" {
				name += " (" + row.Note + ")"
			}
			if row.Absent != "" {
				fmt.Fprintf(&b, "| %s | %s | | | |\n", name, row.Absent)
				continue
			}
			memory := ""
			if row.RSS > 0 {
				memory = fmt.Sprintf("%.0f MB", float64(row.RSS)/1024)
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, figure(row.Median), figure(row.P90), figure(row.Ratio), memory)
		}
	}
	return b.String()
}

// figure writes a number with the digits that mean something.
func figure(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// The table in a document stands between these lines.
const (
	begin = "<!-- figures -->\n"
	end   = "<!-- end of figures -->\n"
)

// insert puts text between the marks of a document.
func insert(file, text string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(b), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no marks %q and %q", file, begin, end)
	}
	return os.WriteFile(file, []byte(head+begin+"\n"+text+"\n"+end+tail), 0o644)
}
