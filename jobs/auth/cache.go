package auth

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/reelay/reelay/internal/recent"
	"github.com/reelay/reelay/jobs"
)

// KeyCache remembers for a moment who holds a key, so that a worker or a client
// who calls often is looked up once a second. A revoked key opens requests for that
// much longer; [KeyWatch] ends what is open under it.
type KeyCache struct {
	// Authenticate returns who holds a key, or ErrUnauthenticated.
	Authenticate func(ctx context.Context, secret string) (jobs.Principal, error)

	known recent.Map[[sha256.Size]byte, jobs.Principal]
}

// Get returns who holds a key, or ErrUnauthenticated. Only valid keys are
// remembered.
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
