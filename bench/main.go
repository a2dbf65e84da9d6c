// Bench compares toolgate with other installed programs that do the same work:
// the same command, search, patch or call, each through the program's ordinary
// interface, in turns within one run.
//
//	cd bench && go run .                   compare, print the table
//	cd bench && go run . -write ../docs    and put it into docs/performance.md
//
// A program that is not installed is left out, and the table says so. Programs
// are found in $PATH or by their variable, see [findPrograms].
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == copyName {
		if err := copyBytes(os.Args[2:]); err != nil {
			os.Exit(1)
		}
		return
	}
	rounds := flag.Int("rounds", 15, "turns that each program has")
	write := flag.String("write", "", "`FOLDER` for performance.md, performance.json and performance.png")
	only := flag.String("only", "", "run the `COMPARISON` of this name alone")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := bench(ctx, *rounds, *write, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, rounds int, write, only string) error {
	dir, err := os.MkdirTemp("", "toolgate-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	f, err := newFixture(ctx, dir)
	if err != nil {
		return err
	}
	report := Report{Made: time.Now().UTC().Truncate(time.Second), Machine: machine(), Programs: f.versions()}
	for _, c := range comparisons {
		if only != "" && c.name != only {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s ...\n", c.name)
		res, err := f.compare(ctx, c, rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		report.Comparisons = append(report.Comparisons, res)
	}
	fmt.Print(report.Markdown())
	if write == "" {
		return nil
	}
	return save(report, write)
}

// save writes the report as JSON, as a picture, and into the document.
func save(r Report, folder string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "performance.json"), append(b, '\n'), 0o644); err != nil {
		return err
	}
	if err := picture(r, filepath.Join(folder, "performance.png")); err != nil {
		return err
	}
	return insert(filepath.Join(folder, "performance.md"), r.Markdown())
}
