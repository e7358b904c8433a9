package agent

import (
	"context"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/pause"
)

// leaseWait is how long one request for a job waits on the server, in seconds.
const leaseWait = 20

// ask waits for a job. It returns nil once the worker is draining, and drains it if it waited for too
// long: only on an answer that there is no job, since a lost one can have been a lease. If the answer to
// a request was lost, ask repeats the request under the same id, which returns the
// same lease. The error is one that a retry cannot fix.
func (a *Agent) ask(ctx context.Context) (*grant, error) {
	if closed(a.going.draining) {
		return nil, nil // it has nothing to refuse
	}
	asking, stop := until(ctx, a.going.draining, errRelease)
	defer stop()
	id := uuid.NewString()
	began := time.Now()
	for failures := 0; ; {
		asked := time.Now()
		answer, err := a.askOnce(asking, id, a.patience(began))
		if err == nil && answer.Lease != nil {
			return &grant{answer.Lease, asked}, nil
		}
		if err == nil {
			failures = 0
			id = uuid.NewString()
			if answer.Directive != nil {
				a.obey(*answer.Directive)
			}
			if a.config.ExitWhenIdle > 0 && time.Since(began) >= a.config.ExitWhenIdle && !closed(a.going.draining) {
				a.leaveIdle(ctx)
				return nil, nil
			}
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if closed(a.going.draining) {
			a.refuse(ctx, id)
			return nil, nil
		}
		if err == nil {
			continue
		}
		if !theirFault(err) {
			return nil, err
		}
		failures++
		a.log.Debug("could not ask for a job", "error", err, "failures", failures)
		// The next round notices the end of asking.
		_ = pause.For(asking, delay(err, failures))
	}
}

// patience returns how long the next request waits on the server, in seconds.
func (a *Agent) patience(began time.Time) int {
	if a.config.ExitWhenIdle == 0 {
		return leaseWait
	}
	left := a.config.ExitWhenIdle - time.Since(began)
	return min(max(int(math.Ceil(left.Seconds())), 0), leaseWait)
}

// LeavesIdle is the reason of a worker that leaves since it had no job. The control plane knows it: it
// is no preemption.
const LeavesIdle = "it had no job (--exit-when-idle)"

func (a *Agent) leaveIdle(ctx context.Context) {
	a.log.Info("draining", "reason", LeavesIdle, "limit", a.config.ExitWhenIdle)
	a.going.drain(time.Time{})
	ctx, cancel := context.WithTimeout(ctx, farewellTimeout)
	defer cancel()
	if err := a.api.DrainSelf(ctx, a.id, LeavesIdle, time.Time{}); err != nil && !gone(err) {
		a.log.Warn("could not report that this worker is draining", "error", err)
	}
}

func (a *Agent) askOnce(ctx context.Context, id string, wait int) (*client.LeaseAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseWait*time.Second+callTimeout)
	defer cancel()
	return a.api.LeaseJob(ctx, client.LeaseJobInput{
		WorkerId: a.id, WaitSeconds: &wait, WarmModels: a.runtimes.Warm(), RequestId: &id,
	})
}

// refuse returns the job that an interrupted request may have leased. A draining
// worker gets no new lease, but the same request id returns the same lease.
func (a *Agent) refuse(ctx context.Context, requestID string) {
	ctx, cancel := context.WithTimeout(ctx, farewellTimeout)
	defer cancel()
	answer, err := a.api.LeaseJob(ctx, client.LeaseJobInput{WorkerId: a.id, WaitSeconds: new(0), RequestId: &requestID})
	if err == nil && answer.Lease != nil {
		a.giveBack(ctx, &grant{Lease: answer.Lease})
	}
}

// giveBack releases a job that was not started.
func (a *Agent) giveBack(ctx context.Context, g *grant) {
	ctx, cancel := context.WithTimeout(ctx, farewellTimeout)
	defer cancel()
	if _, err := a.api.ReleaseJob(ctx, g.Fence(), client.FailureClassPreempted); err != nil {
		a.log.Warn("could not release a job that was not started", "job", g.Job.Id, "error", err)
	}
}
