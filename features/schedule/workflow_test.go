package schedule_test

import (
	"slices"
	"strings"
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
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/schedules"
	"github.com/stretchr/testify/require"
)

// film is a schedule of a workflow of two shots, the second of which begins where the first ends.
func film(name string) schedule.Input {
	return schedule.Input{Name: name, EverySeconds: 3600, Request: schedule.Request{Workflow: &workflow.Input{
		Name: "harbour",
		Jobs: []workflow.Node{
			{Key: "s2", Job: submit.Submission{Model: "testcard", Prompt: "fog", Params: []byte(`{"referenceImage": "{{s1.lastFrame}}"}`)}},
			{Key: "s1", Job: submit.Submission{Model: "testcard", Prompt: "dawn", Tier: models.TierPro}},
		},
	}}}
}

func TestScheduledWorkflow(t *testing.T) {
	t.Parallel()

	t.Run("IsSubmittedOnceForEachSlotHoweverItsProcessIsKilled", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		s := r.create(t, film("news"))
		require.Equal(t, []any{"harbour", 2, "", models.TierEnterprise}, []any{s.Workflow, s.WorkflowJobs, s.Model, s.Tier},
			"the tier of s2 is the account's")
		uses, err := capacity.CountSchedulesOf(t.Context(), r.DB, "testcard")
		require.NoError(t, err)
		require.Equal(t, 1, uses, "who removes the model learns of the workflow")
		r.age(t, s, time.Hour)
		r.Exec(t, "CREATE FUNCTION killed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'killed'; END $$")
		r.Exec(t, "CREATE TRIGGER kill BEFORE UPDATE ON schedule_slots FOR EACH ROW WHEN (NEW.state = 'FIRED') EXECUTE FUNCTION killed()")
		_, err = r.runner.Decide(t.Context())
		require.NoError(t, err)
		r.soon(t)
		_, err = r.runner.Fire(t.Context())
		require.ErrorContains(t, err, "killed", "the workflow is written, and the slot does not say so")
		require.Equal(t, 1, r.Count(t, "workflows"))
		r.Exec(t, "DROP TRIGGER kill ON schedule_slots")
		changed := film("news")
		changed.Workflow.Name, changed.Workflow.Jobs[0].Job.Prompt = "port", "rain"
		s, err = r.schedules.Update(t.Context(), r.Client, s.ID, changed)
		require.NoError(t, err)
		require.Equal(t, "port", s.Workflow)

		r.pass(t)

		slot := r.slots(t, s)[0]
		require.Equal(t, schedules.SlotFired, slot.State)
		made, err := r.Workflows.Get(t.Context(), r.Client, slot.WorkflowID)
		require.NoError(t, err)
		require.Equal(t, "harbour", made.Name)
		require.Equal(t, 2, r.Count(t, "jobs"))
		by, err := schedules.GetSchedulesOfWorkflows(t.Context(), r.DB, []models.WorkflowID{made.ID})
		require.NoError(t, err)
		require.Equal(t, s.ID, by[0].ID)

		r.age(t, s, time.Hour)
		r.pass(t)
		next, err := r.Workflows.Get(t.Context(), r.Client, r.slots(t, s)[0].WorkflowID)
		require.NoError(t, err)
		require.Equal(t, "port", next.Name)
		require.Equal(t, 2, r.Count(t, "workflows"))
		r.RequireInvariants(t)
	})

	t.Run("KeepsTheRuleForOverlapsUntilItsLastJobHasEnded", func(t *testing.T) {
		t.Parallel()

		for _, overlap := range []schedules.RunOverlap{schedules.RunOverlapSkip, schedules.RunOverlapCancel} {
			r := newRig(t)
			in := film("news")
			in.Overlap = overlap
			s := r.create(t, in)
			r.age(t, s, time.Hour)
			r.pass(t)
			first := r.slots(t, s)[0].WorkflowID
			worker := r.Worker(t, "one")
			_, fence := r.Lease(t, worker)
			video := r.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
			_, err := r.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video}) // its other job begins
			require.NoError(t, err)
			r.age(t, s, time.Hour)
			r.pass(t)

			slot := r.slots(t, s)[0]
			earlier, err := r.Workflows.Get(t.Context(), r.Client, first)
			require.NoError(t, err)
			if overlap == schedules.RunOverlapCancel {
				require.Equal(t, schedules.SlotFired, slot.State)
				require.Equal(t, models.WorkflowCancelled, earlier.Status)
				require.Equal(t, "the schedule news fired again", earlier.CancelReason)
				continue
			}
			require.Equal(t, schedules.SlotSkipped, slot.State)
			require.Contains(t, slot.Reason, "workflow "+string(first)+" of an earlier slot had not ended")
			require.Equal(t, models.WorkflowRunning, earlier.Status)
			_, err = r.Workflows.Cancel(t.Context(), r.Client, first, "")
			require.NoError(t, err)
			r.age(t, s, time.Hour)
			r.pass(t)
			require.Equal(t, schedules.SlotFired, r.slots(t, s)[0].State)
		}
	})

	t.Run("IsFiredByHandAndForThePast", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		s := r.create(t, film("news"))
		r.age(t, s, 4*time.Hour)
		s, err := r.schedules.Pause(t.Context(), r.Client, s.ID, "")
		require.NoError(t, err)
		past := schedule.Backfill{From: s.CreatedAt, To: s.CreatedAt.Add(3 * time.Hour), MaxFires: 10, PerMinute: 60_000}
		slot, err := r.schedules.FireNow(t.Context(), r.Client, s.ID, time.Time{})
		require.NoError(t, err)
		require.True(t, slot.WorkflowID.Valid())
		dry, err := r.schedules.Slots(t.Context(), r.Client, s.ID, past)
		require.NoError(t, err)
		require.Len(t, dry, 3)
		fired, err := r.schedules.FireSlots(t.Context(), r.Client, s.ID, past)
		require.NoError(t, err)
		require.Len(t, fired, 1, "the others follow at the pace")
		r.pass(t)
		require.Equal(t, 4, r.Count(t, "workflows"))
		again, err := r.schedules.FireSlots(t.Context(), r.Client, s.ID, past)
		require.NoError(t, err)
		require.Empty(t, again)
	})

	t.Run("IsAnsweredAlsoIfAPassFiresItsSlotsFirst", func(t *testing.T) {
		t.Parallel()

		for _, in := range []schedule.Input{hourly("news"), film("news")} {
			r := newRig(t)
			s := r.create(t, in)
			r.age(t, s, 4*time.Hour)
			s, err := r.schedules.Get(t.Context(), r.Client, s.ID)
			require.NoError(t, err)
			var once sync.Once
			r.schedules.Observe = func(*schedules.Slot, time.Duration) { // the first of them has ended
				once.Do(func() {
					r.soon(t)
					passed, err := r.runner.Fire(t.Context())
					require.NoError(t, err)
					require.Equal(t, 2, passed)
				})
			}

			fired, err := r.schedules.FireSlots(t.Context(), r.Client, s.ID, schedule.Backfill{From: s.CreatedAt, To: s.CreatedAt.Add(3 * time.Hour),
				MaxFires: 10})

			require.NoError(t, err)
			slots := r.slots(t, s)
			slices.Reverse(slots)
			require.Len(t, fired, 3)
			for n, slot := range slots {
				require.Equal(t, []any{schedules.SlotFired, slot.JobID, slot.WorkflowID}, []any{fired[n].State, fired[n].JobID, fired[n].WorkflowID})
			}
		}
	})

	t.Run("SaysThatTheModelOfANodeIsGone", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		s := r.create(t, film("news"))
		r.age(t, s, time.Hour)
		r.Submitter.Catalogue.Replace(catalogue.New())
		r.pass(t)

		slot := r.slots(t, s)[0]
		require.Equal(t, schedules.SlotRefused, slot.State)
		require.Contains(t, slot.Reason, "The node s1: There is no model of that name")
		require.Zero(t, r.Count(t, "workflows"))
	})
}

