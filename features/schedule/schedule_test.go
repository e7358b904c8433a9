package schedule_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/alerts"
	"github.com/reelay/reelay/models/schedules"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { jobstest.Main(m) }

// rig is a stack with schedules.
type rig struct {
	*jobstest.Stack
	schedules *schedule.Schedules
	runner    *schedule.Runner
}

func newRig(t *testing.T) rig {
	t.Helper()
	s := jobstest.New(t)
	runner := newRunner(s, s.Submitter)
	return rig{s, &schedule.Schedules{Runner: *runner}, runner}
}

func newRunner(s *jobstest.Stack, submitter *submit.Submitter) *schedule.Runner {
	workflows := &workflow.Workflows{WorkflowOperator: s.Workflows.WorkflowOperator, Submitter: submitter}
	return &schedule.Runner{DB: s.DB, Submitter: submitter, Canceller: s.Canceller, Workflows: workflows, Sealer: submitter.Sealer}
}

func hourly(name string) schedule.Input {
	return schedule.Input{Name: name, EverySeconds: 3600,
		Request: schedule.Request{Job: &submit.Submission{Model: "testcard", Prompt: "fog", Params: json.RawMessage(`{"seed": 7}`)}}}
}

func (r rig) create(t *testing.T, in schedule.Input) *schedules.Schedule {
	t.Helper()
	s, err := r.schedules.Create(t.Context(), r.Client, in)
	require.NoError(t, err)
	return s
}

// age moves a schedule with its slots into the past, as if no process had run since. A second
// more keeps its slots apart from those before.
func (r rig) age(t *testing.T, s *schedules.Schedule, by time.Duration) {
	t.Helper()
	seconds := by.Seconds() + 1
	r.Exec(t, `UPDATE schedules SET created_at = created_at - make_interval(secs => ?0), decided_until = decided_until - make_interval(secs => ?0),
		next_slot = next_slot - make_interval(secs => ?0), next_fire_at = next_fire_at - make_interval(secs => ?0) WHERE id = ?1`, seconds, s.ID)
	r.Exec(t, "UPDATE schedule_slots SET slot = slot - make_interval(secs => ?0) WHERE schedule_id = ?1", seconds, s.ID)
}

// soon makes pending slots due.
func (r rig) soon(t *testing.T) {
	t.Helper()
	r.Exec(t, "UPDATE schedule_slots SET due_at = clock_timestamp() WHERE due_at IS NOT NULL")
}

func (r rig) pass(t *testing.T) {
	t.Helper()
	_, err := r.runner.Decide(t.Context())
	require.NoError(t, err)
	r.soon(t)
	_, err = r.runner.Fire(t.Context())
	require.NoError(t, err)
}

func (r rig) slots(t *testing.T, s *schedules.Schedule) []*schedules.Slot {
	t.Helper()
	slots, err := schedules.ListSlots(t.Context(), r.DB, s.ID, time.Time{}, 1000)
	require.NoError(t, err)
	return slots
}

