package lease_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// announce requests a key for an object that is never uploaded.
func announce(t *testing.T, s *jobstest.Stack, p jobs.Principal, f lease.Fence, kind models.ArtifactType,
	contentType string) jobs.UploadedObject {
	t.Helper()
	o := jobs.UploadedObject{SizeBytes: 5, Checksum: jobstest.Checksum([]byte("bytes")), ContentType: contentType}
	var err error
	o.ObjectKey, _, err = s.Attempts.RequestUpload(t.Context(), p, f, lease.UploadRequest{
		Type: kind, ContentType: contentType, SizeBytes: o.SizeBytes, Checksum: o.Checksum,
	})
	require.NoError(t, err)
	return o
}

// otherStore reports other attributes of every object than the real store.
type otherStore struct {
	jobs.Objects
	says func(jobs.Object) (jobs.Object, error)
}

func (o otherStore) Stat(ctx context.Context, key string) (jobs.Object, error) {
	stored, err := o.Objects.Stat(ctx, key)
	if err != nil {
		return stored, err
	}
	return o.says(stored)
}

// badObjects returns invalid objects of a kind, and the error code of each.
func badObjects(t *testing.T, s *jobstest.Stack, worker jobs.Principal, fence lease.Fence, kind models.ArtifactType) map[string]struct {
	o    jobs.UploadedObject
	code apierror.Code
} {
	t.Helper()
	other := s.Worker(t, "other "+string(kind))
	s.Submit(t)
	_, theirs := s.Lease(t, other)
	good := s.Upload(t, worker, fence, kind, []byte("some bytes"))
	with := func(change func(*jobs.UploadedObject)) jobs.UploadedObject {
		o := good
		change(&o)
		return o
	}
	wrongKind := models.ArtifactLog
	return map[string]struct {
		o    jobs.UploadedObject
		code apierror.Code
	}{
		"missing":            {announce(t, s, worker, fence, kind, good.ContentType), apierror.CodeChecksumMismatch},
		"other size":         {with(func(o *jobs.UploadedObject) { o.SizeBytes++ }), apierror.CodeChecksumMismatch},
		"no size":            {with(func(o *jobs.UploadedObject) { o.SizeBytes = 0 }), apierror.CodeChecksumMismatch},
		"other checksum":     {with(func(o *jobs.UploadedObject) { o.Checksum = jobstest.Checksum([]byte("?")) }), apierror.CodeChecksumMismatch},
		"no checksum":        {with(func(o *jobs.UploadedObject) { o.Checksum = "" }), apierror.CodeChecksumMismatch},
		"another attempt's":  {s.Upload(t, other, theirs, kind, []byte("theirs")), apierror.CodeInvalidInput},
		"another type's":     {s.Upload(t, worker, fence, wrongKind, []byte("a log")), apierror.CodeInvalidInput},
		"no key":             {with(func(o *jobs.UploadedObject) { o.ObjectKey = "" }), apierror.CodeInvalidInput},
		"a key of its own":   {with(func(o *jobs.UploadedObject) { o.ObjectKey = "../../etc/passwd" }), apierror.CodeInvalidInput},
		"a key with NUL":     {with(func(o *jobs.UploadedObject) { o.ObjectKey += "\x00" }), apierror.CodeInvalidInput},
		"a key of bad UTF-8": {with(func(o *jobs.UploadedObject) { o.ObjectKey += "\xff" }), apierror.CodeInvalidInput},
		"a key of 2 kB":      {with(func(o *jobs.UploadedObject) { o.ObjectKey += strings.Repeat("k", 2048) }), apierror.CodeInvalidInput},
		"bad metadata":       {with(func(o *jobs.UploadedObject) { o.Metadata = json.RawMessage(`{"a": "\u0000"}`) }), apierror.CodeInvalidInput},
	}
}

