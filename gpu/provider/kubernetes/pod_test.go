package kubernetes_test

import (
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/gpu/provider/kubernetes"
	"github.com/stretchr/testify/require"
)

// FuzzPod has pods of a wrong or hostile API server.
func FuzzPod(f *testing.F) {
	for _, seed := range []string{
		`{"metadata": {"name": "a", "deletionTimestamp": "2026-11-25T12:00:00Z"}, "status": {"phase": "Running"}}`,
		`{"status": {"phase": "Failed", "reason": "Evicted", "message": "\u0000\u001b[31m"}}`,
		`{"status": {"phase": "Failed", "containerStatuses": [{"name": "agent", "state": {"terminated": {"exitCode": 1, "message": "a\nb"}}}]}}`,
		`{"status": {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]}}`,
		`{"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		i, err := kubernetes.Describe(data)
		if err != nil {
			return
		}
		require.True(t, slices.Contains([]fleet.InstanceState{fleet.InstanceBooting, fleet.InstanceRunning, fleet.InstanceEnding,
			fleet.InstanceEnded}, i.State))
		says := i.Cause
		if i.Err != nil {
			require.Equal(t, fleet.InstanceEnded, i.State)
			says = i.Err.Error()
		}
		require.Less(t, len(says), 1500)
		require.True(t, utf8.ValidString(says))
		for _, r := range says {
			require.GreaterOrEqual(t, r, ' ')
		}
	})
}
