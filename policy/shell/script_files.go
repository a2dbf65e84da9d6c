package shell

import (
	"slices"
	"strings"
)

// ScriptFiles are the files whose content a call runs, as far as its words name
// them: scripts given to shells and interpreters, sourced files, values of options
// such as -f, and programs given by path. Files that only an administrator can
// change are left out.
type ScriptFiles struct {
	Names []string // as written

	// Folders are those that cd and options such as -C name. A relative name may
	// count from the call's own folder or from any of them.
	Folders []string

	// Unknown is set if some file or folder is not known before the call runs.
	Unknown bool
}

// maxScriptFiles limits the names and the folders. What exceeds it is unknown.
const maxScriptFiles = 16

// fileOptions are the options whose value is a file that the program runs or obeys.
const fileOptions = "-f --file --makefile --require --import --rcfile --init-file"

// forceOptions are the programs whose -f is followed by data.
const forceOptions = "rm cp mv ln tail touch"

// namedFiles notes the files that the words of a command name, and its folders. What
// shells and interpreters run is noted where their options are parsed.
func (f *finder) namedFiles(sc scope, name string, words []word) {
	if strings.ContainsAny(words[0].text, `/\`) && !IsSystemProgram(words[0].text) {
		f.scriptFile(sc, words[0])
	}
	operands := withoutDashes(words[1:])
	switch {
	case (name == "cd" || name == "pushd" || name == "chdir") && !sc.elsewhere:
		if len(operands) == 0 {
			f.found.ScriptFiles.Unknown = true // home, or the folder before
			return
		}
		add(&f.found.ScriptFiles, &f.found.ScriptFiles.Folders, operands[len(operands)-1])
	case name == "go" && len(operands) > 0 && operands[0].text == "run":
		for _, w := range operands[1:] {
			if strings.HasSuffix(w.text, ".go") {
				f.scriptFile(sc, w)
			}
		}
	}
	for i := 1; i < len(words); i++ {
		for opt := range strings.FieldsSeq("-C --directory --chdir") {
			if value, ok := optionValue(words, i, opt, true); ok && !sc.elsewhere {
				add(&f.found.ScriptFiles, &f.found.ScriptFiles.Folders, value)
			}
		}
		if slices.Contains(strings.Fields(forceOptions), name) {
			continue
		}
		for opt := range strings.FieldsSeq(fileOptions) {
			if value, ok := optionValue(words, i, opt, true); ok {
				f.scriptFile(sc, value)
			}
		}
	}
}

// scriptFile notes a file whose content the call runs.
func (f *finder) scriptFile(sc scope, w word) {
	if !sc.elsewhere && w.proc == nil && !isStdin(w) {
		add(&f.found.ScriptFiles, &f.found.ScriptFiles.Names, w)
	}
}

// add adds a name to list, which belongs to s.
func add(s *ScriptFiles, list *[]string, w word) {
	switch {
	case slices.Contains(*list, w.text) && !w.hole:
	case w.hole, len(*list) == maxScriptFiles:
		s.Unknown = true
	case w.text != "":
		*list = append(*list, w.text)
	}
}

// operandFiles notes the script that an interpreter is given, also behind a
// subcommand, as in `deno run x.ts`.
func (f *finder) operandFiles(sc scope, operands []word) {
	if len(operands) == 0 {
		return
	}
	f.scriptFile(sc, operands[0])
	if !slices.Contains([]string{"run", "test", "exec", "watch"}, operands[0].text) {
		return
	}
	for _, w := range operands[1:] {
		if !isInterpreterOption(w) {
			f.scriptFile(sc, w)
			return
		}
	}
}
