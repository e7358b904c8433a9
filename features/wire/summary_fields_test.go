package wire

import (
	"testing"
	"time"

	"github.com/reelay/reelay/internal/copytest"
	"github.com/reelay/reelay/models"
)

// Webhooks have a summary with the account, the run and the origin of the job.
func TestSummary_ShowsTheJob(t *testing.T) {
	t.Parallel()

	job := models.Job{
		Status: models.JobRunning, Needs: models.NewNeeds(true, nil), Params: []byte(`{"durationSeconds": 2}`), StartedAt: time.Unix(1, 0),
		CompletedAt: time.Unix(2, 0),
	}
	copytest.Fields(t, job, copytest.Left{
		"OfJobs shows it":                    "EstimatedUSD DraftSteps KeptUntil Continues PreviewID ResultID",
		"a webhook shows it":                 "AccountID Run WorkflowID",
		"it is secret":                       "RequestDigest ReuseDigest ReuseRefs Handle",
		"the client has it from its request": "Type Tier Priority CallbackURL IdempotencyKey RetryPolicy RunAt ExpiresAt Region RequireRegion TimeoutSeconds TakesID Reuse Fallback",
		"GraphQL shows it": `Routes CreatedBy ModelVersion Alias Lane Traceparent LatestCheckpointID WastedGPUSeconds Output FailureClass
			CancelBy CancelReason CancelRequestedAt CancelDeliveredAt CancelStoppedAt PredictedWaitSeconds PredictedSeconds WaitedSeconds
			PausedSeconds BackoffSeconds DelayedSeconds Step TotalSteps Frame TotalFrames UpdatedAt`,
		"it decides where and when the job runs": `Requeued QueueOrder EstimatedGPUSeconds TimeClass SlackUntil BlockedBy Failures Crashes GPURank
			AvoidWorkerID AvoidUntil EventSeq CurrentAttemptID ProgressEventAt ProgressEventPercent DelayedAt QueuedAt LeasedAt`,
	}, func(job models.Job) any { return summarize(&job) })
}
