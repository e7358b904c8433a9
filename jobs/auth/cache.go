package auth

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/reelay/reelay/internal/recent"
	"github.com/reelay/reelay/jobs"
)

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
