package console

import (
	"testing"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestJobShow_State(t *testing.T) {
	t.Parallel()

	t.Run("SaysWhatAJobWaitsForAsThatChanges", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job := b.Submit(t)
		page := b.get(t, "/jobs/"+string(job.ID)).Body
		require.Contains(t, page, b.waitingFor(t, job.ID))
		events := b.stream(t, "/jobs/"+string(job.ID)+"/live", "")
		require.Contains(t, <-events, b.waitingFor(t, job.ID))

		_, err := b.Operator.PauseQueue(t.Context(), b.Admin, job.Lane, "", "")
		require.NoError(t, err)

		const paused = "The enterprise lane is paused"
		require.Contains(t, b.waitingFor(t, job.ID), paused)
		require.Contains(t, <-events, paused+"</a>")
		require.NotContains(t, page, paused, "it waits for something else now")
	})

	t.Run("SaysWhenAJobIsDueAndExpires", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		due, expires := time.Now().Add(time.Hour), time.Now().Add(90*time.Minute)
		job, _, err := b.Submitter.Submit(t.Context(), b.Client, submit.Submission{Model: "testcard", Prompt: "later", RunAt: &due,
			ExpiresAt: &expires})
		require.NoError(t, err)

		got := b.get(t, "/jobs/"+string(job.ID)).Body

		require.Contains(t, got, "Due at "+text.MomentToSecond(due.UTC(), time.Now()))
		require.Regexp(t, `<dt>Expires</dt>\s*<dd>\s*<time[^>]*>in 1 h`, got)
	})

	t.Run("ShowsEachStepOfACancel", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job, worker, fence := b.resumed(t)
		page := "/jobs/" + string(job.ID)
		_, err := b.Canceller.Cancel(t.Context(), b.Client, job.ID)
		require.NoError(t, err)
		require.Regexp(t, `notifying the worker(.|\n)*<dt>Worker notified</dt>\s*<dd>\s*not yet`, b.get(t, page).Body)

		b.Exec(t, "UPDATE jobs SET cancel_delivered_at = cancel_requested_at + interval '200 ms' WHERE id = ?", job.ID)
		told := b.get(t, page).Body
		require.Regexp(t, `the worker was notified(.|\n)*<dd>\s*after 0.2 s(.|\n)*<dt>Stopped</dt>\s*<dd>\s*not yet`, told)
		require.NotContains(t, told, "notifying")

		_, err = b.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
		require.NoError(t, err)
		b.Exec(t, "UPDATE jobs SET cancel_stopped_at = cancel_requested_at + interval '500 ms' WHERE id = ?", job.ID)

		over := b.get(t, page).Body
		require.Regexp(t, `<dt>Worker notified</dt>\s*<dd>\s*after 0.2 s(.|\n)*<dt>Stopped</dt>\s*<dd>\s*after 0.5 s`, over)
		require.Contains(t, over, "when it was cancelled")
		require.NotContains(t, over, "ancelling")
	})

	t.Run("SaysWhyAnAttemptFailedAndLinksItsLog", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job, worker, fence := b.resumed(t)
		log := b.Upload(t, worker, fence, models.ArtifactLog, []byte("a log"))
		end, err := b.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailInvalidInput, Message: "no such style",
			Log: &log})
		require.NoError(t, err)
		require.Equal(t, models.JobFailed, end.Job.Status)

		got := b.get(t, "/jobs/"+string(job.ID)).Body

		require.Contains(t, got, "when it failed")
		require.Regexp(t, `invalid input\s*<span class="quiet">no such style</span>\s*<a class="inline" href="/jobs/[^"]+/log/[^"]+" [^>]*>log</a>`, got)
	})

	t.Run("CountsTheWaitOfThisRunOnly", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job := b.Submit(t)
		_, err := b.Canceller.Cancel(t.Context(), b.Client, job.ID)
		require.NoError(t, err)
		b.Exec(t, "UPDATE jobs SET created_at = created_at - interval '1 hour', queued_at = queued_at - interval '1 hour' WHERE id = ?", job.ID)
		_, err = b.Retrier.Retry(t.Context(), b.Client, job.ID, false)
		require.NoError(t, err)
		waited := `<dt>Waited</dt>\s*<dd>\s*(<time[^>]*>)?\d(\.\d)? s`
		require.Regexp(t, waited, b.get(t, "/jobs/"+string(job.ID)).Body)

		b.Lease(t, b.Worker(t, "one"))

		require.Regexp(t, waited+`(.|\n)*<dt>Run</dt>\s*<dd>\s*2`, b.get(t, "/jobs/"+string(job.ID)).Body)
	})

	t.Run("SaysThatAJobWasDeleted", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job := b.Submit(t)
		_, err := b.Canceller.Cancel(t.Context(), b.Client, job.ID)
		require.NoError(t, err)
		_, err = b.Deleter.Delete(t.Context(), b.Client, job.ID)
		require.NoError(t, err)

		got := b.get(t, "/jobs/"+string(job.ID)).Body

		require.Contains(t, got, "not before it ended", "no worker was told of the cancel")
		require.Regexp(t, `Deleted job(.|\n)*were deleted\s*<time`, got)
	})
}

// waitingFor is what holds a job back most.
func (b *browser) waitingFor(t *testing.T, id models.JobID) string {
	t.Helper()
	reasons, err := b.WaitingFor(t, id)
	require.NoError(t, err)
	require.NotEmpty(t, reasons[id])
	return reasons[id][0].Message
}
