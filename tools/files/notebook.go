package files

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"toolgate/internal/lazyregexp"
)

// maxNotebook is the maximum size of a notebook to render, in bytes. A larger one is
// read as the JSON that it is.
const maxNotebook = 64 << 20

// A notebook is a Jupyter notebook of format 4, as far as it is shown.
type notebook struct {
	Format int            `json:"nbformat"`
	Cells  []notebookCell `json:"cells"`
}

type notebookCell struct {
	Type    string           `json:"cell_type"`
	Source  multiline        `json:"source"`
	Outputs []notebookOutput `json:"outputs"`
}

type notebookOutput struct {
	Type      string               `json:"output_type"`
	Name      string               `json:"name"` // of a stream
	Text      multiline            `json:"text"`
	Data      map[string]multiline `json:"data"` // by MIME type
	Error     string               `json:"ename"`
	Value     string               `json:"evalue"`
	Traceback []string             `json:"traceback"`
}

// multiline is text that is written as a string or as a list of them. Other JSON is
// kept as it is.
type multiline string

func (m *multiline) UnmarshalJSON(b []byte) error {
	var lines []string
	var one string
	switch {
	case json.Unmarshal(b, &one) == nil:
		*m = multiline(one)
	case json.Unmarshal(b, &lines) == nil:
		*m = multiline(strings.Join(lines, ""))
	default:
		*m = multiline(b)
	}
	return nil
}

var errNoNotebook = errors.New("not a notebook of format 4")

// renderNotebook returns the cells of the notebook in r with their text outputs. For
// any other output there is a line with its type and size.
func renderNotebook(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var n notebook
	if err := json.Unmarshal(data, &n); err != nil {
		return nil, err
	}
	if n.Format < 4 || n.Cells == nil {
		return nil, errNoNotebook
	}
	var b strings.Builder
	for i, c := range n.Cells {
		fmt.Fprintf(&b, "# cell %d: %s\n", i+1, c.Type)
		writeText(&b, string(c.Source))
		for _, o := range c.Outputs {
			o.write(&b)
		}
		b.WriteByte('\n')
	}
	return []byte(b.String()), nil
}

// writeText writes s with a newline at its end.
func writeText(b *strings.Builder, s string) {
	if s = strings.TrimRight(s, "\n"); s != "" {
		b.WriteString(s + "\n")
	}
}

var escapeSequence = lazyregexp.New("\x1b\\[[0-9;]*[A-Za-z]")

func (o notebookOutput) write(b *strings.Builder) {
	switch o.Type {
	case "stream":
		fmt.Fprintf(b, "# output (%s)\n", o.Name)
		writeText(b, escapeSequence.ReplaceAllString(string(o.Text), ""))
	case "error":
		b.WriteString("# output (error)\n")
		trace := strings.Join(o.Traceback, "\n")
		if trace == "" {
			trace = o.Error + ": " + o.Value
		}
		writeText(b, escapeSequence.ReplaceAllString(trace, ""))
	default:
		for _, mime := range slices.Sorted(maps.Keys(o.Data)) {
			o.writeData(b, mime)
		}
	}
}

// writeData writes the output in one type: plain text as it is.
func (o notebookOutput) writeData(b *strings.Builder, mime string) {
	text := string(o.Data[mime])
	readable := []string{"text/plain"}
	if _, plain := o.Data["text/plain"]; !plain {
		readable = []string{"text/markdown", "text/latex", "application/json"}
	}
	switch {
	case slices.Contains(readable, mime):
		fmt.Fprintf(b, "# output (%s)\n", mime)
		writeText(b, text)
	default:
		size := len(text)
		if !strings.HasPrefix(mime, "text/") {
			if raw, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(text, "\n", "")); err == nil {
				size = len(raw)
			}
		}
		fmt.Fprintf(b, "# output (%s, %d bytes, left out)\n", mime, size)
	}
}
