package schedule_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/reelay/reelay/models/schedules"
	"github.com/samber/lo"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// every slot of the tests' schedules of an outage is so far from the next.
const step = 10 * time.Minute

// createAll creates schedules of the client and of its key, concurrently.
func (r rig) createAll(t *testing.T, all []schedule.Input) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(8)
	for _, in := range all {
		group.Go(func() error {
			_, err := r.schedules.Create(t.Context(), r.Client, in)
			return err
		})
	}
	require.NoError(t, group.Wait())
}

func every(name string, tier models.Tier, catchUp schedules.CatchUp) schedule.Input {
	return schedule.Input{
		Name: name, EverySeconds: int(step.Seconds()), CatchUp: catchUp,
		Request: schedule.Request{Job: &submit.Submission{Model: "testcard", Prompt: "fog", Tier: tier, Params: json.RawMessage(`{"seed": 7}`)}},
	}
}

// twice lets two runners do something at once.
func (r rig) twice(t *testing.T, do func(*schedule.Runner, context.Context) (int, error)) {
	t.Helper()
	var both sync.WaitGroup
	for _, runner := range []*schedule.Runner{r.runner, newRunner(r.Stack, r.AnotherSubmitter())} {
		both.Go(func() {
			if _, err := do(runner, t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
}

// outcome is a slot of a test's schedule, with the schedule's name.
type outcome struct {
	schedules.Slot `bun:",extend"`
	CatchUp        schedules.CatchUp `bun:"catch_up"`
}

func (r rig) outcomes(t *testing.T) (all []outcome) {
	t.Helper()
	require.NoError(t, r.DB.NewRaw("SELECT sl.*, sc.catch_up FROM schedule_slots sl JOIN schedules sc ON sc.id = sl.schedule_id ORDER BY sl.slot").Scan(t.Context(), &all))
	return all
}

func TestOutage(t *testing.T) {
	t.Parallel()

	t.Run("OfHoursEndsWithOneJobOfEachScheduleSpreadAndByTier", func(t *testing.T) {
		t.Parallel()

		const each, slots = 100, 24
		r := newRig(t)
		_, err := r.Accounts.Update(t.Context(), r.Admin, r.Account.ID, auth.AccountInput{Tier: lo.ToPtr(models.TierCritical)})
		require.NoError(t, err)
		var inputs []schedule.Input
		for _, tier := range models.Tiers {
			for n := range each {
				inputs = append(inputs, every(fmt.Sprint(tier, n), tier, schedules.CatchUpCoalesce))
			}
		}
		for n := range 5 {
			inputs = append(inputs, every(fmt.Sprint("skip ", n), models.TierPro, schedules.CatchUpSkip),
				every(fmt.Sprint("all ", n), models.TierPro, schedules.CatchUpAll))
		}
		r.createAll(t, inputs)
		// Nothing ran for four hours and a minute, so that no slot is on time.
		r.Exec(t, `UPDATE schedules SET created_at = created_at - ?0::interval, decided_until = decided_until - ?0::interval,
			next_slot = next_slot - ?0::interval, next_fire_at = next_fire_at - ?0::interval`, "4 hours 1 minute")

		r.twice(t, (*schedule.Runner).Decide)

		fires := map[models.Tier][]time.Time{}
		for _, o := range r.outcomes(t) {
			if o.State == schedules.SlotPending {
				require.Equal(t, schedules.SlotCatchUp, o.Cause)
				fires[o.Tier] = append(fires[o.Tier], o.DueAt)
			}
		}
		for _, tier := range models.Tiers {
			perSecond := lo.CountValuesBy(fires[tier], func(at time.Time) int64 { return at.Unix() })
			require.GreaterOrEqual(t, len(perSecond), 8, "%s is spread over ten seconds", tier)
			require.Less(t, slices.Max(lo.Values(perSecond)), len(fires[tier])/3, "%s", tier)
		}

		// Ten seconds pass at a time, until all have fired.
		for left := true; left; {
			r.twice(t, (*schedule.Runner).Fire)
			fired, waiting := -1, len(models.Tiers)
			for _, o := range r.outcomes(t) {
				switch rank := slices.Index(models.Tiers, o.Tier); o.State {
				case schedules.SlotFired:
					fired = max(fired, rank)
				case schedules.SlotPending:
					waiting = min(waiting, rank)
				}
			}
			require.LessOrEqual(t, fired, waiting, "a lower tier fired before a higher one")
			left = waiting < len(models.Tiers)
			r.Exec(t, "UPDATE schedule_slots SET due_at = due_at - interval '10 s' WHERE due_at IS NOT NULL")
		}

		jobsOf := map[models.JobID]bool{}
		by := lo.GroupBy(r.outcomes(t), func(o outcome) models.ScheduleID { return o.ScheduleID })
		require.Len(t, by, len(inputs))
		for _, outcomes := range by {
			fired := lo.Filter(outcomes, func(o outcome, _ int) bool { return o.State == schedules.SlotFired })
			want := map[schedules.CatchUp]int{schedules.CatchUpCoalesce: 1, schedules.CatchUpSkip: 0,
				schedules.CatchUpAll: slots}[outcomes[0].CatchUp]
			require.Len(t, fired, want, "%+v", outcomes)
			for _, o := range fired {
				require.False(t, jobsOf[o.JobID], "a job of two slots")
				jobsOf[o.JobID] = true
			}
			if want < slots {
				require.Equal(t, schedules.SlotSkipped, outcomes[0].State)
				require.Contains(t, outcomes[0].Reason, "no control process decided on it in time")
			}
		}
		require.Equal(t, len(models.Tiers)*each+5*slots, len(jobsOf))
		require.Equal(t, len(jobsOf), r.Count(t, "jobs"))
	})

	// PostgreSQL's clock is hours away from the processes', and steps, as after a failover to a
	// standby whose clock differs.
	t.Run("OfAClockLosesAndRepeatsNoSlot", func(t *testing.T) {
		t.Parallel()

		clock := modelstest.NewClock(t, modelstest.DSN(t))
		clock.Set(t, 240*time.Hour)
		db, done, err := postgres.Open(t.Context(), clock.DSN, 8)
		require.NoError(t, err)
		t.Cleanup(done)
		s := jobstest.Over(t, db)
		r := rig{s, &schedule.Schedules{Runner: *newRunner(s, s.Submitter)}, newRunner(s, s.Submitter)}
		one := r.create(t, every("news", models.TierPro, schedules.CatchUpAll))
		require.WithinDuration(t, time.Now().Add(240*time.Hour), one.CreatedAt, time.Hour, "the processes' clock counts for nothing")

		for _, ahead := range []time.Duration{241, 240, 243, 242, 244} {
			clock.Set(t, ahead*time.Hour)
			r.twice(t, (*schedule.Runner).Decide)
			r.soon(t)
			r.twice(t, (*schedule.Runner).Fire)
		}

		slots := r.slots(t, one)
		require.Len(t, slots, int(4*time.Hour/step))
		require.Equal(t, len(slots), r.Count(t, "jobs"))
		for n, slot := range slots {
			require.Equal(t, schedules.SlotFired, slot.State, slot.Reason)
			require.Equal(t, one.CreatedAt.Truncate(time.Second).Add(time.Duration(len(slots)-n)*step), slot.At)
		}
	})
}

func TestDecide(t *testing.T) {
	t.Parallel()

	t.Run("FiresNothingTwiceIfItsProcessIsKilledBeforeItsCommit", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		in := hourly("news")
		in.CatchUp = schedules.CatchUpAll
		r.age(t, r.create(t, in), 4*time.Hour)
		r.Exec(t, "CREATE FUNCTION killed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'killed'; END $$")
		r.Exec(t, "CREATE TRIGGER kill BEFORE UPDATE ON schedules FOR EACH ROW EXECUTE FUNCTION killed()")
		_, err := r.runner.Decide(t.Context())
		require.ErrorContains(t, err, "killed")

		r.Exec(t, "DROP TRIGGER kill ON schedules")
		r.pass(t)

		require.Equal(t, 4, r.Count(t, "jobs"))
	})
}

func TestFire(t *testing.T) {
	t.Parallel()

	t.Run("IsNotHeldUpByASlotThatFails", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		for n := range 40 {
			r.age(t, r.create(t, hourly(fmt.Sprint("news ", n))), time.Hour)
		}
		r.Exec(t, "UPDATE schedules SET ciphertext = 'broken' WHERE name IN ('news 0', 'news 1')")
		_, err := r.runner.Decide(t.Context())
		require.NoError(t, err)
		r.soon(t)

		fired, err := r.runner.Fire(t.Context())

		require.ErrorContains(t, err, "decrypt")
		require.Equal(t, 38, fired)
	})

	// The slots of an outage are due in any order. Their jobs would run beside each other.
	t.Run("KeepsTheRuleForOverlapsAmongSlotsThatAreLate", func(t *testing.T) {
		t.Parallel()

		for overlap, open := range map[schedules.RunOverlap]int{schedules.RunOverlapSkip: 1, schedules.RunOverlapCancel: 1,
			schedules.RunOverlapAllow: 4} {
			r := newRig(t)
			in := hourly("news")
			in.CatchUp, in.Overlap = schedules.CatchUpAll, overlap
			s := r.create(t, in)
			r.age(t, s, 4*time.Hour)
			r.twice(t, (*schedule.Runner).Decide)
			require.Len(t, r.slots(t, s), 4)

			for pending := true; pending; {
				r.soon(t)
				r.twice(t, (*schedule.Runner).Fire)
				pending = slices.ContainsFunc(r.slots(t, s), func(slot *schedules.Slot) bool { return slot.State == schedules.SlotPending })
			}

			n, err := r.DB.NewSelect().Table("jobs").Where("status = 'QUEUED'").Count(t.Context())
			require.NoError(t, err)
			require.Equal(t, open, int(n), overlap)
		}
	})

	t.Run("KeepsTheJobOfAKilledProcessWhateverBecameOfTheSchedule", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		s := r.create(t, hourly("news"))
		r.age(t, s, time.Hour)
		r.pass(t)
		fired := r.slots(t, s)[0]
		changed := hourly("news")
		changed.Job.Prompt = "rain"
		_, err := r.schedules.Update(t.Context(), r.Client, s.ID, changed)
		require.NoError(t, err)
		_, err = r.schedules.Pause(t.Context(), r.Client, s.ID, "")
		require.NoError(t, err)

		r.Exec(t, "UPDATE schedule_slots SET state = 'PENDING', job_id = NULL, ended_at = NULL, due_at = clock_timestamp()")
		r.pass(t)

		require.Equal(t, fired.JobID, r.slots(t, s)[0].JobID)
		require.Equal(t, 1, r.Count(t, "jobs"))
	})

	t.Run("KeepsWhatASlowProcessSubmitsWhateverBecomesOfTheScheduleMeanwhile", func(t *testing.T) {
		t.Parallel()

		for _, in := range []schedule.Input{hourly("news"), film("news")} {
			r := newRig(t)
			s := r.create(t, in)
			r.age(t, s, time.Hour)
			_, err := r.runner.Decide(t.Context())
			require.NoError(t, err)
			r.soon(t)
			held, err := r.DB.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			_, err = models.LockAccount(t.Context(), held, s.AccountID)
			require.NoError(t, err)
			var slow sync.WaitGroup
			slow.Go(func() {
				if fired, err := r.runner.Fire(t.Context()); err != nil || fired != 1 {
					t.Error("it fired", fired, err)
				}
			})
			r.WaitForLocks(t, 1)
			_, err = r.schedules.Pause(t.Context(), r.Client, s.ID, "")
			require.NoError(t, err)
			r.soon(t)
			_, err = newRunner(r.Stack, r.AnotherSubmitter()).Fire(t.Context())
			require.NoError(t, err)
			require.Equal(t, schedules.SlotSkipped, r.slots(t, s)[0].State)

			require.NoError(t, held.Rollback())
			slow.Wait()

			slot := r.slots(t, s)[0]
			require.Equal(t, schedules.SlotFired, slot.State)
			require.Empty(t, slot.Reason)
			require.True(t, slot.JobID.Valid() || slot.WorkflowID.Valid())
		}
	})

	t.Run("KeepsWhatAnotherProcessSubmittedBeforeTheScheduleWasChanged", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		news, harbour := r.create(t, hourly("news")), r.create(t, film("harbour"))
		for _, s := range []*schedules.Schedule{news, harbour} {
			r.age(t, s, time.Hour)
		}
		_, err := r.runner.Decide(t.Context())
		require.NoError(t, err)
		// As if it was killed after the submit, which this process did not see when it took the slots.
		key := func(s *schedules.Schedule) *string {
			return new(fmt.Sprintf("%s/%s", s.ID, r.slots(t, s)[0].At.UTC().Format(time.RFC3339Nano)))
		}
		first := *hourly("").Job
		first.Prompt, first.IdempotencyKey = "rain", key(news)
		job, _, err := r.Submitter.Submit(t.Context(), r.Client, first)
		require.NoError(t, err)
		graph := *film("").Workflow
		graph.Name, graph.IdempotencyKey = "port", key(harbour)
		made, _, err := r.runner.Workflows.Submit(t.Context(), r.Client, graph)
		require.NoError(t, err)

		r.soon(t)
		fired, err := r.runner.Fire(t.Context())

		require.NoError(t, err)
		require.Equal(t, 2, fired)
		require.Equal(t, job.ID, r.slots(t, news)[0].JobID)
		require.Equal(t, made.ID, r.slots(t, harbour)[0].WorkflowID)
		require.Equal(t, 1+2, r.Count(t, "jobs"))
	})

	t.Run("LetsOnlyTheLastSlotOfAFullAccountWait", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		_, err := r.Accounts.Update(t.Context(), r.Admin, r.Account.ID, auth.AccountInput{MaxQueued: new(1)})
		require.NoError(t, err)
		s := r.create(t, hourly("news"))
		for range 4 {
			r.age(t, s, time.Hour)
			r.pass(t)
		}

		states := lo.Map(r.slots(t, s), func(slot *schedules.Slot, _ int) schedules.SlotState { return slot.State })
		require.Equal(t, []schedules.SlotState{schedules.SlotPending, schedules.SlotRefused, schedules.SlotRefused, schedules.SlotFired}, states)
	})
}

func TestForget(t *testing.T) {
	t.Parallel()

	r := newRig(t)
	s := r.create(t, hourly("news"))
	for range 3 {
		r.age(t, s, time.Hour)
		r.pass(t)
	}
	r.Exec(t, "UPDATE schedules SET paused_at = now(), next_slot = NULL, next_fire_at = NULL, end_at = now() WHERE id = ?", s.ID)
	r.Exec(t, "UPDATE schedule_slots SET ended_at = now() - CASE WHEN slot < (SELECT max(slot) FROM schedule_slots) THEN interval '90 days 1 s' ELSE interval '89 days' END")

	n, err := r.schedules.Forget(t.Context())

	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Len(t, r.slots(t, s), 1)
	require.Equal(t, 3, r.Count(t, "jobs"), "retention of jobs is a matter of its own")
}
