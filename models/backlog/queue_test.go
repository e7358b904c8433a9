package backlog_test

import (
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
)

func TestNextInOrder(t *testing.T) {
	t.Parallel()

	bothModels := everyQueue()
	for _, queue := range everyQueue() {
		queue.Model = "rare"
		bothModels = append(bothModels, queue)
	}

	t.Run("ReturnsTheSameJobsAsSingleCalls", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		modelstest.FillWith(t, db, 23, 2300, 1, 1)
		for _, query := range []string{
			// All accounts begin at 0, 7 or 14, so that many have equal virtual times.
			`UPDATE account_lanes SET virtual_time = 7 * (hashtext(account_id::text) & 1) + 7 * (hashtext(account_id::text) >> 1 & 1)`,
			`UPDATE accounts SET max_running = 1 WHERE id IN (md5('a2')::uuid, md5('a3')::uuid, md5('a6')::uuid)`,
			`UPDATE accounts SET weight = 4 WHERE id IN (md5('a1')::uuid, md5('a4')::uuid)`,
			`UPDATE jobs SET estimated_gpu_seconds = 4 * (1 + (hashtext(id::text) & 7)), model = CASE hashtext(id::text) & 8 WHEN 0 THEN 'rare' ELSE model END`,
			`UPDATE jobs SET estimated_gpu_seconds = 1 WHERE account_id = md5('a5')::uuid`,
		} {
			_, err := db.ExecContext(t.Context(), query)
			require.NoError(t, err)
		}
		for _, limit := range []int{2, 10, 50} {
			expected := inOrder(contenders(t, db), limit)

			found, err := backlog.NextInOrder(t.Context(), db, bothModels, nil, nil, limit)

			require.NoError(t, err)
			var got []given
			for _, job := range found {
				got = append(got, given{job.ID, job.VirtualTime})
			}
			require.Equal(t, expected[:len(got)], got)
			require.GreaterOrEqual(t, len(got), limit/2, "few of them are left to another look")
		}
	})

	t.Run("ListsAllJobsOfAnAccountThatIsBehind", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		modelstest.FillWith(t, db, 23, 2300, 1, 1)
		_, err := db.ExecContext(t.Context(),
			`UPDATE account_lanes SET virtual_time = CASE account_id WHEN md5('a1')::uuid THEN 0 ELSE 10000 END`)
		require.NoError(t, err)

		found, err := backlog.NextInOrder(t.Context(), db, everyQueue(), nil, nil, 50)

		require.NoError(t, err)
		require.Len(t, found, 50)
	})

	t.Run("StopsWhereItHasReadTooLittle", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		modelstest.FillWith(t, db, 23, 2300, 1, 1)
		for _, query := range []string{
			`UPDATE account_lanes SET virtual_time = CASE account_id WHEN md5('a5')::uuid THEN 1 ELSE 0 END`,
			`UPDATE jobs SET estimated_gpu_seconds = CASE account_id WHEN md5('a5')::uuid THEN 0.125 ELSE 100 END`,
		} {
			_, err := db.ExecContext(t.Context(), query)
			require.NoError(t, err)
		}
		expected := inOrder(contenders(t, db), 50)

		found, err := backlog.NextInOrder(t.Context(), db, everyQueue(), nil, nil, 50)

		require.NoError(t, err)
		require.Less(t, len(found), 50, "the account with short jobs is the last in line, of which least is read")
		for i, job := range found {
			require.Equal(t, expected[i], given{job.ID, job.VirtualTime})
		}
	})

	t.Run("ReadsOnlyTheFirstLineThatHasAJob", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		modelstest.FillWith(t, db, 23, 2300, 1, 1)
		for _, query := range []string{
			`UPDATE jobs SET lane = 'FREE', tier = 'FREE' WHERE status = 'QUEUED' AND account_id <> md5('a1')::uuid`,
			`UPDATE account_lanes SET lane = 'FREE' WHERE account_id <> md5('a1')::uuid`,
			`ANALYZE`,
		} {
			_, err := db.ExecContext(t.Context(), query)
			require.NoError(t, err)
		}

		found, err := backlog.NextInOrder(t.Context(), db, everyQueue(), nil, nil, 8)

		require.NoError(t, err)
		require.Len(t, found, 8)
		require.Equal(t, models.TierPro, found[0].Lane)
		plan := modelstest.Explain(t, db, picking(t, backlog.NextInOrderSQL, everyQueue()))
		require.Equal(t, 1+1+8, plan.Rows, "one finds the line, one the account:\n%s", plan.Text)
	})

	t.Run("ReturnsNothingForNoQueues", func(t *testing.T) {
		t.Parallel()

		found, err := backlog.NextInOrder(t.Context(), modelstest.DB(t), nil, nil, nil, 8)

		require.NoError(t, err)
		require.Empty(t, found)
	})
}

func TestHasQueuedJobs(t *testing.T) {
	t.Parallel()

	db := modelstest.DB(t)
	has, err := backlog.HasQueuedJobs(t.Context(), db)
	require.NoError(t, err)
	require.False(t, has)
	modelstest.FillWith(t, db, 1, 1, 1, 1)

	has, err = backlog.HasQueuedJobs(t.Context(), db)

	require.NoError(t, err)
	require.True(t, has)
}
