package workflow_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/alerts"
	"github.com/stretchr/testify/require"
)

// approval is a node that waits for an answer; params are those besides the candidates, as JSON.
func approval(key, params string, candidates ...string) workflow.Node {
	list := ""
	for i, c := range candidates {
		if i > 0 {
			list += ", "
		}
		list += fmt.Sprintf("%q", "{{"+c+".video}}")
	}
	return workflow.Node{Key: key, Job: submit.Submission{
		Model: models.TypeApproval, Params: fmt.Appendf(nil, `{"candidates": [%s]%s}`, list, params),
	}}
}

// stitch is a node that joins the videos of others.
func stitch(key string, of ...string) workflow.Node {
	n := approval(key, "", of...)
	n.Job.Model, n.Job.Params = "video.stitch", []byte(`{"clips": `+string(n.Job.Params[len(`{"candidates": `):]))
	return n
}

// pass runs the pass of approvals, and requires that it does so many things.
func (r rig) pass(t *testing.T, n int) {
	t.Helper()
	done, err := r.workflows.Approvals(t.Context())
	require.NoError(t, err)
	require.Equal(t, n, done)
}

// asked submits two takes, an approval of one of them, and a film of the picked one, and renders the takes.
func (r rig) asked(t *testing.T, params string) *models.Workflow {
	t.Helper()
	w := r.submit(t, node("a"), node("b"), approval("pick", params, "a", "b"), stitch("film", "pick", "pick"))
	r.pass(t, 0)
	r.next(t, w, completed)
	r.pass(t, 0)
	r.next(t, w, completed)
	r.pass(t, 1)
	r.pass(t, 0)
	require.Equal(t, blocked, r.states(t, w)["pick"])
	r.RequireInvariants(t)
	return w
}

func (r rig) approve(t *testing.T, w *models.Workflow, pick string) (*models.Workflow, error) {
	t.Helper()
	return r.workflows.Answer(t.Context(), r.Client, w.ID, "pick", operate.Answer{Decision: models.Approved, Pick: pick})
}

func (r rig) reject(t *testing.T, w *models.Workflow, note string) (*models.Workflow, error) {
	t.Helper()
	return r.workflows.Answer(t.Context(), r.Client, w.ID, "pick", operate.Answer{Decision: models.Rejected, Note: note})
}

// expire lets the time of all open questions end.
func (r rig) expire(t *testing.T) {
	t.Helper()
	r.Exec(t, "UPDATE approvals SET expires_at = clock_timestamp() - interval '1 second' WHERE decided_at IS NULL")
}

