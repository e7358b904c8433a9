package rest

import (
	"testing"

	"github.com/reelay/reelay/internal/copytest"
	"github.com/reelay/reelay/models"
)

func TestView_ShowsTheJob(t *testing.T) {
	t.Parallel()

	copytest.Fields(t, models.Job{AttemptNo: 3, Needs: models.NewNeeds(true, nil)}, copytest.Left{
		"viewOutcome shows it":               "EstimatedUSD DraftSteps KeptUntil PreviewID ResultID Output",
		"it is secret":                       "RequestDigest ReuseDigest ReuseRefs",
		"the client has it from its request": "Tier Priority Params CallbackURL IdempotencyKey RetryPolicy MaxAttempts TakesID Reuse",
		"the progress of a video is read with its status": `Percent Phase Message Step TotalSteps Frame TotalFrames ETASeconds UpdatedAt
			FailureClass FailureReason CreatedAt`,
		"GraphQL shows it": `AccountID CreatedBy ModelVersion Alias Lane Run Traceparent WorkflowID LatestCheckpointID WastedGPUSeconds
			CancelBy CancelReason CancelRequestedAt CancelDeliveredAt CancelStoppedAt PredictedWaitSeconds PredictedSeconds WaitedSeconds
			PausedSeconds BackoffSeconds DelayedSeconds`,
		"it decides where and when the job runs": `Requeued QueueOrder EstimatedGPUSeconds TimeClass SlackUntil BlockedBy Failures Crashes GPURank
			AvoidWorkerID AvoidUntil EventSeq CurrentAttemptID ProgressEventAt ProgressEventPercent DelayedAt QueuedAt LeasedAt`,
	}, func(job models.Job) any { return view(&job) })
}
