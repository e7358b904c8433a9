package schedule

import (
	"testing"

	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/internal/copytest"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models/schedules"
	"github.com/stretchr/testify/require"
)

func TestRequest_IsStoredWhole(t *testing.T) {
	t.Parallel()

	keyset, err := seal.NewKeyset()
	require.NoError(t, err)
	sealer, err := seal.New(keyset)
	require.NoError(t, err)
	stored := func(t *testing.T, r Request) Request {
		s := &schedules.Schedule{ID: "sch_1"}
		require.NoError(t, r.sealTo(s, sealer))
		read, err := unsealed(s, sealer)
		require.NoError(t, err)
		return read
	}

	t.Run("AJob", func(t *testing.T) {
		t.Parallel()
		copytest.Fields(t, submit.Submission{}, nil, func(in submit.Submission) any { return *stored(t, Request{Job: &in}).Job })
	})

	t.Run("AWorkflow", func(t *testing.T) {
		t.Parallel()
		copytest.Fields(t, workflow.Input{Name: "n"}, nil, func(in workflow.Input) any {
			if in.Name == "" {
				in.Name = "other" // it tells the request from a job's
			}
			return *stored(t, Request{Workflow: &in}).Workflow
		})
	})

	t.Run("ANodeOfAWorkflow", func(t *testing.T) {
		t.Parallel()
		copytest.Fields(t, workflow.Node{}, nil, func(in workflow.Node) any {
			return stored(t, Request{Workflow: &workflow.Input{Name: "n", Jobs: []workflow.Node{in}}}).Workflow.Jobs[0]
		})
	})
}
