package submit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPriceSteps(t *testing.T) {
	t.Parallel()

	var s priceSteps
	require.Nil(t, s.at(nil))
	for limit, step := range map[float64]float64{0: 0, 2: 2, 2.57: 2.57, 2.579: 2.57, 0.2999: 0.299, 1234.5: 1230, 10_000: 10_000, 0.1 +
		0.2: 0.3, 5e-324: 5e-324} {
		require.Equal(t, step, *s.at(&limit), "%g: rounded down, to three digits", limit)
	}

	for n := len(s.seen); n < maxPriceSteps; n++ {
		s.at(new(100 + float64(n)))
	}
	require.Len(t, s.seen, maxPriceSteps)
	require.Equal(t, 7.8, *s.at(new(7.89)), "a new one, after too many, has two digits")
	require.Equal(t, 2.57, *s.at(new(2.575)), "a known one stays")
	require.Len(t, s.seen, maxPriceSteps)

	s.since = time.Now().Add(-priceStepsSpan - time.Minute)
	require.Equal(t, 7.89, *s.at(new(7.89)))
	require.Len(t, s.seen, 1)
}
