package grep

// Rust returns expr in the syntax of ripgrep, and whether its matches can span
// lines; ok is false for one that is invalid or that ripgrep cannot express.
func Rust(expr string, fold, multiline bool) (rust string, over, ok bool) {
	letters := sensitive
	if fold {
		letters = insensitive
	}
	p, err := compile(expr, letters, multiline)
	if err != nil {
		return "", false, false
	}
	rust, ok = p.rust()
	return rust, p.multiline, ok
}

// Find runs the machine of expr over text, until stop returns true.
func Find(expr string, text []byte, stop func() bool) int {
	p, err := compile(expr, sensitive, false)
	if err != nil {
		panic(err)
	}
	return p.program.machine(stop).find(text)
}
