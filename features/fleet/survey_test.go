package fleet_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// hanging is a provider that does not answer until its call is cancelled.
type hanging struct {
	fleet.Provider
	asked chan context.Context
	ended chan struct{}
}

func (h hanging) List(ctx context.Context, _ *capacity.Pool) ([]fleet.Instance, error) {
	h.asked <- ctx
	<-ctx.Done()
	h.ended <- struct{}{}
	return nil, ctx.Err()
}

// failing is a provider that cannot list or delete machines.
type failing struct {
	fleet.Provider
	list, delete error
}

func (f *failing) List(ctx context.Context, pool *capacity.Pool) ([]fleet.Instance, error) {
	if f.list != nil {
		return nil, f.list
	}
	return f.Provider.List(ctx, pool)
}

func (f *failing) Delete(ctx context.Context, pool *capacity.Pool, all []fleet.Instance) map[string]error {
	if f.delete == nil {
		return f.Provider.Delete(ctx, pool, all)
	}
	failed := map[string]error{}
	for _, i := range all {
		failed[i.ID] = f.delete
	}
	return failed
}

// distant is a provider whose machines are elsewhere.
type distant struct {
	*failing
	lists int
	ended []fleet.Instance // these are listed, too
}

func (*distant) CreateLimit() time.Duration { return 0 }

func (d *distant) List(ctx context.Context, pool *capacity.Pool) ([]fleet.Instance, error) {
	d.lists++
	all, err := d.failing.List(ctx, pool)
	return append(all, d.ended...), err
}

