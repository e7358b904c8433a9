package jobs

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

// KeyCache remembers for a moment who holds a key, so that a worker or a client
// who calls often is looked up once a second. A revoked key opens requests for that
// much longer; [KeyWatch] ends what is open under it.
type KeyCache struct {
	// Authenticate returns who holds a key, or ErrUnauthenticated.
	Authenticate func(ctx context.Context, secret string) (Principal, error)

	mu    sync.Mutex
	known map[[sha256.Size]byte]knownKey
	swept time.Time
}

type knownKey struct {
	holder Principal
	at     time.Time // before it was looked up
}

const (
	// keyKnownFor and a KeyWatch's look are within the 5 seconds that a key may
	// still open something after it is revoked.
	keyKnownFor = time.Second
	// maxKnownKeys bounds the memory; who is beyond is looked up each time.
	maxKnownKeys = 20_000
)

// Get returns who holds a key, or ErrUnauthenticated. Only valid keys are
// remembered.
func (c *KeyCache) Get(ctx context.Context, secret string) (Principal, error) {
	id, now := sha256.Sum256([]byte(secret)), time.Now()
	c.mu.Lock()
	found, ok := c.known[id]
	c.mu.Unlock()
	if ok && now.Sub(found.at) < keyKnownFor {
		return found.holder, nil
	}
	p, err := c.Authenticate(ctx, secret)
	if err == nil {
		c.keep(id, knownKey{p, now})
	}
	return p, err
}

func (c *KeyCache) keep(id [sha256.Size]byte, found knownKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found.at.Sub(c.swept) > keyKnownFor {
		c.swept = found.at
		for id, k := range c.known {
			if found.at.Sub(k.at) >= keyKnownFor {
				delete(c.known, id)
			}
		}
	}
	if c.known == nil {
		c.known = map[[sha256.Size]byte]knownKey{}
	}
	if len(c.known) < maxKnownKeys {
		c.known[id] = found
	}
}
