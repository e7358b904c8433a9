package graph_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/adapters/ready"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/watch"
	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/redisurl"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

// cluster is replicas of the API over one database, with a Redis that the test may break.
type cluster struct {
	*jobstest.Stack
	redis *localstack.Redis
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	server, err := localstack.StartRedis(t.Context(), localstack.RedisConfig{Test: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	c := &cluster{jobstest.New(t), server}
	c.Notifier.Notifications = c.news(t)
	return c
}

// news returns the news of one process.
func (c *cluster) news(t *testing.T) *ready.Notifications {
	t.Helper()
	client := c.client(t)
	news := ready.NewNotifications(client, "test")
	t.Cleanup(news.Close)
	return news
}

func (c *cluster) client(t *testing.T) redis.UniversalClient {
	t.Helper()
	address, err := redisurl.Parse(c.redis.URL())
	require.NoError(t, err)
	client := ready.NewClient(address)
	t.Cleanup(func() { client.Close() })
	return client
}

// replica starts another process of the API with the default intervals.
func (c *cluster) replica(t *testing.T) *api {
	t.Helper()
	watcher := &watch.Watcher{DB: c.DB, Jobs: c.Reads.Jobs, Notifications: c.news(t)}
	keys := &auth.KeyWatch{Authenticate: (&auth.KeyCache{Authenticate: c.Keys.Authenticate}).Get}
	server := httptest.NewServer(graph.New(&graph.Resolver{Reads: c.Reads, Watcher: watcher, Keys: c.Keys}, keys, graph.Options{}))
	t.Cleanup(server.Close)
	return &api{c.Stack, server.URL}
}

// listeners returns how many connections subscribe to a job in Redis.
func (c *cluster) listeners(t *testing.T, id models.JobID) int {
	t.Helper()
	channels, err := c.client(t).PubSubChannels(context.Background(), "*"+string(id)+"*").Result()
	if err != nil {
		return 0
	}
	return len(channels)
}

// A client of jobEvents does not notice that Redis is killed and returns empty.
func TestEventsOutliveRedis(t *testing.T) {
	t.Parallel()

	c := newCluster(t)
	job := c.Submit(t)
	follower := dial(t, c.replica(t).url, c.Secrets[access.RoleClient])
	require.Equal(t, "connection_ack", follower.next().Type)
	follower.send("subscribe", "1", map[string]any{"query": jobEvents, "variables": map[string]any{"id": job.ID, "after": 0}})
	heard := 0
	requireUpTo := func(seq int) {
		t.Helper()
		for heard < seq {
			var event struct {
				Data struct{ JobEvents struct{ Seq int } }
			}
			require.NoError(t, json.Unmarshal(follower.next().Payload, &event))
			heard++
			require.Equal(t, heard, event.Data.JobEvents.Seq)
		}
	}

	c.Happen(t, job.ID, 2)
	requireUpTo(3)
	c.redis.Kill()
	c.Happen(t, job.ID, 3)
	requireUpTo(6)
	c.Happen(t, job.ID, 4) // published while Redis was down
	_, err := c.redis.Restart(t.Context())
	require.NoError(t, err)
	c.Happen(t, job.ID, 5)
	requireUpTo(15)
	testrun.Eventually(t, "news come again", func() bool { return c.listeners(t, job.ID) == 1 })
	_, err = c.Canceller.Cancel(t.Context(), c.Client, job.ID)
	require.NoError(t, err)

	requireUpTo(c.Reload(t, job.ID).EventSeq)
	require.Equal(t, frame{ID: "1", Type: "complete"}, follower.next())
}

// Streams end in time after their key was revoked in another process.
func TestRevocation(t *testing.T) {
	t.Parallel()
	const promised = 5 * time.Second

	for name, away := range map[string]bool{"EndsStreamsOfOtherReplicas": false, "NeedsNoRedis": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			c := newCluster(t)
			job := c.Submit(t)
			here, elsewhere := c.replica(t), c.replica(t)
			s := dial(t, elsewhere.url, c.Secrets[access.RoleClient])
			require.Equal(t, "connection_ack", s.next().Type)
			s.send("subscribe", "1", map[string]any{"query": jobEvents, "variables": map[string]any{"id": job.ID, "after": 0}})
			require.Equal(t, "next", s.next().Type)
			events := elsewhere.events(t, job.ID)
			require.True(t, events.Scan())
			if away {
				c.redis.Kill()
			}
			clock := testrun.StartQuietClock() // the commit is later

			here.as(t, access.RoleAdmin, `mutation ($id: ID!) { revokeApiKey(id: $id) }`, map[string]any{"id": c.Client.KeyID})

			require.EqualValues(t, 4401, s.closed())
			for events.Scan() { // until the stream ends
			}
			took := clock.Elapsed()
			require.Less(t, took, promised)
			t.Log("both streams ended after", took)
		})
	}
}
