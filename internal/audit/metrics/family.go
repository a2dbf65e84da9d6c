package metrics

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"sync"
)

// A family is a metric family: one name with a series for each combination of label values.
type family struct {
	name, help, kind string
	labels           []string  // names, sorted
	buckets          []float64 // upper bounds of a histogram, ascending

	mu     sync.Mutex
	series map[string]*series // by the text of the labels
}

// A series is one counter or one histogram.
type series struct {
	sum    float64
	count  uint64
	counts []uint64 // observations per bucket, not cumulative
}

// add adds v to the counter with these label values, or observes v in the histogram.
func (f *family) add(v float64, labels ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.get(labels...)
	s.sum += v
	s.count++
	if i, _ := slices.BinarySearch(f.buckets, v); i < len(s.counts) {
		s.counts[i]++
	}
}

// get returns the series with the values of the labels, which is created if missing. The
// caller holds the lock.
func (f *family) get(values ...string) *series {
	pairs := make([]string, len(values))
	for i, v := range values {
		pairs[i] = f.labels[i] + `="` + escape(v) + `"`
	}
	key := strings.Join(pairs, ",") // in the exposition format, without braces
	s, ok := f.series[key]
	if !ok {
		if f.series == nil {
			f.series = map[string]*series{}
		}
		s = &series{counts: make([]uint64, len(f.buckets))}
		f.series[key] = s
	}
	return s
}

// write writes the family sorted by labels. A family without series is left out.
func (f *family) write(b *bytes.Buffer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.series) == 0 {
		return
	}
	writeHead(b, f.name, f.help, f.kind)
	for _, labels := range slices.Sorted(maps.Keys(f.series)) {
		f.writeSeries(b, labels, f.series[labels])
	}
}

func (f *family) writeSeries(b *bytes.Buffer, labels string, s *series) {
	if f.kind == kindCounter {
		writeSample(b, f.name, labels, s.sum)
		return
	}
	bucket := func(bound string, n uint64) {
		le := `le="` + bound + `"`
		if labels != "" {
			le = labels + "," + le
		}
		writeSample(b, f.name+"_bucket", le, float64(n))
	}
	var n uint64
	for i, bound := range f.buckets {
		n += s.counts[i]
		bucket(formatFloat(bound), n)
	}
	bucket("+Inf", s.count)
	writeSample(b, f.name+"_sum", labels, s.sum)
	writeSample(b, f.name+"_count", labels, float64(s.count))
}

func writeHead(b *bytes.Buffer, name, help, kind string) {
	b.WriteString("# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n")
}

func writeSample(b *bytes.Buffer, name, labels string, v float64) {
	b.WriteString(name)
	if labels != "" {
		b.WriteString("{" + labels + "}")
	}
	b.WriteString(" " + formatFloat(v) + "\n")
}

// escape escapes a label value. Invalid UTF-8 is replaced.
func escape(v string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(v, "\uFFFD"))
}
