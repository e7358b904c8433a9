package auth

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
)

// KeyWatch counts what is open for long under each key in this process (sockets,
// streams, answers that are held back), and ends it once the key is not valid any
// more. A key is checked once for all that is open under it.
type KeyWatch struct {
	// Authenticate returns who holds a key, or ErrUnauthenticated.
	Authenticate func(ctx context.Context, secret string) (jobs.Principal, error)
	// Every is how often a key is checked: 3 seconds if it is 0.
	Every time.Duration
	// Most is how much may be open under one key: 1000 if it is 0.
	Most int

	mu   sync.Mutex
	held map[string]*heldKey
}

const (
	checkKeysEvery = 3 * time.Second
	openPerKey     = 1000
)

var errTooMuchOpen = apierror.Later(apierror.CodeRateLimited, time.Second,
	"Too much is open under this key at once: end some streams, sockets or waits, or send more operations over one socket.")

type heldKey struct {
	open map[*func()]bool // how to end each
	stop context.CancelFunc
}

// Hold has end called once the key is not valid any more. It returns a function
// that says that what it held is over, or RATE_LIMITED if too much is open.
func (k *KeyWatch) Hold(secret string, end func()) (release func(), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.held[secret]
	if h == nil {
		ctx, stop := context.WithCancel(context.Background())
		h = &heldKey{open: map[*func()]bool{}, stop: stop}
		if k.held == nil {
			k.held = map[string]*heldKey{}
		}
		k.held[secret] = h
		go k.watch(ctx, secret, h)
	}
	if len(h.open) >= cmp.Or(k.Most, openPerKey) {
		return nil, errTooMuchOpen
	}
	h.open[&end] = true
	return sync.OnceFunc(func() { k.release(secret, h, &end) }), nil
}

// While returns a context that ends with ErrUnauthenticated once the key is not
// valid any more, and a function that ends it before; or RATE_LIMITED.
func (k *KeyWatch) While(ctx context.Context, secret string) (context.Context, context.CancelCauseFunc, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	release, err := k.Hold(secret, func() { cancel(apierror.ErrUnauthenticated) })
	if err != nil {
		cancel(nil)
		return nil, nil, err
	}
	return ctx, func(cause error) { cancel(cause); release() }, nil
}

// release ends the watch with the last that was open under the key.
func (k *KeyWatch) release(secret string, h *heldKey, end *func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(h.open, end)
	if len(h.open) == 0 {
		h.stop()
		if k.held[secret] == h {
			delete(k.held, secret)
		}
	}
}

func (k *KeyWatch) watch(ctx context.Context, secret string, h *heldKey) {
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
			go end() // one that does not read must not hold up the others
		}
		return
	}
}

// revoke forgets the key and returns how to end what is open.
func (k *KeyWatch) revoke(secret string, h *heldKey) []func() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held[secret] == h {
		delete(k.held, secret)
	}
	var ends []func()
	for end := range h.open {
		ends = append(ends, *end)
	}
	return ends
}
