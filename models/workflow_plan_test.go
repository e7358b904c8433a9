package models_test

import (
	"context"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// cancelledWorkflow inserts an account with a workflow of 3,000 nodes whose jobs are cancelled.
var cancelledWorkflow = []string{
	`INSERT INTO accounts (id, name, tier, max_queued, max_running, submits_per_minute)
		VALUES (md5('new')::uuid, 'new', 'PRO', 1e6, 1e6, 1e6)`,
	`INSERT INTO workflows (id, account_id, name, status, nodes, open, failed, request_digest, cancel_requested_at, completed_at)
		SELECT md5('f')::uuid, md5('new')::uuid, 'f', 'CANCELLED', 3000, 0, 3000, '', now(), now()`,
	`INSERT INTO jobs (id, account_id, type, model, status, tier, lane, params, max_attempts, timeout_seconds, estimated_gpu_seconds, cancel_requested_at, completed_at, workflow_id)
		SELECT md5('n' || i)::uuid, md5('new')::uuid, 'video.generate', 'testcard', 'CANCELLED', 'PRO', 'PRO', '{}', 3, 600, 5, now(), now(), md5('f')::uuid
		FROM generate_series(1, 3000) i`,
	`INSERT INTO workflow_nodes (workflow_id, key, position, job_id, after, on_parent_failure, tolerated, digest, reused)
		SELECT md5('f')::uuid, 'n' || i, i, md5('n' || i)::uuid, '{}', 'CASCADE', false, '', false FROM generate_series(1, 3000) i`,
}

func TestWorkflowQueries(t *testing.T) {
	t.Parallel()

	t.Run("FindEachJobByItsIDWhileStatisticsAreOld", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		modelstest.FillWith(t, db, 8, 4000, 0, 1) // no job has ended, and the statistics say so
		for _, query := range cancelledWorkflow { // after the ANALYZE
			_, err := db.ExecContext(t.Context(), query)
			require.NoError(t, err)
		}
		last := &modelstest.LastQuery{}
		watched := db.WithQueryHook(last)
		var account models.AccountID
		var workflow models.WorkflowID
		require.NoError(t, db.NewRaw(`SELECT account_id, id FROM workflows`).Scan(t.Context(), &account, &workflow))

		for name, run := range map[string]func(ctx context.Context, tx bun.Tx) (int, error){
			"LockFailedNodes": func(ctx context.Context, tx bun.Tx) (int, error) {
				jobs, err := models.LockFailedNodes(ctx, tx, workflow)
				return len(jobs), err
			},
			"CountJobs": func(ctx context.Context, tx bun.Tx) (int, error) {
				f := joblist.JobFilter{AccountID: account, Status: []models.JobStatus{models.JobFailed, models.JobCancelled}}
				f.Terms.WorkflowID = workflow
				return joblist.CountJobs(ctx, tx, f, 10_000)
			},
		} {
			var found int
			err := watched.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) (err error) {
				found, err = run(ctx, tx)
				return err
			})
			require.NoError(t, err, name)
			require.Equal(t, 3000, found, name)

			plan := modelstest.Explain(t, db, last.Text)

			require.NotContains(t, plan.Text, "by_kind", name)
			require.LessOrEqual(t, plan.Rows, 20_000, "%s reads too much:\n%s", name, plan.Text)
		}
	})
}