func TestSchedule(t *testing.T) {
	t.Parallel()

	t.Run("SubmitsItsJobAtEachSlot", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		var observed []schedules.SlotState
		r.runner.Observe = func(slot *schedules.Slot, lag time.Duration) {
			require.GreaterOrEqual(t, lag, time.Duration(0))
			require.Less(t, lag, 2*time.Hour)
			observed = append(observed, slot.State)
		}
		s := r.create(t, hourly("news"))
		r.pass(t)
		require.Empty(t, r.slots(t, s), "nothing is due yet")

		for n := 1; n <= 3; n++ {
			r.age(t, s, time.Hour)
			r.pass(t)
			require.Len(t, r.slots(t, s), n)
		}

		slots := r.slots(t, s)
		for n, slot := range slots {
			require.Equal(t, schedules.SlotFired, slot.State, slot.Reason)
			job := r.Reload(t, slot.JobID)
			require.Equal(t, r.Client.AccountID, job.AccountID)
			require.Equal(t, r.Client.KeyID, job.CreatedBy)
			require.JSONEq(t, "7", string(param(t, job, "seed")))
			if n > 0 {
				require.Equal(t, time.Hour, slots[n-1].At.Sub(slot.At))
			}
		}
		require.Equal(t, []schedules.SlotState{schedules.SlotFired, schedules.SlotFired, schedules.SlotFired}, observed)
		r.RequireInvariants(t)
	})

	t.Run("FiresASlotOnceHoweverManyProcessesThereAre", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		var all []*schedules.Schedule
		for n := range 20 {
			in := hourly(fmt.Sprint("news ", n))
			if n%4 == 0 {
				in = film(fmt.Sprint("film ", n))
			}
			in.CatchUp = schedules.CatchUpAll
			s := r.create(t, in)
			r.age(t, s, 4*time.Hour)
			all = append(all, s)
		}

		var processes sync.WaitGroup
		for range 4 {
			runner := newRunner(r.Stack, r.AnotherSubmitter())
			processes.Go(func() {
				for range 5 {
					if _, err := runner.Decide(t.Context()); err != nil {
						t.Error(err)
					}
					r.soon(t) // also those that another process has taken
					if _, err := runner.Fire(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		processes.Wait()

		for _, s := range all {
			slots := r.slots(t, s)
			require.Len(t, slots, 4)
			for _, slot := range slots {
				require.Equal(t, schedules.SlotFired, slot.State, slot.Reason)
			}
		}
		require.Equal(t, 20, r.Count(t, "workflows"))
		require.Equal(t, 60+2*20, r.Count(t, "jobs"))
		r.RequireInvariants(t)
	})

	t.Run("ReusesTheResultOfAnEarlierSlot", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		in := hourly("news")
		in.Request.Job.Reuse, in.CatchUp = true, schedules.CatchUpAll
		s := r.create(t, in)
		r.age(t, s, time.Hour)
		r.pass(t)
		first := r.Reload(t, r.slots(t, s)[0].JobID)
		require.Equal(t, models.JobQueued, first.Status, "nothing is equal yet")
		worker := r.Worker(t, "one")
		_, fence := r.Lease(t, worker)
		video := r.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		_, err := r.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
		require.NoError(t, err)

		r.age(t, s, time.Hour)
		r.pass(t)

		var jobs []*models.Job
		require.NoError(t, r.DB.NewSelect().Model(&jobs).Order("id").Scan(t.Context()))
		require.Len(t, jobs, 2)
		require.Equal(t, first.ID, jobs[1].ReusedFrom)
		require.Equal(t, models.JobCompleted, jobs[1].Status)
		for _, slot := range r.slots(t, s) {
			require.Equal(t, schedules.SlotFired, slot.State, slot.Reason)
		}
		r.RequireInvariants(t)
	})

	t.Run("ContinuesWhereAKilledProcessStopped", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		s := r.create(t, hourly("news"))
		r.age(t, s, time.Hour)
		r.pass(t)
		fired := r.slots(t, s)[0]

		// As if it was killed after the submit, before it wrote down the job.
		r.Exec(t, "UPDATE schedule_slots SET state = 'PENDING', job_id = NULL, ended_at = NULL, due_at = clock_timestamp()")
		r.pass(t)

		require.Equal(t, fired.JobID, r.slots(t, s)[0].JobID)
		require.Equal(t, 1, r.Count(t, "jobs"))
	})

	t.Run("FiresNothingWhileSchedulesAreHaltedAndCatchesUpAfterwards", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		in := hourly("news")
		s := r.create(t, in)
		in.Name, in.CatchUp = "all of them", schedules.CatchUpAll
		all := r.create(t, in)
		r.age(t, s, time.Hour)
		_, err := r.runner.Decide(t.Context())
		require.NoError(t, err)
		_, err = r.Operator.Halt(t.Context(), r.Admin, []models.HaltTarget{models.HaltSchedules}, "they flood the API.")
		require.NoError(t, err)
		r.age(t, s, 3*time.Hour)
		r.age(t, all, 3*time.Hour)
		r.pass(t)

		require.Len(t, r.slots(t, s), 1)
		require.Equal(t, schedules.SlotPending, r.slots(t, s)[0].State, "it was decided before, and waits")
		require.Empty(t, r.slots(t, all))
		require.Zero(t, r.Count(t, "jobs"))
		_, err = r.schedules.FireNow(t.Context(), r.Client, s.ID, time.Time{})
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		require.ErrorContains(t, err, ": they flood the API. Try again")
		_, err = r.schedules.FireSlots(t.Context(), r.Client, s.ID, schedule.Backfill{From: time.Now().Add(-9 * time.Hour),
			To: time.Now().Add(-5 * time.Hour), MaxFires: 9})
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		health, err := alerts.ReadHealth(t.Context(), r.DB, time.Minute, 10)
		require.NoError(t, err)
		require.Zero(t, health.SchedulerLagSeconds, "nothing is late by mistake")
		require.Positive(t, health.SchedulesHaltedSeconds)

		_, err = r.Operator.Resume(t.Context(), r.Admin, []models.HaltTarget{models.HaltSchedules})
		require.NoError(t, err)
		r.pass(t)

		require.Len(t, r.slots(t, all), 3)
		states := map[schedules.SlotState]int{}
		for _, slot := range r.slots(t, s) {
			states[slot.State]++
		}
		require.Equal(t, map[schedules.SlotState]int{schedules.SlotFired: 2, schedules.SlotSkipped: 1}, states,
			"the one that was decided, and the last")
		r.RequireInvariants(t)
	})

	t.Run("SkipsASlotWhileAnEarlierJobRuns", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		in := hourly("news")
		in.Overlap = schedules.RunOverlapSkip
		s := r.create(t, in)
		for range 2 {
			r.age(t, s, time.Hour)
			r.pass(t)
		}

		slots := r.slots(t, s)
		require.Equal(t, schedules.SlotSkipped, slots[0].State)
		require.Contains(t, slots[0].Reason, string(slots[1].JobID))
		_, err := r.Canceller.Cancel(t.Context(), r.Client, slots[1].JobID)
		require.NoError(t, err)
		r.age(t, s, time.Hour)
		r.pass(t)
		require.Equal(t, schedules.SlotFired, r.slots(t, s)[0].State)
	})

	t.Run("CancelsTheJobOfAnEarlierSlot", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		in := hourly("news")
		in.Overlap = schedules.RunOverlapCancel
		s := r.create(t, in)
		for range 2 {
			r.age(t, s, time.Hour)
			r.pass(t)
		}

		slots := r.slots(t, s)
		require.Equal(t, schedules.SlotFired, slots[0].State)
		first := r.Reload(t, slots[1].JobID)
		require.Equal(t, models.JobCancelled, first.Status)
		require.Equal(t, "the schedule news fired again", first.CancelReason)
	})

	t.Run("SaysWhyAJobWasRefused", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		_, err := r.Accounts.Update(t.Context(), r.Admin, r.Account.ID, auth.AccountInput{MaxQueued: new(1)})
		require.NoError(t, err)
		s := r.create(t, hourly("news"))
		for range 2 {
			r.age(t, s, time.Hour)
			r.pass(t)
		}

		slots := r.slots(t, s)
		require.Equal(t, schedules.SlotPending, slots[0].State, "the queue may be shorter later")
		require.NotEmpty(t, slots[0].Reason)
		_, err = r.Canceller.Cancel(t.Context(), r.Client, slots[1].JobID)
		require.NoError(t, err)
		r.pass(t)
		require.Equal(t, schedules.SlotFired, r.slots(t, s)[0].State)
	})

	t.Run("IsRefusedByTheContentPolicy", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		s := r.create(t, hourly("news"))
		verdict := apierror.New(apierror.CodeContentPolicy, "It shows a weapon.")
		r.Submitter.Moderator = moderator(func() error { return verdict })
		r.age(t, s, time.Hour)
		r.pass(t)
		r.pass(t)

		slots := r.slots(t, s)
		require.Len(t, slots, 1)
		require.Equal(t, schedules.SlotRefused, slots[0].State)
		require.Equal(t, "It shows a weapon.", slots[0].Reason)

		verdict = apierror.Later(apierror.CodeUnavailable, 5*time.Second, "Nobody answers.")
		r.age(t, s, time.Hour)
		r.pass(t)
		slots = r.slots(t, s)
		require.Equal(t, schedules.SlotPending, slots[0].State, "there may be an answer later")
		require.Equal(t, "Nobody answers. Try again in 5 s.", slots[0].Reason)
	})

	t.Run("HasTheModelsOfItsAccountWhoeverMakesIt", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		shipped, err := catalogue.Shipped()
		require.NoError(t, err)
		limited := *shipped.Models[0]
		limited.Name, limited.Accounts = "limited", []models.AccountID{r.Account.ID}
		r.Submitter.Catalogue.Replace(catalogue.New(shipped.Models[0], &limited))
		in := hourly("news")
		in.Request.Job.Model, in.Request.Job.Params = limited.Name, nil

		_, err = r.schedules.Create(t.Context(), r.Admin, in)
		jobstest.RequireInvalid(t, err, "job.model")
		require.NotContains(t, err.Error(), "are: limited")
		s := r.create(t, in)
		_, err = r.schedules.Update(t.Context(), r.Admin, s.ID, in)
		require.NoError(t, err, "the owner may use it")
		limited.Accounts = []models.AccountID{models.NewAccountID()}
		_, err = r.schedules.Update(t.Context(), r.Admin, s.ID, in)
		jobstest.RequireInvalid(t, err, "job.model")
	})

	t.Run("SaysThatItsModelIsGone", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		s := r.create(t, hourly("news"))
		r.age(t, s, time.Hour)
		known := r.Submitter.Catalogue.Current()
		r.Submitter.Catalogue.Replace(catalogue.New())
		r.pass(t)

		slots := r.slots(t, s)
		require.Equal(t, schedules.SlotRefused, slots[0].State)
		require.Contains(t, slots[0].Reason, "There is no model of that name")
		r.Submitter.Catalogue.Replace(known) // it is back
		r.age(t, s, time.Hour)
		r.pass(t)
		require.Equal(t, schedules.SlotFired, r.slots(t, s)[0].State)
	})

	t.Run("DoesNotFireWhileItIsPaused", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		s := r.create(t, hourly("news"))
		s, err := r.schedules.Pause(t.Context(), r.Client, s.ID, "holidays")
		require.NoError(t, err)
		require.Equal(t, "holidays", s.PauseReason)
		require.Zero(t, s.NextFireAt)
		r.age(t, s, 3*time.Hour)
		r.pass(t)
		require.Empty(t, r.slots(t, s))

		slot, err := r.schedules.FireNow(t.Context(), r.Client, s.ID, time.Time{})
		require.NoError(t, err)
		require.Equal(t, slot.JobID, r.slots(t, s)[0].JobID)
		s, err = r.schedules.Get(t.Context(), r.Client, s.ID)
		require.NoError(t, err)
		require.False(t, s.LastFireAt.IsZero())

		s, err = r.schedules.Resume(t.Context(), r.Client, s.ID)
		require.NoError(t, err)
		require.False(t, s.NextFireAt.IsZero())
		r.pass(t)
		slots := r.slots(t, s)
		require.Len(t, slots, 2, "the slots of the pause are left out")
		require.Equal(t, schedules.SlotSkipped, slots[1].State)
		require.Regexp(t, "^the schedule was paused; so are the slots until ", slots[1].Reason)
	})

	t.Run("BackfillsWhatHasNotFired", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		s := r.create(t, hourly("news"))
		r.age(t, s, time.Hour)
		r.pass(t)
		r.age(t, s, 5*time.Hour)
		s, err := r.schedules.Get(t.Context(), r.Client, s.ID)
		require.NoError(t, err)
		past := schedule.Backfill{From: s.CreatedAt, To: s.CreatedAt.Add(4 * time.Hour), MaxFires: 10}

		dry, err := r.schedules.Slots(t.Context(), r.Client, s.ID, past)
		require.NoError(t, err)
		require.Len(t, dry, 4)
		require.Len(t, r.slots(t, s), 1, "it fires nothing")
		fired, err := r.schedules.FireSlots(t.Context(), r.Client, s.ID, past)
		require.NoError(t, err)
		require.Len(t, fired, 3, "one has fired before")
		again, err := r.schedules.FireSlots(t.Context(), r.Client, s.ID, past)
		require.NoError(t, err)
		require.Empty(t, again)
		require.Equal(t, 4, r.Count(t, "jobs"))
		r.Exec(t, "UPDATE schedule_slots SET state = 'SKIPPED', reason = 'an outage', job_id = NULL WHERE slot = (SELECT min(slot) FROM schedule_slots)")
		r.Exec(t, "UPDATE jobs SET idempotency_key = NULL, request_digest = NULL")
		again, err = r.schedules.FireSlots(t.Context(), r.Client, s.ID, past)
		require.NoError(t, err)
		require.Len(t, again, 1, "a slot that was skipped")
		require.Equal(t, 5, r.Count(t, "jobs"))
		past.MaxFires = 3
		_, err = r.schedules.FireSlots(t.Context(), r.Client, s.ID, past)
		require.ErrorContains(t, err, "more than 3 slots")
		_, err = r.schedules.Slots(t.Context(), r.Client, s.ID, schedule.Backfill{To: past.To, MaxFires: 3})
		require.ErrorContains(t, err, "from must be within 10 years of now")
	})
}

