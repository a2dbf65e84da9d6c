package applypatch_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"toolgate/policy"
	"toolgate/tools/applypatch"
)

type editArgs struct {
	Path  string     `json:"file_path"`
	Old   string     `json:"old_string"`
	New   string     `json:"new_string"`
	All   bool       `json:"replace_all,omitempty"`
	Edits []editArgs `json:"edits,omitempty"`
}

// TestEditFile has edits of file f, which holds before, or does not exist if that is "-".
func TestEditFile(t *testing.T) {
	const done, there = "Success. Updated the following files:\nM f", "\nnothing was changed"
	several := func(edits ...editArgs) editArgs { return editArgs{Edits: edits} }
	for _, c := range []struct {
		name, before string
		args         editArgs
		after, out   string // after "" means unchanged
	}{
		{"within a line", "one two three\n", editArgs{Old: "two", New: "2"}, "one 2 three\n", done},
		{"over lines", "a\nb\nc\n", editArgs{Old: "a\nb", New: "A\nX\nB"}, "A\nX\nB\nc\n", done},
		{"delete lines", "a\nb\nc\n", editArgs{Old: "b\n", New: ""}, "a\nc\n", done},
		{"join lines", "a\nb\nc\n", editArgs{Old: "a\n", New: "a"}, "ab\nc\n", done},
		{"delete all", "a\n", editArgs{Old: "a\n", New: ""}, "-empty", done},
		{"all places", "aXbX\nX\nn\nX", editArgs{Old: "X", New: "YY", All: true}, "aYYbYY\nYY\nn\nYY", done + "\n4 replaced"},
		{"add a last line end", "a\nb", editArgs{Old: "b", New: "b\n"}, "a\nb\n", done},
		{"remove the last line end", "a\nb\n", editArgs{Old: "b\n", New: "c"}, "a\nc", done},
		{"remove the last line", "a\nb", editArgs{Old: "b", New: ""}, "a\n", done},
		{"add at the end", "a\nb\n", editArgs{Old: "b\n", New: "b\nc\n"}, "a\nb\nc\n", done},
		{"a line end that the file has not", "a\nb", editArgs{Old: "b\n", New: "c\n"}, "a\nc", done},
		{"a line end that only other places have not", "b\nb", editArgs{Old: "\nb\n", New: "c\n"}, "bc", done},
		{"a line end that the file has not, twice", "bb", editArgs{Old: "b\n", New: "c\n"}, "",
			"edit_file: f: old_string is there 2 times, at lines 1 and 1; add lines around it, or set replace_all" + there},
		{"only a line end that the file has not", "a", editArgs{Old: "\n", New: "x"}, "",
			"edit_file: f: old_string is not in the file; nothing like it is in the file" + there},
		{"CRLF", "a\r\nb\r\nc\r\n", editArgs{Old: "b\nc\n", New: "B\nX\nc\n"}, "a\r\nB\r\nX\r\nc\r\n", done},
		{"CRLF asked", "a\r\nb\r\n", editArgs{Old: "a\r\nb", New: "a\r\nx\r\nb"}, "a\r\nx\r\nb\r\n", done},
		{"CRLF where there is none", "a\nb\n", editArgs{Old: "a\r\nb", New: "a\r\nx"}, "a\nx\n", done},
		{"mixed ends", "a\nb\r\nc\nd", editArgs{Old: "b\nc", New: "B\nC"}, "a\nB\r\nC\nd", done},
		{"lone CR", "a\rb\r", editArgs{Old: "b\n", New: "B\nc\n"}, "a\rB\rc\r", done},
		{"byte order mark", "\uFEFFa\nb\n", editArgs{Old: "a\n", New: "x\n"}, "\uFEFFx\nb\n", done},
		{"only a byte order mark", "\uFEFFa\n", editArgs{Old: "\uFEFF", New: "x"}, "",
			"edit_file: f: old_string is only a byte order mark; give text of the file" + there},
		{"UTF-16", "\xff\xfea\x00\n\x00b\x00", editArgs{Old: "b", New: "é"}, "\xff\xfea\x00\n\x00\xe9\x00", done},
		{"UTF-16 broken", "\xff\xfea\x00\x00\xd8", editArgs{Old: "a", New: "b"}, "",
			"edit_file: f: line 1 holds half a character; replace the line as a whole, without it" + there},
		{"Latin-1", "caf\xe9\nth\xe9\n", editArgs{Old: "café", New: "Café"}, "Caf\xe9\nth\xe9\n", done},
		{"Latin-1 cannot", "caf\xe9\nth\xe9\n", editArgs{Old: "café", New: "中"}, "",
			"edit_file: f: line 1: the file is in Latin-1, which cannot take '中'; use characters it has, or convert it to UTF-8 first" + there},
		{"several", "a\nb\n", several(editArgs{Old: "a", New: "x\ny"}, editArgs{Old: "y\nb", New: "z"}, editArgs{Old: "z", New: "q", All: true}),
			"x\nq\n", done + "\nedit 3: 1 replaced"},
		{"several at the end", "a\nb", several(editArgs{Old: "a\n", New: "x\ny\n"}, editArgs{Old: "b", New: ""}), "x\ny\n", done},
		{"all or nothing", "a\nb\n", several(editArgs{Old: "a", New: "x"}, editArgs{Old: "zzz", New: "y"}), "",
			"edit_file: f: edit 2: old_string is not in the file; nothing like it is in the file" + there},
		{"create", "-", editArgs{New: "a\r\nb"}, "a\r\nb", "Success. Updated the following files:\nA f"},
		{"create and edit", "-", several(editArgs{New: "a\n"}, editArgs{Old: "a", New: "b"}), "b\n", "Success. Updated the following files:\nA f"},
		{"fill", "", editArgs{New: "a\n"}, "a\n", done},
		{"missing file", "-", editArgs{Old: "a", New: "b"}, "",
			"edit_file: f: there is no such file; correct the path, or create it with an empty old_string" + there},
		{"create what is there", "a\n", editArgs{New: "b\n"}, "",
			"edit_file: f: the file exists and is not empty; give the text to replace as old_string" + there},
		{"missing", "def f():\n    return 1\n", editArgs{Old: "def f():\n\treturn 1\n", New: "x"}, "",
			"edit_file: f: old_string is not in the file; most like it is lines 1 to 2 (- old_string, + the file):\n" +
				"     def f():\n    -\treturn 1\n    +    return 1" + there},
		{"made already", "a\nnew\n", editArgs{Old: "old", New: "new"}, "",
			"edit_file: f: old_string is not in the file, but new_string is, at line 2: the edit may be made already" + there},
		{"not unique", "a\nb\na\n", editArgs{Old: "a", New: "c"}, "",
			"edit_file: f: old_string is there 2 times, at lines 1 and 3; add lines around it, or set replace_all" + there},
		{"overlapping", "aaa\n", editArgs{Old: "aa", New: "c"}, "",
			"edit_file: f: old_string is there 2 times, at lines 1 and 1; add lines around it, or set replace_all" + there},
		{"binary", "a\x00b\x00\x00", editArgs{Old: "a", New: "b"}, "", "edit_file: f: it is a binary file; only text can be edited" + there},
		{"same", "a\n", editArgs{Old: "a", New: "a"}, "",
			"edit_file: old_string and new_string are the same; leave the edit out, or correct one"},
		{"both forms", "a\n", editArgs{Old: "a", New: "b", Edits: []editArgs{{Old: "a", New: "b"}}}, "",
			"edit_file: give old_string and new_string, or edits, not both"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			set := applypatch.New(applypatch.Options{StateDir: t.TempDir()})
			if c.before != "-" {
				write(t, "f", c.before)
			}
			c.args.Path = "f"
			out, isError := call(t, set[3], c.args)
			require.Equal(t, c.out, out)
			require.Equal(t, c.after == "", isError)
			if after := map[string]string{"": c.before, "-empty": ""}; after[c.after] != "" || c.after == "-empty" {
				c.after = after[c.after]
			}
			if c.after == "-" {
				require.NoFileExists(t, "f")
				return
			}
			require.Equal(t, c.after, read(t, "f"))
			if isError {
				return
			}
			require.Contains(t, must(t, set[2], map[string]any{}), "diff --git a/f b/f\n")
			must(t, set[1], map[string]any{})
			if c.before == "-" {
				require.NoFileExists(t, "f")
				return
			}
			require.Equal(t, c.before, read(t, "f"), "undone")
		})
	}
}

