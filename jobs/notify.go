package jobs

import (
	"context"
	"log/slog"
	"time"
)

// Notifier tells waiting calls and other processes what a commit changed. It
// makes the usual path quick and nothing else: whatever it loses is found again
// from PostgreSQL.
type Notifier struct {
	Index   ReadyIndex
	News    News
	Waiters *Waiters
}

// notifyTimeout bounds what a slow Redis can cost the caller.
const notifyTimeout = 200 * time.Millisecond

// after tells of a change once it is committed.
func (n *Notifier) after(ctx context.Context, changes ...*change) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notifyTimeout)
	defer cancel()
	for _, c := range changes {
		if c == nil {
			continue
		}
		if c.left != nil {
			n.log(ctx, n.Index.Remove(ctx, *c.left))
		}
		if c.ready != nil {
			n.ready(ctx, *c.ready)
		}
		n.News.Publish(ctx, c.job.ID)
	}
}

// ready puts a job into the index and wakes one worker that waits for its model
// here. Those that wait elsewhere hear of it from the index.
func (n *Notifier) ready(ctx context.Context, job ReadyJob) {
	n.log(ctx, n.Index.Add(ctx, job))
	n.Waiters.Wake(job.Model)
}

func (n *Notifier) log(ctx context.Context, err error) {
	if err != nil {
		slog.DebugContext(ctx, "hint lost, the sweep will mend it", "error", err)
	}
}
