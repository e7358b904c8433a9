package jobs_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// life is a small fleet to which random things happen. Like real workers, it knows only the
// leases that it was given, current and stale.
type life struct {
	s       *jobstest.Stack
	clients []jobs.Principal
	workers []jobs.Principal
	jobs    []models.JobID
	leases  []liveLease
}

type liveLease struct {
	worker jobs.Principal
	fence  lease.Fence
}

// newLife makes a fleet of workers and a client of each tier.
func newLife(t *testing.T, tiers ...models.Tier) *life {
	t.Helper()
	l := &life{s: jobstest.New(t)}
	for i, tier := range tiers {
		l.clients = append(l.clients, l.s.NewKey(t, l.s.NewAccount(t, fmt.Sprint(i), tier), access.RoleClient))
	}
	for i := range 6 {
		l.workers = append(l.workers, l.s.Worker(t, fmt.Sprint(i)))
	}
	return l
}

// allowed fails the test unless err is nil or one of the refusals that a call may meet at a
// random moment.
func allowed(t *rapid.T, err error, codes ...apierror.Code) {
	if err == nil {
		return
	}
	for _, code := range codes {
		if e := apierror.New(code, ""); e.Is(err) {
			return
		}
	}
	t.Fatalf("refused: %v", err)
}

func pick[T any](t *rapid.T, from []T, what string) T {
	if len(from) == 0 {
		t.Skip("there is none")
	}
	return from[rapid.IntRange(0, len(from)-1).Draw(t, what)]
}

func (l *life) submit(t *rapid.T) {
	client := pick(t, l.clients, "client")
	job := jobstest.SubmitAs(t, l.s, client, func(in *submit.Submission) {
		in.Priority = rapid.IntRange(-2, 2).Draw(t, "priority")
		in.Tier = rapid.SampledFrom([]models.Tier{"", models.TierBatch}).Draw(t, "tier")
		in.MaxAttempts = new(rapid.IntRange(1, 3).Draw(t, "attempts"))
	})
	l.jobs = append(l.jobs, job.ID)
}

func (l *life) lease(t *rapid.T) {
	worker := pick(t, l.workers, "worker")
	got, _, err := l.s.Leaser.Lease(context.Background(), worker, lease.LeaseCall{WorkerID: worker.WorkerID})
	allowed(t, err, apierror.CodeConflict)
	l.keep(worker, got)
}

func (l *life) keep(worker jobs.Principal, got *lease.Lease) {
	if got != nil {
		l.leases = append(l.leases, liveLease{worker, jobstest.FenceOf(got)})
	}
}

// upload uploads an object, or nothing if the lease is gone.
func (l *life) upload(t *rapid.T, outer *testing.T, held liveLease, kind models.ArtifactType) *jobs.UploadedObject {
	if _, err := l.s.Attempts.Heartbeat(context.Background(), held.worker, held.fence, nil); err != nil {
		allowed(t, err, apierror.CodeLeaseLost)
		return nil
	}
	o := l.s.Upload(outer, held.worker, held.fence, kind, []byte(fmt.Sprint(kind, rapid.Int().Draw(t, "bytes"))))
	return &o
}

func (l *life) checkpoint(outer *testing.T) func(*rapid.T) {
	return func(t *rapid.T) {
		held := pick(t, l.leases, "lease")
		o := l.upload(t, outer, held, models.ArtifactCheckpoint)
		if o == nil {
			return
		}
		_, err := l.s.Attempts.CommitCheckpoint(context.Background(), held.worker, held.fence, jobs.Checkpoint{Object: *o, Step: 1, Percent: 1})
		require.NoError(t, err)
		if rapid.Bool().Draw(t, "reject") {
			attempt, err := models.GetAttempt(context.Background(), l.s.DB, held.fence.AttemptID)
			require.NoError(t, err)
			_, err = l.s.Attempts.RejectCheckpoint(context.Background(), held.worker, held.fence, attempt.CheckpointID, "")
			require.NoError(t, err)
		}
	}
}

func (l *life) complete(outer *testing.T) func(*rapid.T) {
	return func(t *rapid.T) {
		held := pick(t, l.leases, "lease")
		video := l.upload(t, outer, held, models.ArtifactFinalVideo)
		if video == nil {
			video = &jobs.UploadedObject{ObjectKey: "a key of long ago"}
		}
		end, err := l.s.Attempts.Complete(context.Background(), held.worker, held.fence,
			lease.Completion{Video: video, LeaseNext: rapid.Bool().Draw(t, "next")})
		allowed(t, err, apierror.CodeLeaseLost, apierror.CodeConflict)
		if end != nil {
			l.keep(held.worker, end.Next)
		}
	}
}

func (l *life) fail(t *rapid.T) {
	held := pick(t, l.leases, "lease")
	class := rapid.SampledFrom([]models.FailureClass{
		models.FailTransient, models.FailModelCrash, models.FailPreempted, models.FailContentPolicy, models.FailRateLimited,
	}).Draw(t, "class")
	end, err := l.s.Attempts.Fail(context.Background(), held.worker, held.fence,
		lease.Failure{Class: class, LeaseNext: rapid.Bool().Draw(t, "next")})
	allowed(t, err, apierror.CodeLeaseLost)
	if end != nil {
		l.keep(held.worker, end.Next)
	}
}

func (l *life) release(t *rapid.T) {
	held := pick(t, l.leases, "lease")
	_, err := l.s.Attempts.Release(context.Background(), held.worker, held.fence, models.FailPreempted)
	allowed(t, err, apierror.CodeLeaseLost)
}

func (l *life) cancel(t *rapid.T) {
	_, err := l.s.Canceller.Cancel(context.Background(), l.s.Admin, pick(t, l.jobs, "job"))
	allowed(t, err, apierror.CodeConflict)
}

func (l *life) reap(outer *testing.T) func(*rapid.T) {
	return func(t *rapid.T) {
		l.s.ExpireLease(outer, pick(t, l.leases, "lease").fence.AttemptID)
		_, err := l.s.Reaper.Reap(context.Background())
		require.NoError(t, err)
	}
}

func (l *life) due(outer *testing.T) func(*rapid.T) {
	return func(t *rapid.T) {
		l.s.Exec(outer, "UPDATE jobs SET run_at = clock_timestamp() WHERE status = 'SCHEDULED'")
		_, err := l.s.Releaser.Due(context.Background())
		require.NoError(t, err)
	}
}
