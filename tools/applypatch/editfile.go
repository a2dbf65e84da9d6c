package applypatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/policy"
	"toolgate/tools"
)

type editInput struct {
	Path string `json:"file_path" jsonschema:"file to change"`
	replacement
	Edits []replacement `json:"edits,omitempty" jsonschema:"several, in order: all or none"`
}

// A replacement replaces text of a file.
type replacement struct {
	Old *string `json:"old_string,omitempty" jsonschema:"text to replace, exactly as in the file"`
	New *string `json:"new_string,omitempty" jsonschema:"text in its place"`
	All bool    `json:"replace_all,omitempty" jsonschema:"wherever it is"`
}

// editFile returns edit_file.
func (s *session) editFile() tools.Tool {
	return tools.New(tools.Def{
		Name:  "edit_file",
		Title: "Edit a file",
		Description: "Replaces old_string, which the file must have exactly once, or every time with replace_all. " +
			"An empty old_string creates the file.",
		Destructive: true,
		EditSchema: func(s *jsonschema.Schema) {
			s.Properties["edits"].Items.Required = []string{"old_string", "new_string"}
			for _, p := range s.Properties["edits"].Items.Properties {
				p.Description = "" // the same as above
			}
		},
	}, describeEdit, s.edit)
}

// list returns the replacements in order. In all but the first, Old is not empty.
func (in *editInput) list() ([]replacement, error) {
	list := in.Edits
	switch alone := in.replacement; {
	case in.Path == "":
		return nil, errors.New("file_path is empty; give the path of a file")
	case len(list) == 0:
		list = []replacement{alone}
	case alone.All, alone.Old != nil && *alone.Old != "", alone.New != nil && *alone.New != "":
		return nil, errors.New("give old_string and new_string, or edits, not both")
	}
	for i, r := range list {
		what := nameOf(i, list)
		switch {
		case r.Old == nil:
			return nil, errors.New(what + `old_string is missing; give the text to replace, "" to create the file`)
		case r.New == nil:
			return nil, errors.New(what + `new_string is missing; give the text to put there, "" to delete`)
		case *r.Old == *r.New && *r.Old != "":
			return nil, errors.New(what + "old_string and new_string are the same; leave the edit out, or correct one")
		case *r.Old == "" && i > 0:
			return nil, errors.New(what + "old_string is empty; only the first edit can create the file")
		}
	}
	return list, nil
}

// nameOf returns what an error about edit i of list begins with.
func nameOf(i int, list []replacement) string {
	if len(list) == 1 {
		return ""
	}
	return fmt.Sprintf("edit %d: ", i+1)
}

// describeEdit runs in the gate and reads no file. The preview is a patch, as far as the
// arguments have it.
func describeEdit(in editInput) (policy.Action, error) {
	edits, err := in.list()
	if err != nil {
		return policy.Action{}, err
	}
	kind, preview := "update", "*** Update File: "+in.Path+"\n"
	if *edits[0].Old == "" {
		kind, preview = "add", "*** Add File: "+in.Path+"\n"
	}
	for _, r := range edits {
		switch {
		case r.All:
			preview += "@@ everywhere\n"
		case *r.Old != "":
			preview += "@@\n"
		}
		preview += signed("-", *r.Old) + signed("+", *r.New)
	}
	return policy.Action{Writes: []string{in.Path}, Changes: map[string]string{in.Path: kind}, Preview: preview}, nil
}