func TestComplete(t *testing.T) {
	t.Parallel()

	t.Run("RefusesAnObjectThatDiffersFromTheStore", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		bad := badObjects(t, s, worker, fence, models.ArtifactFinalVideo)
		before := s.Dump(t)

		for name, c := range bad {
			_, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &c.o})
			require.Error(t, err, name)
			jobstest.RequireCode(t, err, c.code)
		}
		_, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{})
		jobstest.RequireInvalid(t, err, "video")
		require.Equal(t, before, s.Dump(t))

		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("the video"))
		for _, output := range []string{`{`, `"\u0000"`, `1e999999`, strings.Repeat("[", 9000) + strings.Repeat("]", 9000), `"` +
			strings.Repeat("x", 256<<10) + `"`} {
			_, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video, Output: json.RawMessage(output)})
			var refused *apierror.Error
			require.ErrorAs(t, err, &refused)
			require.Equal(t, apierror.CodeInvalidInput, refused.Code)
			require.Regexp(t, `^result(\.0)*\.?…?$`, refused.Field, "what is too deep is named by its place")
		}
		end, err := s.Attempts.Complete(t.Context(), worker, fence,
			lease.Completion{Video: &video, Output: json.RawMessage(`{"frames": 24, "note": "\ud800", "text": "x\\u0000y"}`)})
		require.NoError(t, err)
		require.Equal(t, job.ID, end.Job.ID)
		s.RequireInvariants(t)
	})

	t.Run("RecordsWhatTheStoreReports", func(t *testing.T) {
		t.Parallel()

		s, _, worker, fence := jobstest.Leased(t)
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		before := s.Dump(t)
		store := s.Attempts.Objects

		for code, says := range map[apierror.Code]func(jobs.Object) (jobs.Object, error){
			apierror.CodeChecksumMismatch: func(o jobs.Object) (jobs.Object, error) { o.Checksum = jobstest.Checksum([]byte("?")); return o, nil },
			apierror.CodeUnavailable:      func(o jobs.Object) (jobs.Object, error) { return o, context.DeadlineExceeded },
		} {
			s.Attempts.Objects = otherStore{store, says}
			_, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
			jobstest.RequireCode(t, err, code)
		}
		s.Attempts.Objects = otherStore{store, func(o jobs.Object) (jobs.Object, error) { o.SizeBytes++; return o, nil }}
		_, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
		jobstest.RequireCode(t, err, apierror.CodeChecksumMismatch)
		require.Equal(t, before, s.Dump(t))
	})

	t.Run("PublishesAllArtifactsWithTheJob", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		thumbnail := s.Upload(t, worker, fence, models.ArtifactThumbnail, []byte("a thumbnail"))
		log := s.Upload(t, worker, fence, models.ArtifactLog, []byte("a log"))

		_, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video, Thumbnail: &thumbnail, Log: &log})

		require.NoError(t, err)
		stored := s.Reload(t, job.ID)
		artifacts, err := s.Edges(t, job.ID).Artifacts(t.Context())
		require.NoError(t, err)
		require.Len(t, artifacts, 3)
		for _, a := range artifacts {
			require.Equal(t, s.Account.ID, a.AccountID)
			if a.Type == models.ArtifactFinalVideo {
				require.Equal(t, stored.ResultID, a.ID)
				require.Equal(t, video.Checksum, a.Checksum)
			}
		}
		held, err := s.Reads.Fleet.Worker(t.Context(), worker.WorkerID)
		require.NoError(t, err)
		require.Equal(t, models.WorkerIdle, held.Status)
		require.Equal(t, 1, held.JobsCompleted)
		require.Equal(t, models.PhaseDone, stored.Progress.Phase)
		s.RequireInvariants(t)
	})

	t.Run("ReturnsTheSameResultToConcurrentCalls", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))

		errs := make([]error, 8)
		var calls sync.WaitGroup
		for i := range errs {
			calls.Go(func() {
				_, errs[i] = s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
			})
		}
		calls.Wait()

		for _, err := range errs {
			require.NoError(t, err)
		}
		require.Equal(t, models.JobCompleted, s.Reload(t, job.ID).Status)
		require.Equal(t, 1, s.Count(t, "artifacts"))
		s.RequireInvariants(t)
	})

	t.Run("ReturnsTheSameNextLeaseToARepeatedCall", func(t *testing.T) {
		t.Parallel()

		s, _, worker, fence := jobstest.Leased(t)
		next := s.Submit(t)
		s.Submit(t)
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		completion := lease.Completion{Video: &video, LeaseNext: true}
		first, err := s.Attempts.Complete(t.Context(), worker, fence, completion)
		require.NoError(t, err)

		again, err := s.Attempts.Complete(t.Context(), worker, fence, completion)

		require.NoError(t, err)
		require.Equal(t, next.ID, first.Next.Job.ID)
		require.Equal(t, first.Next.Attempt.FencingToken, again.Next.Attempt.FencingToken)
		s.RequireInvariants(t)
	})

	t.Run("ReturnsNoNextLeaseToALateDuplicate", func(t *testing.T) {
		t.Parallel()

		s, _, worker, fence := jobstest.Leased(t)
		s.Submit(t)
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		completion := lease.Completion{Video: &video, LeaseNext: true}
		first, err := s.Attempts.Complete(t.Context(), worker, fence, completion)
		require.NoError(t, err)
		second := jobstest.FenceOf(first.Next)
		video = s.Upload(t, worker, second, models.ArtifactFinalVideo, []byte("another"))
		_, err = s.Attempts.Complete(t.Context(), worker, second, lease.Completion{Video: &video})
		require.NoError(t, err)
		waiting := s.Submit(t)

		again, err := s.Attempts.Complete(t.Context(), worker, fence, completion)

		require.NoError(t, err)
		require.Equal(t, first.Job.ID, again.Job.ID)
		require.Equal(t, models.JobCompleted, again.Job.Status)
		require.Nil(t, again.Next, "the worker has had it, and has ended it")
		own, _ := s.Lease(t, worker)
		require.Equal(t, waiting.ID, own.Job.ID, "the worker's own call gets the next job")
		again, err = s.Attempts.Complete(t.Context(), worker, fence, completion)
		require.NoError(t, err)
		require.Nil(t, again.Next, "the job that it holds is not an answer to this call")
		s.RequireInvariants(t)
	})

	t.Run("EndsAJobWithACancelRequestAsCancelled", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)

		for range 2 {
			_, err = s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
			jobstest.RequireCode(t, err, apierror.CodeConflict)
		}

		stored := s.Reload(t, job.ID)
		require.Equal(t, models.JobCancelled, stored.Status)
		require.Empty(t, stored.ResultID)
		require.Zero(t, s.Count(t, "artifacts"))
		s.RequireInvariants(t)
	})
}

