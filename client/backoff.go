package client

import (
	"math/rand/v2"
	"time"
)

// backoff is how long to wait after so many failures in a row: 0.25 s, 0.5 s, …
// 8 s, each shortened by up to a half, so that those who failed together do not
// come back together.
func backoff(failures int) time.Duration {
	d := 250 * time.Millisecond << min(max(failures-1, 0), 5)
	return d - rand.N(d/2)
}
