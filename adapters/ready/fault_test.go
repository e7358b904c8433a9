package ready_test

import (
	"context"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/adapters/ready"
	"github.com/reelay/reelay/internal/faultproxy"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// broken is a stack with its own Redis, whose connection a test may break.
type broken struct {
	*jobstest.Stack
	server *localstack.Redis
	proxy  *faultproxy.Proxy
	direct redis.UniversalClient
}

func newBroken(t *testing.T) *broken {
	t.Helper()
	b := &broken{Stack: jobstest.New(t), server: ownRedis(t)}
	address, err := url.Parse(b.server.URL())
	require.NoError(t, err)
	b.proxy = faultproxy.New(t, "tcp", address.Host)
	address.Host = b.proxy.Addr()
	client := connectTo(t, address.String())
	b.Notifier.Index, b.Notifier.Notifications = ready.New(client, "test"), ready.NewNotifications(client, "test")
	b.direct = connect(t, b.server)
	testrun.Eventually(t, "the index is there", func() bool { return b.Readier.Sweep(t.Context()) == nil })
	return b
}

// restart replaces Redis by an empty one.
func (b *broken) restart(t *testing.T) {
	t.Helper()
	old, err := url.Parse(b.server.URL())
	require.NoError(t, err)
	b.server.Kill()
	b.server = ownRedis(t)
	address, err := url.Parse(b.server.URL())
	require.NoError(t, err)
	b.direct = connect(t, b.server)
	password, _ := old.User.Password()
	require.NoError(t, b.direct.ConfigSet(t.Context(), "requirepass", password).Err())
	b.proxy.Lead("tcp", address.Host)
}

// round submits a job and leases it, which must work at any time.
func (b *broken) round(t *testing.T) (submit, granted time.Duration) {
	t.Helper()
	worker := b.Worker(t, "one")
	begun := time.Now()
	job := b.Submit(t)
	submit = time.Since(begun)
	begun = time.Now()
	got, fence := b.Lease(t, worker)
	granted = time.Since(begun)
	require.Equal(t, job.ID, got.Job.ID)
	_, err := b.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailInvalidInput, Message: "enough"})
	require.NoError(t, err)
	return submit, granted
}

// requireIndexed fails the test unless leases use the index again within the promised time.
func (b *broken) requireIndexed(t *testing.T) {
	t.Helper()
	clock := testrun.StartQuietClock()
	testrun.Eventually(t, "leases flow from the index again", func() bool {
		_ = b.Readier.Mend(context.Background())
		_, err := b.Notifier.Index.First(context.Background(),
			[]models.Queue{{Line: models.Line{Lane: models.TierEnterprise}, Model: "testcard"}}, nil, 1)
		return err == nil
	})
	require.Less(t, clock.Elapsed(), 2*time.Second)
	b.round(t)
}

// TestFault breaks Redis in several ways: submits and leases continue from PostgreSQL, and
// soon after from the index again.
func TestFault(t *testing.T) {
	t.Parallel()

	faults := map[string]struct{ fault, mend func(*testing.T, *broken) }{
		"Flushed": {func(t *testing.T, b *broken) { require.NoError(t, b.direct.FlushAll(t.Context()).Err()) }, nil},
		"Killed": {
			func(_ *testing.T, b *broken) { b.server.Kill() },
			func(t *testing.T, b *broken) { b.restart(t) },
		},
		"RestartedEmpty": {func(t *testing.T, b *broken) { b.restart(t) }, nil},
		"OutOfMemory":    {setMemory("1", "noeviction"), setMemory("0", "noeviction")},
		"Evicting":       {setMemory("1", "allkeys-lru"), setMemory("0", "noeviction")},
		"ReadOnly": {
			func(t *testing.T, b *broken) {
				require.NoError(t, b.direct.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
			},
			func(t *testing.T, b *broken) { require.NoError(t, b.direct.ReplicaOf(t.Context(), "NO", "ONE").Err()) },
		},
		"Hanging": {
			func(_ *testing.T, b *broken) { b.proxy.Hang() },
			func(_ *testing.T, b *broken) { b.proxy.Heal() },
		},
		"Unreachable": {
			func(_ *testing.T, b *broken) { b.proxy.Cut() },
			func(_ *testing.T, b *broken) { b.proxy.Heal() },
		},
	}
	for name, c := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroken(t)
			b.round(t)

			c.fault(t, b)
			b.round(t)
			b.round(t)
			if c.mend != nil {
				c.mend(t, b)
			}

			b.requireIndexed(t)
			b.RequireInvariants(t)
		})
	}

	t.Run("DelaysFewCalls", func(t *testing.T) {
		t.Parallel()
		b := newBroken(t)
		b.proxy.Hang()

		clock := testrun.StartQuietClock()
		var took []time.Duration
		for range 50 {
			call := testrun.StartQuietClock()
			_, err := b.Notifier.Index.First(t.Context(), []models.Queue{{Line: models.Line{Lane: models.TierEnterprise}, Model: "testcard"}}, nil,
				1)
			require.ErrorIs(t, err, jobs.ErrIndexLost)
			took = append(took, call.Elapsed())
		}

		slices.Sort(took)
		require.Less(t, took[40], 20*time.Millisecond, "most calls do not wait at all")
		require.Less(t, clock.Elapsed(), 5*time.Second)
	})

	t.Run("EndsForSubscribersToo", func(t *testing.T) {
		t.Parallel()
		b := newBroken(t)
		ctx, end := context.WithCancel(t.Context())
		woken, ended := make(chan models.Queue, 100), make(chan error, 1)
		go func() { ended <- b.Notifier.Index.Wakes(ctx, func(q models.Queue, _ models.AccountID) { woken <- q }) }()
		var told atomic.Int32
		defer b.Notifier.Notifications.Subscribe(t.Context(), "job_1", func() { told.Add(1) })()

		b.restart(t)

		testrun.Eventually(t, "news and wakes come again", func() bool {
			b.Notifier.Notifications.Publish(t.Context(), "job_1")
			_ = b.Readier.Mend(t.Context())
			other := ready.New(b.direct, "test").Patient()
			_ = other.Add(t.Context(), job("other", models.TierPro, "other", 1, 1))
			return told.Load() > 0 && len(woken) > 0
		})
		end()
		require.NoError(t, receive(t, ended))
	})
}

func setMemory(limit, policy string) func(*testing.T, *broken) {
	return func(t *testing.T, b *broken) {
		require.NoError(t, b.direct.ConfigSet(t.Context(), "maxmemory-policy", policy).Err())
		require.NoError(t, b.direct.ConfigSet(t.Context(), "maxmemory", limit).Err())
	}
}
