package jobs_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func (r *reference) lease(t *rapid.T) {
	worker := pick(t, r.workers, "worker")
	got, _, err := r.s.Leaser.Lease(context.Background(), worker.Principal, lease.LeaseCall{WorkerID: worker.WorkerID})
	require.NoError(t, err)
	r.given(t, worker, got)
}

// given records a lease. It must be of a waiting job, and there must be one if a job waits.
func (r *reference) given(t *rapid.T, worker *refWorker, got *lease.Lease) {
	if got == nil {
		if worker.lease == nil && !worker.draining {
			require.False(t, slices.ContainsFunc(r.jobs, func(j *refJob) bool { return r.free(j) && j.spared != worker.WorkerID }),
				"a job waits for this worker")
		}
		return
	}
	require.Nil(t, worker.lease, "it holds a lease already")
	require.False(t, worker.draining)
	job := r.jobs[slices.IndexFunc(r.jobs, func(j *refJob) bool { return j.id == got.Job.ID })]
	require.True(t, r.free(job), "%s is %s", job.id, job.status)
	job.tries++
	lease := &refLease{worker: worker, fence: jobstest.FenceOf(got), job: job}
	job.status, job.lease, worker.lease = models.JobAssigned, lease, lease
	r.leases = append(r.leases, lease)
}

// free reports whether a job can be leased: it waits, and its account is below its limit.
func (r *reference) free(job *refJob) bool {
	live := 0
	for _, other := range r.jobs {
		if other.client == job.client && other.status.Live() {
			live++
		}
	}
	most := 10 // PRO
	if job.client == r.clients[0] {
		most = 2
	}
	return job.status == models.JobQueued && live < most
}

// renew models the effect of every call under a live lease.
func (l *refLease) renew() {
	if l.job.status == models.JobAssigned {
		l.job.status = models.JobRunning
	}
}

func (r *reference) heartbeat(t *rapid.T) {
	l := pick(t, r.leases, "lease")
	answer, err := r.s.Attempts.Heartbeat(context.Background(), l.worker.Principal, l.fence, nil)
	if l.ended != "" {
		require.ErrorIs(t, err, apierror.ErrLeaseLost)
		return
	}
	require.NoError(t, err)
	require.Equal(t, l.job.cancel, answer.Directive.Action == lease.DirectCancel)
	l.renew()
}

func (r *reference) progress(t *rapid.T) {
	l := pick(t, r.leases, "lease")
	phase := rapid.SampledFrom([]models.Phase{models.PhaseRendering, models.PhaseUploading}).Draw(t, "phase")
	_, err := r.s.Attempts.ReportProgress(context.Background(), l.worker.Principal, l.fence, lease.ProgressReport{Progress: models.Progress{
		Percent: rapid.Float64Range(0, 100).Draw(t, "percent"), Phase: phase,
	}})
	if l.ended != "" {
		require.ErrorIs(t, err, apierror.ErrLeaseLost)
		return
	}
	require.NoError(t, err)
	l.renew()
	if phase == models.PhaseUploading {
		l.job.status = models.JobCompleting
	}
}

func (r *reference) checkpoint(t *rapid.T) {
	l := pick(t, r.leases, "lease")
	if l.ended != "" {
		stale := jobs.Checkpoint{Object: jobs.UploadedObject{ObjectKey: "k"}, Step: 1, Percent: 1}
		_, err := r.s.Attempts.CommitCheckpoint(context.Background(), l.worker.Principal, l.fence, stale)
		require.ErrorIs(t, err, apierror.ErrLeaseLost)
		return
	}
	l.renew()
	o := r.s.Upload(r.outer, l.worker.Principal, l.fence, models.ArtifactCheckpoint, []byte(fmt.Sprint(rapid.Int().Draw(t, "bytes"))))
	_, err := r.s.Attempts.CommitCheckpoint(context.Background(), l.worker.Principal, l.fence, jobs.Checkpoint{Object: o, Step: 1, Percent: 1})
	require.NoError(t, err)
	newest, err := models.ListCheckpoints(context.Background(), r.s.DB, l.job.id, 1)
	require.NoError(t, err)
	require.Equal(t, o.ObjectKey, newest[0].ObjectKey)
	l.job.saved, l.job.crashes = append(l.job.saved, newest[0].ID), 0
}

