package jobs

import (
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/stretchr/testify/require"
)

func TestInfeasible(t *testing.T) {
	t.Parallel()

	by := time.Now().Add(time.Hour)

	require.Empty(t, Infeasible(nil), "it has no deadline")
	require.Empty(t, Infeasible(&client.Deadline{FinishBy: by}), "it is unknown")
	require.Empty(t, Infeasible(&client.Deadline{FinishBy: by, Feasible: new(true)}))
	require.NotContains(t, Infeasible(&client.Deadline{FinishBy: by, Feasible: new(false)}), "earliest")
	require.Contains(t, Infeasible(&client.Deadline{FinishBy: by, Feasible: new(false), EarliestFinish: new(by.Add(time.Hour))}), "at the earliest")
}