func TestWorkflowInput(t *testing.T) {
	t.Parallel()

	r := newRig(t)
	soon := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		change func(*workflow.Input)
		field  string
	}{
		"no jobs":            {func(in *workflow.Input) { in.Jobs = nil }, "workflow.jobs"},
		"no name":            {func(in *workflow.Input) { in.Name = "" }, "workflow.name"},
		"a cycle":            {func(in *workflow.Input) { in.Jobs[1].After = []string{"s2"} }, "workflow.jobs"},
		"the same key twice": {func(in *workflow.Input) { in.Jobs[0].Key = "s1" }, "workflow.jobs.s1"},
		"an unknown key":     {func(in *workflow.Input) { in.Jobs[0].After = []string{"s3"} }, "workflow.jobs.s2.after"},
		"no such result": {func(in *workflow.Input) { in.Jobs[0].Job.Params = []byte(`{"referenceImage": "{{s1.sound}}"}`) },
			"workflow.jobs.s2.job.params"},
		"a result that does not fit": {func(in *workflow.Input) { in.Jobs[0].Job.Params = []byte(`{"referenceImage": "{{s1.video}}"}`) },
			"workflow.jobs.s2.job.params.referenceImage"},
		"a file that does not exist": {func(in *workflow.Input) {
			in.Jobs[1].Job.Params = []byte(`{"referenceImage": "` + string(models.NewArtifactID()) + `"}`)
		},
			"workflow.jobs.s1.job.params.referenceImage"},
		"an unknown output": {func(in *workflow.Input) { in.Output = "s3" }, "workflow.output"},
		"an unknown model":  {func(in *workflow.Input) { in.Jobs[1].Job.Model = "none" }, "workflow.jobs.s1.job.model"},
		"a bad param":       {func(in *workflow.Input) { in.Jobs[1].Job.Params = []byte(`{"seed": "x"}`) }, "workflow.jobs.s1.job.params.seed"},
		"a tier above":      {func(in *workflow.Input) { in.Jobs[1].Job.Tier = models.TierCritical }, "workflow.jobs.s1.job"},
		"a key of its own":  {func(in *workflow.Input) { in.IdempotencyKey = new("k") }, "workflow.idempotencyKey"},
		"a key of a job":    {func(in *workflow.Input) { in.Jobs[1].Job.IdempotencyKey = new("k") }, "workflow.jobs.s1.job.idempotencyKey"},
		"a fixed start":     {func(in *workflow.Input) { in.Jobs[1].Job.RunAt = &soon }, "workflow.jobs.s1.job.runAt"},
		"a bad callback":    {func(in *workflow.Input) { in.CallbackURL = "file:///etc/passwd" }, "workflow.callbackUrl"},
		"too large": {func(in *workflow.Input) {
			for n := range 30 {
				in.Jobs = append(in.Jobs, workflow.Node{Key: strings.Repeat("x", n+1),
					Job: submit.Submission{Model: "testcard", Prompt: strings.Repeat("\U0001F3AC", 9999)}})
			}
		}, "workflow.jobs"},
	} {
		in := film("x")
		c.change(in.Workflow)
		_, err := r.schedules.Create(t.Context(), r.Client, in)
		var refused *apierror.Error
		require.ErrorAs(t, err, &refused, name)
		require.Equal(t, c.field, refused.Field, "%s: %s", name, refused.Message)
	}
	require.Zero(t, r.Count(t, "schedules")+r.Count(t, "jobs")+r.Count(t, "workflows"))

	in := film("x")
	in.Workflow.Reuse = r.SubmitWorkflow(t, r.Client, "earlier", "s1").ID
	_, err := r.schedules.Create(t.Context(), r.Client, in)
	require.ErrorContains(t, err, "cannot have reuse")
	s := r.create(t, film("news"))
	_, err = r.schedules.Update(t.Context(), r.Client, s.ID, hourly("news"))
	jobstest.RequireCode(t, err, apierror.CodeConflict)
	require.ErrorContains(t, err, "This schedule submits workflows, and cannot submit a job instead")
	_, err = r.Accounts.Update(t.Context(), r.Admin, r.Account.ID, auth.AccountInput{MaxQueued: new(1)})
	require.NoError(t, err)
	_, err = r.schedules.Create(t.Context(), r.Client, film("more"))
	jobstest.RequireCode(t, err, apierror.CodeQuotaExceeded)
}
