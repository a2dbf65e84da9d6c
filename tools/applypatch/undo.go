package applypatch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/policy"
	"toolgate/tools"
)

const undoDescription = "Takes back the last change by apply_patch or edit_file in this session, or that with id. " +
	"Can be undone itself. Refused, with a diff, if a file was changed since."

type undoInput struct {
	ID int `json:"id,omitempty" jsonschema:"number of the step"`
}

// describeUndo cannot name the paths: only the worker has the record of them.
func describeUndo(in undoInput) (policy.Action, error) {
	what := "undo the last patch"
	if in.ID != 0 {
		what = fmt.Sprintf("undo step %d", in.ID)
	}
	return policy.Action{
		Writes:  []string{"."},
		Changes: map[string]string{".": what + " in"},
		Preview: what + " of this session",
	}, nil
}

func (s *session) undo(ctx context.Context, in undoInput) (*mcp.CallToolResult, error) {
	leave, notes, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	steps, err := s.store.list()
	if err != nil {
		return nil, err
	}
	st, err := toUndo(steps, in.ID)
	if err != nil {
		return nil, err
	}
	pl, err := s.planUndo(st)
	if err != nil {
		return nil, err
	}
	undo := &step{Undoes: st.ID, Summary: pl.summary.line()}
	more, err := s.commit(ctx, pl, undo)
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf("Undone: step %d. Updated the following files:", st.ID)
	lines := slices.Concat([]string{head}, pl.summary.items(), notes, more)
	if undo.ID != 0 {
		lines = append(lines, fmt.Sprintf("This is step %d; undo it by its id to have the patch again.", undo.ID))
	}
	return tools.Text(strings.Join(lines, "\n")), nil
}

// toUndo returns the step with the given id or, if it is 0, the last patch that
// is not undone.
func toUndo(steps []*step, id int) (*step, error) {
	undone := undoneSteps(steps)
	var open []string
	for _, st := range slices.Backward(steps) {
		if st.ID == id && undone[id] {
			return nil, fmt.Errorf("step %d is undone already", id)
		}
		if st.ID == id || id == 0 && st.Undoes == 0 && !undone[st.ID] {
			return st, nil
		}
		if !undone[st.ID] {
			open = append(open, fmt.Sprintf("%d (%s)", st.ID, st.Summary))
		}
	}
	if len(open) == 0 || id == 0 {
		return nil, errors.New("there is no patch to undo in this session")
	}
	const most = 10
	if len(open) > most {
		open = append(open[:most], "…")
	}
	return nil, fmt.Errorf("there is no step %d; the steps that can be undone are %s", id, strings.Join(open, ", "))
}

// undoneSteps returns the ids of the steps that are undone. An undo that was itself
// undone does not count.
func undoneSteps(steps []*step) map[int]bool {
	undone := map[int]bool{}
	for _, st := range slices.Backward(steps) {
		if st.Undoes != 0 && !undone[st.ID] {
			undone[st.Undoes] = true
		}
	}
	return undone
}

// planUndo returns the plan that undoes st, or an error that lists the files that
// something else has changed since.
func (s *session) planUndo(st *step) (*plan, error) {
	pl := &plan{files: map[string]*file{}, emptyDirs: st.Dirs, summary: summary{}}
	var faults []string
	for _, c := range st.Changes {
		f := &file{path: c.Path, written: c.Written}
		err := f.stat()
		if err == nil {
			err = s.checkUnchanged(st, f, c)
		}
		if err == nil {
			err = s.takeBack(st, f, c)
		}
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", c.Written, err))
			continue
		}
		pl.files[c.Path] = f
		pl.order = append(pl.order, c.Path)
		switch {
		case !c.Before.Exists:
			pl.summary.add('D', c.Written)
		case !c.After.Exists:
			pl.summary.add('A', c.Written)
		default:
			pl.summary.add('M', c.Written)
		}
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("step %d cannot be undone:\n%s\nnothing was changed; undo it by a patch of your own",
			st.ID, strings.Join(faults, "\n"))
	}
	for _, c := range st.Changes {
		if origin := pl.files[c.After.From]; origin != nil && !c.Before.Exists {
			origin.after.from = c.Path // it was moved: move it back
		}
	}
	return pl, nil
}

func (s *session) checkUnchanged(st *step, f *file, c change) error {
	switch {
	case f.before.exists && !c.After.Exists:
		return errors.New("something else made a file there since")
	case !f.before.exists && c.After.Exists:
		return errors.New("it was deleted or moved since")
	case c.After.Link != f.before.link:
		return errors.New("it is another symbolic link now")
	case !f.before.exists || f.before.link != "":
		return nil
	case c.After.Lost:
		return errors.New("its content was too large to be kept")
	}
	if err := f.load(); err != nil {
		return err
	}
	if sum(f.before.data) == c.After.Sum {
		return nil
	}
	then, err := s.store.content(st, c.After.Sum)
	if err != nil {
		return errors.New("it was changed since")
	}
	return fmt.Errorf("it was changed since (- as the patch left it, + now):\n%s", excerpt(then, f.before.data))
}

func (s *session) takeBack(st *step, f *file, c change) error {
	if c.Before.Lost {
		return errors.New("its old content was too large to be kept")
	}
	f.after = state{exists: c.Before.Exists, link: c.Before.Link, mode: c.Before.Mode, exact: true}
	if !c.Before.Exists {
		return nil
	}
	if f.before.exists && f.before.link == "" && c.Before.Link == "" {
		f.after.from = f.path
		f.after.mode = f.before.mode&^(c.Before.Mode^c.After.Mode) | c.Before.Mode&(c.Before.Mode^c.After.Mode)
		if c.After.Mode == 0 {
			f.after.mode = c.Before.Mode
		}
	}
	if c.Before.Link != "" {
		return nil
	}
	data, err := s.store.content(st, c.Before.Sum)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("its old content is not kept any more")
	}
	f.after.data, f.after.read = data, true
	return err
}