func TestSurvey(t *testing.T) {
	t.Parallel()

	t.Run("DeletesMachinesThatNoWorkerNeeds", func(t *testing.T) {
		t.Parallel()
		s, scaler, provider, pool := scaled(t, 2, 2)
		require.NoError(t, scaler.Scale(t.Context()))
		workers := enrol(t, s, provider, pool)
		gone, err := s.Reads.Fleet.Worker(t.Context(), workers[0].WorkerID)
		require.NoError(t, err)
		_, err = s.Registrar.Deregister(t.Context(), workers[0], workers[0].WorkerID)
		require.NoError(t, err)
		provider.Running = append(provider.Running, "fakes-orphan")
		s.Exec(t, "UPDATE pools SET min_workers = 1")

		require.NoError(t, scaler.Scale(t.Context()))
		require.Contains(t, provider.Running, gone.ProviderInstanceID, "its agent has a minute to exit by itself")
		s.Exec(t, "UPDATE workers SET ended_at = ended_at - interval '2 minutes'")
		require.NoError(t, scaler.Scale(t.Context()))
		require.Contains(t, provider.Running, "fakes-orphan", "nobody knows how old it is: it was seen first just now")
		provider.Created = time.Now().Add(-2 * time.Minute)
		require.NoError(t, scaler.Scale(t.Context()))

		require.NotContains(t, provider.Running, gone.ProviderInstanceID)
		require.NotContains(t, provider.Running, "fakes-orphan")
		require.Len(t, provider.Running, 1)
	})

	t.Run("GivesUpAWorkerThatHasBeenLostForLong", func(t *testing.T) {
		t.Parallel()
		s, scaler, provider, pool := scaled(t, 1, 1)
		require.NoError(t, scaler.Scale(t.Context()))
		enrol(t, s, provider, pool)
		machine := provider.Running[0]
		provider.Created = time.Now().Add(-time.Hour)
		s.Exec(t, "UPDATE workers SET status = 'LOST', idle_since = NULL, lost_at = now() - interval '9 minutes'")
		s.Exec(t, "UPDATE pools SET min_workers = 0")

		require.NoError(t, scaler.Scale(t.Context()))
		require.Zero(t, ended(t, s), "it may come back")
		s.Exec(t, "UPDATE workers SET lost_at = now() - interval '11 minutes'")
		require.NoError(t, scaler.Scale(t.Context()))
		require.Equal(t, 1, ended(t, s))
		s.Exec(t, "UPDATE workers SET ended_at = ended_at - interval '2 minutes'")
		require.NoError(t, scaler.Scale(t.Context()))

		require.False(t, slices.Contains(provider.Running, machine), "its machine is paid for")
	})

	t.Run("EndsAWorkerWhoseLastSignOfLifeWasWrittenLate", func(t *testing.T) {
		t.Parallel()
		s, _, provider, pool := scaled(t, 1, 1)
		cloud := &distant{failing: &failing{Provider: provider}}
		scaler := &fleet.Scaler{DB: s.DB, Notifier: s.Notifier, Providers: map[string]fleet.Provider{"fake": cloud}}
		after := func(seconds int) int {
			age(t, s, scaler, time.Duration(seconds)*time.Second)
			require.NoError(t, scaler.Scale(t.Context()))
			return ended(t, s)
		}
		require.NoError(t, scaler.Scale(t.Context()))
		enrol(t, s, provider, pool)
		machine := provider.Running[0]
		require.Zero(t, after(10))
		s.Exec(t, "UPDATE pools SET min_workers = 0, idle_seconds = 3600")
		provider.Running = nil
		require.Zero(t, after(10))
		s.Exec(t, "UPDATE workers SET last_heartbeat_at = clock_timestamp()")

		require.Zero(t, after(20), "it has spoken since")
		s.Exec(t, "UPDATE workers SET status = 'LOST', idle_since = NULL, lost_at = now()")
		require.Equal(t, 1, after(15), machine)
	})

	t.Run("RemembersWhatWasTakenAway", func(t *testing.T) {
		t.Parallel()
		s, _, provider, pool := scaled(t, 1, 1)
		cloud := &distant{failing: &failing{Provider: provider}}
		scaler := &fleet.Scaler{DB: s.DB, Notifier: s.Notifier, Providers: map[string]fleet.Provider{"fake": cloud}}
		require.NoError(t, scaler.Scale(t.Context()))
		worker := enrol(t, s, provider, pool)[0]
		s.Exec(t, "UPDATE pools SET min_workers = 0, idle_seconds = 3600")
		job := s.Submit(t)
		s.Lease(t, worker)
		cloud.ended = []fleet.Instance{{ID: provider.Running[0], State: fleet.InstanceEnded, Reclaimed: true}}
		provider.Running = nil
		require.NoError(t, scaler.Scale(t.Context()))
		require.Zero(t, ended(t, s), "its agent may still finish")
		cloud.ended = nil // a provider can say it once

		testrun.Eventually(t, "the worker ends", func() bool {
			age(t, s, scaler, 20*time.Second)
			require.NoError(t, scaler.Scale(t.Context()))
			return ended(t, s) == 1
		})

		require.Zero(t, s.Reload(t, job.ID).Crashes, "a machine that was taken away says nothing of the job")
		require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)
	})

	t.Run("SaysWhyAProviderFails", func(t *testing.T) {
		t.Parallel()
		s, _, provider, pool := scaled(t, 1, 2)
		broken := &failing{Provider: provider, list: errors.New("no such file"), delete: errors.New("it may not be deleted")}
		scaler := &fleet.Scaler{DB: s.DB, Notifier: s.Notifier, Providers: map[string]fleet.Provider{"fake": broken}}
		read := func() *query.PoolStatus {
			found, err := s.Reads.Fleet.Pool(t.Context(), pool.ID)
			require.NoError(t, err)
			return found
		}

		require.ErrorContains(t, scaler.Scale(t.Context()), "no such file")
		require.Equal(t, "list its machines: no such file", read().ProviderProblem)
		require.NotZero(t, read().ProviderProblemSince)
		explained, err := s.Pools.Explain(t.Context(), s.Admin, pool.ID)
		require.NoError(t, err)
		require.Contains(t, explained.Reason, "nothing is changed, because its provider fails: list its machines: no such file.")
		require.Zero(t, explained.Boot)

		broken.list, provider.Running, provider.Created = nil, []string{"fakes-orphan"}, time.Now().Add(-time.Hour)
		require.ErrorContains(t, scaler.Scale(t.Context()), "may not be deleted")
		require.Equal(t, "delete the machine fakes-orphan: it may not be deleted", read().ProviderProblem)

		broken.delete = nil
		require.NoError(t, scaler.Scale(t.Context()))
		require.Empty(t, read().ProviderProblem)
		require.Zero(t, read().ProviderProblemSince)
	})

	t.Run("AsksARemoteProviderNowAndThen", func(t *testing.T) {
		t.Parallel()
		s, _, fake, pool := scaled(t, 1, 2)
		provider := &distant{failing: &failing{Provider: fake}}
		scaler := &fleet.Scaler{DB: s.DB, Notifier: s.Notifier, Providers: map[string]fleet.Provider{"fake": provider}}
		// rounds scales several times, as if so much time had passed since the provider was asked.
		rounds := func(since time.Duration) int {
			before := provider.lists
			for range 3 {
				fleet.SetAsked(scaler, pool.ID, time.Now().Add(-since))
				_ = scaler.Scale(t.Context())
			}
			return provider.lists - before
		}

		require.Equal(t, 2, rounds(-time.Hour), "at first, and after machines were created")
		require.Equal(t, 1, fake.Started)
		s.Exec(t, "UPDATE pools SET min_workers = 2")
		require.Equal(t, 1, rounds(-time.Hour), "pools are scaled meanwhile")
		require.Equal(t, 2, fake.Started)
		s.Exec(t, "UPDATE workers SET created_at = created_at - interval '1 minute'")
		s.Exec(t, "UPDATE machines SET created_at = created_at - interval '1 hour', asked_at = asked_at - interval '1 hour'")
		fake.Running = fake.Running[:1]
		require.Zero(t, rounds(-time.Hour))
		require.Zero(t, ended(t, s))
		require.Equal(t, 3, rounds(5*time.Second))
		require.Zero(t, ended(t, s), "a list may lack a machine for a moment")
		s.Exec(t, "UPDATE machines SET missing_at = missing_at - interval '20 seconds'")
		require.Equal(t, 3, rounds(5*time.Second))
		require.Equal(t, 1, ended(t, s), "its machine is gone")

		require.Zero(t, rounds(-time.Hour))
		s.Exec(t, "UPDATE pools SET paused_at = now()")
		require.Equal(t, 2, rounds(-time.Hour), "what boots ends at once, and is gone then")
		require.Equal(t, 3, ended(t, s))
		provider.list = errors.New("no such file")
		require.Equal(t, 3, rounds(5*time.Second), "until it answers")
	})

	t.Run("ScalesOtherPoolsWhileAProviderHangs", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		good, hung := jobstest.NewFakeProvider(), hanging{asked: make(chan context.Context, 9), ended: make(chan struct{}, 9)}
		scaler := &fleet.Scaler{DB: s.DB, Notifier: s.Notifier, Providers: map[string]fleet.Provider{"fake": good, "hung": hung}}
		jobstest.AddPool(t, s, 1, 1)
		s.Exec(t, `INSERT INTO pools (id, name, provider, region, gpu_type, capacity_class, models, min_workers, max_workers)
			SELECT gen_random_uuid(), 'hung', 'hung', region, gpu_type, capacity_class, models, 1, 1 FROM pools`)

		// The survey waits for all providers, up to a limit.
		round, end := context.WithCancel(t.Context())
		require.NoError(t, scaler.Scale(round))
		end()

		call := <-hung.asked
		require.NoError(t, call.Err(), "the call outlives its round")
		require.Equal(t, 1, good.Started)
		require.NoError(t, scaler.Scale(t.Context()))
		require.Empty(t, hung.asked, "one call to it runs at a time")
		require.Empty(t, hung.ended)

		scaler.Stop()

		require.Len(t, hung.ended, 1, "the end of the process waits for the call that it cancels")
		require.NoError(t, scaler.Scale(t.Context()))
		require.Empty(t, hung.asked, "no call starts after it")
	})
}

