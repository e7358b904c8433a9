package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPercentiles(t *testing.T) {
	t.Parallel()

	var times []time.Duration
	for i := 200; i > 0; i-- {
		times = append(times, time.Duration(i)*time.Millisecond)
	}

	require.Equal(t, Figures{"p50": 100, "p99": 198}, percentiles(times))
	require.Equal(t, Figures{"p50": 7, "p99": 7}, percentiles([]time.Duration{7 * time.Millisecond}))
	require.Equal(t, Figures{"p50": 0, "p99": 0}, percentiles(nil))
}
