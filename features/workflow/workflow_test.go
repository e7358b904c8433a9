package workflow_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { jobstest.Main(m) }

// rig is a stack with workflows and a worker.
type rig struct {
	*jobstest.Stack
	workflows *workflow.Workflows
	worker    jobs.Principal
}

func newRig(t *testing.T) rig {
	t.Helper()
	s := jobstest.New(t)
	return rig{s, s.Workflows, s.Worker(t, "one")}
}

// node is a node that renders a second of testcard.
func node(key string, after ...string) workflow.Node {
	return workflow.Node{Key: key, After: after, Job: submit.Submission{
		Model: "testcard", Prompt: "fog over " + key, Params: []byte(`{"durationSeconds": 1, "pace": 0}`),
		Retry: nil, MaxAttempts: new(1),
	}}
}

func policy(n workflow.Node, p models.FailurePolicy) workflow.Node {
	n.OnParentFailure = p
	return n
}

func (r rig) submit(t *testing.T, nodes ...workflow.Node) *models.Workflow {
	t.Helper()
	w, known, err := r.workflows.Submit(t.Context(), r.Client, workflow.Input{Name: "film", Jobs: nodes})
	require.NoError(t, err)
	require.False(t, known)
	return w
}

// states returns the status of each node's job.
func (r rig) states(t *testing.T, w *models.Workflow) map[string]models.JobStatus {
	t.Helper()
	states := map[string]models.JobStatus{}
	for key, job := range r.nodes(t, w) {
		states[key] = job.Status
	}
	return states
}

func (r rig) nodes(t *testing.T, w *models.Workflow) map[string]*models.Job {
	t.Helper()
	nodes, err := models.ListWorkflowNodes(t.Context(), r.DB, w.ID)
	require.NoError(t, err)
	all := map[string]*models.Job{}
	for _, n := range nodes {
		all[n.Key] = r.Reload(t, n.JobID)
	}
	return all
}

func (r rig) reload(t *testing.T, w *models.Workflow) *models.Workflow {
	t.Helper()
	now, err := models.GetWorkflow(t.Context(), r.DB, w.ID)
	require.NoError(t, err)
	return now
}

