package ready_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/adapters/ready"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/localstack/redistest"
	"github.com/reelay/reelay/internal/redisurl"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
)

// shared is the Redis of all tests that do not break theirs.
var shared *redistest.Redis

func TestMain(m *testing.M) {
	modelstest.Main(func() int {
		var err error
		if shared, err = redistest.StartChosen(context.Background(), redistest.Config{}); err != nil {
			fmt.Println(err)
			return 1
		}
		defer shared.Stop(context.Background())
		return m.Run()
	})
}

// ownRedis starts a Redis that the test may break.
func ownRedis(t *testing.T) *localstack.Redis {
	server, err := localstack.StartRedis(t.Context(), localstack.RedisConfig{Test: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	return server
}

// server is a Redis of any kind.
type server interface{ URL() string }

// connect returns a client that waits however long a busy machine takes.
func connect(t *testing.T, server server) redis.UniversalClient {
	return closed(t, parse(t, server.URL()).Open(testrun.WaitLimit))
}

// connectTo returns a client as the control plane has it.
func connectTo(t *testing.T, url string) redis.UniversalClient {
	return closed(t, ready.NewClient(parse(t, url)))
}

func closed(t *testing.T, client redis.UniversalClient) redis.UniversalClient {
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

// allKeys lists the keys of all servers.
func allKeys(t *testing.T, client redis.UniversalClient, pattern string) (all []string) {
	require.NoError(t, redisurl.ForEachPrimary(t.Context(), client, func(ctx context.Context, node *redis.Client) error {
		keys, err := node.Keys(ctx, pattern).Result()
		all = append(all, keys...)
		return err
	}))
	return all
}

// parse reads a URL. The client's name is the test's.
func parse(t *testing.T, url string) *redisurl.Address {
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	address, err := redisurl.Parse(url + separator + "client_name=" + clientName(t))
	require.NoError(t, err)
	return address
}

// prefix returns a prefix that no test has used before, not even in an earlier run.
func prefix(t *testing.T) string { return t.Name() + rand.Text() }

func clientName(t *testing.T) string { return strings.ReplaceAll(t.Name(), "/", "-") }

// newIndex returns an index of the test's own, which is empty but not lost.
func newIndex(t *testing.T) *ready.Index {
	index := ready.New(connect(t, shared), prefix(t)).Patient()
	require.NoError(t, index.Rebuild(t.Context(), nil))
	return index
}

func job(id string, lane models.Tier, account string, order int64, time float64) jobs.ReadyJob {
	return jobs.ReadyJob{
		Queue: models.Queue{Line: models.Line{Lane: lane}, Model: "preview"},
		ID:    models.JobID("job_" + id), Account: models.AccountID("acc_" + account), Order: order, VirtualTime: time,
	}
}

// queuesOf lists the queues of all lanes for these models. Each lane's queue comes before that
// of its promoted jobs.
func queuesOf(names ...string) []models.Queue {
	var queues []models.Queue
	for _, lane := range models.Tiers {
		for _, promoted := range []bool{false, true} {
			for _, name := range names {
				queues = append(queues, models.Queue{Line: models.Line{Lane: lane, Promoted: promoted}, Model: name})
			}
		}
	}
	return queues
}

// requireFirst compares the accounts that come first in the index, lane by lane.
func requireFirst(t *testing.T, index *ready.Index, want ...string) {
	t.Helper()
	var got []string
	for line := range slices.Chunk(queuesOf("preview", "film"), 2) {
		first, err := index.First(t.Context(), line, nil, 100)
		require.NoError(t, err)
		for _, j := range first {
			got = append(got, strings.TrimPrefix(string(j.ID), "job_"))
		}
	}
	require.Equal(t, want, got)
}

// receive waits for a value, and fails the test if none arrives.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	return testrun.Receive(t, "a value", from)
}
