package agent

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/pause"
)

// grant is a lease and the moment before it was requested.
type grant struct {
	*client.Lease
	asked time.Time
}

// attemptLease makes the calls about an attempt, as long as this worker surely holds its job.
type attemptLease struct {
	api   *client.Client
	fence client.Fence
	clock *clock
	log   *slog.Logger
	// directed follows a directive that came with an answer.
	directed func(client.Directive)

	// owned ends when this worker no longer holds the job.
	owned  context.Context
	disown context.CancelCauseFunc
	// ending is closed before the call that ends the attempt.
	ending chan struct{}
}

// once makes one call about the attempt, and updates the lease's clock from its
// outcome.
func (l *attemptLease) once(ctx context.Context, do func(context.Context) (*client.HeartbeatPayload, error)) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	asked := time.Now()
	answer, err := do(ctx)
	if err != nil {
		if gone(err) {
			l.lost()
		}
		return err
	}
	l.clock.renew(asked)
	if answer != nil {
		l.directed(answer.Directive)
	}
	return nil
}

// fenced makes a call about the attempt, but only while the lease is known to be
// held. It retries while the control plane is unreachable. Its error is the
// control plane's refusal or the cause of ctx's end.
func (l *attemptLease) fenced(ctx context.Context, do func(context.Context) (*client.HeartbeatPayload, error)) error {
	for failures := 1; ; failures++ {
		if err := l.clock.await(ctx); err != nil {
			return err
		}
		err := l.once(ctx, do)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !theirFault(err) {
			return err
		}
		if err := pause.For(ctx, delay(err, failures)); err != nil {
			return err
		}
	}
}

// lost handles the answer that this worker no longer holds the job. While the
// attempt is being ended, this can also mean that the end succeeded but its answer
// was lost. The retry of the call then returns the outcome.
func (l *attemptLease) lost() {
	if closed(l.ending) {
		l.clock.letGo()
		return
	}
	l.disown(errLost)
}

// The reasons to stop a render.
var (
	errLost      = errors.New("the lease is lost")
	errGaveUp    = errors.New("the lease could not be renewed for too long")
	errCancelled = errors.New("the job is cancelled")
	errRelease   = errors.New("the job is handed over")
	errGaveWay   = errors.New("the job gave way to one of a higher lane")
)