// next leases the next job, and ends it well or badly. It returns the key of its node.
func (r rig) next(t *testing.T, w *models.Workflow, ends models.JobStatus) string {
	t.Helper()
	granted, fence := r.Lease(t, r.worker)
	if ends == models.JobCompleted {
		video := r.Upload(t, r.worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		_, err := r.Attempts.Complete(t.Context(), r.worker, fence, lease.Completion{Video: &video})
		require.NoError(t, err)
	} else {
		_, err := r.Attempts.Fail(t.Context(), r.worker, fence, lease.Failure{Class: models.FailModelCrash, Message: "it broke"})
		require.NoError(t, err)
	}
	for key, job := range r.nodes(t, w) {
		if job.ID == granted.Job.ID {
			return key
		}
	}
	require.Fail(t, "the job is of no node")
	return ""
}

const (
	blocked, queued, completed, failed, cancelled = models.JobBlocked, models.JobQueued, models.JobCompleted, models.JobFailed,
		models.JobCancelled
)

func TestWorkflow(t *testing.T) {
	t.Parallel()

	t.Run("StartsEachNodeWhenItsParentsAreCompleted", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.submit(t, node("end", "left", "right"), node("left", "start"), node("right", "start"), node("start"))
		require.Equal(t, map[string]models.JobStatus{"start": queued, "left": blocked, "right": blocked, "end": blocked}, r.states(t, w))

		require.Equal(t, "start", r.next(t, w, completed))
		require.Equal(t, map[string]models.JobStatus{"start": completed, "left": queued, "right": queued, "end": blocked}, r.states(t, w))
		r.next(t, w, completed)
		require.Equal(t, blocked, r.states(t, w)["end"])
		r.next(t, w, completed)
		require.Equal(t, models.WorkflowRunning, r.reload(t, w).Status)
		require.Equal(t, "end", r.next(t, w, completed))

		now := r.reload(t, w)
		require.Equal(t, models.WorkflowCompleted, now.Status)
		require.Zero(t, now.Open)
		r.RequireInvariants(t)
	})

	t.Run("FailsDescendantsOfAFailedNodeAndRetriesThatPartOnly", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.submit(t, node("a"), node("b", "a"), node("c", "b"), node("other"))
		for range 2 {
			if r.nodes(t, w)["a"].Status == queued {
				end := completed
				if r.states(t, w)["other"] == completed {
					end = failed
				}
				r.next(t, w, end)
			}
		}
		if r.states(t, w)["other"] != completed { // the order of the two is not ours
			r.next(t, w, completed)
		}
		states := r.states(t, w)
		if states["a"] == completed {
			r.next(t, w, failed)
			states = r.states(t, w)
			require.Equal(t, map[string]models.JobStatus{"a": completed, "b": failed, "c": failed, "other": completed}, states)
		}
		require.Equal(t, models.WorkflowFailed, r.reload(t, w).Status)
		require.Equal(t, models.FailDependency, r.nodes(t, w)["c"].FailureClass)

		again, err := r.workflows.Retry(t.Context(), r.Client, w.ID, false)
		require.NoError(t, err)
		require.Equal(t, models.WorkflowRunning, again.Status)
		require.Equal(t, 2, again.Run)
		require.Equal(t, completed, r.states(t, w)["other"])
		_, err = r.workflows.Retry(t.Context(), r.Client, w.ID, false)
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		for r.reload(t, w).Status == models.WorkflowRunning {
			r.next(t, w, completed)
		}
		require.Equal(t, models.WorkflowCompleted, r.reload(t, w).Status)
		r.RequireInvariants(t)
	})

	t.Run("RunsANodeAnywayIfItsPolicyIsContinue", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.submit(t, node("a"), policy(node("b", "a"), models.FailureContinue))

		r.next(t, w, failed)
		require.Equal(t, map[string]models.JobStatus{"a": failed, "b": queued}, r.states(t, w))
		r.next(t, w, completed)

		require.Equal(t, models.WorkflowCompleted, r.reload(t, w).Status, "the failure is tolerated")
		r.RequireInvariants(t)
	})

	t.Run("WaitsAgainForAParentThatIsRetriedBeforeItRan", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.submit(t, node("a"), node("b", "a"), policy(node("c", "a", "b"), models.FailureContinue))
		r.next(t, w, completed)
		require.Equal(t, "b", r.next(t, w, failed))
		require.Equal(t, queued, r.states(t, w)["c"])
		r.next(t, w, completed)

		w = r.submit(t, node("a"), node("slow"), policy(node("c", "a", "slow"), models.FailureContinue))
		for r.nodes(t, w)["a"].Status != failed {
			if key := r.next(t, w, failed); key == "slow" {
				retrier := &operate.Retrier{DB: r.DB, Catalogue: r.Submitter.Catalogue, Sealer: r.Submitter.Sealer, Notifier: r.Notifier}
				_, err := retrier.Retry(t.Context(), r.Client, r.nodes(t, w)["slow"].ID, false)
				require.NoError(t, err)
				r.RequireInvariants(t)
			}
		}
		retrier := &operate.Retrier{DB: r.DB, Catalogue: r.Submitter.Catalogue, Sealer: r.Submitter.Sealer, Notifier: r.Notifier}
		if r.states(t, w)["slow"] == queued {
			require.Equal(t, 1, r.nodes(t, w)["c"].BlockedBy)
			_, err := retrier.Retry(t.Context(), r.Client, r.nodes(t, w)["a"].ID, false)
			require.NoError(t, err)
			require.Equal(t, 2, r.nodes(t, w)["c"].BlockedBy)
		}
		for r.reload(t, w).Status == models.WorkflowRunning {
			r.next(t, w, completed)
		}
		require.Equal(t, models.WorkflowCompleted, r.reload(t, w).Status)
		r.RequireInvariants(t)
	})

	t.Run("RetriesAParentTwiceIfADependentDemandsIt", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.submit(t, node("a"), policy(node("b", "a"), models.FailureRetry), node("c", "a"))
		for try := range 3 {
			require.Equal(t, "a", r.next(t, w, failed), "try %d", try)
			r.RequireInvariants(t)
			n, err := r.workflows.RetryParents(t.Context())
			require.NoError(t, err)
			if try < 2 {
				require.Equal(t, 1, n)
				require.Equal(t, map[string]models.JobStatus{"a": queued, "b": blocked, "c": blocked}, r.states(t, w))
			}
		}
		require.Equal(t, map[string]models.JobStatus{"a": failed, "b": failed, "c": failed}, r.states(t, w))
		require.Equal(t, models.WorkflowFailed, r.reload(t, w).Status)
		r.RequireInvariants(t)
	})

	t.Run("FailsANodeThatWouldContinueIfItTakesAValueFromTheFailedOne", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		takes := policy(node("b"), models.FailureContinue)
		takes.Job.Prompt = "{{a.output.text}}"
		w := r.submit(t, node("a"), takes, policy(node("c", "b"), models.FailureContinue))

		r.next(t, w, failed)

		require.Equal(t, map[string]models.JobStatus{"a": failed, "b": failed, "c": queued}, r.states(t, w))
		b := r.nodes(t, w)["b"]
		require.Equal(t, models.FailInvalidInput, b.FailureClass)
		require.Equal(t, "it takes the output of job "+string(r.nodes(t, w)["a"].ID)+", which is FAILED", b.FailureReason)
		r.RequireInvariants(t)
		_, err := r.workflows.Retry(t.Context(), r.Client, w.ID, false)
		require.NoError(t, err)
		require.Equal(t, map[string]models.JobStatus{"a": queued, "b": blocked, "c": queued}, r.states(t, w))
		r.RequireInvariants(t)
	})

	t.Run("CancelsAllThatHasNotEnded", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.submit(t, node("a"), policy(node("b", "a"), models.FailureContinue), node("c", "b"))
		_, fence := r.Lease(t, r.worker)

		now, err := r.workflows.Cancel(t.Context(), r.Client, w.ID, "a mistake")
		require.NoError(t, err)
		require.Equal(t, models.WorkflowRunning, now.Status, "a job still stops")
		_, err = r.Attempts.Fail(t.Context(), r.worker, fence, lease.Failure{Class: models.FailTransient, Message: "stopped"})
		require.NoError(t, err)

		require.Equal(t, map[string]models.JobStatus{"a": cancelled, "b": cancelled, "c": cancelled}, r.states(t, w))
		now, err = r.workflows.Cancel(t.Context(), r.Client, w.ID, "")
		require.NoError(t, err)
		require.Equal(t, models.WorkflowCancelled, now.Status)
		require.Equal(t, "a mistake", now.CancelReason)
		r.RequireInvariants(t)

		again, err := r.workflows.Retry(t.Context(), r.Client, w.ID, false)
		require.NoError(t, err)
		require.Equal(t, models.WorkflowRunning, again.Status)
		require.Empty(t, again.CancelReason)
		for r.reload(t, w).Status == models.WorkflowRunning {
			r.next(t, w, completed)
		}
		require.Equal(t, models.WorkflowCompleted, r.reload(t, w).Status)
		_, err = r.workflows.Cancel(t.Context(), r.Client, w.ID, "")
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		r.RequireInvariants(t)
	})

	t.Run("SkipsANodeAndOverridesADependency", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.submit(t, node("a"), node("b", "a"), node("c", "b"), node("d", "a", "c"))

		_, err := r.workflows.Skip(t.Context(), r.Client, w.ID, "b")
		require.NoError(t, err)
		require.Equal(t, map[string]models.JobStatus{"a": queued, "b": cancelled, "c": queued, "d": blocked}, r.states(t, w))
		_, err = r.workflows.Override(t.Context(), r.Client, w.ID, "d", "c")
		require.NoError(t, err)
		_, err = r.workflows.Override(t.Context(), r.Client, w.ID, "d", "b")
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
		_, err = r.workflows.Override(t.Context(), r.Client, w.ID, "c", "b")
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		require.Equal(t, 1, r.nodes(t, w)["d"].BlockedBy)
		_, err = r.workflows.Override(t.Context(), r.Client, w.ID, "d", "a")
		require.NoError(t, err)
		require.Equal(t, queued, r.states(t, w)["d"])
		for r.reload(t, w).Status == models.WorkflowRunning {
			r.next(t, w, completed)
		}
		require.Equal(t, models.WorkflowCompleted, r.reload(t, w).Status)
		r.RequireInvariants(t)
	})

	t.Run("DoesNotStartAnUnfitNodeByAnOverride", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		unfit := node("end", "slow")
		unfit.Job.Prompt = "{{a.output.text}}"
		slow := node("slow")
		slow.Job.Priority = -1
		w := r.submit(t, node("a"), slow, unfit)
		_, err := r.workflows.Override(t.Context(), r.Client, w.ID, "end", "a")
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		require.ErrorContains(t, err, "it cannot run without it")

		require.Equal(t, "a", r.next(t, w, completed)) // without a value
		_, err = r.workflows.Override(t.Context(), r.Client, w.ID, "end", "slow")
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		require.ErrorContains(t, err, "The node end does not wait for slow.")

		require.Equal(t, map[string]models.JobStatus{"a": completed, "slow": queued, "end": failed}, r.states(t, w))
		r.next(t, w, completed)
		require.Equal(t, models.WorkflowFailed, r.reload(t, w).Status)
		r.RequireInvariants(t)
	})

	t.Run("SkipsAFailedNode", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.submit(t, node("a"), node("b", "a"))
		r.next(t, w, failed)
		_, err := r.workflows.Skip(t.Context(), r.Client, w.ID, "a")
		require.NoError(t, err)
		require.Equal(t, models.WorkflowFailed, r.reload(t, w).Status)
		_, err = r.workflows.Retry(t.Context(), r.Client, w.ID, false)
		require.NoError(t, err)
		require.Equal(t, map[string]models.JobStatus{"a": failed, "b": queued}, r.states(t, w))
		require.Equal(t, "b", r.next(t, w, completed))
		require.Equal(t, models.WorkflowCompleted, r.reload(t, w).Status)
		r.RequireInvariants(t)
	})

	t.Run("SkipsACancelledNode", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.submit(t, node("a"), node("b", "a"))
		_, err := r.workflows.Cancel(t.Context(), r.Client, w.ID, "")
		require.NoError(t, err)
		_, err = r.workflows.Skip(t.Context(), r.Client, w.ID, "a")
		require.NoError(t, err)
		require.Equal(t, models.WorkflowCancelled, r.reload(t, w).Status)
		r.RequireInvariants(t)
	})

	t.Run("ReusesWhatAnEarlierOneCompleted", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		film := func(second string) workflow.Input {
			changed := node("s2")
			changed.Job.Prompt = second
			stitch := workflow.Node{Key: "film", Job: submit.Submission{Model: "video.stitch",
				Params: []byte(`{"clips": ["{{s1.video}}", "{{s2.video}}"]}`)}}
			return workflow.Input{Name: "film", Jobs: []workflow.Node{node("s1"), changed, stitch}, Output: "film"}
		}
		first, _, err := r.workflows.Submit(t.Context(), r.Client, film("a harbour"))
		require.NoError(t, err)
		for r.reload(t, first).Status == models.WorkflowRunning {
			r.next(t, first, completed)
		}

		in := film("a lighthouse")
		in.Reuse = first.ID
		second, _, err := r.workflows.Submit(t.Context(), r.Client, in)
		require.NoError(t, err)
		require.Equal(t, map[string]models.JobStatus{"s1": completed, "s2": queued, "film": blocked}, r.states(t, second))
		require.Equal(t, r.nodes(t, first)["s1"].ID, r.nodes(t, second)["s1"].ID)
		for r.reload(t, second).Status == models.WorkflowRunning {
			r.next(t, second, completed)
		}

		in.Reuse = second.ID
		third, _, err := r.workflows.Submit(t.Context(), r.Client, in)
		require.NoError(t, err)
		require.Equal(t, models.WorkflowCompleted, third.Status, "nothing has changed")

		in.IdempotencyKey = new("the same")
		same := make([]models.WorkflowID, 4)
		var all sync.WaitGroup
		for i := range same {
			all.Go(func() {
				w, _, err := r.workflows.Submit(t.Context(), r.Client, in)
				if assert.NoError(t, err) {
					same[i] = w.ID
				}
			})
		}
		all.Wait()
		require.Len(t, slices.Compact(same), 1)
		r.RequireInvariants(t)
	})

	t.Run("CountsTwoParentsThatEndAtOnce", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.submit(t, node("a"), node("b"), node("c", "a", "b"))
		two := r.Worker(t, "two")
		workers, fences := []jobs.Principal{r.worker, two}, make([]lease.Fence, 2)
		for i, worker := range workers {
			_, fences[i] = r.Lease(t, worker)
		}
		// Both ends read what waits for them before either is committed, unless the first keeps
		// the second from it: they lock the account last.
		account, err := r.DB.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = account.ExecContext(t.Context(), "SELECT FROM accounts FOR UPDATE")
		require.NoError(t, err)
		var ends sync.WaitGroup
		for i, worker := range workers {
			video := r.Upload(t, worker, fences[i], models.ArtifactFinalVideo, []byte("a video"))
			// Each in a process of its own: one process would write both ends in one transaction.
			holder := lease.NewAttempts(r.DB, r.Attempts.Objects, r.Attempts.Catalogue, r.Attempts.Leaser)
			ends.Go(func() {
				_, err := holder.Complete(t.Context(), worker, fences[i], lease.Completion{Video: &video})
				assert.NoError(t, err)
			})
		}
		r.WaitForLocks(t, 2)
		require.NoError(t, account.Commit())
		ends.Wait()

		require.Equal(t, map[string]models.JobStatus{"a": completed, "b": completed, "c": queued}, r.states(t, w))
		r.RequireInvariants(t)
	})

	t.Run("OpensOneRunOfEachNodeForTwoRetriesAtOnce", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.submit(t, node("a"), node("b", "a"), policy(node("c", "a", "b"), models.FailureContinue), node("d", "c"))
		_, err := r.workflows.Cancel(t.Context(), r.Client, w.ID, "")
		require.NoError(t, err)
		// The first keeps its locks until the account is free. The second waits for them.
		account, err := r.DB.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = account.ExecContext(t.Context(), "SELECT FROM accounts FOR UPDATE")
		require.NoError(t, err)
		var retries sync.WaitGroup
		errs := make([]error, 2)
		for i := range errs {
			retries.Go(func() { _, errs[i] = r.workflows.Retry(t.Context(), r.Client, w.ID, false) })
		}
		r.WaitForLocks(t, 2)
		require.NoError(t, account.Commit())
		retries.Wait()

		require.Len(t, slices.DeleteFunc(errs, func(err error) bool { return err == nil }), 1)
		jobstest.RequireCode(t, errs[0], apierror.CodeConflict)
		require.Equal(t, 4, r.Count(t, "job_runs"))
		require.Equal(t, 2, r.reload(t, w).Run)
		for key, job := range r.nodes(t, w) {
			require.Equal(t, 2, job.Run, key)
		}
		require.Equal(t, map[string]models.JobStatus{"a": queued, "b": blocked, "c": blocked, "d": blocked}, r.states(t, w))
		r.RequireInvariants(t)
	})

	t.Run("CancelsWhatAConcurrentRetryHasOpened", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.submit(t, node("a"), node("b"))
		require.Equal(t, "a", r.next(t, w, failed))
		_, err := r.workflows.Cancel(t.Context(), r.Client, w.ID, "")
		require.NoError(t, err)
		// The retry keeps its locks until the account is free.
		account, err := r.DB.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = account.ExecContext(t.Context(), "SELECT FROM accounts FOR UPDATE")
		require.NoError(t, err)
		var both sync.WaitGroup
		both.Go(func() {
			_, err := r.workflows.Retry(t.Context(), r.Client, w.ID, false)
			assert.NoError(t, err)
		})
		r.WaitForLocks(t, 1)
		both.Go(func() {
			_, err := r.workflows.Cancel(t.Context(), r.Client, w.ID, "")
			assert.NoError(t, err)
		})
		r.WaitForLocks(t, 2)
		require.NoError(t, account.Commit())
		both.Wait()

		require.Equal(t, map[string]models.JobStatus{"a": cancelled, "b": cancelled}, r.states(t, w))
		r.RequireInvariants(t)
	})

	t.Run("IsNotRetriedWhileItIsBeingCancelled", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.submit(t, node("a"), node("b"))
		require.Equal(t, "a", r.next(t, w, failed))
		account, err := r.DB.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = account.ExecContext(t.Context(), "SELECT FROM accounts FOR UPDATE")
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() {
			_, err := r.workflows.Cancel(t.Context(), r.Client, w.ID, "")
			done <- err
		}()
		r.WaitForLocks(t, 1)

		_, err = r.workflows.Retry(t.Context(), r.Client, w.ID, false)

		jobstest.RequireCode(t, err, apierror.CodeConflict)
		require.NoError(t, account.Commit())
		require.NoError(t, <-done)
		_, err = r.workflows.Retry(t.Context(), r.Client, w.ID, false)
		require.NoError(t, err)
		require.Equal(t, map[string]models.JobStatus{"a": queued, "b": queued}, r.states(t, w))
		r.RequireInvariants(t)
	})

	t.Run("DoesNotRetryANodeThatIsSkippedMeanwhile", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.submit(t, node("a"), node("b"))
		_, err := r.workflows.Cancel(t.Context(), r.Client, w.ID, "")
		require.NoError(t, err)
		// The skip keeps its lock on the job until the workflow is free. The retry has read the node then.
		row, err := r.DB.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = row.ExecContext(t.Context(), "SELECT FROM workflows FOR UPDATE")
		require.NoError(t, err)
		var both sync.WaitGroup
		both.Go(func() {
			_, err := r.workflows.Skip(t.Context(), r.Client, w.ID, "b")
			assert.NoError(t, err)
		})
		r.WaitForLocks(t, 1)
		both.Go(func() {
			_, err := r.workflows.Retry(t.Context(), r.Client, w.ID, false)
			assert.NoError(t, err)
		})
		r.WaitForLocks(t, 2)
		require.NoError(t, row.Commit())
		both.Wait()

		require.Equal(t, map[string]models.JobStatus{"a": queued, "b": cancelled}, r.states(t, w))
		r.RequireInvariants(t)
	})

	// PostgreSQL checks a row again after it has waited for its lock. It must find it fit then, also by
	// the plan that it takes for many nodes, which the settings force.
	t.Run("CountsTwoParentsOfManyThatEndAtOnce", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		r.Exec(t, "UPDATE accounts SET max_queued = 10000")
		nodes := []workflow.Node{node("a"), node("b"), node("d", "a")}
		for i := range 3000 {
			nodes = append(nodes, node(fmt.Sprint("c", i), "a", []string{"b", "d"}[min(i/20, 1)]))
		}
		w := r.submit(t, nodes...)
		r.Exec(t, "ANALYZE jobs, job_dependencies")
		all := r.nodes(t, w)
		first, err := r.DB.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = first.ExecContext(t.Context(), "UPDATE jobs SET blocked_by = blocked_by WHERE id = ?", all["c7"].ID)
		require.NoError(t, err)
		second, err := r.DB.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = second.ExecContext(t.Context(),
			"SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL enable_seqscan = off")
		require.NoError(t, err)
		var waiting []*models.Job
		var found sync.WaitGroup
		found.Go(func() { waiting, _, err = models.LockWaiting(t.Context(), second, []models.JobID{all["b"].ID}, nil) })
		r.WaitForLocks(t, 1)
		require.NoError(t, first.Commit())
		found.Wait()

		require.NoError(t, err)
		require.Len(t, waiting, 20)
		require.NoError(t, second.Rollback())
	})

	t.Run("ReleasesTheNextNodeInTheTransactionThatEndsItsParent", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		w := r.submit(t, node("a"), node("b", "a"))
		r.Exec(t, `CREATE FUNCTION b_waits_on() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN
				IF EXISTS (SELECT FROM job_dependencies d JOIN jobs j ON j.id = d.job_id WHERE d.depends_on = NEW.id AND j.status = 'BLOCKED') THEN
					RAISE 'the parent is committed, and its child waits on';
				END IF;
				RETURN NULL;
			END $$`)
		r.Exec(t, `CREATE CONSTRAINT TRIGGER b_waits_on AFTER UPDATE ON jobs DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW WHEN (NEW.status = 'COMPLETED') EXECUTE FUNCTION b_waits_on()`)

		require.Equal(t, "a", r.next(t, w, completed))
		require.Equal(t, queued, r.states(t, w)["b"])
	})

	t.Run("IsSubmittedOnceForAnIdempotencyKey", func(t *testing.T) {
		t.Parallel()

		r := newRig(t)
		in := workflow.Input{Name: "film", Jobs: []workflow.Node{node("a"), node("b", "a")}, IdempotencyKey: new("k")}
		var all sync.WaitGroup
		ids := make([]models.WorkflowID, 4)
		for i := range ids {
			all.Go(func() {
				w, _, err := r.workflows.Submit(t.Context(), r.Client, in)
				if err == nil {
					ids[i] = w.ID
				}
			})
		}
		all.Wait()
		require.Len(t, slices.Compact(ids), 1)
		require.NotEmpty(t, ids[0])
		require.Equal(t, 2, r.Count(t, "jobs"))
		in.Jobs = in.Jobs[:1]
		_, _, err := r.workflows.Submit(t.Context(), r.Client, in)
		jobstest.RequireCode(t, err, apierror.CodeIdempotencyConflict)
	})
}