// TestEditFileIsAPatch: to the policy an edit is what the same patch is.
func TestEditFileIsAPatch(t *testing.T) {
	tool := applypatch.New(applypatch.Options{})[3]
	a, err := tool.Describe(json.RawMessage(`{"file_path":"../a","edits":[{"old_string":"x\ny","new_string":"z","replace_all":true},{"old_string":"q","new_string":""}]}`))
	require.NoError(t, err)
	require.Equal(t, policy.Action{
		Tool: "edit_file", Writes: []string{"../a"}, Changes: map[string]string{"../a": "update"},
		Preview: "*** Update File: ../a\n@@ everywhere\n-x\n-y\n+z\n@@\n-q\n",
	}, a)
	a, err = tool.Describe(json.RawMessage(`{"file_path":"a","old_string":"","new_string":"z\n"}`))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "add"}, a.Changes)
	require.Equal(t, "*** Add File: a\n+z\n", a.Preview)
	for args, want := range map[string]string{
		`{"file_path":"","old_string":"","new_string":"z"}`:                                                  "file_path is empty",
		`{"file_path":"a","new_string":"z"}`:                                                                 "old_string is missing",
		`{"file_path":"a","old_string":"z"}`:                                                                 "new_string is missing",
		`{"file_path":"a","edits":[]}`:                                                                       "old_string is missing",
		`{"file_path":"a","edits":[{"old":"a","new":"b"}]}`:                                                  "old_string is missing",
		`{"file_path":"a","edits":[{"old_string":"a"}]}`:                                                     "new_string is missing",
		`{"file_path":"a","edits":[{"old_string":"a","new_string":"b"},{"old_string":"","new_string":"b"}]}`: "edit 2: old_string is empty",
	} {
		_, err := tool.Describe(json.RawMessage(args))
		require.ErrorContains(t, err, want, args)
	}
}

