package rate_test

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/faultproxy"
	"github.com/reelay/reelay/internal/services"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs/rate"
	"github.com/reelay/reelay/jobs/ready"
	"github.com/stretchr/testify/require"
)

// shared is the Redis of all tests that do not break theirs.
var shared *services.Redis

func TestMain(m *testing.M) {
	testrun.Main(func() int {
		var err error
		if shared, err = services.StartRedis(context.Background(), services.RedisConfig{Test: true}); err != nil {
			fmt.Println(err)
			return 1
		}
		defer shared.Stop(context.Background())
		return m.Run()
	})
}

func newLimiter(t *testing.T, address string) *rate.Limiter {
	t.Helper()
	client, err := ready.NewClient(address)
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return rate.New(client, t.Name())
}

func TestTake(t *testing.T) {
	t.Parallel()

	t.Run("LetsOneMinutesWorthThroughForAllProcessesTogether", func(t *testing.T) {
		t.Parallel()
		one, two := newLimiter(t, shared.URL()), newLimiter(t, shared.URL())

		first, _ := one.Take(t.Context(), "a", 4, 6)
		second, wait := two.Take(t.Context(), "a", 4, 6)

		require.Equal(t, []int{4, 2}, []int{first, second})
		require.InDelta(t, 20, wait.Seconds(), 5, "two tokens come in 20 s")
		other, _ := two.Take(t.Context(), "b", 6, 6)
		require.Equal(t, 6, other, "another bucket is another's")
	})

	t.Run("PassesAfterTheTimeThatItSaid", func(t *testing.T) {
		t.Parallel()
		limiter := newLimiter(t, shared.URL())
		const perMinute = 600 // one each 100 ms
		limiter.Take(t.Context(), "a", perMinute, perMinute)
		taken, wait := limiter.Take(t.Context(), "a", 1, perMinute)
		for taken > 0 { // what came in meanwhile
			taken, wait = limiter.Take(t.Context(), "a", 1, perMinute)
		}
		require.Positive(t, wait)
		require.LessOrEqual(t, wait, 100*time.Millisecond)

		<-time.After(wait) // Redis has a clock of its own

		taken, _ = limiter.Take(t.Context(), "a", 1, perMinute)
		require.Equal(t, 1, taken)
	})

	t.Run("SaysWhenAFullBucketIsThereForMoreThanItHolds", func(t *testing.T) {
		t.Parallel()
		limiter := newLimiter(t, shared.URL())

		taken, wait := limiter.Take(t.Context(), "a", 1000, 300)

		require.Equal(t, 300, taken)
		require.InDelta(t, 60, wait.Seconds(), 1)
	})

	t.Run("GetsTokensBack", func(t *testing.T) {
		t.Parallel()
		limiter := newLimiter(t, shared.URL())
		limiter.Take(t.Context(), "a", 5, 5)

		limiter.Give(t.Context(), "a", 2, 5)
		limiter.Give(t.Context(), "a", 0, 5)

		taken, _ := limiter.Take(t.Context(), "a", 5, 5)
		require.Equal(t, 2, taken)
	})

	t.Run("HoldsNoMoreThanAFullBucket", func(t *testing.T) {
		t.Parallel()
		limiter := newLimiter(t, shared.URL())

		limiter.Give(t.Context(), "a", 100, 5)

		taken, _ := limiter.Take(t.Context(), "a", 100, 5)
		require.Equal(t, 5, taken)
	})
}

func TestOutage(t *testing.T) {
	t.Parallel()

	faults := map[string]func(*faultproxy.Proxy){"Hanging": (*faultproxy.Proxy).Hang, "Unreachable": (*faultproxy.Proxy).Cut}
	for name, fault := range faults {
		t.Run("LeavesEachProcessToCountByItself"+name, func(t *testing.T) {
			t.Parallel()
			address, err := url.Parse(shared.URL())
			require.NoError(t, err)
			proxy := faultproxy.New(t, "tcp", address.Host)
			address.Host = proxy.Addr()
			limiter := newLimiter(t, address.String())
			taken, _ := limiter.Take(t.Context(), "a", 3, 3)
			require.Equal(t, 3, taken)

			fault(proxy)

			clock := testrun.StartQuietClock()
			taken, _ = limiter.Take(t.Context(), "a", 2, 3)
			require.Equal(t, 2, taken, "it begins anew: nobody is shut out")
			require.Less(t, clock.Elapsed(), 5*time.Second)
			for range 5 {
				taken, _ = limiter.Take(t.Context(), "a", 2, 3)
			}
			require.Zero(t, taken, "but it counts")
		})
	}
}
