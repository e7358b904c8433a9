package pass_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/pass"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// begin runs passes as a process does, until the test ends or stop is called.
func begin(t *testing.T, db *bun.DB, passes ...pass.Pass) (stop func()) {
	return follow(t, &pass.Agenda{DB: db, Notifications: jobstest.NewNotifications(), Passes: passes})
}

func follow(t *testing.T, agenda *pass.Agenda) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- agenda.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, testrun.Receive(t, "the end of the passes", ended))
	})
	t.Cleanup(stop)
	return stop
}

// telling is a pass without work of its own that tells of each run.
func telling(name string, every time.Duration) (pass.Pass, chan struct{}) {
	ran := make(chan struct{}, 100)
	return pass.Pass{Name: name, Every: every, Run: func(context.Context) (int, error) { ran <- struct{}{}; return 0, nil }}, ran
}

func receive(t *testing.T, from <-chan struct{}) {
	t.Helper()
	testrun.Receive(t, "a run", from)
}

func TestAgenda(t *testing.T) {
	t.Parallel()

	t.Run("RunsAPassOncePerPeriodInOneOfTheProcesses", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		const every = 2 * time.Second
		var mu sync.Mutex
		var periods []int64
		ran := make(chan struct{}, 100)
		count := pass.Pass{Name: "count", Every: every, Run: func(ctx context.Context) (int, error) {
			var period int64
			err := db.NewRaw("SELECT period FROM passes WHERE name = 'count'").Scan(ctx, &period)
			mu.Lock()
			defer mu.Unlock()
			periods = append(periods, period)
			ran <- struct{}{}
			return 0, err
		}}
		for range 3 {
			begin(t, db, count)
		}

		for range 3 {
			receive(t, ran)
		}

		mu.Lock()
		defer mu.Unlock()
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(periods))), len(periods), "%v", periods)
	})

	t.Run("RunsWhenThereIsWork", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		working, ran := telling("work", time.Hour)
		working.On = models.WorkQueue
		other, looked := telling("look", time.Second)
		begin(t, s.DB, working, other)
		receive(t, looked)
		receive(t, looked)
		require.Empty(t, ran, "there is nothing to do")

		s.Submit(t)

		receive(t, ran)
	})

	t.Run("RunsLessOftenWithoutWork", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		working, ran := telling("work", time.Hour)
		working.On, working.Rest = models.WorkQueue, 48*time.Hour
		begin(t, s.DB, working)
		receive(t, ran)

		s.Submit(t)

		receive(t, ran)
		var names []string
		require.NoError(t, s.DB.NewRaw("SELECT name FROM passes ORDER BY name").Scan(t.Context(), &names))
		require.Equal(t, []string{"work", "work at rest"}, names)
	})

	t.Run("RunsAgainInEachProcessAsLongAsThereIsWork", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		var want []models.JobID
		for range 5 {
			want = append(want, s.Submit(t).ID)
		}
		taken := make(chan models.JobID, len(want))
		for range 2 {
			begin(t, s.DB, pass.Pass{Name: "take", On: models.WorkOutbox, Run: func(ctx context.Context) (int, error) {
				messages, err := models.ClaimOutbox(ctx, s.DB, 1, time.Hour)
				for range messages {
					taken <- ""
				}
				return len(messages), err
			}})
		}

		for range want {
			testrun.Receive(t, "a message", taken)
		}
	})

	t.Run("RunsAgainAfterAFailure", func(t *testing.T) {
		t.Parallel()

		failures := make(chan func() error, 2)
		failures <- func() error { return errors.New("broken") }
		failures <- func() error { panic("broken") }
		done := make(chan struct{}, 100)
		begin(t, modelstest.DB(t), pass.Pass{Name: "reap", Every: time.Second, Run: func(context.Context) (int, error) {
			select {
			case fail := <-failures:
				return 0, fail()
			default:
				done <- struct{}{}
				return 0, nil
			}
		}})

		receive(t, done)
	})

	t.Run("WaitsForPostgreSQL", func(t *testing.T) {
		t.Parallel()

		dsn, proxy := modelstest.Proxied(t)
		db, done, err := postgres.Open(t.Context(), dsn, 4)
		require.NoError(t, err)
		t.Cleanup(done)
		proxy.Cut()
		reap, ran := telling("reap", time.Second)
		begin(t, db, reap)

		proxy.Heal()

		receive(t, ran)
	})

	t.Run("DoesNotOverlapInAProcess", func(t *testing.T) {
		t.Parallel()

		begun, finish := make(chan struct{}, 100), make(chan struct{})
		quick, ran := telling("quick", time.Second)
		begin(t, modelstest.DB(t), quick, pass.Pass{Name: "slow", Every: time.Second, Run: func(context.Context) (int, error) {
			begun <- struct{}{}
			<-finish
			return 0, nil
		}})
		receive(t, begun)
		for range 3 {
			receive(t, ran)
		}

		require.Empty(t, begun, "its periods are left to others")
		close(finish)
		receive(t, begun)
	})

	t.Run("LetsPassesFinishWhenTheProcessEnds", func(t *testing.T) {
		t.Parallel()

		begun, finish, finished := make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)
		stop := begin(t, modelstest.DB(t), pass.Pass{Name: "slow", Every: time.Hour, Run: func(ctx context.Context) (int, error) {
			begun <- struct{}{}
			<-finish
			finished <- ctx.Err()
			return 0, nil
		}})
		receive(t, begun)

		close(finish)
		stop()

		require.NoError(t, testrun.Receive(t, "its end", finished))
	})

	t.Run("QueuesAJobAtItsTimeInAnyProcess", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for range 2 {
			follow(t, &pass.Agenda{DB: s.DB, Notifications: s.Notifier.Notifications, Passes: []pass.Pass{
				{Name: "due", On: models.WorkDelayed, Run: s.Releaser.Due},
			}})
		}
		at := time.Now().Add(1200 * time.Millisecond)
		job := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.RunAt = &at })
		require.Equal(t, models.JobScheduled, job.Status)

		testrun.Eventually(t, "the job is queued", func() bool { return s.Reload(t, job.ID).Status == models.JobQueued })

		require.False(t, s.Reload(t, job.ID).QueuedAt.Before(job.RunAt), "not early")
	})

	t.Run("IsToldOfWorkThatIsDueBeforeItsNextLook", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		told := 0
		defer s.Notifier.Notifications.Subscribe(t.Context(), change.TopicDue, func() { told++ })()
		submit := func(ahead time.Duration) {
			jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.RunAt = new(time.Now().Add(ahead)) })
		}

		submit(time.Hour)
		require.Zero(t, told, "the next look is in time")
		submit(time.Second)
		require.Equal(t, 1, told)
	})
}
