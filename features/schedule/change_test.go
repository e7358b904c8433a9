package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/postgres"
	"github.com/reelay/reelay/models/schedules"
	"github.com/stretchr/testify/require"
)

// A slot whose time has come and whose jitter has not ended is due: a change keeps it.
func TestChangesKeepTheSlotsThatAreDue(t *testing.T) {
	t.Parallel()

	c := newClocked(t)
	jittered := func(name string) schedule.Input {
		in := hourly(name)
		in.EverySeconds, in.Cron, in.JitterSeconds, in.CatchUp = 0, "0 * * * *", 3000, schedules.CatchUpAll
		return in
	}
	changes := map[string]func(t *testing.T, id models.ScheduleID, in schedule.Input){
		"nothing": func(t *testing.T, _ models.ScheduleID, in schedule.Input) {
			_, created, err := c.schedules.Apply(t.Context(), c.Client, in)
			require.NoError(t, err)
			require.False(t, created)
		},
		"a pause": func(t *testing.T, id models.ScheduleID, _ schedule.Input) {
			_, err := c.schedules.Pause(t.Context(), c.Client, id, "")
			require.NoError(t, err)
			_, err = c.schedules.Resume(t.Context(), c.Client, id)
			require.NoError(t, err)
		},
	}
	for name, change := range map[string]func(in *schedule.Input){
		"the name":     func(in *schedule.Input) { in.Name += " of today" },
		"the job":      func(in *schedule.Input) { in.Job.Prompt = "rain" },
		"catchUp":      func(in *schedule.Input) { in.CatchUp = schedules.CatchUpSkip },
		"the window":   func(in *schedule.Input) { in.CatchUpWindowSeconds = new(60) },
		"overlap":      func(in *schedule.Input) { in.Overlap = schedules.RunOverlapSkip },
		"the jitter":   func(in *schedule.Input) { in.JitterSeconds = 3500 },
		"no jitter":    func(in *schedule.Input) { in.JitterSeconds = 0 },
		"the zone":     func(in *schedule.Input) { in.Timezone = "Europe/Berlin" },
		"the times":    func(in *schedule.Input) { in.Cron = "30 5 * * *" },
		"the interval": func(in *schedule.Input) { in.Cron, in.EverySeconds = "", 7200 },
		"the end":      func(in *schedule.Input) { in.EndAt = new(time.Now().Add(1000 * time.Hour)) },
	} {
		changes[name] = func(t *testing.T, id models.ScheduleID, in schedule.Input) {
			change(&in)
			_, err := c.schedules.Update(t.Context(), c.Client, id, in)
			require.NoError(t, err)
		}
	}
	// Five minutes after the hour, one is chosen whose slot is not yet to fire.
	now, err := postgres.Now(t.Context(), c.DB)
	require.NoError(t, err)
	hour := now.Truncate(time.Hour).Add(time.Hour)
	made := map[string]*schedules.Schedule{}
	for name := range changes {
		for try := 0; made[name] == nil; try++ {
			s := c.create(t, jittered(fmt.Sprint(name, " ", try)))
			if s.NextFireAt.After(hour.Add(10 * time.Minute)) {
				made[name] = s
			} else {
				require.NoError(t, c.schedules.Delete(t.Context(), c.Client, s.ID))
			}
		}
	}
	c.pass(t, hour.Add(5*time.Minute).Sub(now))

	for name, change := range changes {
		require.Empty(t, c.slots(t, made[name]), "it is due, and waits for its jitter")
		change(t, made[name].ID, jittered(made[name].Name))
	}
	fires := []time.Time{hour.Add(6 * time.Minute), hour.Add(59 * time.Minute)}
	for name := range changes {
		s, err := c.schedules.Get(t.Context(), c.Client, made[name].ID)
		require.NoError(t, err)
		if s.NextFireAt.After(fires[0]) && s.NextFireAt.Before(fires[1]) {
			fires = append(fires, s.NextFireAt.Add(time.Second))
		}
	}
	slices.SortFunc(fires, time.Time.Compare)
	for _, at := range fires {
		now, err := postgres.Now(t.Context(), c.DB)
		require.NoError(t, err)
		c.pass(t, max(0, at.Sub(now)))
	}

	for name := range changes {
		slots := c.slots(t, made[name])
		require.Len(t, slots, 1, name)
		require.Equal(t, hour.UTC(), slots[0].At.UTC(), name)
		require.Equal(t, schedules.SlotFired, slots[0].State, "%s: %s", name, slots[0].Reason)
	}
}

// The slots that a change of the times, or a pause, leaves out have a row with the reason.
func TestChangesSayWhichSlotsTheyLeaveOut(t *testing.T) {
	t.Parallel()

	c := newClocked(t)
	every := func(name string) *schedules.Schedule {
		return c.create(t, seconds(name, 600, schedules.CatchUpCoalesce))
	}
	paused, changed, both := every("paused"), every("changed"), every("both")
	for _, s := range []*schedules.Schedule{paused, both} {
		_, err := c.schedules.Pause(t.Context(), c.Client, s.ID, "")
		require.NoError(t, err)
	}
	c.ahead += time.Hour
	c.clock.Set(t, c.ahead)
	_, err := c.schedules.Resume(t.Context(), c.Client, paused.ID)
	require.NoError(t, err)
	for _, s := range []*schedules.Schedule{changed, both} {
		_, err = c.schedules.Update(t.Context(), c.Client, s.ID, seconds(s.Name, 3600, schedules.CatchUpCoalesce))
		require.NoError(t, err)
	}

	for _, s := range []*schedules.Schedule{paused, both} {
		slots := c.slots(t, s)
		require.Len(t, slots, 1)
		require.Equal(t, schedules.SlotSkipped, slots[0].State)
		require.Equal(t, s.NextSlot.UTC(), slots[0].At.UTC())
		require.Contains(t, slots[0].Reason, "the schedule was paused; so are the slots until ")
	}
	slots := c.slots(t, changed)
	require.Len(t, slots, 2, "the last one fires, as if nothing had changed")
	require.Equal(t, schedules.SlotPending, slots[0].State)
	require.Contains(t, slots[1].Reason, "no control process decided on it in time")
}

