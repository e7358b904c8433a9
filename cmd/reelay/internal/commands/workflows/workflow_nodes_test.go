package workflows

import (
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/stretchr/testify/require"
)

func TestWorkflowNodes(t *testing.T) {
	t.Parallel()

	t.Run("NamesTheNodesThatANodeWaitsFor", func(t *testing.T) {
		t.Parallel()
		nodes := []client.WorkflowNode{{Key: "shots.fog", Job: client.WorkflowNodeJob{Id: "job_1"}}, {Key: "film", Job: client.WorkflowNodeJob{
			Id: "job_2", Status: client.JobStatusBlocked, WaitingFor: []client.WorkflowNodeReason{{Message: "1 job must complete first: job_1."}},
		}}}

		NameNodes(nodes)

		require.Equal(t, "1 job must complete first: shots.fog.", nodeReason(nodes[1]))
	})
}
