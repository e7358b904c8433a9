package tasks_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/reelay/reelay/jobs/tasks"
)

// tick is how often the passes of these tests run.
const tick = 300 * time.Millisecond

func TestPass(t *testing.T) {
	t.Parallel()

	t.Run("RunsOnceATickInAllProcesses", func(t *testing.T) {
		t.Parallel()

		redis := database(t, 1)
		ran := make(chan time.Time, 100)
		pass := tasks.Pass{Name: "count", Every: tick, Run: func(context.Context) error {
			ran <- time.Now()
			return nil
		}}
		begun := time.Now()
		for range 3 {
			run(t, tasks.Config{Redis: redis, Ready: nothing, Passes: []tasks.Pass{pass}})
		}

		for runs := range 6 {
			ticks := int(receive(t, ran).Sub(begun)/tick) + 2 // the first and the last are cut short
			require.LessOrEqual(t, runs+1, ticks, "a tick must be run once")
		}
	})

	t.Run("RunsWithoutRedis", func(t *testing.T) {
		t.Parallel()

		ran := make(chan struct{})
		run(t, tasks.Config{
			Redis: asynq.RedisClientOpt{Addr: "127.0.0.1:1", DialTimeout: 100 * time.Millisecond}, Ready: nothing,
			Passes: []tasks.Pass{{Name: "reap", Every: tick, Run: func(ctx context.Context) error {
				select {
				case ran <- struct{}{}:
				case <-ctx.Done():
				}
				return nil
			}}},
		})

		receive(t, ran)
		receive(t, ran)
	})

	t.Run("RunsAgainAfterItFailed", func(t *testing.T) {
		t.Parallel()

		for name, where := range map[string]asynq.RedisConnOpt{
			"WithRedis":    database(t, 2),
			"WithoutRedis": asynq.RedisClientOpt{Addr: "127.0.0.1:1", DialTimeout: 100 * time.Millisecond},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()

				failures := make(chan func() error, 2)
				failures <- func() error { return errors.New("broken") }
				failures <- func() error { panic("broken") }
				done := make(chan struct{}, 100)
				run(t, tasks.Config{Redis: where, Ready: nothing, Passes: []tasks.Pass{{Name: "reap", Every: tick, Run: func(context.Context) error {
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

	t.Run("DoesNotOverlapInAProcess", func(t *testing.T) {
		t.Parallel()

		redis := database(t, 3)
		begun, finish := make(chan struct{}, 100), make(chan struct{})
		run(t, tasks.Config{Redis: redis, Ready: nothing, Passes: []tasks.Pass{{Name: "slow", Every: tick, Run: func(context.Context) error {
			begun <- struct{}{}
			<-finish
			return nil
		}}}})
		receive(t, begun)
		inspector := asynq.NewInspector(redis)
		defer inspector.Close()

		require.Eventually(t, func() bool {
			skipped, err := inspector.ListCompletedTasks("periodic")
			return err == nil && len(skipped) >= 2
		}, 30*time.Second, 10*time.Millisecond)

		require.Empty(t, begun)
		close(finish)
		receive(t, begun)
	})

	t.Run("MayFinishWhenTheProcessEnds", func(t *testing.T) {
		t.Parallel()

		begun, finish, finished := make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- tasks.Run(ctx, tasks.Config{Redis: database(t, 4), Ready: nothing, Passes: []tasks.Pass{{Name: "slow", Every: time.Hour, Run: func(ctx context.Context) error {
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
