package jobstest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/reelay/reelay/features/watch"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// Secret stands for text that only a job's owner may read.
const Secret = "wombat"

// SecretJob returns a job that contains the secret in every text and failed for good.
func SecretJob(t *testing.T) (*Stack, *models.Job) {
	t.Helper()
	s := New(t)
	Hook(t, s, NewReceiver(t))
	job := SubmitAs(t, s, s.Client, func(in *submit.Submission) {
		in.CallbackURL = "https://example.com/?token=" + Secret
		in.Prompt, in.Metadata, in.IdempotencyKey = "a "+Secret, []byte(`{"title": "`+Secret+`"}`), new("k")
	})
	worker := s.Worker(t, "one")
	_, fence := s.Lease(t, worker)
	_, err := s.Attempts.ReportProgress(t.Context(), worker, fence, lease.ProgressReport{
		Progress: models.Progress{Percent: 40, Phase: models.PhaseRendering, Message: "drawing the " + Secret},
	})
	require.NoError(t, err)
	o := UploadAll(t, s, worker, fence)
	_, err = s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{
		Class: models.FailContentPolicy, Message: "no " + Secret + " here", Log: &o.Log,
	})
	require.NoError(t, err)
	s.Exec(t, `INSERT INTO job_runs (job_id, run, status, params, failure_reason, attempt_no, completed_at)
		VALUES (?, 9, 'FAILED', ?, ?, 1, now())`, job.ID, `{"style": "`+Secret+`"}`, Secret)
	s.Exec(t, `INSERT INTO dead_letters (id, job_id, run, model, failure_class, reason, fingerprint, attempts, created_at)
		VALUES (?, ?, 9, 'testcard', 'CONTENT_POLICY', ?, 'f', 1, now())`, models.NewDeadLetterID(), job.ID, Secret)
	s.Exec(t, `UPDATE jobs SET output = ?, cancel_reason = ?, handle = ?, params = params || ? WHERE id = ?`,
		`{"text": "`+Secret+`"}`, Secret, Secret, `{"style": "`+Secret+`"}`, job.ID)
	s.Exec(t, `UPDATE job_attempts SET error_detail = ?`, Secret)
	return s, job
}

// Stored lists the keys in the store.
func Stored(t require.TestingT, s *Stack) []string {
	page, err := s.Objects.List(context.Background(), "", 900)
	require.NoError(t, err)
	keys := []string{}
	for _, object := range page {
		keys = append(keys, object.Key)
	}
	return keys
}

// Leased returns a stack with one job, and the worker that holds it.
func Leased(t *testing.T) (*Stack, *models.Job, jobs.Principal, lease.Fence) {
	t.Helper()
	s := New(t)
	job := s.Submit(t)
	worker := s.Worker(t, "one")
	_, fence := s.Lease(t, worker)
	return s, job, worker, fence
}

// SubmitAs submits a job as another account, or of another shape than the client's usual one.
func SubmitAs(t require.TestingT, s *Stack, p jobs.Principal, shape func(*submit.Submission)) *models.Job {
	in := Submission()
	if shape != nil {
		shape(&in)
	}
	job, _, err := s.Submitter.Submit(context.Background(), p, in)
	require.NoError(t, err)
	return job
}

// LeaseNext asks for a job without waiting. It returns nil if there is none.
func LeaseNext(t require.TestingT, s *Stack, worker jobs.Principal) *lease.Lease {
	lease, _, err := s.Leaser.Lease(context.Background(), worker, lease.LeaseCall{WorkerID: worker.WorkerID})
	require.NoError(t, err)
	return lease
}

// FenceOf returns the fence of a lease.
func FenceOf(l *lease.Lease) lease.Fence {
	return lease.Fence{AttemptID: l.Attempt.ID, Token: l.Attempt.FencingToken}
}

// Together runs a pass n times at once, as n processes would.
func Together(t *testing.T, n int, pass func(context.Context) (int, error)) (total int) {
	t.Helper()
	done := make([]int, n)
	errs := make([]error, n)
	var passes sync.WaitGroup
	for i := range n {
		passes.Go(func() { done[i], errs[i] = pass(t.Context()) })
	}
	passes.Wait()
	for i := range n {
		require.NoError(t, errs[i])
		total += done[i]
	}
	return total
}

func WorkerStatus(t *testing.T, s *Stack, id models.WorkerID) models.WorkerStatus {
	t.Helper()
	w, err := s.Reads.Fleet.Worker(t.Context(), id)
	require.NoError(t, err)
	return w.Status
}

// Uploads holds uploads of one attempt that are not committed, and one committed checkpoint.
type Uploads struct {
	Checkpoint, Log, Video jobs.UploadedObject
	Committed              models.ArtifactID
}

