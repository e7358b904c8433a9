package fleet_test

import (
	"context"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// rude is a provider whose machines end by themselves: exit moves those that run to the ended ones.
type rude struct {
	*jobstest.FakeProvider
	ended []fleet.Instance
}

func (r *rude) exit(cause string) {
	for _, id := range r.Running {
		r.ended = append(r.ended, fleet.Instance{ID: id, State: fleet.InstanceEnded, Cause: cause})
	}
	r.Running = nil
}

// fail makes the creation of all machines fail that the provider has accepted.
func (r *rude) fail(err error) {
	for _, id := range r.Running {
		r.ended = append(r.ended, fleet.Instance{ID: id, State: fleet.InstanceEnded, Err: err})
	}
	r.Running = nil
}

func (r *rude) List(ctx context.Context, pool *capacity.Pool) ([]fleet.Instance, error) {
	all, err := r.FakeProvider.List(ctx, pool)
	return append(all, r.ended...), err
}

// rudely returns a stack with a pool of 2 to 4 workers whose machines may end by themselves.
func rudely(t *testing.T) (*jobstest.Stack, *fleet.Scaler, *rude, *capacity.Pool) {
	s, scaler, provider, pool := scaled(t, 2, 4)
	r := &rude{FakeProvider: provider}
	scaler.Providers["fake"] = r
	return s, scaler, r, pool
}

// round runs a round of the scaler, and returns the pool afterwards.
func round(t *testing.T, s *jobstest.Stack, scaler *fleet.Scaler, pool *capacity.Pool) *query.PoolStatus {
	t.Helper()
	require.NoError(t, scaler.Scale(t.Context()))
	return poolStatus(t, s, pool)
}

// retry ends the pause of the pools.
func retry(t *testing.T, s *jobstest.Stack) {
	s.Exec(t, "UPDATE pools SET boot_retry_at = boot_retry_at - interval '1 hour', boot_paused_at = boot_paused_at - interval '1 hour', boot_failed_at = boot_failed_at - interval '1 hour'")
}

const lastLine = "its agent exited with status 1: reelay: the key is unknown or revoked"

func TestMachinesThatDoNotStart(t *testing.T) {
	t.Parallel()

	t.Run("PauseThePoolAndAreTriedOneAtATime", func(t *testing.T) {
		t.Parallel()
		s, scaler, provider, pool := rudely(t)
		job := s.Submit(t)
		var status *query.PoolStatus
		for range 6 {
			status = round(t, s, scaler, pool)
			provider.exit(lastLine)
		}

		require.Equal(t, 4, provider.Started, "two rounds of two, and no more")
		require.Equal(t, fleet.StateNotBooting, fleet.StateOf(status.Pool, time.Now()))
		require.Equal(t, []any{4, lastLine}, []any{status.BootFailures, status.BootFailure})
		require.WithinDuration(t, time.Now().Add(time.Minute), status.BootRetryAt, 10*time.Second)
		e, err := s.Pools.Explain(t.Context(), s.Admin, pool.ID)
		require.NoError(t, err)
		require.Contains(t, e.Reason, "4 machines in a row did not start ("+lastLine+"); next attempt at ")
		require.Zero(t, e.Boot)
		why, err := s.WaitingFor(t, job.ID)
		require.NoError(t, err)
		require.Equal(t, query.WaitNotBooting, why[job.ID][0].Code)
		require.Contains(t, why[job.ID][0].Message, "No suitable worker starts: 4 machines in a row failed to. The next attempt is at ")
		require.NotContains(t, why[job.ID][0].Message, "revoked", "the cause is for operators")
		require.Equal(t, lastLine, why[job.ID][0].Cause)
		require.Contains(t, query.CapacityOf(job.Lane, "testcard", []*query.PoolStatus{status}, capacity.Capacity{}, time.Now()).Cause,
			"the machines of fakes do not start ("+lastLine+")")

		var pauses []time.Duration
		for range 8 {
			retry(t, s)
			require.Equal(t, 1, round(t, s, scaler, pool).Booting, "a single machine is tried")
			require.Equal(t, 1, round(t, s, scaler, pool).Booting)
			provider.exit(lastLine)
			status = round(t, s, scaler, pool)
			pauses = append(pauses, status.BootRetryAt.Sub(status.BootPausedAt))
		}
		require.Equal(t, []time.Duration{2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour,
			time.Hour, time.Hour}, pauses)
		require.Equal(t, 12, provider.Started)
	})

	t.Run("AreForgottenWhenOneRegisters", func(t *testing.T) {
		t.Parallel()
		s, scaler, provider, pool := rudely(t)
		for range 3 {
			round(t, s, scaler, pool)
			provider.exit(lastLine)
		}
		retry(t, s)
		require.Equal(t, 1, round(t, s, scaler, pool).Booting)

		enrol(t, s, provider.FakeProvider, pool)

		status := poolStatus(t, s, pool)
		require.Equal(t, capacity.PoolBoots{}, status.PoolBoots)
		require.Equal(t, fleet.StateActive, fleet.StateOf(status.Pool, time.Now()))
		require.Equal(t, []int{1, 1}, []int{round(t, s, scaler, pool).Idle, poolStatus(t, s, pool).Booting}, "the pool grows to its minimum")
	})

	t.Run("AreTriedAtOnceAfterAResumeOrAChange", func(t *testing.T) {
		t.Parallel()
		s, scaler, provider, pool := rudely(t)
		for _, act := range []func() error{
			func() error { _, err := s.Pools.Resume(t.Context(), s.Admin, pool.ID); return err },
			func() error {
				spec := poolStatus(t, s, pool).PoolSpec
				spec.BootLimitSeconds++
				s.Pools.Checks["fake"] = nil
				_, err := s.Pools.Update(t.Context(), s.Admin, pool.ID, spec)
				return err
			},
		} {
			for range 3 {
				round(t, s, scaler, pool)
				provider.exit(lastLine)
			}
			require.True(t, round(t, s, scaler, pool).NotBooting())

			require.NoError(t, act())

			require.Equal(t, 2, round(t, s, scaler, pool).Booting)
			provider.exit(lastLine)
		}
	})

	t.Run("MayHaveRegistered", func(t *testing.T) {
		t.Parallel()
		s, scaler, provider, pool := rudely(t)
		for range 6 {
			round(t, s, scaler, pool)
			enrol(t, s, provider.FakeProvider, pool)
			provider.exit("its agent exited with status 2: panic: no GPU")
		}

		status := round(t, s, scaler, pool)
		require.True(t, status.NotBooting(), "each of them registered, and ended at once")
		require.LessOrEqual(t, provider.Started, 4)
		require.Contains(t, status.BootFailure, "no GPU")

		retry(t, s)
		round(t, s, scaler, pool)
		enrol(t, s, provider.FakeProvider, pool)
		require.True(t, round(t, s, scaler, pool).NotBooting(), "it has only registered so far")
		s.Exec(t, "UPDATE workers SET registered_at = registered_at - interval '2 minutes' WHERE ended_at IS NULL")
		s.Exec(t, "UPDATE pools SET boot_failed_at = boot_failed_at - interval '2 minutes'")
		require.False(t, round(t, s, scaler, pool).NotBooting(), "it has lived for a minute")
	})

	t.Run("MayHangForEver", func(t *testing.T) {
		t.Parallel()
		for name, end := range map[string]func(*jobstest.Stack, *fleet.Scaler) error{
			"the scaler sees it": func(_ *jobstest.Stack, scaler *fleet.Scaler) error { return scaler.Scale(t.Context()) },
			"the reaper sees it": func(s *jobstest.Stack, _ *fleet.Scaler) error { _, err := s.Reaper.Silent(t.Context()); return err },
		} {
			s, scaler, provider, pool := rudely(t)
			s.Exec(t, "UPDATE pools SET boot_limit_seconds = 20, min_workers = 4")
			round(t, s, scaler, pool)
			s.Exec(t, "UPDATE workers SET created_at = created_at - interval '30 seconds'")

			require.NoError(t, end(s, scaler), name)

			status := round(t, s, scaler, pool)
			require.True(t, status.NotBooting(), name)
			require.Equal(t, 1, status.BootPauses, "machines that boot at a time fail at a time")
			require.Contains(t, status.BootFailure, "its agent did not register within", name)
			require.Equal(t, 4, provider.Started, name)
		}
	})

	t.Run("SayWhyTheAPIRefusedThem", func(t *testing.T) {
		t.Parallel()
		s, scaler, provider, pool := rudely(t)
		round(t, s, scaler, pool)
		_, _, err := s.Registrar.Register(t.Context(), s.Enrolment, fleet.Registration{
			Provider: "fake", ProviderInstanceID: provider.Running[0], GPUCount: 65, PoolID: pool.ID, Region: "local", GPUType: "any",
			CapacityClass: models.CapacitySpot, Models: []string{"testcard"},
		})
		require.ErrorContains(t, err, "gpuCount must be from 1 to 64")
		provider.exit("its agent exited with status 1")

		status := round(t, s, scaler, pool)

		require.Equal(t, 2, status.BootFailures)
		var said int
		require.NoError(t, s.DB.NewRaw("SELECT count(*) FROM workers WHERE boot_failure = 'the API refused the registration: gpuCount must be from 1 to 64.'").Scan(t.Context(), &said))
		require.Equal(t, 1, said)
	})

	t.Run("CountByMachine", func(t *testing.T) {
		t.Parallel()
		s, scaler, provider, pool := rudely(t)
		s.Exec(t, "UPDATE pools SET workers_per_machine = 4, max_workers = 8, min_workers = 4")
		round(t, s, scaler, pool)
		provider.exit(lastLine)

		require.Equal(t, 1, round(t, s, scaler, pool).BootFailures)
	})

	t.Run("AreNotThoseThatWereTakenAway", func(t *testing.T) {
		t.Parallel()
		s, scaler, provider, pool := rudely(t)
		for range 3 {
			round(t, s, scaler, pool)
			for _, id := range append([]string{}, provider.Running...) {
				provider.Delete(t.Context(), pool, []fleet.Instance{{ID: id}})
			}
		}

		require.Zero(t, round(t, s, scaler, pool).BootFailures)
		require.Equal(t, 8, provider.Started)
	})

	t.Run("AreNotThoseOfAClosedPool", func(t *testing.T) {
		t.Parallel()
		s, scaler, provider, pool := rudely(t)
		round(t, s, scaler, pool)
		_, err := s.Pools.Pause(t.Context(), s.Admin, pool.ID)
		require.NoError(t, err)
		provider.exit("")

		require.Zero(t, round(t, s, scaler, pool).BootFailures)
	})

	t.Run("ShowInHealthAndTheHeatMap", func(t *testing.T) {
		t.Parallel()
		s, scaler, provider, pool := rudely(t)
		for range 3 {
			round(t, s, scaler, pool)
			provider.exit(lastLine)
		}

		health, err := s.Reads.History.Health(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, health.NotBootingPools)
		broken, err := capacity.ListNotBooting(t.Context(), s.DB)
		require.NoError(t, err)
		require.Equal(t, []any{"fakes", 4, lastLine}, []any{broken[0].Name, broken[0].Failures, broken[0].Failure})
		cells, err := s.Reads.History.HeatMap(t.Context(), s.Admin, 1)
		require.NoError(t, err)
		require.Equal(t, "Machines do not start", cells[0].Verdict.Cause)
	})
}

func TestCountBootFailure(t *testing.T) {
	t.Parallel()
	var b capacity.PoolBoots
	now := time.Now()
	for range 4 {
		lease.CountBootFailure(&b, now, now.Add(-time.Minute), "x", false)
	}
	require.Equal(t, []any{4, 1, time.Minute}, []any{b.BootFailures, b.BootPauses, b.BootRetryAt.Sub(now)})

	later := now.Add(2 * time.Minute)
	lease.CountBootFailure(&b, later, now.Add(-time.Second), "x", false)
	require.Equal(t, 1, b.BootPauses, "it was created before the pause, and failed late")
	lease.CountBootFailure(&b, later, now.Add(time.Minute), "x", false)
	require.Equal(t, []any{2, 2 * time.Minute}, []any{b.BootPauses, b.BootRetryAt.Sub(later)})
}
