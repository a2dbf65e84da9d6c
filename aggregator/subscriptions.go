package aggregator

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"toolgate/internal/rawjson"
)

// subscriptions is what the clients want of the servers beyond answers: what a new
// session is brought to when an old one has ended.
type subscriptions struct {
	mu      sync.Mutex
	counts  map[subscription]int
	levels  map[string]string // log level by caller
	changed chan struct{}     // closed and replaced when counts changes
}

// A subscription is a resource whose updates somebody wants.
type subscription struct{ server, uri string }

// subscribe has the updates of a resource told to the listeners until Unsubscribe
// is called as often.
func (s *Downstreams) subscribe(ctx context.Context, w subscription) error {
	if !s.subscriptions.add(w, 1) {
		return nil // somebody has subscribed already
	}
	err := s.sendSubscription(ctx, w, Subscribe)
	if err != nil {
		s.subscriptions.add(w, -1)
	}
	return err
}

// Unsubscribe takes back a subscription.
func (s *Downstreams) Unsubscribe(ctx context.Context, uri string) error {
	for _, o := range s.owners(uri) {
		w := subscription{o.Server, o.Raw}
		if s.subscriptions.has(w) {
			if s.subscriptions.add(w, -1) {
				return s.sendSubscription(ctx, w, "resources/unsubscribe")
			}
			return nil
		}
	}
	return nil
}

func (s *Downstreams) sendSubscription(ctx context.Context, w subscription, method string) error {
	d, err := s.server(w.server)
	if err != nil {
		return err
	}
	session, err := d.acquire(ctx)
	if err != nil {
		return err
	}
	defer d.release()
	if session.stateless {
		return nil // its stream of news is opened anew with what is watched
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	_, err = session.link.do(ctx, &request{method: method, body: rawjson.Object{{Key: "uri", Value: rawjson.Quote(w.uri)}}})
	return err
}

// add counts a subscription, and reports whether it is the first or was the last.
func (w *subscriptions) add(what subscription, by int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counts == nil {
		w.counts = map[subscription]int{}
	}
	before := w.counts[what]
	w.counts[what] = before + by
	if w.counts[what] <= 0 {
		delete(w.counts, what)
	}
	edge := before == 0 || before+by == 0
	if edge && w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
	return edge
}

func (w *subscriptions) has(what subscription) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[what] > 0
}

// ofServer returns what is watched of the server, and a channel that closes when
// that may have changed.
func (w *subscriptions) ofServer(server string) ([]string, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var uris []string
	for k := range w.counts {
		if k.server == server {
			uris = append(uris, k.uri)
		}
	}
	slices.Sort(uris)
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return uris, w.changed
}

// NotifyRootsChanged tells the servers that the roots of a client have changed.
func (s *Downstreams) NotifyRootsChanged() {
	for _, d := range s.all() {
		if session := d.currentSession(); session != nil && !session.stateless {
			go session.link.notifyRaw("notifications/roots/list_changed", nil) // ends when it is written
		}
	}
}

// restore brings a new session to the state that the last one had. It returns
// when ctx ends, for a server of the newer era whose news it listens to.
func (d *Downstream) restore(ctx context.Context, s *session) {
	d.setLevel(ctx, s)
	if s.stateless {
		s.listenChanges(ctx)
		return
	}
	uris, _ := d.set.subscriptions.ofServer(d.spec.Name)
	for _, uri := range uris {
		if err := d.set.sendSubscription(ctx, subscription{d.spec.Name, uri}, "resources/subscribe"); err != nil {
			d.log.Warn("subscription not renewed", "uri", uri, "err", err)
		}
	}
}

// listenChanges keeps a stream of news open with a server of the newer era that
// declares some.
func (s *session) listenChanges(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		uris, changed := s.d.set.subscriptions.ofServer(s.d.spec.Name)
		want := rawjson.Object{}
		for _, l := range [][2]string{{"tools", "toolsListChanged"}, {"prompts", "promptsListChanged"}, {"resources", "resourcesListChanged"}} {
			if s.initial.has(l[0], "listChanged") {
				want.Set(l[1], json.RawMessage("true"))
			}
		}
		if len(uris) > 0 && s.initial.has("resources", "subscribe") {
			b, err := json.Marshal(uris)
			if err != nil {
				return
			}
			want.Set("resourceSubscriptions", b)
		}
		if len(want) == 0 {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		lctx, cancel := context.WithCancel(ctx)
		stop := make(chan struct{})
		go func() { // ends with the stream
			select {
			case <-changed:
				cancel()
			case <-stop:
			}
		}()
		_, err := s.link.do(lctx, &request{method: "subscriptions/listen", body: rawjson.Object{{Key: "notifications", Value: want.Bytes()}}, meta: s.hopMeta(nil)})
		close(stop)
		again := lctx.Err() != nil
		cancel()
		if again {
			continue // what is watched has changed, or ctx has ended
		}
		if _, refused := errors.AsType[*RPCError](err); refused {
			return // its lists are polled
		}
		if _, refused := errors.AsType[*statusError](err); refused {
			return
		}
		failures++
		select {
		case <-time.After(backoff(failures)):
		case <-changed:
		case <-ctx.Done():
		}
	}
}
