package graph

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/reelay/reelay/jobs"
)

// keyWatch checks the keys of open streams again and again: each key once a
// round, however many streams it has open.
type keyWatch struct {
	authenticate Authenticate
	every        time.Duration

	mu   sync.Mutex
	keys map[string]*watchedKey
}

// watchedKey is one key with open streams.
type watchedKey struct {
	// streams are those that end with it, by a number of their own.
	streams map[int]func()
	next    int
	stop    context.CancelFunc
}

// watch calls revoked once the key is not valid any more, unless ctx ends before.
func (k *keyWatch) watch(ctx context.Context, key string, revoked func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.keys[key]
	if w == nil {
		w = &watchedKey{streams: map[int]func(){}}
		if k.keys == nil {
			k.keys = map[string]*watchedKey{}
		}
		k.keys[key] = w
		var checking context.Context
		checking, w.stop = context.WithCancel(context.Background()) // as long as any of its streams
		go k.check(checking, key, w)
	}
	number := w.next
	w.next++
	w.streams[number] = revoked
	context.AfterFunc(ctx, func() { k.leave(key, w, number) })
}

// leave forgets a stream, and its key with the last one.
func (k *keyWatch) leave(key string, w *watchedKey, number int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(w.streams, number)
	if len(w.streams) == 0 {
		w.stop()
		if k.keys[key] == w {
			delete(k.keys, key)
		}
	}
}

// check ends a key's streams when it is revoked, and itself with the last one.
func (k *keyWatch) check(ctx context.Context, key string, w *watchedKey) {
	ticker := time.NewTicker(k.every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if _, err := k.authenticate(ctx, key); errors.Is(err, jobs.ErrUnauthenticated) {
			for _, revoked := range k.drop(key, w) {
				go revoked() // one that does not read must not hold up the others
			}
			return
		}
	}
}

// drop forgets a key: a stream that opens from now on begins anew. It returns how
// to end those that are open.
func (k *keyWatch) drop(key string, w *watchedKey) []func() {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.keys, key)
	open := make([]func(), 0, len(w.streams))
	for _, revoked := range w.streams {
		open = append(open, revoked)
	}
	return open
}