func TestApproval(t *testing.T) {
	t.Parallel()

	t.Run("GivesThePickedVideoToTheNodesAfterIt", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.asked(t, "")
		waits, err := r.WaitingFor(t, r.nodes(t, w)["pick"].ID)
		require.NoError(t, err)
		require.Contains(t, waits[r.nodes(t, w)["pick"].ID][0].Whole(), "Waits for an answer until")

		_, err = r.approve(t, w, "b")
		require.NoError(t, err)

		nodes := r.nodes(t, w)
		require.Equal(t, nodes["b"].ResultID, nodes["pick"].ResultID)
		require.Equal(t, queued, nodes["film"].Status)
		require.JSONEq(t, fmt.Sprintf(`{"picked": %q, "number": 2, "by": %q, "note": ""}`, nodes["b"].ID, r.Client.Actor()), string(nodes["pick"].Output))
		lease, _ := r.Lease(t, r.worker)
		require.Equal(t, nodes["film"].ID, lease.Job.ID)
		require.Len(t, lease.Inputs, 2)
		for _, in := range lease.Inputs {
			require.Equal(t, nodes["b"].ResultID, in.ID)
		}
		r.RequireInvariants(t)
	})

	t.Run("KeepsThePickedVideoWhileItIsUsed", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.asked(t, "")
		_, err := r.approve(t, w, "b")
		require.NoError(t, err)
		user, err := models.FindUserOf(t.Context(), r.DB, r.nodes(t, w)["b"].ID)
		require.NoError(t, err)
		require.Equal(t, r.nodes(t, w)["film"].ID, user)
	})

	t.Run("HasNoVideoOnceThePickedJobIsDeleted", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.asked(t, "")
		_, err := r.approve(t, w, "b")
		require.NoError(t, err)
		nodes := r.nodes(t, w)
		_, err = r.Deleter.Delete(t.Context(), r.Client, nodes["b"].ID)
		jobstest.RequireCode(t, err, apierror.CodeConflict) // the film uses it
		r.next(t, w, completed)
		_, err = r.Deleter.Delete(t.Context(), r.Client, nodes["b"].ID)
		require.NoError(t, err)
		require.Empty(t, r.nodes(t, w)["pick"].ResultID)
		_, err = r.Deleter.Delete(t.Context(), r.Client, nodes["pick"].ID)
		require.NoError(t, err)
		r.RequireInvariants(t)
	})

	t.Run("RejectedFailsAndIsAskedAgainByARetry", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.asked(t, "")
		_, err := r.reject(t, w, "both are too dark")
		require.NoError(t, err)
		pick := r.nodes(t, w)["pick"]
		require.Equal(t, models.FailRejected, pick.FailureClass)
		require.Equal(t, "rejected by "+r.Client.Actor()+": both are too dark", pick.FailureReason)
		require.Equal(t, failed, r.states(t, w)["film"])
		require.Equal(t, models.WorkflowFailed, r.reload(t, w).Status)
		r.RequireInvariants(t)

		_, err = r.workflows.Retry(t.Context(), r.Client, w.ID, false)
		require.NoError(t, err)
		_, err = r.approve(t, w, "a")
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		r.pass(t, 1)
		_, err = r.approve(t, w, "a")
		require.NoError(t, err)
		require.Equal(t, queued, r.states(t, w)["film"])
		r.RequireInvariants(t)
	})

	t.Run("RejectedIsNotRetriedForItsDependents", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.submit(t, node("a"), approval("pick", "", "a"), policy(stitch("film", "pick"), models.FailureRetry))
		r.next(t, w, completed)
		r.pass(t, 1)
		_, err := r.reject(t, w, "")
		require.NoError(t, err)
		require.Equal(t, failed, r.states(t, w)["film"])
	})

	t.Run("IsCountedWhileItWaits", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		open := func() (int, float64) {
			t.Helper()
			health, err := alerts.ReadHealth(t.Context(), r.DB, time.Minute, 100)
			require.NoError(t, err)
			return health.OpenApprovals, health.OpenApprovalSeconds
		}
		n, age := open()
		require.Zero(t, n)
		require.Zero(t, age)
		first, second := r.asked(t, ""), r.asked(t, "")
		r.Exec(t, "UPDATE approvals SET asked_at = asked_at - interval '1 hour' WHERE job_id = ?", r.nodes(t, first)["pick"].ID)
		n, age = open()
		require.Equal(t, 2, n)
		require.InDelta(t, 3600, age, 60)
		_, err := r.workflows.Cancel(t.Context(), r.Client, first.ID, "")
		require.NoError(t, err)
		n, age = open()
		require.Equal(t, 1, n, "a cancelled workflow has no question")
		require.Less(t, age, 3600.0)
		_, err = r.approve(t, second, "a")
		require.NoError(t, err)
		n, _ = open()
		require.Zero(t, n)
	})

	t.Run("NeedsNoPickForOneCandidate", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.submit(t, node("a"), approval("pick", "", "a"))
		r.next(t, w, completed)
		r.pass(t, 1)
		done, err := r.approve(t, w, "")
		require.NoError(t, err)
		require.Equal(t, models.WorkflowCompleted, done.Status)
	})

	for params, want := range map[string]models.JobStatus{
		``:                       failed,
		`, "onTimeout":"reject"`: failed,
		`, "onTimeout":"first"`:  completed,
	} {
		t.Run("AppliesItsDefaultAfterItsTime"+params, func(t *testing.T) {
			t.Parallel()

			r := newRig(t)
			w := r.asked(t, params)
			r.expire(t)
			_, err := r.approve(t, w, "a")
			jobstest.RequireCode(t, err, apierror.CodeConflict)
			require.Equal(t, 1, jobstest.Together(t, 4, r.workflows.Approvals))
			nodes := r.nodes(t, w)
			require.Equal(t, want, nodes["pick"].Status)
			if want == completed {
				require.Equal(t, nodes["a"].ResultID, nodes["pick"].ResultID)
			}
			r.RequireInvariants(t)
		})
	}

	t.Run("ApprovesItsOnlyCandidateAfterItsTime", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.submit(t, node("a"), approval("pick", `, "onTimeout": "approve", "waitSeconds": 1`, "a"))
		r.next(t, w, completed)
		r.pass(t, 1)
		testrun.Eventually(t, "its time ends by PostgreSQL's clock", func() bool {
			_, err := r.workflows.Approvals(t.Context())
			return err == nil && r.states(t, w)["pick"] == completed
		})
	})

	t.Run("NeedsOnlyOneOfItsCandidates", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.submit(t, node("a"), node("b"), policy(approval("pick", "", "a", "b"), models.FailureContinue))
		r.next(t, w, failed)
		r.next(t, w, completed)
		r.pass(t, 1)
		_, err := r.approve(t, w, "a")
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		_, err = r.approve(t, w, "")
		require.NoError(t, err)
		require.Equal(t, r.nodes(t, w)["b"].ResultID, r.nodes(t, w)["pick"].ResultID)
		r.RequireInvariants(t)
	})

	t.Run("FailsIfNoCandidateIsLeft", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.submit(t, node("a"), policy(approval("pick", "", "a"), models.FailureContinue))
		r.next(t, w, failed)
		r.pass(t, 1)
		require.Equal(t, "none of its candidates is complete", r.nodes(t, w)["pick"].FailureReason)
		r.RequireInvariants(t)
	})

	t.Run("IsTakenOverWithItsAnswer", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		first := r.asked(t, "")
		_, err := r.approve(t, first, "b")
		require.NoError(t, err)
		again, _, err := r.workflows.Submit(t.Context(), r.Client, workflow.Input{Name: "film", Reuse: first.ID,
			Jobs: []workflow.Node{node("a"), node("b"), approval("pick", "", "a", "b"), stitch("other", "pick")}})
		require.NoError(t, err)
		require.Equal(t, 1, again.Open)
		r.RequireInvariants(t)
	})

	t.Run("ACandidateThatItAwaitsIsNotSkipped", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.submit(t, node("a"), approval("pick", "", "a"))
		_, err := r.workflows.Skip(t.Context(), r.Client, w.ID, "a")
		jobstest.RequireCode(t, err, apierror.CodeConflict) // pick uses its result
	})

	t.Run("OfSeveralAnswersAtOnceOneWins", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.asked(t, "")
		errs := make([]error, 8)
		var group sync.WaitGroup
		for i := range errs {
			group.Go(func() {
				if i%2 == 0 {
					_, errs[i] = r.approve(t, w, "a")
				} else {
					_, errs[i] = r.reject(t, w, "")
				}
			})
		}
		group.Wait()
		approved := r.states(t, w)["pick"] == completed
		for i, err := range errs {
			if (i%2 == 0) == approved {
				require.NoError(t, err) // the same answer changes nothing
			} else {
				jobstest.RequireCode(t, err, apierror.CodeConflict)
				require.ErrorContains(t, err, r.Client.Actor())
			}
		}
		r.RequireInvariants(t)
	})
}

