package schedule_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/reelay/reelay/models/schedules"
	"github.com/stretchr/testify/require"
)

// clocked is a rig whose PostgreSQL has a clock that tests set.
type clocked struct {
	rig
	clock *modelstest.Clock
	ahead time.Duration
}

func newClocked(t *testing.T) *clocked {
	t.Helper()
	clock := modelstest.NewClock(t, modelstest.DSN(t))
	clock.Set(t, time.Hour)
	db, done, err := postgres.Open(t.Context(), clock.DSN, 8)
	require.NoError(t, err)
	t.Cleanup(done)
	s := jobstest.Over(t, db)
	return &clocked{rig{s, &schedule.Schedules{Runner: *newRunner(s, s.Submitter)}, newRunner(s, s.Submitter)}, clock, time.Hour}
}

// pass lets some time pass, and then decides and fires.
func (c *clocked) pass(t *testing.T, by time.Duration) {
	t.Helper()
	c.ahead += by
	c.clock.Set(t, c.ahead)
	_, err := c.runner.Decide(t.Context())
	require.NoError(t, err)
	_, err = c.runner.Fire(t.Context())
	require.NoError(t, err)
}

// states counts the slots of an account by state.
func (r rig) states(t *testing.T, account models.AccountID) map[schedules.SlotState]int {
	t.Helper()
	var rows []struct {
		State schedules.SlotState `bun:"state"`
		N     int                 `bun:"n"`
	}
	require.NoError(t, r.DB.NewRaw("SELECT state, count(*) AS n FROM schedule_slots WHERE account_id = ? GROUP BY 1",
		account).Scan(t.Context(), &rows))
	states := map[schedules.SlotState]int{}
	for _, row := range rows {
		states[row.State] = row.N
	}
	return states
}

func (r rig) tier(t *testing.T, account models.AccountID, tier models.Tier) {
	t.Helper()
	_, err := r.Accounts.Update(t.Context(), r.Admin, account, auth.AccountInput{Tier: &tier})
	require.NoError(t, err)
}

func seconds(name string, n int, catchUp schedules.CatchUp) schedule.Input {
	in := hourly(name)
	in.EverySeconds, in.CatchUp = n, catchUp
	return in
}

