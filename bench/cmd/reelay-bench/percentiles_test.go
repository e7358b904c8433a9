package main

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

	require.Equal(t, percentiles{P50: 100, P90: 180, P99: 198, Max: 200}, percentilesOf(times))
	require.Equal(t, percentiles{P50: 7, P90: 7, P99: 7, Max: 7}, percentilesOf([]time.Duration{7 * time.Millisecond}))
}