func TestFail(t *testing.T) {
	t.Parallel()

	t.Run("RetriesAfterABackoffUntilNoAttemptIsLeft", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.MaxAttempts = new(2) })
		worker := s.Worker(t, "one")
		_, fence := s.Lease(t, worker)

		end, err := s.Attempts.Fail(t.Context(), worker, fence,
			lease.Failure{Class: models.FailTransient, Message: "a \x1b[1;31mgl\x1b]0;title\x07it\x1b(Bch\x00\x1b[0m\u009b0m"})

		require.NoError(t, err)
		require.Equal(t, models.JobScheduled, end.Job.Status)
		require.Equal(t, "a glitch", end.Job.FailureReason)
		require.WithinRange(t, end.Job.RunAt, end.Job.Progress.UpdatedAt.Add(10*time.Second), end.Job.Progress.UpdatedAt.Add(15*time.Second))
		queued, err := s.Releaser.Due(t.Context())
		require.NoError(t, err)
		require.Zero(t, queued, "its time has not come")
		s.Exec(t, "UPDATE jobs SET run_at = clock_timestamp()")
		queued, err = s.Releaser.Due(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, queued)
		s.RequireInvariants(t)
		_, fence = s.Lease(t, worker)
		end, err = s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailTimeout, Message: strings.Repeat("x", 1<<20)})
		require.NoError(t, err)
		require.Equal(t, models.JobFailed, end.Job.Status)
		require.Equal(t, models.FailTimeout, end.Job.FailureClass)
		require.Less(t, len(end.Job.FailureReason), 5000)
		require.Equal(t, 2, s.Reload(t, job.ID).Failures)
		s.RequireInvariants(t)
	})

	t.Run("QueuesADueJobOnceInManyProcesses", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailTransient})
		require.NoError(t, err)
		s.Exec(t, "UPDATE jobs SET run_at = clock_timestamp()")

		counts := make([]int, 6)
		errs := make([]error, 6)
		var passes sync.WaitGroup
		for i := range counts {
			passes.Go(func() { counts[i], errs[i] = s.Releaser.Due(t.Context()) })
		}
		passes.Wait()

		sum := 0
		for i := range counts {
			require.NoError(t, errs[i])
			sum += counts[i]
		}
		require.Equal(t, 1, sum)
		require.True(t, s.Reload(t, job.ID).Requeued, "a retry keeps its place")
		s.RequireInvariants(t)
	})

	t.Run("DoesNotRetryPermanentFailures", func(t *testing.T) {
		t.Parallel()

		s, _, worker, fence := jobstest.Leased(t)

		end, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailInvalidInput, Message: "no such seed",
			LeaseNext: true})

		require.NoError(t, err)
		require.Equal(t, models.JobFailed, end.Job.Status)
		require.Equal(t, "no such seed", end.Job.FailureReason)
		require.Nil(t, end.Next)
		s.RequireInvariants(t)
	})

	t.Run("RefusesAnInvalidRetryAfter", func(t *testing.T) {
		t.Parallel()

		s, _, worker, fence := jobstest.Leased(t)
		for _, seconds := range []int{-1, 24*60*60 + 1} {
			_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailRateLimited, RetryAfterSeconds: &seconds})
			jobstest.RequireInvalid(t, err, "retryAfterSeconds")
		}
	})
}

