package ready_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/adapters/ready"
	"github.com/reelay/reelay/internal/redisurl"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

func newNotifications(t *testing.T, server server) *ready.Notifications {
	news := ready.NewNotifications(connect(t, server), t.Name()).Patient()
	t.Cleanup(news.Close)
	return news
}

// follow subscribes until the test ends or stop is called.
func follow(t *testing.T, news *ready.Notifications, id string) (<-chan struct{}, func()) {
	follower := make(chan struct{}, 1)
	stop := news.Subscribe(t.Context(), id, func() {
		select {
		case follower <- struct{}{}:
		default:
		}
	})
	t.Cleanup(stop)
	return follower, stop
}

func TestNews(t *testing.T) {
	t.Parallel()

	t.Run("ReachesEachFollowerOfTheID", func(t *testing.T) {
		t.Parallel()

		here, there := newNotifications(t, shared), newNotifications(t, shared)
		one, _ := follow(t, here, "job_1")
		two, _ := follow(t, here, "job_1")
		far, _ := follow(t, there, "job_1")
		other, _ := follow(t, there, "job_2")

		here.Publish(t.Context(), "job_1")

		receive(t, one)
		receive(t, two)
		receive(t, far)
		there.Publish(t.Context(), "job_2")
		receive(t, other)
		require.Empty(t, other, "the news of one job must not reach those of another")
		require.Empty(t, one)
	})

	t.Run("EndsItsConnectionWithTheLastFollower", func(t *testing.T) {
		t.Parallel()

		client := connect(t, shared)
		news := ready.NewNotifications(client, t.Name()).Patient()
		connections := func() (n int) {
			require.NoError(t, redisurl.ForEachPrimary(t.Context(), client, func(ctx context.Context, node *redis.Client) error {
				list, err := node.Do(ctx, "CLIENT", "LIST", "TYPE", "pubsub").Text()
				n += strings.Count(list, "name="+clientName(t))
				return err
			}))
			return n
		}
		_, stopOne := follow(t, news, "job_1")
		two, stopTwo := follow(t, news, "job_1")
		_, stopOther := follow(t, news, "job_2")
		require.Equal(t, 1, connections())

		stopOther()
		stopOne()
		stopOne()
		news.Publish(t.Context(), "job_1")
		receive(t, two)
		stopTwo()

		testrun.Eventually(t, "every connection is closed", func() bool { return connections() == 0 })
		again, _ := follow(t, news, "job_1")
		news.Publish(t.Context(), "job_1")
		receive(t, again)
	})

	t.Run("ResumesAfterALostConnection", func(t *testing.T) {
		t.Parallel()

		client := connect(t, ownRedis(t))
		news := ready.NewNotifications(client, t.Name()).Patient()
		follower, _ := follow(t, news, "job_1")

		require.NoError(t, client.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())

		receive(t, follower) // notifications during the outage are lost: look
		news.Publish(t.Context(), "job_1")
		receive(t, follower)
	})

	t.Run("ToleratesAnOutageOfRedis", func(t *testing.T) {
		t.Parallel()

		server := ownRedis(t)
		news := ready.NewNotifications(connectTo(t, server.URL()), t.Name())
		t.Cleanup(news.Close)
		server.Kill()
		clock := testrun.StartQuietClock()

		_, stop := follow(t, news, "job_1")
		news.Publish(t.Context(), "job_1")
		stop()

		require.Less(t, clock.Elapsed(), 5*time.Second)
	})
}
