package rate

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLocal(t *testing.T) {
	t.Parallel()

	t.Run("FillsEvenly", func(t *testing.T) {
		t.Parallel()
		var l local
		now := time.Unix(1_800_000_000, 0)
		taken, wait := l.take(now, "a", 10, 6)
		require.Equal(t, 6, taken)
		require.Equal(t, 40*time.Second, wait)

		taken, wait = l.take(now.Add(25*time.Second), "a", 3, 6)

		require.Equal(t, 2, taken)
		require.Equal(t, 5*time.Second, wait)
		taken, _ = l.take(now.Add(30*time.Second), "a", 1, 6)
		require.Equal(t, 1, taken, "then it is there")
	})

	t.Run("LetsPassWhatItHasNoRoomToCount", func(t *testing.T) {
		t.Parallel()
		var l local
		now := time.Unix(1_800_000_000, 0)
		for i := range maxBuckets {
			l.take(now, fmt.Sprint(i), 1, 1)
		}

		for range 3 {
			taken, _ := l.take(now, "one more", 1, 1)
			require.Equal(t, 1, taken)
		}

		require.Len(t, l.buckets, maxBuckets)
		l.take(now.Add(2*time.Minute), "later", 1, 1)
		require.Len(t, l.buckets, 1, "full ones are forgotten")
	})
}
