package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPace(t *testing.T) {
	t.Parallel()

	const calls = 100_000
	total := func(gap pace) (sum time.Duration, short int) {
		for range calls {
			g := gap()
			sum += g
			if g < 10*time.Millisecond {
				short++
			}
		}
		return sum, short
	}

	t.Run("IsAsFastAsItIsTold", func(t *testing.T) {
		t.Parallel()

		even, short := total(evenly(50))
		require.InDelta(t, calls/50, even.Seconds(), 1)
		require.Zero(t, short)

		// By the exponential distribution, 1 - 1/√e of the distances are below half of the mean.
		independent, short := total(independently(50))
		require.InEpsilon(t, calls/50, independent.Seconds(), 0.03)
		require.InDelta(t, 0.393*calls, short, 0.01*calls)
	})
}
