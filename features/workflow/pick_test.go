package workflow_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// draft is a node that renders a draft of testcard with a seed.
func draft(key string, seed int) workflow.Node {
	n := node(key)
	n.Job.Draft = &submit.Draft{Steps: 6}
	n.Job.Params = fmt.Appendf(nil, `{"durationSeconds": 1, "pace": 0, "seed": %d}`, seed)
	return n
}

// ofDrafts is an approval of drafts, and full the node that continues what it picks.
func ofDrafts(params string, drafts ...string) workflow.Node {
	n := approval("pick", params)
	list := ""
	for i, key := range drafts {
		if i > 0 {
			list += ", "
		}
		list += fmt.Sprintf("%q", "{{"+key+".draft}}")
	}
	n.Job.Params = fmt.Appendf(nil, `{"candidates": [%s]%s}`, list, params)
	return n
}

func full() workflow.Node {
	return workflow.Node{Key: "full", Continues: "pick", Job: submit.Submission{Model: "testcard", MaxAttempts: new(1)}}
}

// drafted submits two drafts, an approval of one of them, the video of that one, and a film of it, and renders the drafts.
func (r rig) drafted(t *testing.T, params string) *models.Workflow {
	t.Helper()
	w := r.submit(t, draft("a", 1), draft("b", 2), ofDrafts(params, "a", "b"), full(), stitch("film", "full"))
	r.renderDrafts(t, w)
	return w
}

func (r rig) renderDrafts(t *testing.T, w *models.Workflow) {
	t.Helper()
	jobstest.FinishDraft(t, r.Stack, r.worker, r.nodes(t, w)["a"])
	r.pass(t, 0)
	jobstest.FinishDraft(t, r.Stack, r.worker, r.nodes(t, w)["b"])
	r.pass(t, 1)
	require.Equal(t, map[string]models.JobStatus{"a": completed, "b": completed, "pick": blocked, "full": blocked, "film": blocked},
		r.states(t, w))
	r.RequireInvariants(t)
}

// continues requires that the next job has this prompt and starts from a draft's checkpoint.
func (r rig) continues(t *testing.T, prompt string) {
	t.Helper()
	granted, _ := r.Lease(t, r.worker)
	require.Equal(t, prompt, r.prompt(t, granted.Job.ID))
	require.Len(t, granted.Checkpoints, 1)
	r.RequireInvariants(t)
}

