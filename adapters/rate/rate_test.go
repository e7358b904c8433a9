package rate_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/adapters/rate"
	"github.com/reelay/reelay/adapters/ready"
	"github.com/reelay/reelay/internal/faultproxy"
	"github.com/reelay/reelay/internal/localstack/redistest"
	"github.com/reelay/reelay/internal/redisurl"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/stretchr/testify/require"
)

// shared is the Redis of all tests that do not break theirs.
var shared *redistest.Redis

func TestMain(m *testing.M) {
	testrun.Main(func() int {
		var err error
		if shared, err = redistest.StartChosen(context.Background(), redistest.Config{}); err != nil {
			fmt.Println(err)
			return 1
		}
		defer shared.Stop(context.Background())
		return m.Run()
	})
}

// newLimiter returns the buckets of one process, which waits for Redis however long a busy
// machine takes.
func newLimiter(t *testing.T, prefix string) *rate.Limiter {
	t.Helper()
	return newLimiterAt(t, shared.URL(), prefix)
}

func newLimiterAt(t *testing.T, url, prefix string) *rate.Limiter {
	t.Helper()
	address, err := redisurl.Parse(url)
	require.NoError(t, err)
	client := address.Open(testrun.WaitLimit)
	t.Cleanup(func() { client.Close() })
	return rate.New(client, prefix).Patient()
}

// plain are submits without a key.
func plain(n int) []string { return make([]string, n) }

// taken is how many of them got a token.
func taken(tokens []submit.Token, _ time.Duration) (n int) {
	for _, token := range tokens {
		if token == submit.TokenTaken {
			n++
		}
	}
	return n
}

func TestTake(t *testing.T) {
	t.Parallel()

	t.Run("AllowsOneMinutesTokensForAllProcessesTogether", func(t *testing.T) {
		t.Parallel()
		prefix := rand.Text()
		one, two := newLimiter(t, prefix), newLimiter(t, prefix)

		first := taken(one.Take(t.Context(), "a", plain(4), 6))
		tokens, wait := two.Take(t.Context(), "a", plain(4), 6)

		require.Equal(t, []int{4, 2}, []int{first, taken(tokens, wait)})
		require.InDelta(t, 20, wait.Seconds(), 10, "two tokens come in 20 s")
		require.Equal(t, 6, taken(two.Take(t.Context(), "b", plain(6), 6)), "another bucket is another's")
	})

	t.Run("SucceedsAfterTheReportedWait", func(t *testing.T) {
		t.Parallel()
		limiter := newLimiter(t, rand.Text())
		const perMinute = 600 // one each 100 ms
		limiter.Take(t.Context(), "a", plain(perMinute), perMinute)
		tokens, wait := limiter.Take(t.Context(), "a", plain(1), perMinute)
		for taken(tokens, wait) > 0 { // what came in meanwhile
			tokens, wait = limiter.Take(t.Context(), "a", plain(1), perMinute)
		}
		require.Positive(t, wait)
		require.LessOrEqual(t, wait, 100*time.Millisecond)

		<-time.After(wait) // Redis has a clock of its own

		require.Equal(t, 1, taken(limiter.Take(t.Context(), "a", plain(1), perMinute)))
	})

	t.Run("ReturnsTheTimeToFillTheBucketIfTheCallNeedsMore", func(t *testing.T) {
		t.Parallel()
		limiter := newLimiter(t, rand.Text())

		tokens, wait := limiter.Take(t.Context(), "a", plain(1000), 300)

		require.Equal(t, 300, taken(tokens, wait))
		require.InDelta(t, 60, wait.Seconds(), 1)
	})

	t.Run("AcceptsReturnedTokens", func(t *testing.T) {
		t.Parallel()
		limiter := newLimiter(t, rand.Text())
		limiter.Take(t.Context(), "a", plain(5), 5)

		limiter.Give(t.Context(), "a", plain(2), 5)
		limiter.Give(t.Context(), "a", nil, 5)

		require.Equal(t, 2, taken(limiter.Take(t.Context(), "a", plain(5), 5)))
	})

	t.Run("HoldsNoMoreThanAFullBucket", func(t *testing.T) {
		t.Parallel()
		limiter := newLimiter(t, rand.Text())

		limiter.Give(t.Context(), "a", plain(100), 5)

		require.Equal(t, 5, taken(limiter.Take(t.Context(), "a", plain(100), 5)))
	})

	t.Run("TakesOneTokenForAKeyUntilItIsReturned", func(t *testing.T) {
		t.Parallel()
		prefix := rand.Text()
		one, two := newLimiter(t, prefix), newLimiter(t, prefix)

		first, _ := one.Take(t.Context(), "a", []string{"k", "k", ""}, 2)
		second, wait := two.Take(t.Context(), "a", []string{"k", "other"}, 2)
		one.Give(t.Context(), "a", []string{"k"}, 2)
		third, _ := two.Take(t.Context(), "a", []string{"other", "k"}, 2)

		require.Equal(t, []submit.Token{submit.TokenTaken, submit.TokenPending, submit.TokenTaken}, first)
		require.Equal(t, []submit.Token{submit.TokenPending, submit.TokenRefused}, second)
		require.InDelta(t, 30, wait.Seconds(), 25, "for the refused one alone")
		require.Equal(t, []submit.Token{submit.TokenTaken, submit.TokenRefused}, third, "k has none any longer")
		elsewhere, _ := two.Take(t.Context(), "b", []string{"k"}, 2)
		require.Equal(t, []submit.Token{submit.TokenTaken}, elsewhere, "another account's key is another")
	})
}

func TestOutage(t *testing.T) {
	t.Parallel()

	faults := map[string]func(*faultproxy.Proxy){"Hanging": (*faultproxy.Proxy).Hang, "Unreachable": (*faultproxy.Proxy).Cut}
	for name, fault := range faults {
		t.Run("MakesEachProcessCountByItself"+name, func(t *testing.T) {
			t.Parallel()
			server, err := redistest.Start(t.Context(), redistest.Config{})
			require.NoError(t, err)
			t.Cleanup(func() { server.Stop(context.Background()) })
			proxy := faultproxy.New(t, "tcp", server.Nodes[0].Host)
			address, err := redisurl.Parse(strings.Replace(server.URL(), server.Nodes[0].Host, proxy.Addr(), 1))
			require.NoError(t, err)
			client := ready.NewClient(address)
			t.Cleanup(func() { client.Close() })
			prefix := rand.Text()
			limiter := rate.New(client, prefix)
			require.Equal(t, 3, taken(newLimiterAt(t, server.URL(), prefix).Take(t.Context(), "a", plain(3), 3)), "another process takes all")

			fault(proxy)

			clock := testrun.StartQuietClock()
			require.Equal(t, 2, taken(limiter.Take(t.Context(), "a", plain(2), 3)), "it starts with a full bucket")
			require.Less(t, clock.Elapsed(), 5*time.Second)
			got := 0
			for range 5 {
				got = taken(limiter.Take(t.Context(), "a", plain(2), 3))
			}
			require.Zero(t, got, "but it counts")
		})
	}
}