func param(t *testing.T, job *models.Job, name string) json.RawMessage {
	t.Helper()
	var params map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(job.Params, &params))
	return params[name]
}

func TestInput(t *testing.T) {
	t.Parallel()

	r := newRig(t)
	soon, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	for name, c := range map[string]struct {
		change func(*schedule.Input)
		field  string
	}{
		"no name":              {func(in *schedule.Input) { in.Name = "" }, "name"},
		"a control character":  {func(in *schedule.Input) { in.Name = "a\nb" }, "name"},
		"cron and interval":    {func(in *schedule.Input) { in.Cron = "* * * * *" }, "cron"},
		"neither":              {func(in *schedule.Input) { in.EverySeconds = 0 }, "cron"},
		"a bad cron":           {func(in *schedule.Input) { in.Cron, in.EverySeconds = "61 * * * *", 0 }, "cron"},
		"a negative interval":  {func(in *schedule.Input) { in.EverySeconds = -1 }, "everySeconds"},
		"an unknown zone":      {func(in *schedule.Input) { in.Timezone = "Europe/Atlantis" }, "timezone"},
		"an offset":            {func(in *schedule.Input) { in.Timezone = "+02:00" }, "timezone"},
		"a path":               {func(in *schedule.Input) { in.Timezone = "../../etc/passwd" }, "timezone"},
		"the local zone":       {func(in *schedule.Input) { in.Timezone = "Local" }, "timezone"},
		"an end before":        {func(in *schedule.Input) { in.StartAt, in.EndAt = &soon, &past }, "endAt"},
		"an end that is past":  {func(in *schedule.Input) { in.EndAt = &past }, "endAt"},
		"too much jitter":      {func(in *schedule.Input) { in.JitterSeconds = 4000 }, "jitterSeconds"},
		"an unknown model":     {func(in *schedule.Input) { in.Job.Model = "none" }, "job.model"},
		"a fixed start":        {func(in *schedule.Input) { in.Job.RunAt = &soon }, "job.runAt"},
		"a key":                {func(in *schedule.Input) { in.Job.IdempotencyKey = new("k") }, "job.idempotencyKey"},
		"no job":               {func(in *schedule.Input) { in.Job = nil }, "job"},
		"a job and a workflow": {func(in *schedule.Input) { in.Workflow = film("x").Workflow }, "workflow"},
	} {
		in := hourly("x")
		c.change(&in)
		_, err := r.schedules.Create(t.Context(), r.Client, in)
		var refused *apierror.Error
		require.ErrorAs(t, err, &refused, name)
		require.Equal(t, apierror.CodeInvalidInput, refused.Code, name)
		require.Equal(t, c.field, refused.Field, "%s: %s", name, refused.Message)
	}
	require.Zero(t, r.Count(t, "schedules"))

	first := r.create(t, hourly("news"))
	_, err := r.schedules.Create(t.Context(), r.Client, hourly("news"))
	require.True(t, apierror.HasCode(err, apierror.CodeConflict))
	changed := hourly("news")
	changed.Cron, changed.EverySeconds, changed.Timezone = "0 9 * * MON-FRI", 0, "Europe/Berlin"
	applied, created, err := r.schedules.Apply(t.Context(), r.Client, changed)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, first.ID, applied.ID)
	require.Equal(t, "0 9 * * MON-FRI", applied.Cron)
	stranger := r.Client
	stranger.AccountID = r.NewAccount(t, "stranger", models.TierPro).ID
	_, err = r.schedules.Update(t.Context(), stranger, first.ID, changed)
	require.True(t, apierror.HasCode(err, apierror.CodeNotFound))
	require.True(t, apierror.HasCode(r.schedules.Delete(t.Context(), stranger, first.ID), apierror.CodeNotFound))
	require.NoError(t, r.schedules.Delete(t.Context(), r.Client, first.ID))
	require.Zero(t, r.Count(t, "schedules"))
}

// moderator gives the same answer about every job.
type moderator func() error

func (m moderator) Moderate(_ context.Context, all []submit.Content) []error {
	answers := make([]error, len(all))
	for i := range answers {
		answers[i] = m()
	}
	return answers
}