func TestBadWorkflows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := r.NewKey(t, r.NewAccount(t, "other", models.TierPro), access.RoleClient)
	theirs, _, err := r.Submitter.Submit(t.Context(), other, node("x").Job)
	require.NoError(t, err)

	with := func(n workflow.Node, change func(*submit.Submission)) workflow.Node {
		change(&n.Job)
		return n
	}
	many := make([]workflow.Node, workflow.MaxNodes+1)
	for i := range many {
		many[i] = node(fmt.Sprint("n", i))
	}
	for name, c := range map[string]struct {
		nodes []workflow.Node
		field string
		says  string
	}{
		"nothing":        {nil, "jobs", "no jobs"},
		"too many":       {many, "jobs", "10000"},
		"a self edge":    {[]workflow.Node{node("a", "a")}, "jobs.a.after", "itself"},
		"a cycle":        {[]workflow.Node{node("a", "c"), node("b", "a"), node("c", "b"), node("d", "c")}, "jobs", "→"},
		"an unknown key": {[]workflow.Node{node("a", "b")}, "jobs.a.after", "comes after b"},
		"a repeated key": {[]workflow.Node{node("a"), node("a")}, "jobs.a", "twice"},
		"a bad key":      {[]workflow.Node{node("a b")}, "jobs", "not valid"},
		"a key of a job": {[]workflow.Node{with(node("a"), func(in *submit.Submission) { in.IdempotencyKey = new("k") })},
			"jobs.a.job.idempotencyKey", "whole workflow"},
		"a bad job": {[]workflow.Node{node("a"), with(node("b", "a"),
			func(in *submit.Submission) { in.Params = []byte(`{"durationSeconds": 1000}`) })}, "jobs.b.job.params.durationSeconds", "node b"},
		"an unknown result": {[]workflow.Node{with(node("a"),
			func(in *submit.Submission) { in.Params = []byte(`{"referenceImage": "{{b.lastFrame}}"}`) })}, "jobs.a.job.params", "no node"},
		"a result of itself": {[]workflow.Node{with(node("a"),
			func(in *submit.Submission) { in.Params = []byte(`{"referenceImage": "{{a.lastFrame}}"}`) })}, "jobs.a.after", "itself"},
		"an unknown output": {[]workflow.Node{node("a"), with(node("b"),
			func(in *submit.Submission) { in.Params = []byte(`{"referenceImage": "{{a.sound}}"}`) })}, "jobs.b.job.params", "outputs"},
		"a video as a frame": {[]workflow.Node{node("a"), with(node("b"),
			func(in *submit.Submission) { in.Params = []byte(`{"referenceImage": "{{a.video}}"}`) })}, "jobs.b.job.params.referenceImage",
			"such as a.lastFrame"},
		"a file in a prompt": {[]workflow.Node{node("a"), with(node("b"), func(in *submit.Submission) { in.Prompt = "like {{a.video}}" })},
			"jobs.b.job.prompt", "whole value"},
		"another's job": {[]workflow.Node{with(node("a"), func(in *submit.Submission) { in.DependsOn = []models.JobID{theirs.ID} })},
			"jobs.a.job.dependsOn", ""},
		"another's video": {[]workflow.Node{with(node("a"), func(in *submit.Submission) {
			in.Model, in.Prompt, in.Params = "video.stitch", "", []byte(fmt.Sprintf(`{"clips": [%q]}`, theirs.ID))
		})}, "jobs.a.job.params.clips.0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := r.workflows.Submit(t.Context(), r.Client, workflow.Input{Name: "film", Jobs: c.nodes})
			var refused *apierror.Error
			require.ErrorAs(t, err, &refused)
			require.Equal(t, c.field, refused.Field)
			require.Contains(t, refused.Message, c.says)
			require.Contains(t, []apierror.Code{apierror.CodeInvalidInput, apierror.CodeNotFound}, refused.Code)
		})
	}
	require.Zero(t, r.Count(t, "workflows"))
	require.Equal(t, 1, r.Count(t, "jobs"))
}