// signed returns the lines of s, each after sign.
func signed(sign, s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(sign + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String()
}

// edit runs in the worker, inside the sandbox.
func (s *session) edit(ctx context.Context, in editInput) (*mcp.CallToolResult, error) {
	edits, err := in.list()
	if err != nil {
		return nil, err
	}
	return s.change(ctx, func(at *resolver) (*plan, []string, error) {
		pl := &plan{resolver: at, files: map[string]*file{}, summary: summary{}}
		if err := pl.edit(in.Path, edits); err != nil {
			if d, ok := errors.AsType[*tools.Denial](err); ok {
				return nil, nil, d
			}
			return nil, nil, fmt.Errorf("%w\nnothing was changed", err)
		}
		if faults := pl.conflicts(); len(faults) > 0 {
			return nil, nil, &PatchError{Faults: faults}
		}
		return pl, nil, nil
	})
}

// edit adds the edits of the file at path to the plan.
func (pl *plan) edit(path string, edits []replacement) error {
	f, err := pl.open(path, true)
	if err != nil {
		return err
	}
	first := edits[0]
	switch {
	case !f.after.exists && *first.Old != "":
		const hint = "correct the path, or create it with an empty old_string"
		return pl.missing(path, "there is no such file", hint)
	case !f.after.exists:
		f.after = state{exists: true, read: true, mode: 0o666}
		pl.summary.add('A', path)
	default:
		if err := f.load(); err != nil {
			return err
		}
		pl.summary.add('M', path)
	}
	data := f.after.data
	if *first.Old == "" {
		if len(data) > 0 {
			return fmt.Errorf("%s: the file exists and is not empty; give the text to replace as old_string", path)
		}
		if data = []byte(*first.New); len(edits) == 1 {
			f.after.data, f.after.read = data, true
			return nil
		}
	}
	t, err := parseText(data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for i, r := range edits {
		if *r.Old == "" {
			continue
		}
		var n int
		if t, n, err = t.replace(r); err != nil {
			return fmt.Errorf("%s: %s%w", path, nameOf(i, edits), err)
		}
		if r.All {
			pl.notes = append(pl.notes, fmt.Sprintf("%s%d replaced", nameOf(i, edits), n))
		}
	}
	if f.after.data, err = t.bytes(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// replace returns t with r made, and the number of places.
//
// All line ends match "\n". A new line gets the line end of the line that it replaces,
// and others that of the line above, as in a patch.
func (t *text) replace(r replacement) (*text, int, error) {
	whole, starts := t.joined()
	old, with := lineFeeds(*r.Old), lineFeeds(*r.New)
	if t.bom {
		old, with = strings.TrimPrefix(old, byteOrderMark), strings.TrimPrefix(with, byteOrderMark)
	}
	unended, ended := strings.CutSuffix(old, "\n")
	if ended && unended != "" && !strings.Contains(whole, old) && strings.HasSuffix(whole, unended) {
		old, with = unended, strings.TrimSuffix(with, "\n") // the file has no last line end, and keeps none
	}
	found := allOf(whole, old, r.All)
	lineOf := func(at int) int { return sort.SearchInts(starts, at+1) - 1 }
	switch {
	case len(found) == 0:
		return nil, 0, t.missing(old, with, whole, lineOf)
	case len(found) > 1 && !r.All:
		lines := make([]int, len(found))
		for i, at := range found {
			lines[i] = lineOf(at)
		}
		return nil, 0, fmt.Errorf("old_string is %s; add lines around it, or set replace_all", occurrences(lines))
	}
	for i := range t.lines {
		t.lines[i].explicitEnd = true // the edit alone says whether the last line has an end
	}
	var places []place
	for i := 0; i < len(found); {
		first := lineOf(found[i])
		var now strings.Builder
		done, last := starts[first], first // last is the last line that changes
		for ; i < len(found) && lineOf(found[i]) <= last; i++ {
			now.WriteString(whole[done:found[i]] + with)
			done = found[i] + len(old)
			last = min(lineOf(done), len(t.lines)-1)
		}
		now.WriteString(whole[done:starts[last+1]])
		p := t.rewriting(first, last+1, now.String())
		if err := t.checkKept(p); err != nil {
			return nil, 0, err
		}
		places = append(places, p)
	}
	return t.at(places), len(found), nil
}

// joined returns the text of t with "\n" as line end, and where in it each line starts
// and the last one ends.
func (t *text) joined() (whole string, starts []int) {
	var b strings.Builder
	for i := range t.lines {
		starts = append(starts, b.Len())
		b.WriteString(t.lineFeedLine(i))
	}
	return b.String(), append(starts, b.Len())
}

// lineFeedLine returns line i with "\n" as line end, if it has one.
func (t *text) lineFeedLine(i int) string {
	if t.lines[i].end == "" {
		return t.lines[i].text
	}
	return t.lines[i].text + "\n"
}

func lineFeeds(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

// allOf returns where old is in s: up to [maxFound] places, which may overlap, or with
// apart all that do not.
func allOf(s, old string, apart bool) []int {
	var found []int
	for from := 0; old != "" && (apart || len(found) < maxFound); {
		n := strings.Index(s[from:], old)
		if n < 0 {
			break
		}
		found = append(found, from+n)
		from += n + 1
		if apart {
			from += len(old) - 1
		}
	}
	return found
}

// rewriting returns the place of the lines from start to end, with their new text.
func (t *text) rewriting(start, end int, now string) place {
	lines := slices.Collect(strings.Lines(now))
	head, tail := 0, 0 // lines that stay
	for head < min(end-start, len(lines)) && t.lineFeedLine(start+head) == lines[head] {
		head++
	}
	for tail < min(end-start, len(lines))-head && t.lineFeedLine(end-tail-1) == lines[len(lines)-tail-1] {
		tail++
	}
	p := place{start: start + head, old: end - start - head - tail, strict: true}
	for _, l := range t.lines[p.start:p.end()] {
		p.lines = append(p.lines, Line{Op: '-', Text: l.text})
	}
	for _, l := range lines[head : len(lines)-tail] {
		p.lines = append(p.lines, Line{Op: '+', Text: strings.TrimSuffix(l, "\n")})
	}
	if len(p.lines) > 0 && p.end() == len(t.lines) {
		last := &p.lines[len(p.lines)-1]
		last.End = NoNewline
		if strings.HasSuffix(now, "\n") {
			last.End = t.lineEndNear(len(t.lines))
		}
	}
	return p
}

// checkKept returns an error if p would keep parts of lines that cannot be written back:
// half characters of UTF-16.
func (t *text) checkKept(p place) error {
	const replaced = "\uFFFD"
	if t.enc.width() == 1 || !slices.ContainsFunc(without(p.lines, '-'), func(l Line) bool {
		return strings.Contains(l.Text, replaced)
	}) {
		return nil
	}
	for i, l := range t.lines[p.start:p.end()] {
		raw, err := t.enc.encode(l.text + l.end)
		if l.raw != nil && (err != nil || !bytes.Equal(raw, l.raw)) {
			return fmt.Errorf("line %d holds half a character; replace the line as a whole, without it", p.start+i+1)
		}
	}
	return nil
}

// missing returns the error for an old text that is not in the file.
func (t *text) missing(old, with, whole string, lineOf func(int) int) error {
	if with != "" {
		if found := allOf(whole, with, false); len(found) == 1 {
			const format = "old_string is not in the file, but new_string is, at line %d: the edit may be made already"
			return fmt.Errorf(format, lineOf(found[0])+1)
		}
	}
	var lines []Line
	if old == "" {
		return errors.New("old_string is only a byte order mark; give text of the file")
	}
	for l := range strings.Lines(old) {
		lines = append(lines, Line{Text: strings.TrimSuffix(l, "\n")})
	}
	return errors.New("old_string is not in the file" + t.nearestTo(lines, "old_string"))
}
