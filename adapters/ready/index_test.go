package ready_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/adapters/ready"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"
)

func TestFirst(t *testing.T) {
	t.Parallel()

	t.Run("OrdersByLaneThenAccountThenJob", func(t *testing.T) {
		t.Parallel()

		index := newIndex(t)

		require.NoError(t, index.Add(t.Context(),
			job("free", models.TierFree, "a", 1, 0),
			job("behind", models.TierPro, "b", 1, 7.5),
			job("second", models.TierPro, "a", 1<<51, 7.25),
			job("first", models.TierPro, "a", 1<<51-1, 7.25),
		))

		requireFirst(t, index, "first", "behind", "free")
	})

	t.Run("TakesTheOlderJobOfEqualAccounts", func(t *testing.T) {
		t.Parallel()

		index := newIndex(t)

		require.NoError(t, index.Add(t.Context(),
			job("young", models.TierPro, "a", 12, 3), job("old", models.TierPro, "z", 9, 3)))

		requireFirst(t, index, "old", "young")
		first, err := index.First(t.Context(), queuesOf("preview"), nil, 1)
		require.NoError(t, err)
		require.Equal(t, []jobs.ReadyJob{job("old", models.TierPro, "z", 9, 3)}, first)
	})

	t.Run("LeavesOutOtherAccounts", func(t *testing.T) {
		t.Parallel()

		index := newIndex(t)
		ahead := job("ahead", models.TierCritical, "x", 1, 0)
		later, sooner := job("later", models.TierPro, "b", 2, 9), job("sooner", models.TierPro, "a", 3, 8)
		require.NoError(t, index.Add(t.Context(), ahead, later, sooner, job("behind", models.TierPro, "b", 4, 9),
			job("free", models.TierFree, "c", 5, 0)))
		for _, c := range []struct {
			accounts []models.AccountID
			expected []jobs.ReadyJob
		}{
			{nil, []jobs.ReadyJob{ahead}},
			{[]models.AccountID{"acc_b", "acc_none", "acc_a"}, []jobs.ReadyJob{sooner, later}},
			{[]models.AccountID{"acc_none"}, nil},
		} {
			first, err := index.First(t.Context(), queuesOf("preview"), c.accounts, 8)
			require.NoError(t, err)
			require.Equal(t, c.expected, first)
		}
		require.NoError(t, index.SetFlows(t.Context(), models.FlowState{AccountID: "acc_b", Version: 1, Capped: true}))
		first, err := index.First(t.Context(), queuesOf("preview"), []models.AccountID{"acc_b"}, 8)
		require.NoError(t, err)
		require.Empty(t, first, "it is at its limit")
	})

	t.Run("MatchesASort", func(t *testing.T) {
		t.Parallel()

		client := connect(t, shared)
		rapid.Check(t, func(rt *rapid.T) {
			index := ready.New(client, prefix(t)).Patient()
			require.NoError(rt, index.Rebuild(t.Context(), nil))
			expected := newReference()
			for range rapid.IntRange(1, 25).Draw(rt, "steps") {
				expected.step(t.Context(), rt, index)
				queues := drawQueues(rt)
				n := rapid.IntRange(1, 8).Draw(rt, "n")

				first, err := index.First(t.Context(), queues, nil, n)

				require.NoError(rt, err)
				require.Equal(rt, expected.first(queues, n), first)
			}
		})
	})
}

func TestAdd(t *testing.T) {
	t.Parallel()

	t.Run("MovesTheAccountInAllModels", func(t *testing.T) {
		t.Parallel()

		index := newIndex(t)
		video := job("film", models.TierPro, "a", 2, 1)
		video.Model = "film"
		require.NoError(t, index.Add(t.Context(), video, job("other", models.TierPro, "b", 1, 5)))
		requireFirst(t, index, "film", "other")

		require.NoError(t, index.Add(t.Context(), job("preview", models.TierPro, "a", 3, 9)))

		requireFirst(t, index, "other", "film")
	})

	t.Run("AcceptsManyJobs", func(t *testing.T) {
		t.Parallel()

		index := newIndex(t)
		many := make([]jobs.ReadyJob, 1001)
		for i := range many {
			many[i] = job(strconv.Itoa(i), models.TierBatch, strconv.Itoa(i), int64(i), 0)
		}

		require.NoError(t, index.Add(t.Context(), many...))

		first, err := index.First(t.Context(), queuesOf("preview"), nil, 2000)
		require.NoError(t, err)
		require.Equal(t, many, first)
	})
}

