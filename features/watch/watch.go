package watch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/batch"
	"github.com/reelay/reelay/internal/periodic"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Watcher follows jobs, and directives for workers, live.
type Watcher struct {
	DB            *bun.DB
	Jobs          *query.Jobs
	Notifications jobs.Notifications

	looks batch.Group[*look]        // of workers at what is asked of them
	whys  batch.Group[*reasonsLook] // of followers at why their jobs wait

	mu      sync.Mutex
	events  *eventReader // set while a job's events have followers
	changes *changeFeed  // set while changes have followers
}

const (
	minWatchEvery = 50 * time.Millisecond
	maxWatchEvery = time.Minute
	// lookEvery is how often a follower looks without notifications, since notifications may be
	// lost.
	lookEvery = 5 * time.Second
)

// Job calls send with the job's current state, then after changes, at most once per interval
// (50 ms to a minute). While the job waits, another reason why it waits is a change, too. It returns nil after it has sent a terminal status, NOT_FOUND for a job
// that the caller may not see, and send's error if it fails.
func (w *Watcher) Job(ctx context.Context, p jobs.Principal, id models.JobID, every time.Duration, send func(*models.Job) error) error {
	if every < minWatchEvery || every > maxWatchEvery {
		return apierror.Invalid("intervalMs", "intervalMs must be from %d to %d.", minWatchEvery.Milliseconds(), maxWatchEvery.Milliseconds())
	}
	// Notifications of changes after the first look must not be missed.
	news, stop := subscribe(ctx, w.Notifications, string(id))
	defer stop()
	var sent *models.Job
	var told []query.WaitingReason
	var toldAt time.Time
	for {
		job, err := w.Jobs.Get(ctx, p, id)
		if err != nil {
			return err
		}
		if time.Since(toldAt) >= minReasonsEvery || sent != nil && sent.Status != job.Status {
			reasons, err := w.reasonsOf(ctx, p, job)
			if err != nil {
				return err
			}
			if !slices.EqualFunc(told, reasons, sameReason) {
				sent, told = nil, reasons
			}
			toldAt = time.Now()
		}
		if sent == nil || changed(sent, job) {
			if err := send(job); err != nil {
				return err
			}
			sent = job
		}
		if job.Status.Terminal() {
			return nil
		}
		if err := pause(ctx, every, news); err != nil {
			return err
		}
	}
}

// subscribe returns a channel that holds a value if there was a notification since it was last read, and a
// function that ends the subscription.
func subscribe(ctx context.Context, from jobs.Notifications, id string) (news <-chan struct{}, stop func()) {
	wake := periodic.NewWake()
	return wake, from.Subscribe(ctx, id, wake.Send)
}

func changed(a, b *models.Job) bool {
	return a.Status != b.Status || a.EventSeq != b.EventSeq || !a.Progress.UpdatedAt.Equal(b.Progress.UpdatedAt) ||
		!a.CancelDeliveredAt.Equal(b.CancelDeliveredAt)
}

// pause waits for the interval to pass and then for a notification.
func pause(ctx context.Context, every time.Duration, news <-chan struct{}) error {
	for _, event := range []struct {
		notified <-chan struct{}
		after    time.Duration
	}{{nil, every}, {news, lookEvery}} {
		timer := time.NewTimer(event.after)
		select {
		case <-event.notified:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
	return nil
}
