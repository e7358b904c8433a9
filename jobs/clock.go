package jobs

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Clock is PostgreSQL's clock without a query: its last reading plus the time since then by
// the process's monotonic clock. It does not use the process's time of day, which may be
// wrong. It is for decisions that no statement makes, such as the expiry of links.
type Clock struct {
	DB *bun.DB

	newest atomic.Pointer[clockReading]
}

// clockReading is what PostgreSQL's clock said, and the process's time of the reading.
type clockReading struct{ said, at time.Time }

const (
	// ClockEvery is how often a process reads PostgreSQL's clock.
	ClockEvery = 10 * time.Second
	// slowReading is how long a reading may take. A slower one does not replace an earlier
	// one.
	slowReading = time.Second
)

// Pass reads PostgreSQL's clock.
func (c *Clock) Pass(ctx context.Context) error {
	before := time.Now()
	said, err := postgres.Now(ctx, c.DB)
	if err != nil {
		return apierror.Wrap(err, "read PostgreSQL's clock")
	}
	if took := time.Since(before); took < slowReading || c.newest.Load() == nil {
		c.newest.Store(&clockReading{said: said, at: before.Add(took / 2)})
	}
	return nil
}

// Now returns PostgreSQL's time, or the process's own if PostgreSQL's was never read.
func (c *Clock) Now() time.Time {
	reading := c.newest.Load()
	if reading == nil {
		return time.Now()
	}
	return reading.said.Add(time.Since(reading.at))
}

// Seconds converts seconds to a duration.
func Seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