func TestRemove(t *testing.T) {
	t.Parallel()

	t.Run("MovesTheAccountToItsNewTime", func(t *testing.T) {
		t.Parallel()

		index := newIndex(t)
		gone := job("gone", models.TierPro, "a", 1, 1)
		require.NoError(t, index.Add(t.Context(), gone, job("next", models.TierPro, "a", 2, 1), job("other", models.TierPro, "b", 3, 4)))

		gone.VirtualTime = 6
		require.NoError(t, index.Remove(t.Context(), gone))

		requireFirst(t, index, "other", "next")
	})

	t.Run("IgnoresAnOutdatedTime", func(t *testing.T) {
		t.Parallel()

		index := newIndex(t)
		require.NoError(t, index.Add(t.Context(), job("mine", models.TierPro, "a", 1, 6), job("other", models.TierPro, "b", 2, 4)))

		require.NoError(t, index.Remove(t.Context(), job("early", models.TierPro, "a", 0, 2)))

		requireFirst(t, index, "other", "mine")
	})

	t.Run("LeavesNoKeyInRedis", func(t *testing.T) {
		t.Parallel()

		client, own := connect(t, shared), prefix(t)
		index := ready.New(client, own).Patient()
		require.NoError(t, index.Rebuild(t.Context(), nil))
		all := []jobs.ReadyJob{job("1", models.TierPro, "a", 1, 1), job("2", models.TierPro, "a", 2, 1), job("3", models.TierFree, "b", 3, 1)}
		require.NoError(t, index.Add(t.Context(), all...))

		require.NoError(t, index.Remove(t.Context(), all...))

		requireFirst(t, index)
		require.Equal(t, []string{"{" + own + "}:epoch"}, allKeys(t, client, "{"+own+"}:*"))
	})
}

func TestStand(t *testing.T) {
	t.Parallel()

	t.Run("RemovesAnAccountAndReturnsItAtItsTime", func(t *testing.T) {
		t.Parallel()

		index := newIndex(t)
		video := job("film", models.TierFree, "a", 2, 1)
		video.Model = "film"
		require.NoError(t, index.Add(t.Context(), job("mine", models.TierPro, "a", 1, 1), video, job("other", models.TierPro, "b", 3, 5)))

		require.NoError(t, index.SetFlows(t.Context(), models.FlowState{AccountID: "acc_a", Version: 7, Capped: true}))
		require.NoError(t, index.Add(t.Context(), job("more", models.TierPro, "a", 0, 1)))
		requireFirst(t, index, "other")

		require.NoError(t, index.SetFlows(t.Context(), models.FlowState{AccountID: "acc_a", Version: 8, Places: []models.Place{
			{Line: models.Line{Lane: models.TierPro}, VirtualTime: 6},
		}}))
		requireFirst(t, index, "other", "more", "film")
	})

	t.Run("IgnoresOutdatedStandings", func(t *testing.T) {
		t.Parallel()

		index := newIndex(t)
		require.NoError(t, index.Add(t.Context(), job("mine", models.TierPro, "a", 1, 1)))
		require.NoError(t, index.SetFlows(t.Context(), models.FlowState{AccountID: "acc_a", Version: 10}))

		require.NoError(t, index.SetFlows(t.Context(), models.FlowState{AccountID: "acc_a", Version: 9, Capped: true}))

		requireFirst(t, index, "mine")
	})
}

