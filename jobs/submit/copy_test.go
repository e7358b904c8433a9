package submit

import (
	"testing"
	"time"

	"github.com/reelay/reelay/internal/copytest"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

func TestSubmission_IsCopied(t *testing.T) {
	t.Parallel()

	shipped, err := catalogue.Shipped()
	require.NoError(t, err)
	card := shipped.Models[0]
	s := &Submitter{Catalogue: new(catalogue.Catalogue)}
	s.Catalogue.Replace(catalogue.New(card))
	at := func(hours time.Duration) *time.Time {
		return new(time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC).Add(hours * time.Hour))
	}
	in := Submission{
		Model: card.Name, Type: card.Type, Prompt: "fog", Params: []byte(`{"seed": 1}`), Tier: models.TierPro, Region: "r",
		CallbackURL: "https://example.com",
		RunAt:       at(1), ExpiresAt: at(2), FinishBy: at(3), DependsOn: []models.JobID{"job_0192f3c8-7a1e-7c3b-9f52-3f3a3c0f7a11"},
	}
	accepted := func(t *testing.T, in Submission) submission {
		if in.Prompt == "" {
			in.Prompt = "rain"
		}
		if in.Model == "" {
			in.Model, in.Type = "other", ""
		}
		one := s.newCall(jobs.Principal{}, []Submission{in}, nil).set[0]
		require.NoError(t, one.err)
		require.NoError(t, beginTimes(change.At(bun.Tx{}, *at(0), &one.asked), in))
		one.asked.ID = ""
		return one
	}
	other := *card
	other.Name = "other"
	third := *card
	third.Name = "x" // what a copied list has
	s.Catalogue.Replace(catalogue.New(card, &other, &third))

	t.Run("ToTheJob", func(t *testing.T) {
		t.Parallel()

		copytest.Fields(t, in, copytest.Left{
			"it is the model's, see validFor": "Type",
			"writeRequests writes it":         "Video",
		}, func(in Submission) any {
			one := accepted(t, in)
			return []any{one.asked, one.dependsOn}
		})
	})

	t.Run("ToTheDigest", func(t *testing.T) {
		t.Parallel()

		copytest.Fields(t, in, copytest.Left{
			"it is the model's, see validFor": "Type",
			"a request is found by its key":   "IdempotencyKey",
			"it has a digest of its own":      "Video",
		}, func(in Submission) any {
			one := accepted(t, in)
			digest, err := requestDigest(&one.asked, one.in)
			require.NoError(t, err)
			return digest
		})
	})
}

func TestContinued_HasTheRequestOfTheDraft(t *testing.T) {
	t.Parallel()

	shipped, err := catalogue.Shipped()
	require.NoError(t, err)
	draft := models.Job{Model: "testcard", Params: []byte(`{"durationSeconds": 2}`), DraftSteps: 3, Needs: models.NewNeeds(false, new(2.5))}

	copytest.Fields(t, draft, copytest.Left{
		"it is another job": "CreatedBy Traceparent IdempotencyKey RequestDigest CreatedAt QueueOrder",
		"its times are over, and the client asked for them for the draft": "RunAt ExpiresAt FinishBy SlackUntil",
		"it makes the video":                         "KeptUntil TakesID",
		"the workflow does not know of it":           "WorkflowID",
		"it continues the draft, and nothing before": "Continues",
		"it starts from a checkpoint":                "Reuse ReuseDigest ReuseRefs ReusedFrom Fallback Routes",
		"submitting sets it":                         "Status Lane BlockedBy EventSeq LatestCheckpointID PredictedWaitSeconds PredictedSeconds EstimatedGPUSeconds EstimatedUSD TimeClass",
		"it belongs to a run": `Run Requeued Preemptions AttemptNo Failures Crashes GPURank AvoidWorkerID AvoidUntil CurrentAttemptID Handle
			ResultID Output FailureClass FailureReason WastedGPUSeconds CancelBy CancelReason CancelRequestedAt CancelDeliveredAt CancelStoppedAt
			Percent Phase Message Step TotalSteps Frame TotalFrames ETASeconds UpdatedAt PreviewID ProgressEventAt ProgressEventPercent
			WaitedSeconds QueuedSeconds LeasedSeconds PausedSeconds BackoffSeconds DelayedSeconds DelayedAt
			QueuedAt LeasedAt StartedAt CompletedAt DeletedAt`,
	}, func(draft models.Job) any { return continued(&draft, shipped.Models[0]) })
}
