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
	bounds []float64

	mu     sync.Mutex
	sum    float64
	count  uint64
	counts []uint64 // observations per bucket, not cumulative
}

// with returns the series with these label values, which is created if missing.
func (f *family) with(values []string) *series {
	key := f.key(values)
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.series[key]
	if !ok {
		if f.series == nil {
			f.series = map[string]*series{}
		}
		s = &series{bounds: f.buckets, counts: make([]uint64, len(f.buckets))}
		f.series[key] = s
	}
	return s
}

// key returns the labels in the exposition format, without braces.
func (f *family) key(values []string) string {
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(f.labels[i])
		b.WriteString(`="`)
		b.WriteString(escape(v))
		b.WriteByte('"')
	}
	return b.String()
}

// add adds v to a counter, or observes v in a histogram.
func (s *series) add(v float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum += v
	s.count++
	if i, _ := slices.BinarySearch(s.bounds, v); i < len(s.counts) {
		s.counts[i]++
	}
}

// write writes the family sorted by labels. A family without series is left out.
func (f *family) write(b *bytes.Buffer) {
	f.mu.Lock()
	all := maps.Clone(f.series)
	f.mu.Unlock()
	if len(all) == 0 {
		return
	}
	writeHead(b, f.name, f.help, f.kind)
	for _, labels := range slices.Sorted(maps.Keys(all)) {
		all[labels].write(b, f.name, labels)
	}
}

func (s *series) write(b *bytes.Buffer, name, labels string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bounds) == 0 {
		writeSample(b, name, labels, s.sum)
		return
	}
	bucket := func(bound string, n uint64) {
		le := `le="` + bound + `"`
		if labels != "" {
			le = labels + "," + le
		}
		writeSample(b, name+"_bucket", le, float64(n))
	}
	var n uint64
	for i, bound := range s.bounds {
		n += s.counts[i]
		bucket(formatFloat(bound), n)
	}
	bucket("+Inf", s.count)
	writeSample(b, name+"_sum", labels, s.sum)
	writeSample(b, name+"_count", labels, float64(s.count))
}

func writeHead(b *bytes.Buffer, name, help, kind string) {
	help = strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(help)
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