func TestPick(t *testing.T) {
	t.Parallel()

	t.Run("ContinuesThePickedDraft", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.drafted(t, "")
		before := r.nodes(t, w)
		require.JSONEq(t, `{}`, string(before["full"].Params))
		require.Positive(t, before["full"].EstimatedGPUSeconds)

		_, err := r.approve(t, w, "b")
		require.NoError(t, err)
		_, err = r.approve(t, w, "b")
		require.NoError(t, err, "the same answer again")
		_, err = r.approve(t, w, "a")
		jobstest.RequireCode(t, err, apierror.CodeConflict)

		nodes := r.nodes(t, w)
		require.Equal(t, queued, nodes["full"].Status)
		require.Equal(t, nodes["b"].ID, nodes["full"].Continues)
		require.JSONEq(t, string(before["b"].Params), string(nodes["full"].Params))
		require.Empty(t, nodes["b"].LatestCheckpointID)
		require.NotEmpty(t, nodes["a"].LatestCheckpointID, "the other draft is left as it is")
		r.RequireInvariants(t)
		granted, _ := r.Lease(t, r.worker)
		require.Equal(t, nodes["full"].ID, granted.Job.ID)
		require.Equal(t, "fog over b", r.prompt(t, granted.Job.ID))
		require.Equal(t, before["b"].LatestCheckpointID, granted.Checkpoints[0].ID)
		r.RequireInvariants(t)
	})

	t.Run("GivesItsVideoToTheNodesAfterIt", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.drafted(t, "")
		_, err := r.approve(t, w, "a")
		require.NoError(t, err)
		require.Equal(t, "full", r.next(t, w, completed))
		require.Equal(t, "film", r.next(t, w, completed))
		require.Equal(t, models.WorkflowCompleted, r.reload(t, w).Status)
		r.RequireInvariants(t)
	})

	t.Run("IsRetriedWithTheRequestOfTheDraft", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.drafted(t, "")
		_, err := r.approve(t, w, "b")
		require.NoError(t, err)
		require.Equal(t, "full", r.next(t, w, failed))
		_, err = r.workflows.Retry(t.Context(), r.Client, w.ID, false)
		require.NoError(t, err)
		r.continues(t, "fog over b")
	})

	t.Run("RejectedIsAskedAgainByARetry", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.drafted(t, "")
		_, err := r.reject(t, w, "")
		require.NoError(t, err)
		require.Equal(t, models.WorkflowFailed, r.reload(t, w).Status)
		_, err = r.workflows.Retry(t.Context(), r.Client, w.ID, false)
		require.NoError(t, err)
		r.pass(t, 1)
		_, err = r.approve(t, w, "a")
		require.NoError(t, err)
		require.Equal(t, "full", r.next(t, w, completed))
		r.RequireInvariants(t)
	})

	for onTimeout, want := range map[string]models.JobStatus{"reject": failed, "first": queued} {
		t.Run("AppliesItsDefaultAfterItsTime/"+onTimeout, func(t *testing.T) {
			t.Parallel()

			r := newRig(t)
			w := r.drafted(t, `, "onTimeout": "`+onTimeout+`"`)
			r.expire(t)
			require.Equal(t, 1, jobstest.Together(t, 4, r.workflows.Approvals))
			require.Equal(t, want, r.nodes(t, w)["full"].Status)
			r.RequireInvariants(t)
		})
	}

	t.Run("WaitsNoLongerThanItsDraftsAreKept", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		r.Exec(t, "UPDATE accounts SET drafts_kept_hours = 1")
		w := r.drafted(t, `, "waitSeconds": 7776000`)
		nodes := r.nodes(t, w)
		asked, err := models.GetApproval(t.Context(), r.DB, nodes["pick"].ID, 1)
		require.NoError(t, err)
		require.True(t, asked.ExpiresAt.Before(nodes["a"].KeptUntil))
	})

	t.Run("OfSeveralPicksAtOnceOneWins", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.drafted(t, "")
		errs := make([]error, 8)
		var group sync.WaitGroup
		for i := range errs {
			group.Go(func() { _, errs[i] = r.approve(t, w, []string{"a", "b"}[i%2]) })
		}
		group.Wait()
		picked := r.nodes(t, w)["full"].Continues == r.nodes(t, w)["b"].ID
		for i, err := range errs {
			if (i%2 == 1) == picked {
				require.NoError(t, err)
			} else {
				jobstest.RequireCode(t, err, apierror.CodeConflict)
			}
		}
		r.RequireInvariants(t)
	})

	t.Run("IsTakenOverWithItsDrafts", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		first := r.drafted(t, "")
		again := func() *models.Workflow {
			t.Helper()
			w, _, err := r.workflows.Submit(t.Context(), r.Client, workflow.Input{Name: "film", Reuse: first.ID,
				Jobs: []workflow.Node{draft("a", 1), draft("b", 2), ofDrafts("", "a", "b"), full(), stitch("other", "full", "full")}})
			require.NoError(t, err)
			return w
		}
		require.Equal(t, 3, again().Open, "the drafts are kept, and the question is asked again")
		_, err := r.approve(t, first, "b")
		require.NoError(t, err)
		require.Equal(t, 4, again().Open, "the picked draft cannot be continued again")
		require.Equal(t, "full", r.finish(t, first))
		require.Equal(t, 1, again().Open, "only the film is new")
		r.RequireInvariants(t)
	})

	t.Run("DraftsOfEarlierJobsCanBeCandidates", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		one, _, err := r.Submitter.Submit(t.Context(), r.Client, draft("a", 1).Job)
		require.NoError(t, err)
		jobstest.FinishDraft(t, r.Stack, r.worker, one)
		pick := ofDrafts("")
		pick.Job.Params = fmt.Appendf(nil, `{"candidates": ["%s.draft"]}`, one.ID)
		w := r.submit(t, pick, full())
		r.pass(t, 1)
		_, err = r.approve(t, w, string(one.ID))
		require.NoError(t, err)
		require.Equal(t, "full", r.next(t, w, completed))
		r.RequireInvariants(t)

		_, _, err = r.workflows.Submit(t.Context(), r.Client, workflow.Input{Name: "film", Jobs: []workflow.Node{pick, full()}})
		jobstest.RequireInvalid(t, err, "jobs.pick.job.params.candidates.0") // a job continues it
	})
}

