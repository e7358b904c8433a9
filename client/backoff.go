package client

import (
	"math/rand/v2"
	"time"
)

// backoff returns the wait after this number of consecutive failures: 0.25 s, 0.5 s,
// … 8 s, each shortened by a random part of up to half, so that clients that failed
// together do not retry together.
func backoff(failures int) time.Duration {
	d := 250 * time.Millisecond << min(max(failures-1, 0), 5)
	return d - rand.N(d/2)
}
