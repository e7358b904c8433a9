package graph_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// gqlgen binds the fields that the schema has. A new field of a row that the schema lacks is named here,
// with the reason.
func TestSchema_HasTheFieldsOfRows(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		row   reflect.Type
		types string
		left  map[string]string
	}{
		{reflect.TypeFor[submit.Submission](), "SubmitJobInput", map[string]string{"only the Videos API has it": "Video"}},
		{reflect.TypeFor[models.Job](), "Job Progress Draft Cancellation", map[string]string{
			"a resolver shows it": `AccountID WorkflowID LatestCheckpointID ResultID PreviewID Handle Traceparent Needs QueuedSeconds LeasedSeconds
				PausedSeconds BackoffSeconds DelayedSeconds`,
			"the client has it from its request": "TimeoutSeconds RetryPolicy Region RequireRegion Reuse",
			"it is secret":                       "RequestDigest ReuseDigest ReuseRefs",
			"it decides where and when the job runs": `Requeued QueueOrder EstimatedGPUSeconds TimeClass SlackUntil BlockedBy Failures Crashes GPURank AvoidWorkerID AvoidUntil
				EventSeq CurrentAttemptID ProgressEventAt ProgressEventPercent PredictedWaitSeconds PredictedSeconds DelayedAt QueuedAt LeasedAt`,
			"it has another name there": "EstimatedUSD DraftSteps TakesID CancelBy CancelReason CancelRequestedAt CancelDeliveredAt CancelStoppedAt",
		}},
	} {
		left := map[string]bool{}
		for _, names := range c.left {
			for name := range strings.FieldsSeq(names) {
				left[name] = true
			}
		}
		shown := map[string]bool{}
		schema := graph.NewExecutableSchema(graph.Config{}).Schema()
		for name := range strings.FieldsSeq(c.types) {
			for _, field := range schema.Types[name].Fields {
				shown[strings.ToLower(field.Name)] = true
			}
		}
		var missing []string
		for _, field := range reflect.VisibleFields(c.row) {
			if !field.IsExported() || field.Anonymous || shown[strings.ToLower(field.Name)] {
				continue
			}
			if !left[field.Name] {
				missing = append(missing, field.Name)
			}
			delete(left, field.Name)
		}
		assert.Empty(t, missing, "%s lacks these fields of %s: add them, or name them with the reason", c.types, c.row)
		require.Empty(t, left, "%s has these fields, or %s lacks them", c.types, c.row)
	}
}