// A schedule of a job is refused, as a submit would be, for what it takes from jobs that it cannot use; the
// words do not tell whether another account has the job.
func TestScheduleRefusesWhatNobodyCouldUse(t *testing.T) {
	t.Parallel()

	r := newRig(t)
	stranger := r.NewKey(t, r.NewAccount(t, "stranger", models.TierEnterprise), access.RoleClient)
	foreign, _, err := r.Submitter.Submit(t.Context(), stranger, *hourly("").Job)
	require.NoError(t, err)
	said := map[string][]string{}
	for _, id := range []models.JobID{foreign.ID, models.NewJobID()} {
		for name, change := range map[string]func(in *schedule.Input){
			"a picture":     func(in *schedule.Input) { in.Job.Params = fmt.Appendf(nil, `{"referenceImage": "%s.lastFrame"}`, id) },
			"a placeholder": func(in *schedule.Input) { in.Job.Prompt = fmt.Sprintf("about {{%s.output.text}}", id) },
		} {
			in := hourly("news")
			job := *in.Job
			in.Job = &job
			change(&in)
			_, err := r.schedules.Create(t.Context(), r.Client, in)
			var refused *apierror.Error
			require.ErrorAs(t, err, &refused, name)
			require.True(t, strings.HasPrefix(refused.Field, "job."), refused.Field)
			said[name] = append(said[name], fmt.Sprint(refused.Code, refused.Field, strings.ReplaceAll(refused.Message, string(id), "ID")))
		}
	}
	for name, words := range said {
		require.Equal(t, words[0], words[1], name)
	}
	require.Zero(t, r.Count(t, "schedules"))
}

// The slots of a backfill of a schedule whose runs are not to overlap run one after the other.
func TestBackfillsDoNotOverlap(t *testing.T) {
	t.Parallel()

	for _, overlap := range []schedules.RunOverlap{schedules.RunOverlapSkip, schedules.RunOverlapCancel} {
		r := newRig(t)
		in := hourly("news")
		in.Overlap = overlap
		s := r.create(t, in)
		r.age(t, s, 5*time.Hour)
		r.pass(t)
		s, err := r.schedules.Get(t.Context(), r.Client, s.ID)
		require.NoError(t, err)
		fired, err := r.schedules.FireSlots(t.Context(), r.Client, s.ID, schedule.Backfill{From: s.CreatedAt, To: s.CreatedAt.Add(4 * time.Hour),
			MaxFires: 10})
		require.NoError(t, err)
		require.Empty(t, fired, "what its times submitted runs")

		for left := 4; left >= 0; left-- {
			var open []*models.Job
			require.NoError(t, r.DB.NewSelect().Model(&open).Where("status = 'QUEUED'").Scan(t.Context()))
			require.Len(t, open, 1, "one at a time")
			r.pass(t)
			require.Equal(t, left, r.states(t, s.AccountID)[schedules.SlotPending])
			_, err := r.Canceller.Cancel(t.Context(), r.Client, open[0].ID)
			require.NoError(t, err)
			for range left { // each that waits looks again
				r.pass(t)
			}
		}
		require.Zero(t, r.states(t, s.AccountID)[schedules.SlotRefused])
	}
}

// A schedule that ended can be applied again: deploys do so.
func TestAnEndedScheduleCanBeApplied(t *testing.T) {
	t.Parallel()

	c := newClocked(t)
	in := hourly("news")
	now, err := postgres.Now(t.Context(), c.DB)
	require.NoError(t, err)
	in.EndAt = new(now.Add(2 * time.Hour))
	c.create(t, in)
	c.pass(t, 3*time.Hour)

	s, created, err := c.schedules.Apply(t.Context(), c.Client, in)

	require.NoError(t, err)
	require.False(t, created)
	require.Zero(t, s.NextFireAt)
}

// Slots whose jitter is longer than their interval fire each at their own time.
func TestJitterLongerThanTheInterval(t *testing.T) {
	t.Parallel()

	c := newClocked(t)
	in := seconds("news", 60, schedules.CatchUpSkip)
	in.JitterSeconds = 1800
	s := c.create(t, in)
	for range 60 {
		c.pass(t, time.Minute)
	}

	fired := 0
	for _, slot := range c.slots(t, s) {
		require.Equal(t, schedules.SlotCron, slot.Cause, "none is late")
		if slot.State == schedules.SlotFired {
			fired++
			require.WithinDuration(t, slot.At.Add(15*time.Minute), slot.EndedAt, 16*time.Minute)
		}
	}
	require.Greater(t, fired, 20)
}
