package workflow_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/samber/lo"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// stopped runs a request that stops where it writes to a table, and calls meanwhile then. What
// meanwhile does must not need to write to that table.
func (r rig) stopped(t *testing.T, table string, request func(ctx context.Context) error, meanwhile func()) {
	t.Helper()
	obstacle, err := r.DB.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer obstacle.Rollback()
	_, err = obstacle.NewRaw("SET LOCAL idle_in_transaction_session_timeout = 0; LOCK TABLE ? IN SHARE MODE", bun.Ident(table)).Exec(t.Context())
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- request(t.Context()) }()
	testrun.Eventually(t, "the request stops at the table "+table, func() bool {
		select {
		case err := <-done:
			require.NoError(t, err)
			require.Fail(t, "it did not stop")
		default:
		}
		// Autovacuum may wait for the table, too, with another lock. The table has the same number in the
		// databases of other tests, which were made from one template.
		var waiting int
		err := r.DB.NewRaw(`SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = ?::regclass AND mode = 'RowExclusiveLock'
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, table).Scan(t.Context(), &waiting)
		return err == nil && waiting == 1
	})

	meanwhile()

	require.NoError(t, obstacle.Rollback())
	require.NoError(t, <-done)
}

// complete completes a leased job.
func (r rig) complete(t *testing.T, worker jobs.Principal, fence lease.Fence) {
	t.Helper()
	video := r.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
	_, err := r.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
	require.NoError(t, err)
}

// works leases and completes a job of the account. It fails if that has to wait for something.
func (r rig) works(t *testing.T) {
	t.Helper()
	_, fence := r.Lease(t, r.worker)
	_, err := r.Attempts.Heartbeat(t.Context(), r.worker, fence, nil)
	require.NoError(t, err)
	r.complete(t, r.worker, fence)
}

// fan is a node that others depend on, and these.
func fan(n int, as models.FailurePolicy) []workflow.Node {
	nodes := []workflow.Node{node("root")}
	for i := range n {
		nodes = append(nodes, policy(node(fmt.Sprint("leaf", i), "root"), as))
	}
	return nodes
}

// count counts the jobs of a workflow by their status.
func (r rig) count(t *testing.T, w *models.Workflow) map[models.JobStatus]int {
	t.Helper()
	var rows []struct {
		Status models.JobStatus
		N      int
	}
	require.NoError(t, r.DB.NewRaw("SELECT status, count(*) AS n FROM jobs WHERE workflow_id = ? GROUP BY status", w.ID).Scan(t.Context(),
		&rows))
	counts := map[models.JobStatus]int{}
	for _, row := range rows {
		counts[row.Status] = row.N
	}
	return counts
}

func (r rig) settle(t *testing.T) int {
	t.Helper()
	n, err := r.Settler.Settle(t.Context())
	require.NoError(t, err)
	return n
}

// A request of one account can take as long as the account likes. The rows for which the leases
// and ends of its other jobs wait must be free meanwhile: their workers serve all accounts.
func TestLongRequests(t *testing.T) {
	t.Parallel()

	roomy := func(t *testing.T) rig {
		t.Helper()
		r := newRig(t)
		r.Exec(t, "UPDATE accounts SET max_queued = 20000, max_running = 100")
		return r
	}

	t.Run("LetWorkersGoOnWhileAWorkflowIsSubmitted", func(t *testing.T) {
		t.Parallel()

		r := roomy(t)
		r.Submit(t)

		r.stopped(t, "job_dependencies", func(ctx context.Context) error {
			_, _, err := r.workflows.Submit(ctx, r.Client, workflow.Input{Name: "film", Jobs: fan(50, models.FailureCascade)})
			return err
		}, func() { r.works(t) })

		r.RequireInvariants(t)
	})

	t.Run("LetAJobEndOnWhichSubmittedJobsDepend", func(t *testing.T) {
		t.Parallel()

		for ends, becomes := range map[models.JobStatus]models.JobStatus{completed: queued, failed: failed} {
			r := roomy(t)
			parent := jobstest.SubmitAs(t, r.Stack, r.Client, func(in *submit.Submission) { in.MaxAttempts = new(1) })
			_, fence := r.Lease(t, r.worker)
			in := jobstest.Submission()
			in.DependsOn = []models.JobID{parent.ID}
			var answers []submit.Submitted

			r.stopped(t, "job_dependencies", func(ctx context.Context) (err error) {
				answers, err = r.Submitter.SubmitMany(ctx, r.Client, []submit.Submission{in, in})
				return err
			}, func() {
				if ends == completed {
					r.complete(t, r.worker, fence)
					return
				}
				_, err := r.Attempts.Fail(t.Context(), r.worker, fence, lease.Failure{Class: models.FailInvalidInput, Message: "no"})
				require.NoError(t, err)
			})

			require.Zero(t, r.Count(t, "unsettled"))
			for _, answer := range answers {
				require.Equal(t, becomes, r.Reload(t, answer.Job.ID).Status)
			}
			r.RequireInvariants(t)
		}
	})

	t.Run("LetWorkersGoOnWhileASubmitWithTheSameKeyWaits", func(t *testing.T) {
		t.Parallel()

		r := roomy(t)
		r.Submit(t)
		in := jobstest.Submission()
		in.IdempotencyKey = new("k")
		after := in
		after.IdempotencyKey, after.DependsOn = nil, []models.JobID{r.Submit(t).ID}
		again := make(chan error, 1)

		r.stopped(t, "job_dependencies", func(ctx context.Context) error {
			_, err := r.Submitter.SubmitMany(ctx, r.Client, []submit.Submission{in, after})
			return err
		}, func() {
			go func() {
				_, known, err := r.AnotherSubmitter().Submit(t.Context(), r.Client, in)
				if err == nil && !known {
					err = fmt.Errorf("the job was submitted twice")
				}
				again <- err
			}()
			r.WaitForLocks(t, 2)
			r.works(t)
		})

		require.NoError(t, <-again)
		r.RequireInvariants(t)
	})

	t.Run("CannotExceedTheQueueOfAnAccount", func(t *testing.T) {
		t.Parallel()

		r := roomy(t)
		r.Exec(t, "UPDATE accounts SET max_queued = 12")
		first := r.Submit(t)
		_, err := r.Canceller.Cancel(t.Context(), r.Client, first.ID)
		require.NoError(t, err)
		var refused error

		r.stopped(t, "job_dependencies", func(ctx context.Context) error {
			_, _, refused = r.workflows.Submit(ctx, r.Client, workflow.Input{Name: "film", Jobs: fan(11, models.FailureCascade)})
			return nil
		}, func() {
			_, err := r.Retrier.Retry(t.Context(), r.Client, first.ID, false) // it takes the last place
			require.NoError(t, err)
		})

		jobstest.RequireCode(t, refused, "QUOTA_EXCEEDED")
		require.Equal(t, 1, r.Count(t, "jobs"))
		r.RequireInvariants(t)
	})

	t.Run("LetWorkersGoOnWhileAWorkflowIsCancelled", func(t *testing.T) {
		t.Parallel()

		r := roomy(t)
		nodes := fan(120, models.FailureCascade)
		for i := range nodes {
			nodes[i].Job.CallbackURL = "http://127.0.0.1:9999/hook"
		}
		r.Submit(t)
		w := r.submit(t, nodes...)

		r.stopped(t, "webhook_events", func(ctx context.Context) error {
			_, err := r.workflows.Cancel(ctx, r.Client, w.ID, "")
			return err
		}, func() {
			var free int
			require.NoError(t, r.DB.NewRaw("SELECT count(*) FROM (SELECT FROM jobs WHERE workflow_id = ? FOR UPDATE SKIP LOCKED) j",
				w.ID).Scan(t.Context(), &free))
			require.GreaterOrEqual(t, free, 121-50)
			r.works(t)
		})

		require.Equal(t, map[models.JobStatus]int{cancelled: 121}, r.count(t, w))
		require.Equal(t, models.WorkflowCancelled, r.reload(t, w).Status)
		r.RequireInvariants(t)
	})

	t.Run("CompleteTheCancelOfAWorkflowThatWasCutOff", func(t *testing.T) {
		t.Parallel()

		r := roomy(t)
		nodes := fan(120, models.FailureCascade)
		nodes[30].Job.CallbackURL = "http://127.0.0.1:9999/hook"
		w := r.submit(t, nodes...)
		ctx, cut := context.WithCancel(t.Context())

		r.stopped(t, "webhook_events", func(context.Context) error {
			_, err := r.workflows.Cancel(ctx, r.Client, w.ID, "a mistake")
			require.Error(t, err)
			return nil
		}, cut)
		_, err := r.workflows.Retry(t.Context(), r.Client, w.ID, false)
		jobstest.RequireCode(t, err, "CONFLICT")
		// PostgreSQL may not have noticed yet that the first call is gone, and hold its rows.
		testrun.Eventually(t, "that the cancel is finished", func() bool {
			n, err := r.workflows.FinishCancels(t.Context())
			require.NoError(t, err)
			return n == 1
		})

		require.Equal(t, map[models.JobStatus]int{cancelled: 121}, r.count(t, w))
		require.Equal(t, models.WorkflowCancelled, r.reload(t, w).Status)
		for _, job := range r.nodes(t, w) {
			require.Equal(t, "a mistake", job.CancelReason)
			require.Equal(t, string(r.Client.KeyID), job.CancelBy)
		}
		r.RequireInvariants(t)
	})

	t.Run("LetWorkersGoOnWhileAWorkflowIsRetried", func(t *testing.T) {
		t.Parallel()

		r := roomy(t)
		w := r.submit(t, append(fan(60, models.FailureContinue), policy(node("last", "leaf0", "leaf1"), models.FailureContinue))...)
		lease, fence := r.Lease(t, r.worker)
		for key, job := range r.nodes(t, w) {
			if key != "root" && key != "last" {
				_, err := r.Canceller.Cancel(t.Context(), r.Client, job.ID)
				require.NoError(t, err)
			}
		}
		require.Equal(t, lease.Job.ID, r.nodes(t, w)["root"].ID)

		r.stopped(t, "job_runs", func(ctx context.Context) error {
			_, err := r.workflows.Retry(ctx, r.Client, w.ID, false)
			return err
		}, func() {
			r.complete(t, r.worker, fence) // the parent of all that are retried
			_, fence := r.Lease(t, r.worker)
			r.complete(t, r.worker, fence) // what would have run although they were cancelled
		})

		r.RequireInvariants(t)
		require.Equal(t, 60, r.settle(t))
		require.Equal(t, map[models.JobStatus]int{completed: 2, queued: 60}, r.count(t, w))
		r.RequireInvariants(t)
	})

	t.Run("LetWorkersGoOnWhileDelayedJobsAreQueued", func(t *testing.T) {
		t.Parallel()

		r := roomy(t)
		for range 60 {
			jobstest.SubmitAs(t, r.Stack, r.Client, func(in *submit.Submission) { in.RunAt = new(time.Now().Add(time.Hour)) })
		}
		r.Exec(t, "UPDATE jobs SET run_at = clock_timestamp()")
		r.Submit(t)

		r.stopped(t, "outbox", func(ctx context.Context) error {
			n, err := r.Releaser.Due(ctx)
			require.Equal(t, 60, n)
			return err
		}, func() { r.works(t) })

		r.RequireInvariants(t)
	})

	t.Run("LetWorkersGoOnWhileABulkOperationBegins", func(t *testing.T) {
		t.Parallel()

		r := roomy(t)
		r.Submit(t)

		r.stopped(t, "bulk_items", func(ctx context.Context) error {
			_, err := r.Bulk.Start(ctx, r.Client, bulk.Request{Action: joblist.BulkCancel})
			return err
		}, func() { r.works(t) })
	})

	t.Run("LetWorkersGoOnWhileAJobIsDeleted", func(t *testing.T) {
		t.Parallel()

		r := roomy(t)
		r.Submit(t)
		done, fence := r.Lease(t, r.worker)
		r.complete(t, r.worker, fence)
		r.Submit(t)

		r.stopped(t, "object_deletions", func(ctx context.Context) error {
			_, err := r.Deleter.Delete(ctx, r.Client, done.Job.ID)
			return err
		}, func() { r.works(t) })
	})

	t.Run("LetWorkersGoOnWhileTheSecretOfCallbacksIsRotated", func(t *testing.T) {
		t.Parallel()

		r := roomy(t)
		r.Submit(t)
		nodes := fan(3, models.FailureCascade)
		nodes[0].Job.CallbackURL = "http://127.0.0.1:9999/hook"
		rotated := make(chan error, 1)

		r.stopped(t, "job_dependencies", func(ctx context.Context) error { // it has made the secret
			_, _, err := r.workflows.Submit(ctx, r.Client, workflow.Input{Name: "film", Jobs: nodes})
			return err
		}, func() {
			go func() {
				_, err := r.Webhooks.RotateAccountSecret(t.Context(), r.Client)
				rotated <- err
			}()
			r.WaitForLocks(t, 2)
			r.works(t)
		})

		require.NoError(t, <-rotated)
	})

	t.Run("LeaveMostOfThoseThatWaitForAnEndToTheSettler", func(t *testing.T) {
		t.Parallel()

		for name, c := range map[string]struct {
			as      models.FailurePolicy
			end     func(r rig, t *testing.T, root *models.Job, w *models.Workflow)
			becomes models.JobStatus
			status  models.WorkflowStatus
		}{
			"completes": {models.FailureCascade, func(r rig, t *testing.T, _ *models.Job, w *models.Workflow) { r.next(t, w, completed) }, queued,
				models.WorkflowRunning},
			"fails": {models.FailureCascade, func(r rig, t *testing.T, _ *models.Job, w *models.Workflow) { r.next(t, w, failed) }, failed,
				models.WorkflowFailed},
			"tolerated": {models.FailureContinue, func(r rig, t *testing.T, _ *models.Job, w *models.Workflow) { r.next(t, w, failed) }, queued,
				models.WorkflowRunning},
			"expires": {models.FailureCascade, func(r rig, t *testing.T, root *models.Job, _ *models.Workflow) {
				r.Exec(t, "UPDATE jobs SET expires_at = clock_timestamp() WHERE id = ?", root.ID)
				n, err := r.Releaser.Expire(t.Context())
				require.NoError(t, err)
				require.Equal(t, 1, n)
			}, failed, models.WorkflowFailed},
			"cancelled": {models.FailureCascade, func(r rig, t *testing.T, root *models.Job, _ *models.Workflow) {
				_, err := r.Canceller.Cancel(t.Context(), r.Client, root.ID)
				require.NoError(t, err)
			}, failed, models.WorkflowFailed},
			"skipped": {models.FailureCascade, func(r rig, t *testing.T, _ *models.Job, w *models.Workflow) {
				_, err := r.workflows.Skip(t.Context(), r.Client, w.ID, "root")
				require.NoError(t, err)
			}, queued, models.WorkflowRunning},
		} {
			r := roomy(t)
			w := r.submit(t, fan(150, c.as)...)

			c.end(r, t, r.nodes(t, w)["root"], w)

			require.Equal(t, 50, r.count(t, w)[blocked], name)
			r.RequireInvariants(t)
			require.Equal(t, 50, r.settle(t), name)
			require.GreaterOrEqual(t, r.count(t, w)[c.becomes], 150, name)
			require.Equal(t, c.status, r.reload(t, w).Status, name)
			r.RequireInvariants(t)
		}
	})

	t.Run("SettleAChainOfHundreds", func(t *testing.T) {
		t.Parallel()

		r := roomy(t)
		nodes := []workflow.Node{node("n0")}
		for i := range 350 {
			nodes = append(nodes, node(fmt.Sprint("n", i+1), fmt.Sprint("n", i)))
		}
		w := r.submit(t, nodes...)

		r.next(t, w, failed)

		require.Equal(t, 250, r.count(t, w)[blocked])
		require.Equal(t, 1, r.Count(t, "unsettled"))
		require.Positive(t, r.settle(t))
		require.Equal(t, map[models.JobStatus]int{failed: 351}, r.count(t, w))
		require.Equal(t, models.WorkflowFailed, r.reload(t, w).Status)
		r.RequireInvariants(t)
	})

	t.Run("RetryAJobForWhichOthersAreStillToBeSettled", func(t *testing.T) {
		t.Parallel()

		r := roomy(t)
		nodes := append(fan(150, models.FailureContinue), node("other"))
		for i := range nodes[1:151] {
			nodes[i+1].After = append(nodes[i+1].After, "other")
		}
		w := r.submit(t, nodes...)
		require.Equal(t, "root", r.next(t, w, failed))
		require.Equal(t, 50, r.Count(t, "unsettled"))

		_, err := r.Retrier.Retry(t.Context(), r.Client, r.nodes(t, w)["root"].ID, false)

		require.NoError(t, err)
		require.Zero(t, r.Count(t, "unsettled"), "they wait for it again")
		r.RequireInvariants(t)
		r.next(t, w, completed)
		r.next(t, w, completed)
		r.settle(t)
		require.Equal(t, map[models.JobStatus]int{completed: 2, queued: 150}, r.count(t, w))
		r.RequireInvariants(t)
	})

	t.Run("DoNotStopPeriodicPasses", func(t *testing.T) {
		t.Parallel()

		r := roomy(t)
		busy, other := r.Submit(t), r.Submit(t)
		r.Exec(t, "UPDATE jobs SET expires_at = clock_timestamp()")
		tx, err := r.DB.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		defer tx.Rollback()
		_, err = models.LockJob(t.Context(), tx, busy.ID)
		require.NoError(t, err)

		n, err := r.Releaser.Expire(t.Context())

		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, failed, r.Reload(t, other.ID).Status)
		require.NoError(t, tx.Rollback())
		require.Equal(t, 1, lo.Must(r.Releaser.Expire(t.Context())))
	})
}
