package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/adapters/tasks"
	"github.com/reelay/reelay/internal/faultproxy"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
)

// tick is how often the passes of these tests run.
const tick = 300 * time.Millisecond

// nowhere is the address of a Redis that does not exist.
var nowhere = asynq.RedisClientOpt{Addr: "127.0.0.1:1", DialTimeout: 100 * time.Millisecond}

// periods holds the periods, by PostgreSQL's clock, in which a pass ran.
type periods struct {
	every time.Duration
	mu    sync.Mutex
	ran   []int64
}

// pass returns a pass that records the periods in which it began.
func (p *periods) pass(t *testing.T) tasks.Pass {
	db := modelstest.DB(t)
	return tasks.Pass{Name: "count", Every: p.every, Run: func(ctx context.Context) error {
		now, err := postgres.Now(ctx, db)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ran = append(p.ran, now.UnixMilli()/p.every.Milliseconds())
		return err
	}}
}

func (p *periods) seen() []int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.ran)
}

// wait waits until the pass ran n times more.
func (p *periods) wait(t *testing.T, n int) {
	t.Helper()
	n += len(p.seen())
	testrun.Eventually(t, "the messages are seen", func() bool { return len(p.seen()) >= n })
}

// requireOnce fails the test unless the pass ran exactly once in each period. The first run is
// not checked: it comes at any time of its period, which begins a little later than the
// clock's own, and so may look like a run of the next.
func (p *periods) requireOnce(t *testing.T) {
	t.Helper()
	ran := p.seen()
	slices.Sort(ran)
	ran = ran[1:]
	for i, period := range ran {
		require.Equal(t, ran[0]+int64(i), period, "each period once: %v", ran)
	}
}

func TestPass(t *testing.T) {
	t.Parallel()

	t.Run("RunsOncePerPeriodWhateverRedisDoes", func(t *testing.T) {
		t.Parallel()

		server, err := localstack.StartRedis(t.Context(), localstack.RedisConfig{Test: true})
		require.NoError(t, err)
		t.Cleanup(func() { server.Stop(context.Background()) })
		options, err := redis.ParseURL(server.URL())
		require.NoError(t, err)
		proxy := faultproxy.New(t, "tcp", options.Addr)
		behind := asynq.RedisClientOpt{
			Addr: proxy.Addr(), Password: options.Password,
			DialTimeout: 200 * time.Millisecond, ReadTimeout: 200 * time.Millisecond, WriteTimeout: 200 * time.Millisecond,
		}
		client := redis.NewClient(options)
		defer client.Close()
		claim, p := claims(t), &periods{every: time.Second}
		pass := p.pass(t)
		for range 3 {
			run(t, tasks.Config{Redis: behind, Ready: nothing, Claim: claim, Passes: []tasks.Pass{pass}})
		}

		for _, fault := range []func(){
			func() {},
			func() { require.NoError(t, client.FlushAll(t.Context()).Err()) },
			func() { require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err()) },
			func() {
				require.NoError(t, client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
			},
			func() {
				require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
				proxy.Hang()
			},
			proxy.Cut,
			proxy.Heal,
			func() { require.NoError(t, client.ReplicaOf(t.Context(), "127.0.0.1", "1").Err()) }, // READONLY
			server.Kill,
		} {
			fault()
			p.wait(t, 2)
		}

		p.requireOnce(t)
	})

	t.Run("RunsByItsTickBeforeAnyProcessRunsItWithoutOne", func(t *testing.T) {
		t.Parallel()

		redis := database(t, 1)
		ran := make(chan context.Context, 100)
		run(t, tasks.Config{Redis: redis, Ready: nothing, Claim: claims(t), Passes: []tasks.Pass{
			{Name: "count", Every: 2 * time.Second, Run: func(ctx context.Context) error { ran <- ctx; return nil }},
		}})

		for range 10 { // the first run is at the start, and on a busy machine a message may be late
			if _, handled := asynq.GetTaskID(receive(t, ran)); handled {
				return
			}
		}
		require.Fail(t, "asynq never had its turn")
	})

	t.Run("AsksForEachPeriodOnce", func(t *testing.T) {
		t.Parallel()

		claim, ran := claims(t), make(chan []time.Duration, 100)
		var ends time.Time // of the period that was asked for last
		var early []time.Duration
		watched := func(ctx context.Context, name string, every time.Duration) (bool, time.Duration, error) {
			if name != "count" {
				return claim(ctx, name, every)
			}
			now := time.Now()
			if now.Before(ends.Add(-every / 10)) {
				early = append(early, ends.Sub(now))
			}
			mine, left, err := claim(ctx, name, every)
			ends = now.Add(left)
			return mine, left, err
		}
		run(t, tasks.Config{Redis: database(t, 13), Ready: nothing, Claim: watched, Passes: []tasks.Pass{
			{Name: "count", Every: 2 * tick, Run: func(context.Context) error {
				ran <- slices.Clone(early)
				return nil
			}},
		}})

		for range 6 {
			require.Empty(t, receive(t, ran), "claims before the end of a period whose owner is known")
		}
	})

	t.Run("RunsAgainAfterAFailure", func(t *testing.T) {
		t.Parallel()

		for name, where := range map[string]asynq.RedisConnOpt{"WithRedis": database(t, 2), "WithoutRedis": nowhere} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()

				failures := make(chan func() error, 2)
				failures <- func() error { return errors.New("broken") }
				failures <- func() error { panic("broken") }
				done := make(chan struct{}, 100)
				run(t, tasks.Config{Redis: where, Ready: nothing, Claim: claims(t),
					Passes: []tasks.Pass{{Name: "reap", Every: tick, Run: func(context.Context) error {
						select {
						case fail := <-failures:
							return fail()
						default:
							done <- struct{}{}
							return nil
						}
					}}}})

				receive(t, done)
			})
		}
	})

	t.Run("WaitsForPostgreSQL", func(t *testing.T) {
		t.Parallel()

		claim := claims(t)
		refuse := make(chan struct{}, 3)
		for range 3 {
			refuse <- struct{}{}
		}
		ran := make(chan struct{}, 100)
		run(t, tasks.Config{Redis: nowhere, Ready: nothing, Passes: []tasks.Pass{
			{Name: "reap", Every: tick, Run: func(context.Context) error { ran <- struct{}{}; return nil }},
		}, Claim: func(ctx context.Context, name string, every time.Duration) (bool, time.Duration, error) {
			select {
			case <-refuse:
				return false, 0, errors.New("PostgreSQL is away")
			default:
				return claim(ctx, name, every)
			}
		}})

		receive(t, ran)
	})

	t.Run("DoesNotOverlapInAProcess", func(t *testing.T) {
		t.Parallel()

		begun, finish := make(chan struct{}, 100), make(chan struct{})
		claim, asked := claims(t), make(chan struct{}, 100)
		run(t, tasks.Config{
			Redis: database(t, 3), Ready: nothing,
			Claim: func(ctx context.Context, name string, every time.Duration) (bool, time.Duration, error) {
				if name == "slow" {
					asked <- struct{}{}
				}
				return claim(ctx, name, every)
			},
			Passes: []tasks.Pass{
				{Name: "slow", Every: tick, Run: func(context.Context) error { begun <- struct{}{}; <-finish; return nil }},
				{Name: "quick", Every: tick, Run: func(context.Context) error { begun <- struct{}{}; return nil }},
			},
		})
		receive(t, asked)
		for range 6 { // several periods, all but one of the quick pass
			receive(t, begun)
		}

		require.Empty(t, asked, "its periods are left to others")
		close(finish)
		receive(t, asked)
	})

	t.Run("MayFinishWhenTheProcessEnds", func(t *testing.T) {
		t.Parallel()

		begun, finish, finished := make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		claim := claims(t)
		go func() {
			ended <- tasks.Run(ctx, tasks.Config{Redis: database(t, 4), Ready: nothing, Claim: claim,
				Passes: []tasks.Pass{{Name: "slow", Every: time.Hour, Run: func(ctx context.Context) error {
					begun <- struct{}{}
					<-finish
					finished <- ctx.Err()
					return nil
				}}}})
		}()
		receive(t, begun)

		end()
		close(finish)

		require.NoError(t, receive(t, finished))
		require.NoError(t, receive(t, ended))
	})
}

