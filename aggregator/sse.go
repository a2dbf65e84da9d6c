package aggregator

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// An event is one server-sent event.
type event struct {
	kind string // "" means message
	data []byte
}

// An eventReader splits a stream into server-sent events.
type eventReader struct {
	r      *bufio.Reader
	lastID string        // of the last event that had an id
	retry  time.Duration // as the server wishes, 0 when it does not say
}

func newEventReader(r io.Reader) *eventReader {
	return &eventReader{r: bufio.NewReaderSize(r, 64<<10)}
}

var errLongEvent = fmt.Errorf("event longer than %d bytes", maxMessage)

// next returns the next event that has data. An event that the end of the
// stream cuts off is dropped, as the standard says.
func (e *eventReader) next() (event, error) {
	var ev event
	some := false
	for {
		line, err := e.line()
		if err != nil {
			return event{}, err
		}
		if len(line) == 0 {
			if some {
				return ev, nil
			}
			ev = event{}
			continue
		}
		key, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(key) {
		case "data":
			if some {
				ev.data = append(ev.data, '\n')
			}
			some = true
			if ev.data = append(ev.data, value...); len(ev.data) > maxMessage {
				return event{}, errLongEvent
			}
		case "event":
			ev.kind = string(value)
		case "id":
			e.lastID = string(value)
		case "retry":
			if ms, err := strconv.Atoi(string(value)); err == nil && ms >= 0 {
				e.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

func (e *eventReader) line() ([]byte, error) {
	var line []byte
	for {
		part, err := e.r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxMessage {
			return nil, errLongEvent
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
