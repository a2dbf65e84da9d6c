package applypatch

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"

	"github.com/rogpeppe/go-internal/diff"
)

// maxExplained is the maximum number of hunks per file that are explained.
const maxExplained = 20

// explain describes a mismatch in the file at path for the model.
func (t *text) explain(path string, h *Hunk, m mismatch) string {
	s := fmt.Sprintf("%s: hunk %d (line %d of the patch) %s", path, m.hunk+1, h.Line, m.why)
	if len(m.near) > 0 {
		s += t.nearestTo(m.near, "the patch")
	}
	return s
}

// occurrences returns the number of places and where they are.
func occurrences(places []int) string {
	times := fmt.Sprint(len(places))
	if len(places) == maxFound {
		times += " or more"
	}
	return fmt.Sprintf("there %s times, at %s", times, lineNumbers(places))
}

// lineNumbers returns the numbers of the lines at places: "lines 3, 9 and 20".
func lineNumbers(places []int) string {
	const most = 10
	numbers := make([]string, 0, most)
	for _, p := range places[:min(most, len(places))] {
		numbers = append(numbers, fmt.Sprint(p+1))
	}
	if more := len(places) - len(numbers); more > 0 {
		numbers = append(numbers, fmt.Sprintf("%d more", more))
	}
	last := len(numbers) - 1
	if last == 0 {
		return "line " + numbers[0]
	}
	return "lines " + strings.Join(numbers[:last], ", ") + " and " + numbers[last]
}

// nearestTo shows the lines of the file that are most similar to old, as a diff. what
// names old.
func (t *text) nearestTo(old []Line, what string) string {
	if len(t.lines) == 0 {
		return "; the file is empty"
	}
	start, ok := t.byVotes(old)
	if !ok {
		start, ok = t.byPart(old)
	}
	if !ok {
		start, ok = t.bySimilarity(old)
	}
	if !ok {
		return "; nothing like it is in the file"
	}
	end := t.endOf(old, start)
	var want, have bytes.Buffer
	for _, l := range old {
		want.WriteString(l.Text + "\n")
	}
	for _, l := range t.lines[start:end] {
		have.WriteString(l.text + "\n")
	}
	at := fmt.Sprintf("line %d", start+1)
	if end > start+1 {
		at = fmt.Sprintf("lines %d to %d", start+1, end)
	}
	return fmt.Sprintf("; most like it is %s (- %s, + the file):\n%s", at, what, excerpt(want.Bytes(), have.Bytes()))
}

// excerpt returns a short diff of two texts without headers, indented.
func excerpt(old, new []byte) string {
	const most = 24 // lines
	var b strings.Builder
	n := 0
	for line := range strings.Lines(string(diff.Diff("old", old, "new", new))) {
		switch {
		case strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "--- "),
			strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "@@"):
			continue
		}
		if n++; n > most {
			b.WriteString("    …\n")
			break
		}
		b.WriteString("    " + short(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// lettersAndDigits returns s in lower case and without spacing and punctuation.
func lettersAndDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, s)
}

// byVotes lets every line of the file with the letters and digits of a line of old
// vote for the start of old. Long lines have more weight.
func (t *text) byVotes(old []Line) (start int, ok bool) {
	where := map[string][]int{}
	for i, l := range old {
		if loose := lettersAndDigits(l.Text); loose != "" {
			where[loose] = append(where[loose], i)
		}
	}
	votes := map[int]int{}
	best, most := 0, 0
	for i, loose := range t.looseLines() {
		for _, j := range where[loose] {
			at := max(0, i-j)
			votes[at] += 4 + min(len(old[j].Text), 40)
			if votes[at] > most {
				best, most = at, votes[at]
			}
		}
	}
	return best, most > 0
}

// byPart finds the first line of the file that begins with the longest line of old, or is
// the beginning of it.
func (t *text) byPart(old []Line) (start int, ok bool) {
	const least = 4 // letters and digits
	longest := longestOf(old)
	want := lettersAndDigits(old[longest].Text)
	for i, loose := range t.looseLines() {
		part := min(len(want), len(loose))
		if part >= least && want[:part] == loose[:part] {
			return max(0, i-longest), true
		}
	}
	return 0, false
}

// longestOf returns the index of the line with the most letters and digits.
func longestOf(lines []Line) int {
	longest := 0
	for i := range lines {
		if len(lettersAndDigits(lines[i].Text)) > len(lettersAndDigits(lines[longest].Text)) {
			longest = i
		}
	}
	return longest
}

// bySimilarity finds the line of the file most similar to the longest line of
// old.
func (t *text) bySimilarity(old []Line) (start int, ok bool) {
	const least, maxCompared = 0.5, 100_000 // lines
	longest := longestOf(old)
	want := pairsOf(old[longest].Text)
	best := least
	for i := range t.lines[:min(len(t.lines), maxCompared)] {
		if l := want.similarity(pairsOf(t.lines[i].text)); l >= best {
			best, start, ok = l, max(0, i-longest), true
		}
	}
	return start, ok
}

// A pairs is a histogram of the pairs of adjacent letters in a line, hashed to a
// byte.
type pairs struct {
	count [256]uint8
	all   int
}

// pairsOf counts the pairs at the beginning of s.
func pairsOf(s string) (p pairs) {
	const most = 200
	var last byte
	for i := range min(len(s), most) {
		c := s[i] | 0x20 // lower case, for ASCII letters
		if c == ' ' || c == '\t'|0x20 {
			continue
		}
		if last != 0 {
			p.count[last*31^c]++
			p.all++
		}
		last = c
	}
	return p
}

// similarity returns the similarity of two lines, from 0 to 1.
func (p pairs) similarity(q pairs) float64 {
	if small, large := min(p.all, q.all), max(p.all, q.all); small == 0 || 3*small < large {
		return 0
	}
	common := 0
	for i := range p.count {
		common += int(min(p.count[i], q.count[i]))
	}
	return 2 * float64(common) / float64(p.all+q.all)
}

// endOf returns the end of the lines that are most similar to old and begin at
// start. It looks for the last line of old that occurs nearby and adds the number
// of lines that old has after it.
func (t *text) endOf(old []Line, start int) int {
	const slack = 10
	for j := len(old) - 1; j > 0; j-- {
		want := lettersAndDigits(old[j].Text)
		for i := start; want != "" && i < min(len(t.lines), start+j+slack); i++ {
			if t.looseLines()[i] == want {
				return min(len(t.lines), i+len(old)-j)
			}
		}
	}
	return min(len(t.lines), start+len(old))
}
