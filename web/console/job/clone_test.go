package job

import (
	"net/url"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/copytest"
	"github.com/reelay/reelay/models"
)

// ofARun are the fields of a job that no request has.
const ofARun = `ID AccountID CreatedBy Traceparent IdempotencyKey RequestDigest CreatedAt QueueOrder ModelVersion Alias
	Status Lane BlockedBy EventSeq LatestCheckpointID PredictedWaitSeconds PredictedSeconds EstimatedGPUSeconds EstimatedUSD TimeClass SlackUntil Needs
	Run Requeued Preemptions AttemptNo Failures Crashes GPURank AvoidWorkerID AvoidUntil CurrentAttemptID Handle
	ResultID Output FailureClass FailureReason WastedGPUSeconds CancelBy CancelReason CancelRequestedAt CancelDeliveredAt CancelStoppedAt
	Percent Phase Message Step TotalSteps Frame TotalFrames ETASeconds UpdatedAt PreviewID ProgressEventAt ProgressEventPercent
	WaitedSeconds QueuedSeconds LeasedSeconds PausedSeconds BackoffSeconds DelayedSeconds DelayedAt
	QueuedAt LeasedAt StartedAt CompletedAt DeletedAt KeptUntil
	ReuseDigest ReuseRefs ReusedFrom Routes`

func TestJob_IsCopied(t *testing.T) {
	t.Parallel()

	t.Run("ToTheForm", func(t *testing.T) {
		t.Parallel()

		copytest.Fields(t, models.Job{}, copytest.Left{
			"the model says it":                       "Type",
			"cloneOf sets them by the model's fields": "Model Params",
			"the clone is a job of its own":           "TakesID Continues WorkflowID",
			"submitting and running the job sets it":  ofARun,
		}, func(job models.Job) any {
			form := url.Values{}
			setRare(form, &job, time.Unix(0, 0))
			return form
		})
	})

	t.Run("ToTheSnippet", func(t *testing.T) {
		t.Parallel()

		copytest.Fields(t, models.Job{}, copytest.Left{
			"the model says it":                      "Type",
			"it is over":                             "RunAt ExpiresAt FinishBy",
			"the snippet submits a job of its own":   "TakesID Continues WorkflowID",
			"submitting and running the job sets it": ofARun,
		}, func(job models.Job) any { return (&jobView{Job: &job}).submitInput() })
	})
}