func TestLimits(t *testing.T) {
	t.Parallel()

	t.Run("OneAccountsSlotsNeitherDelayAnothersNorGrowWithoutBound", func(t *testing.T) {
		t.Parallel()

		const flood, steps = 150, 8
		c := newClocked(t)
		// They were made while the account could have them.
		free := c.NewKey(t, c.NewAccount(t, "free", models.TierCritical), access.RoleClient)
		var all sync.WaitGroup
		for worker := range 8 {
			all.Go(func() {
				for n := worker; n < flood; n += 8 {
					if _, err := c.schedules.Create(t.Context(), free, seconds(fmt.Sprint("flood ", n), 1, schedules.CatchUpAll)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		c.tier(t, free.AccountID, models.TierFree)
		news := c.create(t, seconds("news", 2, schedules.CatchUpCoalesce))
		var mu sync.Mutex
		given := map[schedules.LeftOut]int{}
		c.runner.Observe = func(slot *schedules.Slot, _ time.Duration) {
			mu.Lock()
			given[slot.LeftOut]++
			mu.Unlock()
		}

		for range steps {
			c.pass(t, 2*time.Second)
		}

		slots := c.slots(t, news)
		require.GreaterOrEqual(t, len(slots), steps)
		for n, slot := range slots {
			require.Equal(t, schedules.SlotFired, slot.State, slot.Reason)
			if n > 0 {
				require.Equal(t, 2*time.Second, slots[n-1].At.Sub(slot.At), "none is left out")
			}
		}
		states := c.states(t, free.AccountID)
		require.LessOrEqual(t, states[schedules.SlotPending], schedule.LimitsOf(5).Waiting)
		require.Less(t, states[schedules.SlotPending], flood*steps)
		held, err := c.DB.NewSelect().Model((*schedules.Schedule)(nil)).Where("held_at IS NOT NULL").Count(t.Context())
		require.NoError(t, err)
		require.Positive(t, int(held), "they wait, and make no rows")

		// An hour later, what waited is given up by the rule, with the reason. A few schedules
		// show it as well as all of them.
		c.Exec(t, `DELETE FROM schedules WHERE account_id = ? AND id NOT IN (
			(SELECT id FROM schedules WHERE account_id = ? AND held_at IS NOT NULL ORDER BY id LIMIT 10) UNION
			(SELECT schedule_id FROM schedule_slots WHERE account_id = ? AND state = 'PENDING' GROUP BY 1 ORDER BY 1 LIMIT 10))`,
			free.AccountID, free.AccountID, free.AccountID)
		c.Exec(t, "UPDATE schedules SET catch_up_window_seconds = 60")
		c.pass(t, time.Hour)
		c.pass(t, 10*time.Second) // what was held
		var reasons []string
		require.NoError(t, c.DB.NewRaw("SELECT DISTINCT reason FROM schedule_slots WHERE account_id = ? AND state IN ('REFUSED', 'SKIPPED')",
			free.AccountID).Scan(t.Context(), &reasons))
		require.NotEmpty(t, reasons)
		for _, reason := range reasons {
			require.Regexp(t, `Given up after \d+ attempts?: it is [\d hmins]+ late \(catchUpWindowSeconds\)|since from .* as many slots of the account waited as may; it is left out after 60 s|no control process decided on it in time`, reason)
		}
		require.Positive(t, given[schedules.LeftGivenUp])
		require.Positive(t, given[schedules.LeftLimit])
	})

	t.Run("RefuseMoreSlotsAMinuteThanAnAccountMayHave", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		free := r.NewKey(t, r.NewAccount(t, "free", models.TierFree), access.RoleClient)
		errs := make([]error, 6)
		var all sync.WaitGroup
		for n := range errs {
			all.Go(func() {
				_, errs[n] = r.schedules.Create(t.Context(), free, seconds(fmt.Sprint(n), 2, schedules.CatchUpAll))
			})
		}
		all.Wait()
		made := 0
		for _, err := range errs {
			if err == nil {
				made++
				continue
			}
			jobstest.RequireCode(t, err, apierror.CodeQuotaExceeded)
			require.ErrorContains(t, err,
				"This schedule has up to 1800 slots an hour, and the other schedules of this account 3600. The limit of the account is 3600 an hour, which is 60 a minute.")
		}
		require.Equal(t, 2, made, "60 a minute, also at once")

		// A pause makes room; what was paused comes back only if there is room.
		all2, err := schedules.ListSchedules(t.Context(), r.DB, free.AccountID, "", "", "", 10)
		require.NoError(t, err)
		_, err = r.schedules.Pause(t.Context(), free, all2[0].ID, "")
		require.NoError(t, err)
		slow := seconds("slow", 3600, schedules.CatchUpAll)
		made1, err := r.schedules.Create(t.Context(), free, slow)
		require.NoError(t, err)
		_, err = r.schedules.Resume(t.Context(), free, all2[0].ID)
		jobstest.RequireCode(t, err, apierror.CodeQuotaExceeded)
		// An update that adds slots is refused, and one that does not is not.
		slow.EverySeconds, slow.Cron = 0, "* * * * * *"
		_, err = r.schedules.Update(t.Context(), free, made1.ID, slow)
		var refused *apierror.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, []any{apierror.CodeQuotaExceeded, "cron"}, []any{refused.Code, refused.Field})
		slow.Cron = "30 9 * * *"
		_, err = r.schedules.Update(t.Context(), free, made1.ID, slow)
		require.NoError(t, err)
		rich := r.NewAccount(t, "rich", models.TierCritical)
		use, err := r.schedules.Usages(t.Context(), []models.AccountID{free.AccountID, rich.ID, "acc_00000000-0000-7000-8000-000000000000"})
		require.NoError(t, err)
		require.Equal(t, map[models.AccountID]*schedule.Usage{
			free.AccountID: {Limits: schedule.Limits{PerMinute: 60, Waiting: 1000}, AnHour: 1801}, rich.ID: {},
		}, use)
		require.Nil(t, use[rich.ID].MaxPerMinute(), "it has no limit")
		require.Nil(t, use[rich.ID].MaxWaiting())
	})

	t.Run("RefuseABackfillWhileTooManySlotsWait", func(t *testing.T) {
		t.Parallel()

		c := newClocked(t)
		free := c.NewKey(t, c.NewAccount(t, "free", models.TierFree), access.RoleClient)
		s, err := c.schedules.Create(t.Context(), free, seconds("news", 60, schedules.CatchUpSkip))
		require.NoError(t, err)
		c.ahead += 24 * time.Hour
		c.clock.Set(t, c.ahead)
		past := schedule.Backfill{From: s.CreatedAt, To: s.CreatedAt.Add(10 * time.Hour), MaxFires: 1000, PerMinute: 1}
		_, err = c.schedules.FireSlots(t.Context(), free, s.ID, past)
		require.NoError(t, err)
		past.From, past.To = past.To, past.To.Add(10*time.Hour)
		_, err = c.schedules.FireSlots(t.Context(), free, s.ID, past)
		jobstest.RequireCode(t, err, apierror.CodeQuotaExceeded)
		require.ErrorContains(t, err,
			"This would fire 600 slots, but 599 others of this account already wait; the limit is 1000 together. Nothing was fired.")
		require.LessOrEqual(t, c.states(t, free.AccountID)[schedules.SlotPending], 600)
	})

	t.Run("BoundWhatIsFiredByHand", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		s := r.create(t, hourly("news"))
		r.schedules.Submitter.Admission.Rates = noRate{}
		_, err := r.schedules.FireNow(t.Context(), r.Client, s.ID, time.Time{})
		jobstest.RequireCode(t, err, apierror.CodeRateLimited)
		require.Zero(t, r.Count(t, "schedule_slots"), "a refused slot would have a row, too")
	})
}

// noRate refuses each token.
type noRate struct{}

func (noRate) Take(_ context.Context, _ string, keys []string, _ int) ([]submit.Token, time.Duration) {
	return make([]submit.Token, len(keys)), time.Second
}
func (noRate) Give(context.Context, string, []string, int) {}
