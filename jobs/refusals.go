package jobs

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/alerts"
	"github.com/uptrace/bun"
)

const (
	// RefusalsEvery is how often to call [Refusals.Pass].
	RefusalsEvery = 10 * time.Second
	// refusalsKept is how long they are remembered.
	refusalsKept = 24 * time.Hour
)

// Refusals is an Observer that also counts the submits that failed through no fault of their
// callers, for the alert on the acceptance of submits. A submit only adds to a number in memory;
// a pass writes the sum. What was counted while PostgreSQL is unavailable is written once it is
// back.
type Refusals struct {
	Observer
	DB *bun.DB

	count atomic.Int64
}

// Refused implements Observer.
func (r *Refusals) Refused(code apierror.Code, tier models.Tier) {
	if code == apierror.CodeInternal || code == apierror.CodeOverloaded {
		r.count.Add(1)
	}
	if r.Observer != nil {
		r.Observer.Refused(code, tier)
	}
}

// Pass writes what was counted since the last pass.
func (r *Refusals) Pass(ctx context.Context) error {
	n := min(r.count.Swap(0), math.MaxInt32)
	if n == 0 {
		return nil
	}
	if err := alerts.AddRefusals(ctx, r.DB, int(n), refusalsKept); err != nil {
		r.count.Add(n)
		return apierror.Wrap(err, "count refused submits")
	}
	return nil
}
