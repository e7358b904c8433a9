package rate

import (
	"fmt"
	"testing"
	"time"

	"github.com/reelay/reelay/jobs/submit"
	"github.com/stretchr/testify/require"
)

func TestLocal(t *testing.T) {
	t.Parallel()

	take := func(l *local, now time.Time, name string, n, perMinute int) (taken int, wait time.Duration) {
		tokens, wait := l.take(now, name, make([]string, n), perMinute)
		for _, token := range tokens {
			if token == submit.TokenTaken {
				taken++
			}
		}
		return taken, wait
	}

	t.Run("FillsEvenly", func(t *testing.T) {
		t.Parallel()
		var l local
		now := time.Unix(1_800_000_000, 0)
		taken, wait := take(&l, now, "a", 10, 6)
		require.Equal(t, 6, taken)
		require.Equal(t, 40*time.Second, wait)

		taken, wait = take(&l, now.Add(25*time.Second), "a", 3, 6)

		require.Equal(t, 2, taken)
		require.Equal(t, 5*time.Second, wait)
		taken, _ = take(&l, now.Add(30*time.Second), "a", 1, 6)
		require.Equal(t, 1, taken, "then it is there")
		l.give(now.Add(30*time.Second), "a", make([]string, 1), 6)
		taken, _ = take(&l, now.Add(30*time.Second), "a", 2, 6)
		require.Equal(t, 1, taken, "and again once it is given back")
	})

	t.Run("TakesOneTokenForAKeyWhileItIsHeld", func(t *testing.T) {
		t.Parallel()
		var l local
		now := time.Unix(1_800_000_000, 0)
		first, _ := l.take(now, "a", []string{"k", "k"}, 2)
		require.Equal(t, []submit.Token{submit.TokenTaken, submit.TokenPending}, first)

		later, _ := l.take(now.Add(reserveFor), "a", []string{"k"}, 2)

		require.Equal(t, []submit.Token{submit.TokenTaken}, later)
	})

	t.Run("AllowsCallsThatItHasNoRoomToCount", func(t *testing.T) {
		t.Parallel()
		var l local
		now := time.Unix(1_800_000_000, 0)
		for i := range maxBuckets {
			take(&l, now, fmt.Sprint(i), 1, 1)
		}

		for range 3 {
			taken, _ := take(&l, now, "one more", 1, 1)
			require.Equal(t, 1, taken)
		}

		require.Len(t, l.buckets, maxBuckets)
		take(&l, now.Add(2*time.Minute), "later", 1, 1)
		require.Len(t, l.buckets, 1, "full ones are forgotten")
	})
}