// prompt opens the prompt of a job.
func (r rig) prompt(t *testing.T, id models.JobID) string {
	t.Helper()
	prompt, err := submit.OpenPrompt(t.Context(), r.DB, r.Submitter.Sealer, id)
	require.NoError(t, err)
	return prompt
}

// finish completes the node full of a workflow, whatever else is queued.
func (r rig) finish(t *testing.T, w *models.Workflow) string {
	t.Helper()
	want := r.nodes(t, w)["full"].ID
	for {
		granted, fence := r.Lease(t, r.worker)
		if granted.Job.DraftSteps > 0 {
			jobstest.Checkpoint(t, r.Stack, r.worker, fence, granted.Job.DraftSteps)
			preview := r.Upload(t, r.worker, fence, models.ArtifactPreview, []byte("a clip"))
			_, err := r.Attempts.Complete(t.Context(), r.worker, fence, lease.Completion{Preview: &preview})
			require.NoError(t, err)
			continue
		}
		video := r.Upload(t, r.worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		_, err := r.Attempts.Complete(t.Context(), r.worker, fence, lease.Completion{Video: &video})
		require.NoError(t, err)
		if granted.Job.ID == want {
			return "full"
		}
	}
}

func TestBadPicks(t *testing.T) {
	t.Parallel()

	t.Run("AreRefusedAtSubmit", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		change := func(n workflow.Node, act func(*workflow.Node)) workflow.Node {
			act(&n)
			return n
		}
		continued := func(act func(*workflow.Node)) []workflow.Node {
			return []workflow.Node{draft("a", 1), ofDrafts("", "a"), change(full(), act)}
		}
		for name, bad := range map[string]struct {
			nodes []workflow.Node
			field string
		}{
			"a video of a draft": {[]workflow.Node{draft("a", 1), approval("pick", "", "a")}, "jobs.pick.job.params.candidates.0"},
			"a draft of a video": {[]workflow.Node{node("a"), ofDrafts("", "a")}, "jobs.pick.job.params.candidates.0"},
			"mixed": {[]workflow.Node{node("a"), draft("b", 1), change(ofDrafts("", "b"), func(n *workflow.Node) {
				n.Job.Params = []byte(`{"candidates": ["{{a.video}}", "{{b.draft}}"]}`)
			})}, "jobs.pick.job.params.candidates"},
			"a draft elsewhere": {[]workflow.Node{draft("a", 1), change(stitch("film", "a"), func(n *workflow.Node) {
				n.Job.Params = []byte(`{"clips": ["{{a.draft}}"]}`)
			})}, "jobs.film.job.params.clips.0"},
			"the video of its approval": {[]workflow.Node{draft("a", 1), ofDrafts("", "a"), stitch("film", "pick")}, "jobs.film.job.params.clips.0"},
			"the draft of its approval": {[]workflow.Node{draft("a", 1), ofDrafts("", "a"), change(ofDrafts("", "pick"), func(n *workflow.Node) {
				n.Key = "again"
			})}, "jobs.again.job.params.candidates.0"},
			"no node": {[]workflow.Node{full()}, "jobs.full.continues"},
			"itself":  {[]workflow.Node{change(full(), func(n *workflow.Node) { n.Continues = "full" })}, "jobs.full.continues"},
			"no approval": {[]workflow.Node{draft("a", 1), change(full(), func(n *workflow.Node) { n.Continues = "a" })},
				"jobs.full.job.continues"},
			"an approval of videos": {[]workflow.Node{node("a"), approval("pick", "", "a"), full()}, "jobs.full.job.continues"},
			"twice": {[]workflow.Node{draft("a", 1), ofDrafts("", "a"), full(), change(full(), func(n *workflow.Node) { n.Key = "more" })},
				"jobs.more.continues"},
			"a prompt":      {continued(func(n *workflow.Node) { n.Job.Prompt = "fog" }), "jobs.full.job.prompt"},
			"params":        {continued(func(n *workflow.Node) { n.Job.Params = []byte(`{"seed": 1}`) }), "jobs.full.job.params"},
			"a draft":       {continued(func(n *workflow.Node) { n.Job.Draft = &submit.Draft{Steps: 1} }), "jobs.full.job.draft"},
			"reuse":         {continued(func(n *workflow.Node) { n.Job.Reuse = true }), "jobs.full.job.reuse"},
			"another model": {continued(func(n *workflow.Node) { n.Job.Model = "video.stitch" }), "jobs.full.job.model"},
			"an unknown draft": {[]workflow.Node{change(ofDrafts(""), func(n *workflow.Node) {
				n.Job.Params = fmt.Appendf(nil, `{"candidates": ["%s.draft"]}`, models.NewJobID())
			}), full()}, "jobs.full.job.continues"},
		} {
			_, _, err := r.workflows.Submit(t.Context(), r.Client, workflow.Input{Name: "film", Jobs: bad.nodes})
			if err == nil {
				require.Fail(t, name+" was accepted")
			}
			require.Equal(t, bad.field, submit.Refusal(err).Field, "%s: %s", name, err)
		}
	})

	t.Run("OfADraftThatFailed", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.submit(t, draft("a", 1), draft("b", 2), policy(ofDrafts("", "a", "b"), models.FailureContinue), full())
		require.Equal(t, "a", r.next(t, w, failed))
		jobstest.FinishDraft(t, r.Stack, r.worker, r.nodes(t, w)["b"])
		r.pass(t, 1)
		_, err := r.approve(t, w, "a")
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		require.ErrorContains(t, err, "Pick one of: b.")
		_, err = r.approve(t, w, "")
		require.NoError(t, err)
		require.Equal(t, queued, r.states(t, w)["full"])
		r.RequireInvariants(t)
	})

	t.Run("OfADraftWhoseCheckpointIsGone", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.drafted(t, `, "onTimeout": "first"`)
		r.Exec(t, "UPDATE jobs SET kept_until = clock_timestamp() - interval '1 second' WHERE id = ?", r.nodes(t, w)["a"].ID)
		_, err := r.approve(t, w, "a")
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		r.Exec(t, "UPDATE jobs SET kept_until = clock_timestamp() - interval '1 second' WHERE draft_steps IS NOT NULL")
		_, err = r.approve(t, w, "")
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		r.expire(t)
		r.pass(t, 1)
		require.Equal(t, models.FailRejected, r.nodes(t, w)["pick"].FailureClass)
		r.RequireInvariants(t)
	})

	t.Run("OfADraftThatAnotherJobContinues", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.drafted(t, "")
		_, _, err := r.Submitter.Continue(t.Context(), r.Client, r.nodes(t, w)["a"].ID)
		require.NoError(t, err)
		_, err = r.approve(t, w, "a")
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		_, err = r.approve(t, w, "b")
		require.NoError(t, err)
		r.RequireInvariants(t)
	})

	t.Run("OfAWorkflowThatWasCancelled", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.drafted(t, "")
		_, err := r.workflows.Cancel(t.Context(), r.Client, w.ID, "")
		require.NoError(t, err)
		_, err = r.approve(t, w, "a")
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		require.NotEmpty(t, r.nodes(t, w)["a"].LatestCheckpointID)
		require.Empty(t, r.nodes(t, w)["full"].Continues)
		r.RequireInvariants(t)
	})

	t.Run("AfterItsTime", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.drafted(t, "")
		r.expire(t)
		_, err := r.approve(t, w, "a")
		jobstest.RequireCode(t, err, apierror.CodeConflict)
	})

	t.Run("OfADraftThatIsToBeDeleted", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.drafted(t, "")
		_, err := r.Deleter.Delete(t.Context(), r.Client, r.nodes(t, w)["a"].ID)
		jobstest.RequireCode(t, err, apierror.CodeConflict) // the approval may pick it
	})

	t.Run("WhoseNodeWasCancelled", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.drafted(t, "")
		_, err := r.Canceller.Cancel(t.Context(), r.Client, r.nodes(t, w)["full"].ID)
		require.NoError(t, err)
		_, err = r.approve(t, w, "a")
		require.NoError(t, err)
		require.Equal(t, cancelled, r.states(t, w)["full"])
		_, err = r.workflows.Retry(t.Context(), r.Client, w.ID, false)
		require.NoError(t, err)
		r.continues(t, "fog over a")
	})

	t.Run("OfADraftWhoseInputWasDeleted", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.drafted(t, `, "onTimeout": "first"`)
		r.Exec(t, `UPDATE jobs SET params = params || '{"referenceImage": "art_019a0000-0000-7000-8000-000000000000"}'
			WHERE draft_steps IS NOT NULL`)
		_, err := r.approve(t, w, "a")
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		r.expire(t)
		r.pass(t, 1)
		require.Equal(t, models.FailRejected, r.nodes(t, w)["pick"].FailureClass)
		require.Contains(t, r.nodes(t, w)["pick"].FailureReason, "input file")
		r.RequireInvariants(t)
	})

	t.Run("OfAnotherAccount", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.drafted(t, "")
		other := r.NewAccount(t, "another", models.TierPro)
		_, err := r.workflows.Answer(t.Context(), r.NewKey(t, other, "CLIENT"), w.ID, "pick",
			operate.Answer{Decision: models.Approved, Pick: "a"})
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
	})
}

