package shell

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A script that one command of a call writes and another runs is analyzed like one
// in a heredoc.

// maxFiles limits the number of written files that are remembered.
const maxFiles = 32

// writtenFile remembers the text of a file that the call writes.
func (f *finder) writtenFile(w word, text input, more bool) {
	if w.hole || text.kind != inputText || len(f.files) == maxFiles {
		return
	}
	name := path.Clean(w.text)
	if before, ok := f.files[name]; ok && more {
		f.files[name] = concat([]word{before, text.word}, "")
		return
	}
	f.files[name] = text.word
}

// fileText returns the text of a file that the call wrote.
func (f *finder) fileText(w word) (word, bool) {
	if w.hole {
		return word{}, false
	}
	text, ok := f.files[path.Clean(w.text)]
	text.pos = 0
	return text, ok
}

// runWrittenFile follows a command that is a file which the call wrote: ./deploy.sh.
func (f *finder) runWrittenFile(sc scope, words []word) {
	if !strings.Contains(words[0].text, "/") {
		return
	}
	text, ok := f.fileText(words[0])
	if !ok {
		return
	}
	name := words[0].text
	first, _, _ := strings.Cut(text.code(), "\n")
	if line, ok := strings.CutPrefix(first, "#!"); ok {
		for field := range strings.FieldsSeq(line) {
			if _, ok := interpreters()[languageName(ProgramName(field))]; ok {
				f.opaqueCode(sc, name, text.text)
				return
			}
		}
	}
	f.script(sc.in(name), text, syntax.LangBash, words)
}
