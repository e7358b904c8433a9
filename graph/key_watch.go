package graph

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/reelay/reelay/jobs"
)

// keyWatch counts the streams, sockets and others, that are open under each key,
// and ends them once it is not valid any more. A key is checked once for all of
// its streams.
type keyWatch struct {
	authenticate Authenticate
	every        time.Duration
	most         int // streams under one key

	mu   sync.Mutex
	held map[string]*heldKey
}

type heldKey struct {
	streams map[*func()]bool // how to end each
	stop    context.CancelFunc
}

// hold has end called once the key is not valid any more. It returns a function
// that says that the stream is over, or false if there are too many.
func (k *keyWatch) hold(key string, end func()) (release func(), ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.held[key]
	if h == nil {
		ctx, stop := context.WithCancel(context.Background())
		h = &heldKey{streams: map[*func()]bool{}, stop: stop}
		if k.held == nil {
			k.held = map[string]*heldKey{}
		}
		k.held[key] = h
		go k.watch(ctx, key, h)
	}
	if len(h.streams) >= k.most {
		return nil, false
	}
	h.streams[&end] = true
	return sync.OnceFunc(func() { k.release(key, h, &end) }), true
}

// release ends the watch with the key's last stream.
func (k *keyWatch) release(key string, h *heldKey, end *func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(h.streams, end)
	if len(h.streams) == 0 {
		h.stop()
		if k.held[key] == h {
			delete(k.held, key)
		}
	}
}

func (k *keyWatch) watch(ctx context.Context, key string, h *heldKey) {
	ticker := time.NewTicker(k.every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if _, err := k.authenticate(ctx, key); !errors.Is(err, jobs.ErrUnauthenticated) {
			continue
		}
		for _, end := range k.revoke(key, h) {
			go end() // one that does not read must not hold up the others
		}
		return
	}
}

// revoke forgets the key and returns how to end its streams.
func (k *keyWatch) revoke(key string, h *heldKey) []func() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held[key] == h {
		delete(k.held, key)
	}
	var ends []func()
	for end := range h.streams {
		ends = append(ends, *end)
	}
	return ends
}