func TestBadApprovals(t *testing.T) {
	t.Parallel()

	t.Run("AreRefusedAtSubmit", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		prompted := approval("pick", "", "a")
		prompted.Job.Prompt = "which?"
		draft := node("a")
		draft.Job.Draft = &submit.Draft{Steps: 1}
		for name, bad := range map[string]struct {
			nodes []workflow.Node
			field string
		}{
			"none":       {[]workflow.Node{approval("pick", "")}, "jobs.pick.job.params.candidates"},
			"twice":      {[]workflow.Node{node("a"), approval("pick", "", "a", "a")}, "jobs.pick.job.params.candidates"},
			"unknown":    {[]workflow.Node{approval("pick", "", "a")}, "jobs.pick.job.params"},
			"short":      {[]workflow.Node{node("a"), approval("pick", `, "waitSeconds": 0`, "a")}, "jobs.pick.job.params.waitSeconds"},
			"long":       {[]workflow.Node{node("a"), approval("pick", `, "waitSeconds": 7776001`, "a")}, "jobs.pick.job.params.waitSeconds"},
			"default":    {[]workflow.Node{node("a"), approval("pick", `, "onTimeout": "last"`, "a")}, "jobs.pick.job.params.onTimeout"},
			"ambiguous":  {[]workflow.Node{node("a"), node("b"), approval("pick", `, "onTimeout": "approve"`, "a", "b")}, "jobs.pick.job.params.onTimeout"},
			"unprinted":  {[]workflow.Node{node("a"), approval("pick", `, "question": "a\u0007b"`, "a")}, "jobs.pick.job.params.question"},
			"prompt":     {[]workflow.Node{node("a"), prompted}, "jobs.pick.job.prompt"},
			"of a draft": {[]workflow.Node{draft, approval("pick", "", "a")}, "jobs.pick.job.params.candidates.0"},
			"a value":    {[]workflow.Node{node("a"), approval("pick", `, "question": "{{a.output.x}}?"`, "a")}, "jobs.pick.job.params.question"},
		} {
			_, _, err := r.workflows.Submit(t.Context(), r.Client, workflow.Input{Name: "film", Jobs: bad.nodes})
			if err == nil {
				require.Fail(t, name+" was accepted")
			}
			jobstest.RequireInvalid(t, err, bad.field)
		}
		_, _, err := r.Submitter.Submit(t.Context(), r.Client, submit.Submission{
			Model: models.TypeApproval, Params: fmt.Appendf(nil, `{"candidates": [%q]}`, models.NewJobID()),
		})
		jobstest.RequireInvalid(t, err, "model")
	})

	t.Run("AnswersThatDoNotFit", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.submit(t, node("a"), node("b"), approval("pick", "", "a", "b"))
		_, err := r.approve(t, w, "a")
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		r.next(t, w, completed)
		r.next(t, w, completed)
		r.pass(t, 1)

		answer := func(key, pick, note string) error {
			_, err := r.workflows.Answer(t.Context(), r.Client, w.ID, key, operate.Answer{Decision: models.Approved, Pick: pick, Note: note})
			return err
		}
		jobstest.RequireInvalid(t, answer("pick", "", ""), "pick")
		jobstest.RequireInvalid(t, answer("pick", "c", ""), "pick")
		jobstest.RequireInvalid(t, answer("pick", "pick", ""), "pick")
		jobstest.RequireInvalid(t, answer("pick", string(models.NewJobID()), ""), "pick")
		jobstest.RequireInvalid(t, answer("pick", "a", "a\x00b"), "note")
		jobstest.RequireCode(t, answer("a", "a", ""), apierror.CodeConflict)
		jobstest.RequireCode(t, answer("none", "a", ""), apierror.CodeNotFound)

		stranger := r.NewKey(t, r.NewAccount(t, "another", models.TierPro), access.RoleClient)
		_, err = r.workflows.Answer(t.Context(), stranger, w.ID, "pick", operate.Answer{Decision: models.Approved, Pick: "a"})
		jobstest.RequireCode(t, err, apierror.CodeNotFound)

		_, err = r.workflows.Cancel(t.Context(), r.Client, w.ID, "")
		require.NoError(t, err)
		jobstest.RequireCode(t, answer("pick", "a", ""), apierror.CodeConflict)
		r.expire(t)
		r.pass(t, 0)
		var open int
		require.NoError(t, r.DB.NewRaw("SELECT count(*) FROM approvals WHERE decided_at IS NULL").Scan(t.Context(), &open))
		require.Zero(t, open)
		r.RequireInvariants(t)
	})

	t.Run("NoAnswerToAWorkflowThatIsBeingCancelled", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.asked(t, "")
		r.Exec(t, "UPDATE workflows SET cancel_by = 'x', cancel_requested_at = clock_timestamp()")
		_, err := r.approve(t, w, "a")
		jobstest.RequireCode(t, err, apierror.CodeConflict)
	})
}