func (r *reference) reject(t *rapid.T) {
	l := pick(t, r.leases, "lease")
	if len(l.job.saved) == 0 {
		t.Skip("there is none")
	}
	newest := len(l.job.saved) - 1
	_, err := r.s.Attempts.RejectCheckpoint(context.Background(), l.worker.Principal, l.fence, l.job.saved[newest], "broken")
	if l.ended != "" {
		require.ErrorIs(t, err, apierror.ErrLeaseLost)
		return
	}
	require.NoError(t, err)
	l.renew()
	l.job.saved = l.job.saved[:newest]
}

func (r *reference) complete(t *rapid.T) {
	l := pick(t, r.leases, "lease")
	if l.video == nil {
		l.video = &jobs.UploadedObject{ObjectKey: "a key of nobody's"}
		if l.ended == "" {
			video := r.s.Upload(r.outer, l.worker.Principal, l.fence, models.ArtifactFinalVideo, []byte("a video"))
			l.video = &video
		}
	}
	next := rapid.Bool().Draw(t, "next")
	end, err := r.s.Attempts.Complete(context.Background(), l.worker.Principal, l.fence, lease.Completion{Video: l.video, LeaseNext: next})
	if l.ended == "" {
		l.end(r, models.AttemptSucceeded, func(job *refJob) { job.over(r, models.JobCompleted) })
	}
	l.after(t, err, models.AttemptSucceeded)
	r.next(t, l, end, next)
}

// next records the lease that came with the end of another one. A repeated call returns the
// same lease, until the worker has ended it or a later one.
func (r *reference) next(t *rapid.T, l *refLease, end *lease.End, asked bool) {
	if end == nil || !asked {
		return
	}
	if end.Next != nil && l.worker.lease != nil && l.worker.lease.fence == jobstest.FenceOf(end.Next) {
		return
	}
	later := r.leases[slices.Index(r.leases, l)+1:]
	if slices.ContainsFunc(later, func(other *refLease) bool { return other.worker == l.worker && other.ended != "" }) {
		require.Nil(t, end.Next, "a late duplicate leases nothing")
		return
	}
	r.given(t, l.worker, end.Next)
}

func (r *reference) fail(t *rapid.T) {
	l := pick(t, r.leases, "lease")
	class := rapid.SampledFrom([]models.FailureClass{
		models.FailTransient, models.FailModelCrash, models.FailPreempted, models.FailContentPolicy, models.FailOutOfMemory,
	}).Draw(t, "class")
	next := rapid.Bool().Draw(t, "next")
	end, err := r.s.Attempts.Fail(context.Background(), l.worker.Principal, l.fence, lease.Failure{Class: class, LeaseNext: next})
	if l.ended == "" {
		l.end(r, models.AttemptFailed, func(job *refJob) { job.fail(r, class, l.worker.WorkerID) })
	}
	l.after(t, err, models.AttemptFailed)
	r.next(t, l, end, next)
}

// fail models the retry table.
func (j *refJob) fail(r *reference, class models.FailureClass, worker models.WorkerID) {
	j.spared = worker
	if class == models.FailPreempted {
		j.requeue(r)
		return
	}
	j.left--
	if class == models.FailModelCrash {
		if j.crash(r); j.status.Terminal() {
			return
		}
	}
	switch {
	case class == models.FailContentPolicy || j.left == 0:
		j.over(r, models.JobFailed)
	case class == models.FailTransient:
		j.status = models.JobScheduled
	default:
		j.status = models.JobQueued
	}
}

func (r *reference) release(t *rapid.T) {
	l := pick(t, r.leases, "lease")
	_, err := r.s.Attempts.Release(context.Background(), l.worker.Principal, l.fence, models.FailPreempted)
	if l.ended == "" {
		l.end(r, models.AttemptReleased, func(job *refJob) { job.requeue(r) })
	}
	l.after(t, err, models.AttemptReleased)
}
