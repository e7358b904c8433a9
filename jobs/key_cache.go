package jobs

import (
	"context"
	"crypto/sha256"
	"time"
)

// KeyCache remembers for a moment who holds a key, so that a worker or a client
// who calls often is looked up once a second. A revoked key opens requests for that
// much longer; [KeyWatch] ends what is open under it.
type KeyCache struct {
	// Authenticate returns who holds a key, or ErrUnauthenticated.
	Authenticate func(ctx context.Context, secret string) (Principal, error)

	known recent[[sha256.Size]byte, Principal]
}

// Get returns who holds a key, or ErrUnauthenticated. Only valid keys are
// remembered.
func (c *KeyCache) Get(ctx context.Context, secret string) (Principal, error) {
	id, now := sha256.Sum256([]byte(secret)), time.Now()
	if holder, ok := c.known.get(id, now); ok {
		return holder, nil
	}
	p, err := c.Authenticate(ctx, secret)
	if err == nil {
		c.known.keep(id, p, now)
	}
	return p, err
}
