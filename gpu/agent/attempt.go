package agent

import (
	"context"
	"path/filepath"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/tracing"
)

// attempt is the current job, from its lease to its end.
type attempt struct {
	*uploader
	worker *worker
	lease  *client.Lease

	// rendering ends with owned, and when the render must stop but the attempt still has to
	// be ended.
	rendering context.Context
	stop      context.CancelCauseFunc
	// giveWay receives when the control plane asks for a checkpoint and the job.
	giveWay chan struct{}

	// adopted is the newest handle of the attempt, once its render has ended.
	adopted string

	progress *reporter
	logs     *logStream
}

func newAttempt(ctx context.Context, w *worker, g *grant) *attempt {
	log := w.log.With("job", g.Job.Id, "attempt", g.AttemptId)
	if g.Traceparent != nil {
		ctx = tracing.Adopt(ctx, *g.Traceparent)
		if id := tracing.TraceID(*g.Traceparent); id != "" {
			log = log.With("trace", id)
		}
	}
	held := &attemptLease{
		api: w.api, fence: g.Fence(), clock: newClock(g.asked, w.leaseTime), log: log, ending: make(chan struct{}),
	}
	held.owned, held.disown = context.WithCancelCause(ctx)
	t := &attempt{
		uploader: &uploader{attemptLease: held, dir: filepath.Join(w.dir, g.AttemptId), over: w.going.over},
		worker:   w, lease: g.Lease, giveWay: make(chan struct{}, 1),
		progress: newReporter(held, w.secrets, w.config.ProgressEvery),
		logs:     &logStream{attemptLease: held, secrets: w.secrets},
	}
	held.directed = t.obey
	limit := time.Duration(g.TimeoutSeconds) * time.Second
	tooLong := runtime.Failf(runtime.Timeout, "the attempt took longer than its limit of %s", limit)
	timed, cancel := context.WithTimeoutCause(t.owned, limit, tooLong)
	context.AfterFunc(t.owned, cancel)
	t.rendering, t.stop = context.WithCancelCause(timed)
	return t
}

// keepLease sends heartbeats until the attempt is over: when its timer fires, and
// early if a caller waits for the lease to be confirmed. After a failure only the
// timer counts; it is short then.
func (t *attempt) keepLease() {
	t.worker.config.GPUs() // the first heartbeat reports what is read now
	for failures, wait := 0, t.worker.heartbeat; ; {
		needed := t.clock.expired
		if failures > 0 {
			needed = nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-t.owned.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-needed:
			timer.Stop()
		}
		err := t.once(t.owned, func(ctx context.Context) (*client.HeartbeatPayload, error) {
			ctx, cancel := context.WithTimeout(ctx, beatTimeout)
			defer cancel()
			return t.api.Heartbeat(ctx, client.HeartbeatInput{
				AttemptId: t.fence.AttemptID, FencingToken: t.fence.FencingToken, Gpus: t.worker.config.GPUs(),
			})
		})
		switch {
		case err == nil:
			failures, wait = 0, t.worker.heartbeat
		case t.clock.age() > t.worker.config.GiveUp:
			t.disown(errGaveUp)
		default:
			failures++
			wait = min(delay(err, failures), t.worker.heartbeat)
		}
	}
}

// obey follows a directive.
func (t *attempt) obey(d client.Directive) {
	if d.JobId != nil && *d.JobId != t.lease.Job.Id {
		return
	}
	switch d.Action {
	case client.DirectiveActionCancel:
		t.stop(errCancelled)
	case client.DirectiveActionTerminate:
		// The control plane has already requeued the job.
		t.worker.obey(d)
		t.disown(errLost)
	case client.DirectiveActionCheckpoint:
		select {
		case t.giveWay <- struct{}{}:
		default:
		}
	default:
		t.worker.obey(d)
	}
}
