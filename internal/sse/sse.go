// Package sse reads streams of server-sent events.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// An Event is one server-sent event.
type Event struct {
	Kind string // "" means message
	Data []byte
}

// A Reader splits a stream into events.
type Reader struct {
	LastID string        // of the last event that had an id
	Retry  time.Duration // to wait before reconnecting; 0: not specified

	r   *bufio.Reader
	max int
}

// NewReader returns a reader of events that are at most max bytes long.
func NewReader(r io.Reader, max int) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 64<<10), max: max}
}

// Next returns the next event that has data. As the standard requires, an incomplete
// event at the end of the stream is dropped.
func (e *Reader) Next() (Event, error) {
	var ev Event
	some := false
	for {
		line, err := e.line()
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			if some {
				return ev, nil
			}
			ev = Event{}
			continue
		}
		key, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(key) {
		case "data":
			if some {
				ev.Data = append(ev.Data, '\n')
			}
			some = true
			if ev.Data = append(ev.Data, value...); len(ev.Data) > e.max {
				return Event{}, e.tooLong()
			}
		case "event":
			ev.Kind = string(value)
		case "id":
			e.LastID = string(value)
		case "retry":
			if ms, err := strconv.Atoi(string(value)); err == nil && ms >= 0 {
				e.Retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

func (e *Reader) tooLong() error { return fmt.Errorf("event longer than %d bytes", e.max) }

func (e *Reader) line() ([]byte, error) {
	var line []byte
	for {
		part, err := e.r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > e.max {
			return nil, e.tooLong()
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
}
