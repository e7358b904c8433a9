package attention

import (
	"context"
	"time"

	"github.com/reelay/reelay/features/alert"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs"
)

// Finder reads the causes.
type Finder struct {
	Reads  *query.Reads
	Alerts *alert.Desk
}

const (
	// failuresWithin is how old the failures of jobs may be.
	failuresWithin = time.Hour
	mostSources    = 3
	mostEndpoints  = 50
	// leastTime is for how long an endpoint must have failed, and leastTries how often in a row. Its owner
	// sees each failure at once; operators see what lasts.
	leastTime  = 10 * time.Minute
	leastTries = 3
)

// Facts reads what causes are made of, beside an overview that was read just now. It is for
// operators.
func (r *Finder) Facts(ctx context.Context, p jobs.Principal, o *query.Overview) (Facts, error) {
	f := Facts{Now: o.At, Overview: o}
	if err := p.RequireViewer(); err != nil {
		return f, err
	}
	var err error
	if f.Alerts, err = r.Alerts.Active(ctx, p); err != nil {
		return f, err
	}
	if f.Pools, err = r.Reads.Fleet.Pools(ctx); err != nil {
		return f, err
	}
	if f.Shares, err = r.Reads.Queues.Shares(ctx, "", 1); err != nil {
		return f, err
	}
	if f.Failures, err = r.Reads.Jobs.FailureSources(ctx, failuresWithin, mostSources); err != nil {
		return f, err
	}
	f.Endpoints, err = r.Reads.Webhooks.Failing(ctx, leastTime, leastTries, mostEndpoints)
	return f, err
}

// Causes reads what an operator should look at, the most urgent first.
func (r *Finder) Causes(ctx context.Context, p jobs.Principal) ([]Cause, error) {
	o, err := r.Reads.History.Overview(ctx, p)
	if err != nil {
		return nil, err
	}
	f, err := r.Facts(ctx, p, o)
	if err != nil {
		return nil, err
	}
	return Rank(f), nil
}