func TestClosedPools(t *testing.T) {
	t.Parallel()

	t.Run("EndWhatBootsAndDrainWhatIsIdle", func(t *testing.T) {
		t.Parallel()

		for name, close := range map[string]string{
			"paused":        "UPDATE pools SET paused_at = now()",
			"outside hours": "UPDATE pools SET active_hours = '0 0 30 2 * for 1h'", // February 30
		} {
			s, scaler, provider, pool := scaled(t, 1, 4)
			require.NoError(t, scaler.Scale(t.Context()))
			enrol(t, s, provider, pool)
			s.Exec(t, "UPDATE pools SET min_workers = 2")
			require.NoError(t, scaler.Scale(t.Context()))
			require.Equal(t, []int{1, 1}, []int{poolStatus(t, s, pool).Booting, poolStatus(t, s, pool).Idle}, name)
			s.Exec(t, close)
			s.Submit(t)

			require.NoError(t, scaler.Scale(t.Context()))

			status := poolStatus(t, s, pool)
			require.Equal(t, []int{0, 0, 1}, []int{status.Booting, status.Idle, status.Draining}, name)
			require.Equal(t, 2, provider.Started, name)
		}
	})

	t.Run("SayThatTheyAre", func(t *testing.T) {
		t.Parallel()
		s, _, _, pool := scaled(t, 0, 4)
		job := s.Submit(t)
		_, err := s.Pools.Pause(t.Context(), s.Admin, pool.ID)
		require.NoError(t, err)

		reasons, err := s.WaitingFor(t, job.ID)

		require.NoError(t, err)
		require.Equal(t, "POOL_PAUSED", string(reasons[job.ID][0].Code))
		require.Equal(t, "The pools that can run it are paused.", reasons[job.ID][0].Message)
	})
}