// rendered completes the next job with a video of these bytes, and requires that it is of a node.
func (r rig) rendered(t *testing.T, w *models.Workflow, key, video string) {
	t.Helper()
	granted, fence := r.Lease(t, r.worker)
	require.Equal(t, r.nodes(t, w)[key].ID, granted.Job.ID, "the node %s is next", key)
	file := r.Upload(t, r.worker, fence, models.ArtifactFinalVideo, []byte(video))
	_, err := r.Attempts.Complete(t.Context(), r.worker, fence, lease.Completion{Video: &file})
	require.NoError(t, err)
}

func TestReuseOfPicks(t *testing.T) {
	t.Parallel()

	// reusing has the film of the picked take accept the result of an equal job.
	reusing := func() workflow.Node {
		film := stitch("film", "pick")
		film.Job.Reuse = true
		return film
	}

	t.Run("ComparesTheContentOfThePickedVideo", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		begin := func() *models.Workflow {
			t.Helper()
			w := r.submit(t, node("a"), node("b"), approval("pick", "", "a", "b"), reusing())
			r.rendered(t, w, "a", "the video a")
			r.rendered(t, w, "b", "the other video b")
			r.pass(t, 1)
			return w
		}
		first := begin()
		_, err := r.approve(t, first, "b")
		require.NoError(t, err)
		r.settle(t)
		require.Equal(t, queued, r.states(t, first)["film"], "nothing is equal yet")
		r.rendered(t, first, "film", "a film")
		film := r.nodes(t, first)["film"]
		require.NotNil(t, film.ReuseDigest)
		require.Empty(t, film.ReuseRefs)

		again := begin()
		_, err = r.approve(t, again, "b")
		require.NoError(t, err)
		r.settle(t)
		require.Equal(t, film.ID, r.nodes(t, again)["film"].ReusedFrom, "another job made the same video")
		require.Equal(t, models.WorkflowCompleted, r.reload(t, again).Status)
		r.RequireInvariants(t)

		other := begin()
		_, err = r.approve(t, other, "a")
		require.NoError(t, err)
		r.settle(t)
		require.Equal(t, queued, r.states(t, other)["film"], "the other video is picked")
		r.rendered(t, other, "film", "another film")

		byName := stitch("film", "b")
		byName.Job.Reuse = true
		direct := r.submit(t, node("b"), byName)
		r.rendered(t, direct, "b", "the other video b")
		r.settle(t)
		require.Equal(t, r.nodes(t, again)["film"].ID, r.nodes(t, direct)["film"].ReusedFrom, "the video counts, whichever node names it")
		r.RequireInvariants(t)
	})

	t.Run("OfADraftComparesTheVideoThatContinuesIt", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		begin := func() *models.Workflow {
			t.Helper()
			film := stitch("film", "full")
			film.Job.Reuse = true
			w := r.submit(t, draft("a", 1), draft("b", 2), ofDrafts("", "a", "b"), full(), film)
			jobstest.FinishDraft(t, r.Stack, r.worker, r.nodes(t, w)["a"])
			jobstest.FinishDraft(t, r.Stack, r.worker, r.nodes(t, w)["b"])
			r.pass(t, 1)
			_, err := r.approve(t, w, "a")
			require.NoError(t, err)
			require.Nil(t, r.nodes(t, w)["full"].ReuseDigest, "its own result is never reused")
			r.rendered(t, w, "full", "the whole video")
			return w
		}
		first := begin()
		r.settle(t)
		r.rendered(t, first, "film", "a film")
		again := begin()
		r.settle(t)
		require.Equal(t, r.nodes(t, first)["film"].ID, r.nodes(t, again)["film"].ReusedFrom)
		r.RequireInvariants(t)
	})
}
