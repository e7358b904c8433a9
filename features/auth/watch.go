package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/recent"
	"github.com/reelay/reelay/jobs"
)

// KeyWatch counts the long-lived connections of each key in this process (sockets, streams,
// long polls), and ends them once the key is no longer valid. It checks a key once for all its
// connections.
type KeyWatch struct {
	// Authenticate returns the holder of a key, or ErrUnauthenticated.
	Authenticate func(ctx context.Context, secret string) (jobs.Principal, error)
	// Every is how often a key is checked; 0 means 3 seconds.
	Every time.Duration
	// Most is how many connections one key may have; 0 means 1000.
	Most int

	mu      sync.Mutex
	watched map[string]*watchedKey
}

const (
	checkKeysEvery = 3 * time.Second
	openPerKey     = 1000
)

var errTooMuchOpen = apierror.Later(apierror.CodeRateLimited, time.Second,
	"Too much is open under this key at once: end some streams, sockets or waits, or send more operations over one socket.")

type watchedKey struct {
	open map[*func()]bool // the functions that end each
	stop context.CancelFunc
}

// Open calls end once the key is no longer valid. It returns a function to call when the
// connection is over, or RATE_LIMITED if the key has too many connections.
func (k *KeyWatch) Open(secret string, end func()) (release func(), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.watched[secret]
	if h == nil {
		ctx, stop := context.WithCancel(context.Background())
		h = &watchedKey{open: map[*func()]bool{}, stop: stop}
		if k.watched == nil {
			k.watched = map[string]*watchedKey{}
		}
		k.watched[secret] = h
		go k.watch(ctx, secret, h)
	}
	if len(h.open) >= cmp.Or(k.Most, openPerKey) {
		return nil, errTooMuchOpen
	}
	h.open[&end] = true
	return sync.OnceFunc(func() { k.release(secret, h, &end) }), nil
}

// While returns a context that ends with ErrUnauthenticated once the key is no longer valid,
// and a function that ends it earlier. It may return RATE_LIMITED.
func (k *KeyWatch) While(ctx context.Context, secret string) (context.Context, context.CancelCauseFunc, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	release, err := k.Open(secret, func() { cancel(apierror.ErrUnauthenticated) })
	if err != nil {
		cancel(nil)
		return nil, nil, err
	}
	return ctx, func(cause error) { cancel(cause); release() }, nil
}

// release ends the watch of a key with its last connection.
func (k *KeyWatch) release(secret string, h *watchedKey, end *func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(h.open, end)
	if len(h.open) == 0 {
		h.stop()
		if k.watched[secret] == h {
			delete(k.watched, secret)
		}
	}
}

func (k *KeyWatch) watch(ctx context.Context, secret string, h *watchedKey) {
	ticker := time.NewTicker(cmp.Or(k.Every, checkKeysEvery))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if _, err := k.Authenticate(ctx, secret); !errors.Is(err, apierror.ErrUnauthenticated) {
			continue
		}
		for _, end := range k.revoke(secret, h) {
			go end() // an end that blocks must not delay the others
		}
		return
	}
}

// revoke forgets the key and returns the functions that end its connections.
func (k *KeyWatch) revoke(secret string, h *watchedKey) []func() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.watched[secret] == h {
		delete(k.watched, secret)
	}
	var ends []func()
	for end := range h.open {
		ends = append(ends, *end)
	}
	return ends
}

// KeyCache remembers the holder of a key for a moment, so that a worker or client that calls
// often is looked up only once a second. A revoked key is accepted for that much longer.
// [KeyWatch] ends streams that are open under it.
type KeyCache struct {
	// Authenticate returns the holder of a key, or ErrUnauthenticated.
	Authenticate func(ctx context.Context, secret string) (jobs.Principal, error)

	known recent.Map[[sha256.Size]byte, jobs.Principal]
}

// Get returns the holder of a key, or ErrUnauthenticated. Only valid keys are cached.
func (c *KeyCache) Get(ctx context.Context, secret string) (jobs.Principal, error) {
	id, now := sha256.Sum256([]byte(secret)), time.Now()
	if holder, ok := c.known.Get(id, now); ok {
		return holder, nil
	}
	p, err := c.Authenticate(ctx, secret)
	if err == nil {
		c.known.Keep(id, p, now)
	}
	return p, err
}
