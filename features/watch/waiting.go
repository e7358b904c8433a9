package watch

import (
	"context"
	"slices"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
)

// Waiting calls send with the reasons why a job waits, as soon as they are known, then whenever
// they change, and with none when it waits no longer. It returns nil when the job has ended,
// NOT_FOUND for a job that the caller may not see, and send's error if it fails.
func (w *Watcher) Waiting(ctx context.Context, p jobs.Principal, id models.JobID, send func([]query.WaitingReason) error) error {
	news, stop := subscribe(ctx, w.Notifications, string(id))
	defer stop()
	var sent []query.WaitingReason
	for {
		job, err := w.Jobs.Get(ctx, p, id)
		if err != nil {
			return err
		}
		reasons, err := w.reasonsOf(ctx, p, job)
		if err != nil {
			return err
		}
		if !slices.EqualFunc(sent, reasons, sameReason) {
			if err := send(reasons); err != nil {
				return err
			}
			sent = reasons
		}
		if job.Status.Terminal() {
			return nil
		}
		if err := pause(ctx, minReasonsEvery, news); err != nil {
			return err
		}
	}
}

// sameReason reports whether two reasons read the same. Until alone may be another estimate. A queue
// that was resumed and paused again is stopped by another pause.
func sameReason(a, b query.WaitingReason) bool {
	return a.Code == b.Code && a.Message == b.Message && (a.Stop == nil) == (b.Stop == nil) && (a.Stop == nil || a.Stop.At.Equal(b.Stop.At))
}

// minReasonsEvery is the shortest time between two looks at why a job waits.
const minReasonsEvery = time.Second

// reasonsLook is one caller's question why a job waits.
type reasonsLook struct {
	id      models.JobID
	edges   query.Edges
	reasons []query.WaitingReason
}

// reasonsOf returns why a job waits; none if it does not. Those who ask at the same time share a
// few statements.
func (w *Watcher) reasonsOf(ctx context.Context, p jobs.Principal, job *models.Job) ([]query.WaitingReason, error) {
	if !job.Status.Waiting() {
		return nil, nil
	}
	edges, err := w.Jobs.Of(p, job)
	if err != nil {
		return nil, err
	}
	l := &reasonsLook{id: job.ID, edges: edges}
	err = w.whys.Do(postgres.WithoutRead(ctx), l, func(ctx context.Context, all []*reasonsLook) error {
		of := make([]query.Edges, len(all))
		for i, one := range all {
			of[i] = one.edges
		}
		found, err := w.Jobs.WaitingFor(ctx, of...)
		for _, one := range all {
			one.reasons = found[one.id]
		}
		return err
	})
	return l.reasons, err
}
