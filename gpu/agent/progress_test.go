package agent

import (
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/agent/redact"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

func TestReporter(t *testing.T) {
	t.Parallel()

	r := newReporter(nil, redact.New(nil), time.Second)
	r.runtime(&runtime.Progress{Percent: 37.5, Phase: runtime.PhaseRendering, Message: "step 3 of 8"})
	r.runtime(&runtime.Progress{Percent: 70, Phase: runtime.PhaseLoadingModel, Message: "placing the weights"})

	require.Equal(t, client.PhaseLoadingModel, r.newest.Phase)
	require.InDelta(t, 37.5, r.newest.Percent, 0, "70 % of the weights is not 70 % of the job")
	require.Equal(t, "placing the weights (70 %)", *r.newest.Message)
}