func TestWarmWorkers(t *testing.T) {
	t.Parallel()

	t.Run("AreKeptBeyondWhatTheJobsNeed", func(t *testing.T) {
		t.Parallel()
		s, scaler, provider, pool := scaled(t, 0, 9)
		s.Exec(t, "UPDATE pools SET warm_workers = 2")
		jobstest.SubmitAs(t, s, s.Admin, nil) // CRITICAL: it needs a worker at once

		require.NoError(t, scaler.Scale(t.Context()))

		require.Equal(t, 3, provider.Started)
		require.Equal(t, "1 waiting job needs 1 worker; 2 more kept warm.", scalingHistory(t, s, pool, 1)[0].Reason)
	})
}

// ended returns how many workers have ended.
func ended(t *testing.T, s *jobstest.Stack) (n int) {
	t.Helper()
	require.NoError(t, s.DB.NewRaw("SELECT count(*) FROM workers WHERE ended_at IS NOT NULL").Scan(t.Context(), &n))
	return n
}

// unwilling is a provider that cannot preempt, for a reason.
type unwilling struct {
	*jobstest.FakeProvider
	reason error
}

func (u unwilling) Preempt(context.Context, *capacity.Pool, fleet.Instance, time.Duration) error {
	return u.reason
}

func TestPreemptWorker(t *testing.T) {
	t.Parallel()
	s, scaler, provider, pool := scaled(t, 1, 1)
	require.NoError(t, scaler.Scale(t.Context()))
	worker := enrol(t, s, provider, pool)[0]
	s.Fleet.Providers["fake"] = unwilling{provider, fleet.Refuse(fleet.Invalid, "the program knows no such verb")}
	_, refused := s.Fleet.PreemptWorker(t.Context(), s.Admin, worker.WorkerID, 0)
	s.Fleet.Providers["fake"] = unwilling{provider, fleet.ErrNoInstance}
	_, left := s.Fleet.PreemptWorker(t.Context(), s.Admin, worker.WorkerID, 0)

	jobstest.RequireCode(t, refused, apierror.CodeConflict)
	require.ErrorContains(t, refused, "could not preempt its machine: the program knows no such verb.")
	require.NoError(t, left, "a fast agent has left before the provider was asked")
}