func TestRebuild(t *testing.T) {
	t.Parallel()

	t.Run("RestoresAFlushedIndex", func(t *testing.T) {
		t.Parallel()

		client := connect(t, ownRedis(t))
		index := ready.New(client, "test").Patient()
		kept := job("kept", models.TierPro, "a", 1, 1)
		require.NoError(t, index.Rebuild(t.Context(), []jobs.ReadyJob{kept}))
		requireFirst(t, index, "kept")
		require.NoError(t, client.FlushAll(t.Context()).Err())

		_, err := index.First(t.Context(), queuesOf("preview"), nil, 1)
		require.ErrorIs(t, err, jobs.ErrIndexLost)
		require.ErrorIs(t, index.Add(t.Context(), kept), jobs.ErrIndexLost)
		require.ErrorIs(t, index.Remove(t.Context(), kept), jobs.ErrIndexLost)
		require.Empty(t, allKeys(t, client, "*"), "a lost index must stay empty")
		require.NoError(t, index.Rebuild(t.Context(), []jobs.ReadyJob{kept}))

		requireFirst(t, index, "kept")
	})

	t.Run("KeepsJobsThatAreAddedMeanwhile", func(t *testing.T) {
		t.Parallel()

		client, own := connect(t, shared), prefix(t)
		require.NoError(t, ready.New(client, own).Patient().Rebuild(t.Context(), nil))
		want := make([]jobs.ReadyJob, 40)
		var group errgroup.Group
		group.SetLimit(8) // as many calls as connections, so that none waits long for one
		for i := range want {
			want[i] = job(strconv.Itoa(i), models.TierPro, strconv.Itoa(i), int64(i), 0)
			group.Go(func() error {
				index := ready.New(client, own).Patient()
				if i%2 == 0 {
					return index.Rebuild(t.Context(), want[i:i+1])
				}
				return index.Add(t.Context(), want[i])
			})
		}
		require.NoError(t, group.Wait())

		first, err := ready.New(client, own).Patient().First(t.Context(), queuesOf("preview"), nil, 100)
		require.NoError(t, err)
		require.Equal(t, want, first)
	})

	t.Run("EmptiesAnIndexWhoseEpochIsGone", func(t *testing.T) {
		t.Parallel()

		client, own := connect(t, shared), prefix(t)
		index := ready.New(client, own).Patient()
		require.NoError(t, index.Rebuild(t.Context(), []jobs.ReadyJob{job("stale", models.TierPro, "a", 1, 1)}))
		require.NoError(t, client.Del(t.Context(), "{"+own+"}:epoch").Err())

		require.NoError(t, index.Rebuild(t.Context(), []jobs.ReadyJob{job("new", models.TierPro, "b", 2, 1)}))
		require.NoError(t, index.Remove(t.Context(), job("new", models.TierPro, "b", 2, 1)))

		requireFirst(t, index)
	})
}

func TestIndex(t *testing.T) {
	t.Parallel()

	t.Run("IsLostQuicklyWithoutRedis", func(t *testing.T) {
		t.Parallel()

		server := ownRedis(t)
		index := ready.New(connectTo(t, server.URL()), "test")
		testrun.Eventually(t, "the index is there", func() bool { return index.Rebuild(t.Context(), nil) == nil })
		server.Kill()

		ctx, clock := t.Context(), testrun.StartQuietClock()
		_, err := index.First(ctx, queuesOf("preview"), nil, 1)

		require.ErrorIs(t, err, jobs.ErrIndexLost)
		require.ErrorIs(t, index.Add(ctx, job("any", models.TierPro, "a", 1, 1)), jobs.ErrIndexLost)
		require.ErrorIs(t, index.Rebuild(ctx, nil), jobs.ErrIndexLost)
		require.Less(t, clock.Elapsed(), 5*time.Second)
	})
}

func TestWakes(t *testing.T) {
	t.Parallel()

	t.Run("NotifiesOtherProcessesOfEachQueueAndAccountOnce", func(t *testing.T) {
		t.Parallel()

		client, own := connect(t, shared), prefix(t)
		index, listener := ready.New(client, own).Patient(), ready.New(client, own).Patient()
		require.NoError(t, index.Rebuild(t.Context(), nil))
		ctx, end := context.WithCancel(t.Context())
		found, ended := make(chan string, 100), make(chan error, 1)
		go func() {
			ended <- listener.Wakes(ctx, func(q models.Queue, of models.AccountID) { found <- fmt.Sprint(q.Model, q.GPURank, q.Region, of) })
		}()
		publish := func(message string) (listeners int64) {
			command := redis.NewIntCmd(t.Context(), "publish", "{"+own+"}:wakes", message)
			command.SetFirstKeyPos(1) // the order of what other nodes of a cluster publish is not known
			require.NoError(t, client.Process(t.Context(), command))
			return command.Val()
		}
		testrun.Eventually(t, "a subscriber listens", func() bool { return publish("other:acc_a:0::begun") > 0 })
		require.Equal(t, "begun0acc_a", receive(t, found))

		video := job("3", models.TierPro, "a", 3, 1)
		video.Model, video.GPURank, video.Region = "fi:lm", 2, "eu:west 4"
		require.NoError(t, index.Add(t.Context(), job("1", models.TierPro, "a", 1, 1), job("2", models.TierPro, "a", 2, 1), video,
			job("4", models.TierFree, "b", 4, 1)))
		require.NoError(t, index.Remove(t.Context(), video))
		require.NoError(t, listener.Add(t.Context(), video), "this is its own news")
		publish("other:acc_a:0::end")

		require.Equal(t, "preview0acc_a", receive(t, found))
		require.Equal(t, "fi:lm2eu:west 4acc_a", receive(t, found))
		require.Equal(t, "preview0acc_b", receive(t, found))
		require.Equal(t, "end0acc_a", receive(t, found))
		end()
		require.NoError(t, receive(t, ended))
	})
}