func UploadAll(t *testing.T, s *Stack, p jobs.Principal, f lease.Fence) Uploads {
	t.Helper()
	first := s.Upload(t, p, f, models.ArtifactCheckpoint, []byte("the first state"))
	_, err := s.Attempts.CommitCheckpoint(t.Context(), p, f, jobs.Checkpoint{Object: first, Step: 1, Percent: 10})
	require.NoError(t, err)
	attempt, err := models.GetAttempt(t.Context(), s.DB, f.AttemptID)
	require.NoError(t, err)
	return Uploads{
		Checkpoint: s.Upload(t, p, f, models.ArtifactCheckpoint, []byte("the second state")),
		Log:        s.Upload(t, p, f, models.ArtifactLog, []byte("a log")),
		Video:      s.Upload(t, p, f, models.ArtifactFinalVideo, []byte("a video")),
		Committed:  attempt.CheckpointID,
	}
}

// EventTypes lists a job's history and checks that its numbers have no gap.
func EventTypes(t *testing.T, s *Stack, id models.JobID) []models.JobEventType {
	t.Helper()
	events, err := models.ListJobEvents(t.Context(), s.DB, id, 0, 1000)
	require.NoError(t, err)
	var types []models.JobEventType
	for i, e := range events {
		require.Equal(t, i+1, e.Seq)
		types = append(types, e.Type)
	}
	return types
}

// Submission returns a valid submission.
func Submission() submit.Submission {
	return submit.Submission{Model: "testcard", Prompt: "a lighthouse in the fog", Params: []byte(`{"durationSeconds": 1, "pace": 0}`)}
}

// Checkpoint uploads and commits a checkpoint, and returns its artifact.
func Checkpoint(t *testing.T, s *Stack, p jobs.Principal, f lease.Fence, step int) (models.ArtifactID, jobs.Checkpoint) {
	t.Helper()
	c := jobs.Checkpoint{Object: s.Upload(t, p, f, models.ArtifactCheckpoint, []byte(fmt.Sprint("state ", step))), Step: step, Percent: 1}
	_, err := s.Attempts.CommitCheckpoint(t.Context(), p, f, c)
	require.NoError(t, err)
	attempt, err := models.GetAttempt(t.Context(), s.DB, f.AttemptID)
	require.NoError(t, err)
	return attempt.CheckpointID, c
}

// Completed returns a completed job with a checkpoint, a log and a video.
func Completed(t *testing.T) (*Stack, *models.Job) {
	t.Helper()
	s, _, worker, fence := Leased(t)
	o := UploadAll(t, s, worker, fence)
	end, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &o.Video, Log: &o.Log})
	require.NoError(t, err)
	return s, end.Job
}

// Age makes all timestamps of jobs older.
func Age(t *testing.T, s *Stack, by string) {
	t.Helper()
	s.Exec(t, "UPDATE artifacts SET created_at = created_at - ?0::interval, review_at = review_at - ?0::interval", by)
	s.Exec(t, "UPDATE jobs SET created_at = created_at - ?0::interval, completed_at = completed_at - ?0::interval", by)
	s.Exec(t, `UPDATE job_attempts SET leased_at = leased_at - ?0::interval, ended_at = ended_at - ?0::interval,
		lease_expires_at = CASE WHEN ended_at IS NULL THEN lease_expires_at ELSE lease_expires_at - ?0::interval END`, by)
	s.Exec(t, "UPDATE uploads SET created_at = created_at - ?0::interval", by)
}

func Artifacts(t *testing.T, s *Stack, job models.JobID) map[models.ArtifactID]*models.Artifact {
	t.Helper()
	found, err := models.ListArtifacts(t.Context(), s.DB, []models.JobID{job})
	require.NoError(t, err)
	byID := map[models.ArtifactID]*models.Artifact{}
	for _, a := range found {
		byID[a.ID] = a
	}
	return byID
}

// EachEvent follows a job's events.
func EachEvent(ctx context.Context, w *watch.Watcher, p jobs.Principal, id models.JobID, after int64,
	send func(*models.JobEvent) error) error {
	events, err := w.Events(ctx, p, id, after)
	if err != nil {
		return err
	}
	return watch.Each(ctx, events, send)
}

// Drafted returns a draft of six steps that is completed, with a checkpoint and a preview.
func Drafted(t *testing.T) (*Stack, *models.Job) {
	t.Helper()
	s := New(t)
	job := SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Draft = &submit.Draft{Steps: 6} })
	return s, FinishDraft(t, s, s.Worker(t, "one"), job)
}

// FinishDraft completes a draft that is due on a worker.
func FinishDraft(t *testing.T, s *Stack, worker jobs.Principal, job *models.Job) *models.Job {
	t.Helper()
	granted, fence := s.Lease(t, worker)
	require.Equal(t, job.ID, granted.Job.ID)
	Checkpoint(t, s, worker, fence, job.DraftSteps)
	preview := s.Upload(t, worker, fence, models.ArtifactPreview, []byte("a clip"))
	end, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Preview: &preview})
	require.NoError(t, err)
	return end.Job
}