func TestRefusals(t *testing.T) {
	t.Parallel()

	t.Run("KeepThePoolFromAskingAgainUntilItsPauseEndsOrItChanges", func(t *testing.T) {
		t.Parallel()
		s, scaler, provider, pool := scaled(t, 3, 3)
		provider.Refuse = fleet.Refuse(fleet.Stockout, "there is no such machine in this zone")

		err := scaler.Scale(t.Context())
		require.ErrorContains(t, err, "there is no such machine in this zone (STOCKOUT, 3 machines)")
		require.NoError(t, scaler.Scale(t.Context()), "it does not ask")
		require.Len(t, scalingHistory(t, s, pool, 10), 1)
		s.Exec(t, "UPDATE pools SET backoff_until = now()")
		require.Error(t, scaler.Scale(t.Context()))
		status := poolStatus(t, s, pool)
		require.Equal(t, 2, status.Refusals)
		var seconds float64
		require.NoError(t, s.DB.NewRaw("SELECT extract(epoch FROM backoff_until - now()) FROM pools").Scan(t.Context(), &seconds))
		require.InDelta(t, 120, seconds, 20, "twice a minute")
		require.Equal(t, "STOCKOUT", status.BackoffClass)

		_, err = s.Pools.Update(t.Context(), s.Admin, pool.ID, pool.PoolSpec)
		require.NoError(t, err)
		provider.Refuse = nil
		require.NoError(t, scaler.Scale(t.Context()))

		require.Equal(t, 3, provider.Started)
		require.Zero(t, poolStatus(t, s, pool).Refusals)
	})

	t.Run("GrowEvenIfTheProviderAcceptsTheCreationFirst", func(t *testing.T) {
		t.Parallel()
		s, scaler, r, pool := rudely(t)
		full := fleet.Refuse(fleet.Stockout, "there is no such machine in this zone")
		var pauses []float64
		for range 4 {
			require.NoError(t, scaler.Scale(t.Context()), "the provider accepts")
			require.True(t, poolStatus(t, s, pool).BackoffUntil.IsZero())
			r.fail(full)
			s.Exec(t, "UPDATE workers SET created_at = created_at - interval '1 hour'") // it says so only later
			s.Exec(t, "UPDATE pools SET refused_at = refused_at - interval '1 hour'")
			require.NoError(t, scaler.Scale(t.Context()))
			var seconds float64
			require.NoError(t, s.DB.NewRaw("SELECT round(extract(epoch FROM backoff_until - now()) / 60) FROM pools").Scan(t.Context(), &seconds))
			pauses = append(pauses, seconds)
			s.Exec(t, "UPDATE pools SET backoff_until = now()")
		}
		require.Equal(t, []float64{1, 2, 4, 8}, pauses, "minutes")
		require.Equal(t, 4, poolStatus(t, s, pool).Refusals)

		require.NoError(t, scaler.Scale(t.Context()))
		require.Equal(t, 4, poolStatus(t, s, pool).Refusals, "none has started")
		enrol(t, s, r.FakeProvider, pool)

		require.Zero(t, poolStatus(t, s, pool).Refusals, "a machine has started")
	})
}

