package jobs_test

import (
	"context"
	"fmt"
	"slices"
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

// reference is the meaning of the state machine in a few lines, without a database. Every
// action of a client, worker, reaper or operator is applied to both. After each step every job
// must be the same in both.
type reference struct {
	s       *jobstest.Stack
	outer   *testing.T
	clients []jobs.Principal
	workers []*refWorker
	jobs    []*refJob
	leases  []*refLease
}

type refJob struct {
	id      models.JobID
	key     string
	client  jobs.Principal
	status  models.JobStatus
	run     int
	tries   int // attempt_no
	left    int // failures that it may still have
	most    int
	crashes int
	cancel  bool
	once    bool // atMostOnce
	parents []*refJob
	lease   *refLease // nil unless there is a live lease
	// spared is the worker that failed the job last.
	spared models.WorkerID
	saved  []models.ArtifactID // usable checkpoints, oldest first
}

type refWorker struct {
	jobs.Principal
	draining bool
	lease    *refLease
}

type refLease struct {
	worker *refWorker
	fence  lease.Fence
	job    *refJob
	video  *jobs.UploadedObject
	// ended is the attempt's final status; empty while it is live.
	ended models.AttemptStatus
}

func newReference(t *testing.T) *reference {
	r := &reference{s: jobstest.New(t), outer: t}
	for i, tier := range []models.Tier{models.TierEnterprise, models.TierPro} {
		r.clients = append(r.clients, r.s.NewKey(t, r.s.NewAccount(t, fmt.Sprint(i), tier), access.RoleClient))
	}
	r.s.Exec(t, "UPDATE accounts SET max_running = 2 WHERE tier = 'ENTERPRISE'")
	for i := range 5 {
		r.workers = append(r.workers, &refWorker{Principal: r.s.Worker(t, fmt.Sprint(i))})
	}
	return r
}

// agrees compares every job with the model.
func (r *reference) agrees(t *rapid.T) {
	for _, job := range r.jobs {
		row, err := models.GetJob(context.Background(), r.s.DB, job.id)
		require.NoError(t, err)
		require.Equal(t, job.status, row.Status, job.id)
		require.Equal(t, job.run, row.Run, job.id)
		require.Equal(t, job.tries, row.AttemptNo, job.id)
		require.Equal(t, job.most-job.left, row.Failures, job.id)
		require.Equal(t, job.crashes, row.Crashes, job.id)
		require.Equal(t, job.cancel, !row.CancelRequestedAt.IsZero(), job.id)
		require.Equal(t, job.lease != nil, row.CurrentAttemptID != "", job.id)
		newest := models.ArtifactID("")
		if len(job.saved) > 0 {
			newest = job.saved[len(job.saved)-1]
		}
		require.Equal(t, newest, row.LatestCheckpointID, job.id)
	}
	r.s.RequireInvariants(t)
}

// over ends a run, and the jobs that depend on it.
func (j *refJob) over(r *reference, status models.JobStatus) {
	j.status = status
	for _, child := range r.jobs {
		if child.status != models.JobBlocked || !slices.Contains(child.parents, j) {
			continue
		}
		if status != models.JobCompleted {
			child.over(r, models.JobFailed)
		} else if !slices.ContainsFunc(child.parents, func(p *refJob) bool { return p.status != models.JobCompleted }) {
			child.status = models.JobQueued
		}
	}
}

// end ends a live attempt. If the job's cancel was requested, the job ends as CANCELLED.
func (l *refLease) end(r *reference, as models.AttemptStatus, otherwise func(*refJob)) {
	job := l.job
	l.ended, l.worker.lease, job.lease = as, nil, nil
	if job.cancel {
		l.ended = models.AttemptCancelled
		job.over(r, models.JobCancelled)
		return
	}
	otherwise(job)
}

// crash counts a crash that may make a job poison.
func (j *refJob) crash(r *reference) {
	j.requeue(r)
	if j.crashes++; j.crashes == 3 {
		j.over(r, models.JobFailed)
	}
}

// requeue gives a job back, unless it may not be started twice.
func (j *refJob) requeue(r *reference) {
	j.status = models.JobQueued
	if j.once {
		j.over(r, models.JobFailed)
	}
}

// after checks the answer to a call that ends an attempt.
func (l *refLease) after(t *rapid.T, err error, as models.AttemptStatus) {
	switch {
	case l.ended == as, l.ended == models.AttemptCancelled && as != models.AttemptSucceeded:
		require.NoError(t, err)
	case l.ended == models.AttemptCancelled:
		jobstest.RequireCode(t, err, apierror.CodeConflict)
	default:
		require.ErrorIs(t, err, apierror.ErrLeaseLost)
	}
}

func (r *reference) submit(t *rapid.T) {
	job := &refJob{client: pick(t, r.clients, "client"), run: 1, most: rapid.IntRange(1, 4).Draw(t, "attempts"), status: models.JobQueued}
	if job.once = rapid.IntRange(0, 5).Draw(t, "once") == 5; job.once {
		job.most = 1
	}
	job.left = job.most
	if len(r.jobs) > 0 && rapid.Bool().Draw(t, "dependent") {
		if parent := pick(t, r.jobs, "parent"); parent.client == job.client {
			job.parents = []*refJob{parent}
		}
	}
	if rapid.Bool().Draw(t, "keyed") {
		job.key = fmt.Sprintf("key %d", len(r.jobs))
	}
	row, deduplicated, err := r.s.Submitter.Submit(context.Background(), job.client, job.submission())
	require.NoError(t, err)
	require.False(t, deduplicated)
	job.id = row.ID
	r.jobs = append(r.jobs, job)
	for _, parent := range job.parents {
		switch parent.status {
		case models.JobCompleted:
		case models.JobFailed, models.JobCancelled:
			job.status = models.JobFailed
		default:
			job.status = models.JobBlocked
		}
	}
}

func (j *refJob) submission() submit.Submission {
	in := jobstest.Submission()
	in.MaxAttempts, in.AtMostOnce = &j.most, j.once
	for _, parent := range j.parents {
		in.DependsOn = append(in.DependsOn, parent.id)
	}
	if j.key != "" {
		in.IdempotencyKey = &j.key
	}
	return in
}

// submitAgain repeats a request, or uses its key for a different one.
func (r *reference) submitAgain(t *rapid.T) {
	job := pick(t, r.jobs, "job")
	if job.key == "" {
		t.Skip("it has no key")
	}
	in := job.submission()
	other := rapid.Bool().Draw(t, "other")
	if other {
		in.Prompt += "!"
	}
	row, deduplicated, err := r.s.Submitter.Submit(context.Background(), job.client, in)
	if other {
		jobstest.RequireCode(t, err, apierror.CodeIdempotencyConflict)
		return
	}
	require.NoError(t, err)
	require.True(t, deduplicated)
	require.Equal(t, job.id, row.ID)
}

// foreign uses a lease with another worker's token, or with a wrong one.
func (r *reference) foreign(t *rapid.T) {
	l, other := pick(t, r.leases, "lease"), pick(t, r.workers, "worker")
	if other.WorkerID != l.worker.WorkerID {
		_, err := r.s.Attempts.Release(context.Background(), other.Principal, l.fence, models.FailPreempted)
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
	}
	forged := lease.Fence{AttemptID: l.fence.AttemptID, Token: models.NewFencingToken()}
	_, err := r.s.Attempts.Fail(context.Background(), l.worker.Principal, forged, lease.Failure{Class: models.FailContentPolicy})
	require.ErrorIs(t, err, apierror.ErrLeaseLost)
}

func (r *reference) cancel(t *rapid.T) {
	job := pick(t, r.jobs, "job")
	_, err := r.s.Canceller.Cancel(context.Background(), job.client, job.id)
	switch {
	case job.status == models.JobCompleted || job.status == models.JobFailed:
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		return
	case job.status.Live():
		job.cancel = true
	case job.status.Waiting():
		job.cancel = true
		job.over(r, models.JobCancelled)
	}
	require.NoError(t, err)
}

func (r *reference) retry(t *rapid.T) {
	job := pick(t, r.jobs, "job")
	scratch := rapid.Bool().Draw(t, "from scratch")
	_, err := r.s.Retrier.Retry(context.Background(), job.client, job.id, scratch)
	status := models.JobQueued
	for _, parent := range job.parents {
		if parent.status == models.JobFailed || parent.status == models.JobCancelled {
			status = ""
		} else if parent.status != models.JobCompleted {
			status = models.JobBlocked
		}
	}
	if status == "" || job.status != models.JobFailed && job.status != models.JobCancelled {
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		return
	}
	require.NoError(t, err)
	job.status, job.cancel, job.left, job.crashes, job.spared = status, false, job.most, 0, ""
	job.run++
	if scratch {
		job.saved = nil
	}
}

func (r *reference) reap(t *rapid.T) {
	l := pick(t, r.live(), "lease")
	r.s.ExpireLease(r.outer, l.fence.AttemptID)
	// Earlier losses are long ago, so this loss counts as the job's own fault.
	r.s.Exec(r.outer, "UPDATE workers SET lost_at = lost_at - interval '1 h', last_heartbeat_at = clock_timestamp()")
	_, err := r.s.Reaper.Reap(context.Background())
	require.NoError(t, err)
	l.end(r, models.AttemptLost, func(job *refJob) { job.crash(r) })
}

// live lists the live leases.
func (r *reference) live() []*refLease {
	return slices.DeleteFunc(slices.Clone(r.leases), func(l *refLease) bool { return l.ended != "" })
}

func (r *reference) due(t *rapid.T) {
	r.s.Exec(r.outer, "UPDATE jobs SET run_at = clock_timestamp() WHERE status = 'SCHEDULED'")
	_, err := r.s.Releaser.Due(context.Background())
	require.NoError(t, err)
	for _, job := range r.jobs {
		if job.status == models.JobScheduled {
			job.status = models.JobQueued
		}
	}
}

func (r *reference) terminate(t *rapid.T) {
	i := rapid.IntRange(0, len(r.workers)-1).Draw(t, "worker")
	worker := r.workers[i]
	_, err := r.s.Fleet.TerminateWorker(context.Background(), r.s.Admin, worker.WorkerID)
	require.NoError(t, err)
	if l := worker.lease; l != nil {
		l.end(r, models.AttemptLost, func(job *refJob) { job.requeue(r) })
	}
	worker.draining = true // it may return to repeat its last call, and gets no job
	r.workers[i] = &refWorker{Principal: r.s.Worker(r.outer, fmt.Sprintf("%d again %d", i, len(r.leases)))}
}

// silent makes a worker disappear for a while. It returns with its next call.
func (r *reference) silent(t *rapid.T) {
	worker := pick(t, r.workers, "worker")
	r.s.Exec(r.outer, "UPDATE workers SET last_heartbeat_at = clock_timestamp() - interval '2 minutes' WHERE id = ?", worker.WorkerID)
	_, err := r.s.Reaper.Silent(context.Background())
	require.NoError(t, err)
}

func (r *reference) drain(t *rapid.T) {
	worker := pick(t, r.workers, "worker")
	_, err := r.s.Fleet.DrainWorker(context.Background(), r.s.Admin, worker.WorkerID, 0)
	require.NoError(t, err)
	var status models.WorkerStatus
	require.NoError(t, r.s.DB.NewRaw("SELECT status FROM workers WHERE id = ?", worker.WorkerID).Scan(context.Background(), &status))
	worker.draining = worker.draining || status == models.WorkerDraining // a LOST worker does not drain
}

func (r *reference) redis(t *rapid.T) {
	r.s.Index().Lose()
	if rapid.Bool().Draw(t, "swept") {
		require.NoError(t, r.s.Readier.Sweep(context.Background()))
	}
}