// TestReconcile is about messages that asynq lists as active although no process works on
// them.
func TestReconcile(t *testing.T) {
	t.Parallel()

	opt := database(t, 10)
	client := opt.MakeRedisClient().(redis.UniversalClient)
	defer client.Close()
	publisher, inspector := newPublisher(t, opt), newInspector(t, opt)
	for _, id := range []string{"lost", "old", "worked-on", "evicted"} {
		require.NoError(t, publisher.Publish(t.Context(), message(t, change.JobReady{JobID: models.JobID(id), Version: 1, Lane: models.TierPro})))
		active := fmt.Sprintf("%s:1", id)
		require.NoError(t, client.LRem(t.Context(), "asynq:{pro}:pending", 0, active).Err())
		require.NoError(t, client.LPush(t.Context(), "asynq:{pro}:active", active).Err())
		require.NoError(t, client.HSet(t.Context(), "asynq:{pro}:t:"+active, "state", "active").Err())
	}
	lease := func(id string, until time.Time) {
		require.NoError(t, client.ZAdd(t.Context(), "asynq:{pro}:lease", redis.Z{Score: float64(until.Unix()), Member: id + ":1"}).Err())
	}
	lease("old", time.Now().Add(-time.Hour))
	lease("worked-on", time.Now().Add(-time.Minute)) // leased by a process whose clock is slow
	require.NoError(t, client.HDel(t.Context(), "asynq:{pro}:t:evicted:1", "msg").Err())

	require.NoError(t, publisher.Reconcile(t.Context()))

	active, err := client.LRange(t.Context(), "asynq:{pro}:active", 0, -1).Result()
	require.NoError(t, err)
	require.Equal(t, []string{"worked-on:1"}, active)
	pending, err := inspector.ListPendingTasks("pro")
	require.NoError(t, err)
	var ids []string
	for _, task := range pending {
		ids = append(ids, task.ID)
	}
	require.ElementsMatch(t, []string{"lost:1", "old:1"}, ids)
	handled := make(chan models.JobID, 3)
	run(t, tasks.Config{Redis: opt, Claim: never, Ready: func(_ context.Context, ids ...models.JobID) error { handled <- ids[0]; return nil }})
	require.ElementsMatch(t, []models.JobID{"lost", "old"}, []models.JobID{receive(t, handled), receive(t, handled)})
	require.NoError(t, publisher.Publish(t.Context(), message(t, change.JobReady{JobID: "evicted", Version: 1, Lane: models.TierPro})))
	require.Equal(t, models.JobID("evicted"), receive(t, handled), "its id is free again")
}
