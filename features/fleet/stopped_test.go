package fleet_test

import (
	"context"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// late is a provider whose creation begins when resume is closed.
type late struct {
	*jobstest.FakeProvider
	begun, resume, done chan struct{}
}

func (l late) Create(ctx context.Context, pool *capacity.Pool, request string, ids []string) []fleet.Created {
	close(l.begun)
	<-l.resume
	defer close(l.done)
	return l.FakeProvider.Create(ctx, pool, request, ids)
}

// TestScalerStopped stops a control process between the row of a worker and its machine, as SIGSTOP
// or a slow cloud does. Meanwhile, another process or an operator changes the pool.
func TestScalerStopped(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		meanwhile func(t *testing.T, s *jobstest.Stack, scaler *fleet.Scaler, pool *capacity.Pool)
		machines  int // that are left, of those that were made
	}{
		"AnotherProcessBootsTheWorker": {func(t *testing.T, s *jobstest.Stack, scaler *fleet.Scaler, pool *capacity.Pool) {
			require.NoError(t, scaler.Scale(t.Context()))
			require.Equal(t, 1, poolStatus(t, s, pool).Booting, "the machine may still come")
			s.Exec(t, "UPDATE workers SET created_at = created_at - interval '1 minute'")
			s.Exec(t, "UPDATE machines SET asked_at = asked_at - interval '1 minute'")
			require.NoError(t, scaler.Scale(t.Context()))
			require.Equal(t, 1, poolStatus(t, s, pool).Booting)
		}, 1},
		"AnOperatorLowersTheLimit": {func(t *testing.T, s *jobstest.Stack, _ *fleet.Scaler, pool *capacity.Pool) {
			edited := pool.PoolSpec
			edited.MinWorkers, edited.MaxWorkers = 0, 0
			_, err := s.Pools.Update(t.Context(), s.Admin, pool.ID, edited)
			require.NoError(t, err)
		}, 1}, // it registers, and is drained when it has been idle for long enough
		"AnOperatorDeletesThePool": {func(t *testing.T, s *jobstest.Stack, scaler *fleet.Scaler, pool *capacity.Pool) {
			_, err := s.Pools.Pause(t.Context(), s.Admin, pool.ID)
			require.NoError(t, err)
			require.NoError(t, scaler.Scale(t.Context()))
			require.NoError(t, s.Pools.Delete(t.Context(), s.Admin, pool.ID))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, scaler, provider, pool := scaled(t, 1, 1)
			slow := late{provider, make(chan struct{}), make(chan struct{}), make(chan struct{})}
			stopped := &fleet.Scaler{DB: s.DB, Notifier: s.Notifier, Providers: map[string]fleet.Provider{"fake": slow}}
			round := make(chan error, 1)
			go func() { round <- stopped.Scale(t.Context()) }()
			<-slow.begun

			c.meanwhile(t, s, scaler, pool)

			close(slow.resume)
			require.NoError(t, <-round)
			<-slow.done // a round does not wait for long
			provider.Created = time.Now().Add(-2 * time.Minute)
			s.Exec(t, "UPDATE workers SET ended_at = ended_at - interval '2 minutes'")
			require.NoError(t, scaler.Scale(t.Context()))
			require.Len(t, provider.Running, c.machines, "a machine without a worker is deleted")
			for _, w := range enrol(t, s, provider, pool) {
				require.Equal(t, models.WorkerIdle, jobstest.WorkerStatus(t, s, w.WorkerID))
			}
			s.Exec(t, "UPDATE workers SET idle_since = idle_since - interval '2 minutes' WHERE idle_since IS NOT NULL")
			require.NoError(t, scaler.Scale(t.Context()))
			draining := 0
			require.NoError(t, s.DB.NewRaw("SELECT count(*) FROM workers WHERE status = 'DRAINING'").Scan(t.Context(), &draining))
			require.Equal(t, name == "AnOperatorLowersTheLimit", draining == 1)
			s.RequireInvariants(t)
		})
	}
}
