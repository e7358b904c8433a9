package joblist

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPace_CountsDown looks at a batch of ten on a fixed clock: nine ended within 200 s.
func TestPace_CountsDown(t *testing.T) {
	t.Parallel()

	last := time.Date(2026, 11, 27, 1, 19, 38, 0, time.UTC)
	batch := pace{last: last, open: 1, ended: 9, seconds: 198}
	left := func(p pace, after time.Duration) *time.Duration {
		p.now = last.Add(after)
		end := p.end()
		if end == nil {
			return nil
		}
		return new(end.Sub(p.now))
	}

	require.Equal(t, 22*time.Second, *left(batch, 0))
	require.Equal(t, 20*time.Second, *left(batch, 2*time.Second), "it counts down")
	require.Equal(t, 1*time.Second, *left(batch, 21*time.Second))
	require.Nil(t, left(batch, 22*time.Second), "it takes longer than the others: nothing is known")

	batch.known, batch.ends = 1, last.Add(40*time.Second)
	require.Equal(t, 38*time.Second, *left(batch, 2*time.Second), "what its worker says counts")
	require.Equal(t, 10*time.Second, *left(batch, 30*time.Second))

	batch.open = 3
	require.Equal(t, 64*time.Second, *left(batch, 2*time.Second), "two others wait")
	require.Nil(t, left(pace{last: last, open: 3, seconds: 198}, 0), "none has ended")
	require.Nil(t, left(pace{last: last, open: 90, ended: 9, seconds: 198}, 11*time.Minute), "none ended lately")
	require.Nil(t, left(pace{last: last, ended: 9, seconds: 198}, 0), "all have ended")
}
