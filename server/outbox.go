package server

import "sync"

// maxQueued is the number of notifications that an outbox holds. With more,
// post waits: they would pile up for a client that does not read.
const maxQueued = 64

// An outbox sends notifications in the order that they were posted. Whoever
// posts one does not wait for a client that is slow to read.
type outbox struct {
	mu      sync.Mutex
	changed sync.Cond
	queue   []func()
	sending bool
	closed  bool
	posted  int // so far
	sent    int
}

func newOutbox() *outbox {
	o := &outbox{}
	o.changed.L = &o.mu
	return o
}

// post has send called once those posted before have returned. After close it
// does nothing.
func (o *outbox) post(send func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) >= maxQueued && !o.closed {
		o.changed.Wait()
	}
	if o.closed {
		return
	}
	o.queue = append(o.queue, send)
	o.posted++
	if !o.sending {
		o.sending = true
		go o.run() // ends when the queue is empty
	}
}

func (o *outbox) run() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) > 0 {
		send := o.queue[0]
		o.queue = o.queue[1:]
		o.mu.Unlock()
		send()
		o.mu.Lock()
		o.sent++
		o.changed.Broadcast()
	}
	o.queue, o.sending = nil, false
}

// flush returns when all that was posted before the call has been sent. An
// answer must not overtake what belongs before it.
func (o *outbox) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for upTo := o.posted; o.sent < upTo; {
		o.changed.Wait()
	}
}

// close drops what is posted from now on, and returns when all that was posted
// before has been sent.
func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	o.changed.Broadcast()
	o.mu.Unlock()
	o.flush()
}