func TestAnswersInParts(t *testing.T) {
	t.Parallel()

	// tried ends the pause of the pool, runs a round, and returns how many machines it has started.
	tried := func(t *testing.T, s *jobstest.Stack, scaler *fleet.Scaler, provider *jobstest.FakeProvider) int {
		t.Helper()
		s.Exec(t, "UPDATE pools SET backoff_until = now() WHERE backoff_until IS NOT NULL")
		before := provider.Started
		require.NoError(t, scaler.Scale(t.Context()))
		return provider.Started - before
	}

	t.Run("AreNoRefusalAndThenOneMachineIsTried", func(t *testing.T) {
		t.Parallel()
		s, scaler, provider, pool := scaled(t, 12, 40)
		provider.Room = 5

		require.NoError(t, scaler.Scale(t.Context()), "it is no error")
		require.NoError(t, scaler.Scale(t.Context()), "it does not ask again")

		status := poolStatus(t, s, pool)
		require.Equal(t, 5, status.Booting)
		require.Zero(t, status.Refusals)
		require.True(t, status.Partly())
		var seconds float64
		require.NoError(t, s.DB.NewRaw("SELECT extract(epoch FROM backoff_until - now()) FROM pools").Scan(t.Context(), &seconds))
		require.InDelta(t, 60, seconds, 20)
		explained, err := s.Pools.Explain(t.Context(), s.Admin, pool.ID)
		require.NoError(t, err)
		require.Contains(t, explained.Reason, "the provider had only some of the machines (STOCKOUT); one more is tried at")

		require.NoError(t, s.DB.NewRaw("UPDATE pools SET backoff_until = now() RETURNING 1").Scan(t.Context(), new(int)))
		require.ErrorContains(t, scaler.Scale(t.Context()), "1 machine", "it asks for one")
		require.Equal(t, 1, poolStatus(t, s, pool).Refusals, "of which it got none")
	})

	t.Run("LetThePoolGrowByTwiceAsManyEachTime", func(t *testing.T) {
		t.Parallel()
		s, scaler, provider, pool := scaled(t, 30, 30)
		bootedBefore(t, s, pool)
		provider.Room = 4
		require.NoError(t, scaler.Scale(t.Context()))
		provider.Room = 1000

		var grown []int
		for range 6 {
			grown = append(grown, tried(t, s, scaler, provider))
		}

		require.Equal(t, []int{1, 2, 4, 8, 11, 0}, grown)
		require.Zero(t, poolStatus(t, s, pool).GrowBy, "the whole pool is within reach")
	})

	t.Run("BeginAgainWithOneMachineAfterARefusal", func(t *testing.T) {
		t.Parallel()
		s, scaler, provider, pool := scaled(t, 30, 30)
		provider.Room = 4
		require.NoError(t, scaler.Scale(t.Context()))
		provider.Room = 6
		require.Equal(t, 1, tried(t, s, scaler, provider))
		require.Equal(t, 1, tried(t, s, scaler, provider), "of two")
		require.Equal(t, 1, poolStatus(t, s, pool).GrowBy)
		require.Zero(t, poolStatus(t, s, pool).Refusals)
	})

	t.Run("CountOnceIfTheProviderSaysItInSeveralLists", func(t *testing.T) {
		t.Parallel()
		s, scaler, r, pool := rudely(t)
		full := fleet.Refuse(fleet.Stockout, "there is no such machine in this zone")
		require.NoError(t, scaler.Scale(t.Context()))
		first := r.Running[:1:1]
		rest := r.Running[1:]
		r.Running = first
		r.fail(full)
		r.Running = rest
		s.Exec(t, "UPDATE workers SET created_at = created_at - interval '1 minute'")
		require.NoError(t, scaler.Scale(t.Context()))
		require.Zero(t, poolStatus(t, s, pool).Refusals, "the other machine boots")
		require.Equal(t, 1, poolStatus(t, s, pool).GrowBy)
		until := poolStatus(t, s, pool).BackoffUntil

		r.fail(full)
		require.NoError(t, scaler.Scale(t.Context()))

		require.Zero(t, poolStatus(t, s, pool).Booting)
		require.Zero(t, poolStatus(t, s, pool).Refusals)
		require.Equal(t, until, poolStatus(t, s, pool).BackoffUntil)
	})

	t.Run("LeaveNoLimitOnceAnOperatorResumesThePool", func(t *testing.T) {
		t.Parallel()
		s, scaler, provider, pool := scaled(t, 12, 40)
		bootedBefore(t, s, pool)
		provider.Room = 5
		require.NoError(t, scaler.Scale(t.Context()))
		provider.Room = 0

		_, err := s.Pools.Resume(t.Context(), s.Admin, pool.ID)
		require.NoError(t, err)
		require.NoError(t, scaler.Scale(t.Context()))

		require.Equal(t, 12, provider.Started)
	})
}

// bootedBefore records that a worker of a pool has booted and left.
func bootedBefore(t *testing.T, s *jobstest.Stack, pool *capacity.Pool) {
	t.Helper()
	s.Exec(t, `INSERT INTO workers (id, pool_id, provider, provider_instance_id, status, gpu_type, region, capacity_class, models,
			created_at, registered_at, ended_at, drain_reason, last_heartbeat_at)
		SELECT gen_random_uuid(), id, provider, 'before', 'TERMINATED', gpu_type, region, capacity_class, models,
			now() - interval '1 h', now() - interval '59 min', now() - interval '50 min', ?, now() - interval '50 min' FROM pools WHERE id = ?`,
		models.LeavesFewer, pool.ID)
}
