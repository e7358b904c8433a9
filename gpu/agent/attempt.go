package agent

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/tracing"
)

// The reasons to stop a render.
var (
	errLost      = errors.New("the lease is lost")
	errGaveUp    = errors.New("the lease could not be renewed for too long")
	errCancelled = errors.New("the job is cancelled")
	errHandOver  = errors.New("the job is handed over")
	errGaveWay   = errors.New("the job gave way to one of a higher lane")
)

// attempt is the current job, from its lease to its end.
type attempt struct {
	agent *Agent
	lease *client.Lease
	hold  client.Hold
	clock *clock
	dir   string
	log   *slog.Logger

	// owned ends when this worker no longer holds the job. Its child rendering also
	// ends when the render must stop but the attempt still has to be ended.
	owned, rendering context.Context
	disown, stop     context.CancelCauseFunc
	// ending is closed before the call that ends the attempt.
	ending chan struct{}
	// giveWay receives when the control plane asks for a checkpoint and the job.
	giveWay chan struct{}

	progress *reporter
	logs     *logStream
	logKept  sync.Once
}

func (a *Agent) newAttempt(ctx context.Context, g *grant) *attempt {
	t := &attempt{
		agent: a, lease: g.Lease, hold: g.Hold(), clock: newClock(g.asked, a.leaseTime),
		dir:    filepath.Join(a.dir, g.AttemptId),
		log:    a.log.With("job", g.Job.Id, "attempt", g.AttemptId),
		ending: make(chan struct{}), giveWay: make(chan struct{}, 1),
	}
	t.progress = newReporter(t)
	t.logs = &logStream{attempt: t}
	if g.Traceparent != nil {
		ctx = tracing.Adopt(ctx, *g.Traceparent)
		if id := tracing.TraceID(*g.Traceparent); id != "" {
			t.log = t.log.With("trace", id)
		}
	}
	t.owned, t.disown = context.WithCancelCause(ctx)
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
	t.agent.config.GPUs() // the first heartbeat reports what is read now
	for failures, wait := 0, t.agent.heartbeat; ; {
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
			return t.agent.api.Heartbeat(ctx, client.HeartbeatInput{
				AttemptId: t.hold.AttemptID, FencingToken: t.hold.FencingToken, Gpus: t.agent.config.GPUs(),
			})
		})
		switch {
		case err == nil:
			failures, wait = 0, t.agent.heartbeat
		case t.clock.age() > t.agent.config.GiveUp:
			t.disown(errGaveUp)
		default:
			failures++
			wait = min(delay(err, failures), t.agent.heartbeat)
		}
	}
}

// once makes one call about the attempt, and updates the lease's clock from its
// outcome.
func (t *attempt) once(ctx context.Context, do func(context.Context) (*client.HeartbeatPayload, error)) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	asked := time.Now()
	answer, err := do(ctx)
	if err != nil {
		if gone(err) {
			t.lost()
		}
		return err
	}
	t.clock.renew(asked)
	if answer != nil {
		t.obey(answer.Directive)
	}
	return nil
}

// fenced makes a call about the attempt, but only while the lease is known to be
// held. It retries while the control plane is unreachable. Its error is the
// control plane's refusal or the cause of ctx's end.
func (t *attempt) fenced(ctx context.Context, do func(context.Context) (*client.HeartbeatPayload, error)) error {
	for failures := 1; ; failures++ {
		if err := t.clock.await(ctx); err != nil {
			return err
		}
		err := t.once(ctx, do)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !theirFault(err) {
			return err
		}
		if err := pause(ctx, delay(err, failures)); err != nil {
			return err
		}
	}
}

// lost handles the answer that this worker no longer holds the job. While the
// attempt is being ended, this can also mean that the end succeeded but its answer
// was lost. The retry of the call then returns the outcome.
func (t *attempt) lost() {
	if closed(t.ending) {
		t.clock.letGo()
		return
	}
	t.disown(errLost)
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
		t.agent.obey(d)
		t.disown(errLost)
	case client.DirectiveActionCheckpoint:
		select {
		case t.giveWay <- struct{}{}:
		default:
		}
	default:
		t.agent.obey(d)
	}
}
