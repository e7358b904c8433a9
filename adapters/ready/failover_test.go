package ready_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/adapters/ready"
	"github.com/reelay/reelay/internal/localstack/redistest"
	"github.com/reelay/reelay/internal/redisurl"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// soon is how long a server is away before another one takes its place.
const soon = 500 * time.Millisecond

// arranged is a stack over a Redis of which a server may fail.
type arranged struct {
	broken
	redis *redistest.Redis
	told  atomic.Int32 // notifications of job_1
}

func newArranged(t *testing.T, config redistest.Config) *arranged {
	t.Helper()
	server := start(t, config)
	client := connectTo(t, server.URL())
	a := &arranged{broken: broken{Stack: jobstest.New(t)}, redis: server}
	news := ready.NewNotifications(client, "test")
	t.Cleanup(news.Close)
	a.Notifier.Index, a.Notifier.Notifications = ready.New(client, "test"), news
	testrun.Eventually(t, "the index is there", func() bool { return a.Readier.Sweep(t.Context()) == nil })
	t.Cleanup(news.Subscribe(t.Context(), "job_1", func() { a.told.Add(1) }))
	return a
}

// indexed waits until the index has exactly these jobs.
func (a *arranged) indexed(t *testing.T, ids ...models.JobID) {
	t.Helper()
	queues := []models.Queue{{Line: models.Line{Lane: models.TierEnterprise}, Model: "testcard"}}
	testrun.Eventually(t, "the index has the jobs", func() bool {
		if a.Readier.Sweep(t.Context()) != nil { // as control does it every few seconds
			return false
		}
		first, err := a.Notifier.Index.First(t.Context(), queues, nil, 100)
		return err == nil && len(first) == 1 && first[0].ID == ids[0]
	})
	for _, id := range ids {
		got, _ := a.Lease(t, a.Worker(t, "of-"+string(id)))
		require.Equal(t, id, got.Job.ID)
	}
}

// swept sweeps the index until the test ends, as control does it: a server that becomes the primary may
// not have the newest jobs, which only a sweep restores.
func (a *arranged) swept(t *testing.T) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for t.Context().Err() == nil {
			_ = a.Readier.Sweep(t.Context()) // it fails while servers change places
			select {
			case <-time.After(soon):
			case <-t.Context().Done():
			}
		}
	}()
	t.Cleanup(func() { <-done })
}

// notified waits until notifications arrive.
func (a *arranged) notified(t *testing.T) {
	t.Helper()
	before := a.told.Load()
	testrun.Eventually(t, "news come again", func() bool {
		a.Notifier.Notifications.Publish(t.Context(), "job_1")
		return a.told.Load() > before+1
	})
}

// TestFailover lets another server take the place of one that fails.
func TestFailover(t *testing.T) {
	t.Parallel()

	for name, mode := range map[string]redisurl.Mode{"BySentinels": redisurl.Sentinel, "InACluster": redisurl.Cluster} {
		t.Run("RestoresWhatAFailoverLost"+name, func(t *testing.T) {
			t.Parallel()
			a := newArranged(t, redistest.Config{Mode: mode, Replicas: 1, Away: soon})
			a.round(t)
			first := a.Submit(t)
			primary := a.redis.Primary(t.Context(), "{test}:epoch")
			replica := a.replicaOf(t, primary)
			require.NoError(t, replica.Freeze())
			second := a.Submit(t)
			primary.Kill() // the replica does not know of the second job

			third := a.Submit(t)
			require.NoError(t, replica.Thaw())

			testrun.Eventually(t, "the replica takes its place", func() bool {
				return a.redis.Primary(t.Context(), "{test}:epoch") == replica
			})
			a.indexed(t, first.ID, second.ID, third.ID)
			a.notified(t)
			a.RequireInvariants(t)
		})
	}

	t.Run("GoesOnWhileAPrimaryIsDemoted", func(t *testing.T) {
		t.Parallel()
		a := newArranged(t, redistest.Config{Mode: redisurl.Sentinel})
		a.swept(t)
		primary := a.redis.Primary(t.Context(), "")
		testrun.Eventually(t, "a Sentinel begins a failover", func() bool {
			return redistest.Run(t.Context(), a.redis.Sentinels[:1], "SENTINEL", "FAILOVER", "main") == nil
		})
		for a.redis.Primary(t.Context(), "") == primary {
			a.round(t)
		}

		a.round(t)
		job := a.Submit(t)

		a.indexed(t, job.ID)
		a.notified(t)
		a.RequireInvariants(t)
	})

	t.Run("GoesOnWhileTheClusterMovesTheIndex", func(t *testing.T) {
		t.Parallel()
		a := newArranged(t, redistest.Config{Mode: redisurl.Cluster})
		a.round(t)
		job := a.Submit(t)
		moved := a.beginMove(t)
		moved("{test}:epoch") // which alone does not make an index

		_, err := a.Notifier.Index.First(t.Context(), nil, nil, 1)
		require.ErrorIs(t, err, jobs.ErrIndexLost)
		require.ErrorIs(t, a.Readier.Sweep(t.Context()), jobs.ErrIndexLost, "it must not write where the other keys will come")
		second := a.Submit(t)
		moved("")

		a.indexed(t, job.ID, second.ID)
		a.notified(t)
		a.RequireInvariants(t)
	})
}

// replicaOf returns the replica of a primary.
func (a *arranged) replicaOf(t *testing.T, primary *redistest.Node) *redistest.Node {
	t.Helper()
	client := primary.Client()
	defer client.Close()
	for _, node := range a.redis.Nodes {
		_, port, _ := strings.Cut(node.Host, ":")
		if strings.Contains(client.Info(t.Context(), "replication").Val(), "port="+port+",") {
			return node
		}
	}
	require.FailNow(t, "no replica", primary.Host)
	return nil
}

// beginMove begins to move the slot of the index to another node, as redis-cli --cluster reshard
// does it. moved moves one key, or "" for all that are left, which ends the move.
func (a *arranged) beginMove(t *testing.T) (moved func(key string)) {
	t.Helper()
	from := a.redis.Primary(t.Context(), "{test}:epoch")
	to := a.redis.Nodes[0]
	if to == from {
		to = a.redis.Nodes[1]
	}
	run := func(node *redistest.Node, command ...any) string {
		client := node.Client()
		defer client.Close()
		answer, err := client.Do(t.Context(), command...).Result()
		require.NoError(t, err, command)
		return fmt.Sprint(answer)
	}
	slot := run(from, "CLUSTER", "KEYSLOT", "{test}:epoch")
	ids := map[*redistest.Node]string{from: run(from, "CLUSTER", "MYID"), to: run(to, "CLUSTER", "MYID")}
	run(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[from])
	run(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to])
	source := from.Client().(*redis.Client)
	t.Cleanup(func() { source.Close() })
	password := source.Options().Password
	host, port, _ := strings.Cut(to.Host, ":")
	move := func(key string) {
		run(from, "MIGRATE", host, port, key, 0, strconv.Itoa(60_000), "AUTH2", "default", password)
	}
	return func(key string) {
		if key != "" {
			move(key)
			return
		}
		n, err := strconv.Atoi(slot)
		require.NoError(t, err)
		keys, err := source.ClusterGetKeysInSlot(t.Context(), n, 1000).Result()
		require.NoError(t, err)
		for _, key := range keys {
			move(key)
		}
		run(to, "CLUSTER", "SETSLOT", slot, "NODE", ids[to])
		run(from, "CLUSTER", "SETSLOT", slot, "NODE", ids[to])
	}
}
