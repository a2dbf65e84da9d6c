package files

import (
	"math/rand/v2"
	"slices"
)

// A sample is a uniform random sample of the added names.
type sample struct {
	seen  int
	names []string
	rand  *rand.Rand
}

// sampleNames is the size of a sample: large enough for parts of about equal size.
const sampleNames = 8192

func (s *sample) add(name string) {
	s.seen++
	if len(s.names) < sampleNames {
		s.names = append(s.names, name)
		return
	}
	if s.rand == nil {
		s.rand = rand.New(rand.NewPCG(1, 2)) // deterministic
	}
	if i := s.rand.IntN(s.seen); i < sampleNames {
		s.names[i] = name
	}
}

// borders returns names that divide all names into parts of about equal size.
func (s *sample) borders(parts int) []string {
	slices.Sort(s.names)
	var borders []string
	for i := 1; i < parts; i++ {
		borders = append(borders, s.names[i*len(s.names)/parts])
	}
	return slices.Compact(borders)
}
