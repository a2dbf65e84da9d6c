package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// A comparison is one piece of work that several programs do.
type comparison struct {
	name       string
	what       string // the work, in words
	base       string // the contender that the others are measured by
	contenders []contender
}

// A contender is one program's way to do the work.
type contender struct {
	name  string
	needs []string // programs, by their names in [findPrograms]
	note  string
	// open gets ready and returns what does the work once, and what ends it.
	open func(context.Context, *fixture) (run, error)
	// times is how often once runs in a turn; 0 means 20.
	times int
}

// A run is a contender that is ready.
type run struct {
	once  func() error
	after func()       // after each time, not measured; may be nil
	end   func()       // may be nil
	rss   func() int64 // in KiB, of the program alone; may be nil
}

// errNever is what once returns for work that is not done in any useful time.
var errNever = errors.New("not within 10 s")

// A Result is what a comparison gave.
type Result struct {
	Name string `json:"name"`
	What string `json:"what"`
	Base string `json:"base"`
	Rows []Row  `json:"rows"`
}

// A Row is one contender's figures, in milliseconds.
type Row struct {
	Name   string  `json:"name"`
	Median float64 `json:"median_ms"`
	P90    float64 `json:"p90_ms"`
	Ratio  float64 `json:"ratio"` // of the medians, to the base's
	RSS    int64   `json:"rss_kib,omitempty"`
	Note   string  `json:"note,omitempty"`
	Absent string  `json:"absent,omitempty"` // why there are no figures
}

// compare runs the contenders in turns, one after the other in each round, so
// that other load on the machine affects all of them.
func (f *fixture) compare(ctx context.Context, c comparison, rounds int) (Result, error) {
	res := Result{Name: c.name, What: c.what, Base: c.base}
	type runner struct {
		run
		row   int
		times int
		all   []time.Duration
	}
	var runners []*runner
	for i, k := range c.contenders {
		res.Rows = append(res.Rows, Row{Name: k.name, Note: k.note})
		if missing := f.missing(k.needs); missing != "" {
			res.Rows[i].Absent = missing + " is not installed"
			continue
		}
		r, err := k.open(ctx, f)
		if r.end != nil {
			defer r.end()
		}
		if err == nil {
			err = r.once() // the first one warms
			if r.after != nil {
				r.after()
			}
		}
		if errors.Is(err, errNever) {
			res.Rows[i].Absent = err.Error()
			continue
		}
		if err != nil {
			if k.name == c.base {
				return res, fmt.Errorf("%s: %w", k.name, err)
			}
			fmt.Fprintf(os.Stderr, "  %s left out: %v\n", k.name, err)
			res.Rows[i].Absent = "does not run here"
			continue
		}
		runners = append(runners, &runner{run: r, row: i, times: cmp.Or(k.times, 20)})
	}
	for range rounds {
		for _, r := range runners {
			for range r.times {
				if err := ctx.Err(); err != nil {
					return res, err
				}
				start := time.Now()
				if err := r.once(); err != nil {
					return res, fmt.Errorf("%s: %w", c.contenders[r.row].name, err)
				}
				r.all = append(r.all, time.Since(start))
				if r.after != nil {
					r.after()
				}
			}
		}
	}
	for _, r := range runners {
		slices.Sort(r.all)
		res.Rows[r.row].Median = ms(r.all[len(r.all)/2])
		res.Rows[r.row].P90 = ms(r.all[len(r.all)*9/10])
		if r.rss != nil {
			res.Rows[r.row].RSS = r.rss()
		}
	}
	base := slices.IndexFunc(res.Rows, func(r Row) bool { return r.Name == c.base && r.Median > 0 })
	for i := range res.Rows {
		if base >= 0 {
			res.Rows[i].Ratio = res.Rows[i].Median / res.Rows[base].Median
		}
	}
	return res, nil
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
