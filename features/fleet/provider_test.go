package fleet_test

import (
	"testing"

	"github.com/reelay/reelay/features/fleet"
	"github.com/stretchr/testify/require"
)

func TestInstanceID(t *testing.T) {
	t.Parallel()

	require.True(t, fleet.IsInstanceID("h100", fleet.NewInstanceID("h100")))
	require.True(t, fleet.IsInstanceID("h100-spot", fleet.NewInstanceID("h100-spot")))
	require.False(t, fleet.IsInstanceID("h100", fleet.NewInstanceID("h100-spot")))
	for _, id := range []string{"", "h100", "h100-", "h100-dev", "h100-1", "h100-0000000A", "h100-0000000a0", "h100-0000000a\n", "xh100-0000000a"} {
		require.False(t, fleet.IsInstanceID("h100", id), id)
	}
}
