package shell

import (
	"os"
)

// A spool is a file with a command's whole output, up to a limit.
type spool struct {
	f     *os.File
	limit int64
	kept  int64 // the first kept bytes of the output are in f
	full  bool  // nothing more is taken
	named bool  // it has to be removed
}

// newSpool makes a file in folder that nobody else can read and that takes
// limit bytes. Where the system allows it the file has no name from the
// beginning and is gone with this process, however that ends.
func newSpool(folder string, limit int64) (*spool, error) {
	f, err := os.CreateTemp(folder, "toolgate-output-")
	if err != nil {
		return nil, err
	}
	named := os.Remove(f.Name()) != nil
	return &spool{f: f, limit: limit, named: named}, nil
}

// write appends p, as far as there is room.
func (s *spool) write(p []byte) {
	if s.full {
		return
	}
	if room := s.limit - s.kept; int64(len(p)) >= room {
		p, s.full = p[:room], true
	}
	n, err := s.f.Write(p)
	s.kept += int64(n)
	if err != nil {
		s.full = true // such as a full disk; what is there stays readable
	}
}

// read returns the bytes from..to, or what is kept of them.
func (s *spool) read(from, to int64) []byte {
	to = min(to, s.kept)
	if from >= to {
		return nil
	}
	b := make([]byte, to-from)
	n, _ := s.f.ReadAt(b, from)
	return b[:n]
}

func (s *spool) remove() {
	s.f.Close()
	if s.named {
		os.Remove(s.f.Name())
	}
}
