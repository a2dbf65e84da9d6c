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

// subscriptions holds the state that clients have requested of the servers, so that
// a new session can restore it.
type subscriptions struct {
	mu      sync.Mutex
	counts  map[subscription]int
	levels  map[string]string // log levels by caller
	changed context.Context   // ended and replaced when counts changes
	change  context.CancelFunc
}

// A subscription is a resource whose updates some client wants.
type subscription struct{ server, uri string }

// subscribe makes the server send updates of the resource to the listeners, until
// Unsubscribe has been called as often as subscribe.
func (s *Downstreams) subscribe(ctx context.Context, w subscription) error {
	if !s.subscriptions.add(w, 1) {
		return nil // already subscribed
	}
	err := s.sendSubscription(ctx, w, Subscribe)
	if err != nil && s.subscriptions.add(w, -1) && ctx.Err() != nil {
		// The server may have subscribed. Ends with its answer.
		go s.sendSubscription(context.WithoutCancel(ctx), w, Unsubscribe)
	}
	return err
}

// Unsubscribe ends one subscription to the resource. It does nothing if there is
// none.
func (s *Downstreams) Unsubscribe(ctx context.Context, uri string) error {
	for _, o := range s.owners(uri) {
		w := subscription{o.Server, o.Raw}
		if !s.subscriptions.has(w) {
			continue
		}
		if s.subscriptions.add(w, -1) {
			return s.sendSubscription(ctx, w, Unsubscribe)
		}
		break
	}
	return nil
}

// sendSubscription sends resources/subscribe or resources/unsubscribe to the server.
// It starts no server to unsubscribe from it.
func (s *Downstreams) sendSubscription(ctx context.Context, w subscription, method string) error {
	d, err := s.server(w.server)
	if err != nil {
		return err
	}
	if method == Unsubscribe && d.currentSession() == nil {
		return nil
	}
	session, err := d.acquire(ctx)
	if err != nil {
		return err
	}
	defer d.release()
	if session.stateless {
		return nil // listenChanges reopens its stream with the new list
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	body := rawjson.Object{{Key: "uri", Value: rawjson.Quote(w.uri)}}
	_, err = session.link.do(ctx, &request{method: method, body: body})
	return err
}

// add changes the count of a subscription by one, and reports whether it is now the
// first or was the last.
func (w *subscriptions) add(what subscription, by int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.counts[what]
	w.counts[what] = before + by
	if w.counts[what] <= 0 {
		delete(w.counts, what)
	}
	edge := before == 0 || before+by == 0
	if edge {
		w.change()
		w.changed, w.change = context.WithCancel(context.Background())
	}
	return edge
}

func (w *subscriptions) has(what subscription) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[what] > 0
}

// ofServer returns the URIs subscribed to on the server, sorted, and a context
// that ends when any subscription changes.
func (w *subscriptions) ofServer(server string) ([]string, context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var uris []string
	for k := range w.counts {
		if k.server == server {
			uris = append(uris, k.uri)
		}
	}
	slices.Sort(uris)
	return uris, w.changed
}

// NotifyRootsChanged tells the servers that the roots of a client have changed. It
// returns at once.
func (s *Downstreams) NotifyRootsChanged() {
	for _, d := range s.all() {
		if session := d.currentSession(); session != nil && !session.stateless {
			go session.link.send(envelope{Method: "notifications/roots/list_changed"}) // ends when it is written
		}
	}
}

// restore restores the log level and the subscriptions in a new session. With a
// stateless server it then listens for changes until ctx ends.
func (d *Downstream) restore(ctx context.Context, s *session) {
	d.setLevel(ctx, s)
	if s.stateless {
		s.listenChanges(ctx)
		return
	}
	uris, _ := d.set.subscriptions.ofServer(d.spec.Name)
	for _, uri := range uris {
		if err := d.set.sendSubscription(ctx, subscription{d.spec.Name, uri}, Subscribe); err != nil {
			d.log.Warn("subscription not renewed", "uri", uri, "err", err)
		}
	}
}

// listenChanges keeps a subscriptions/listen stream open with a stateless server
// that announces changes, until ctx ends or the server refuses it.
func (s *session) listenChanges(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		uris, changed := s.d.set.subscriptions.ofServer(s.d.spec.Name)
		want := s.wantedChanges(uris)
		if len(want) == 0 {
			select {
			case <-changed.Done():
			case <-ctx.Done():
			}
			continue
		}
		lctx, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(changed, cancel)
		body := rawjson.Object{{Key: "notifications", Value: want.Bytes()}}
		_, err := s.link.do(lctx, &request{method: "subscriptions/listen", body: body, meta: s.hopMeta(nil)})
		stop()
		again := lctx.Err() != nil
		cancel()
		if again {
			continue // the subscriptions have changed, or ctx has ended
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
		case <-changed.Done():
		case <-ctx.Done():
		}
	}
}

// wantedChanges returns the notifications to ask the server for: changes of its
// lists and updates of uris, as far as it declares them.
func (s *session) wantedChanges(uris []string) rawjson.Object {
	want := rawjson.Object{}
	for _, l := range []struct{ capability, notification string }{
		{"tools", "toolsListChanged"},
		{"prompts", "promptsListChanged"},
		{"resources", "resourcesListChanged"},
	} {
		if s.initial.has(l.capability, "listChanged") {
			want.Set(l.notification, json.RawMessage("true"))
		}
	}
	if len(uris) > 0 && s.initial.has("resources", "subscribe") {
		want.Set("resourceSubscriptions", rawjson.StringArray(uris))
	}
	return want
}