// FuzzEditFile holds edits against strings.Replace, line ends aside.
func FuzzEditFile(f *testing.F) {
	f.Add("a\nb\r\nc", "b\nc", "x\n", "\n", "", true)
	f.Add("aa\naa", "a", "\n", "\r\n", "q", false)
	f.Add("\r\n\r\n", "\n", "", "", "\n", true)
	path := filepath.Join(f.TempDir(), "f")
	tool := applypatch.New(applypatch.Options{Roots: []string{"/"}})[3]
	f.Fuzz(func(t *testing.T, before, old, with, old2, with2 string, all bool) {
		plain := func(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }
		args := editArgs{Path: path, Edits: []editArgs{{Old: old, New: with, All: all}, {Old: old2, New: with2, All: true}}}
		if s := before + "|" + old + "|" + with + "|" + old2 + "|" + with2; !utf8.ValidString(s) || strings.ContainsAny(s, "\x00\uFEFF") ||
			!strings.Contains(before, "\n") && strings.Contains(before, "\r") {
			return
		}
		require.NoError(t, os.WriteFile(path, []byte(before), 0o644))
		out, isError := call(t, tool, args)
		after := read(t, path)
		if isError {
			require.Equal(t, before, after)
			return
		}
		n := 1
		if all {
			n = -1
		}
		want := strings.Replace(plain(before), plain(old), plain(with), n)
		if old == "" {
			want = plain(with)
		}
		if !strings.Contains(plain(before), plain(old)) || !strings.Contains(want, plain(old2)) {
			return // the last line end was left out
		}
		want = strings.ReplaceAll(want, plain(old2), plain(with2))
		require.Equal(t, want, plain(after), "%q %s", before, out)
	})
}