func TestRelease(t *testing.T) {
	t.Parallel()

	t.Run("DoesNotCountAsAFailedAttempt", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.MaxAttempts = new(1) })
		worker := s.Worker(t, "one")

		for range 3 {
			_, fence := s.Lease(t, worker)
			released, err := s.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
			require.NoError(t, err)
			require.Equal(t, models.JobQueued, released.Status)
		}

		stored := s.Reload(t, job.ID)
		require.Zero(t, stored.Failures)
		require.Equal(t, 3, stored.AttemptNo)
		require.Greater(t, stored.WastedGPUSeconds, 0.0)
		s.RequireInvariants(t)
	})

	t.Run("CountsAsAYieldIfTheAttemptWasAskedTo", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		seen := &jobstest.Tally{}
		s.Notifier.Observer = seen
		_, err := s.Attempts.Release(t.Context(), worker, fence, models.FailYielded)
		jobstest.RequireInvalid(t, err, "reason")
		s.Exec(t, "UPDATE job_attempts SET yield_requested_at = clock_timestamp(), yield_to = 'ENTERPRISE'")

		for range 2 {
			_, err = s.Attempts.Release(t.Context(), worker, fence, models.FailYielded)
			require.NoError(t, err)
		}

		require.Len(t, seen.Yields, 1)
		events, err := models.ListJobEvents(t.Context(), s.DB, job.ID, 0, 100)
		require.NoError(t, err)
		released := events[slices.IndexFunc(events, func(e *models.JobEvent) bool { return e.Type == models.EventReleased })]
		require.JSONEq(t, `{"reason": "YIELDED", "why": "preempted by an ENTERPRISE job that waited past its target"}`, string(released.Payload))
		s.RequireInvariants(t)
	})

	t.Run("AcceptsOnlyClassesThatAreNotTheJobsFault", func(t *testing.T) {
		t.Parallel()

		s, _, worker, fence := jobstest.Leased(t)
		before := s.Dump(t)
		for _, class := range []models.FailureClass{models.FailTransient, models.FailModelCrash, models.FailInvalidInput, ""} {
			_, err := s.Attempts.Release(t.Context(), worker, fence, class)
			jobstest.RequireInvalid(t, err, "reason")
		}
		require.Equal(t, before, s.Dump(t))
	})
}
