package models_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
)

// oneByOne is the order in which jobs start that are given out one after the
// other: always the first of the account that is behind, which advances by it.
func oneByOne(heads []models.QueuedJob, left map[models.JobID]standing, limit int) []models.JobID {
	slices.SortFunc(heads, func(a, b models.QueuedJob) int { return cmp.Compare(a.QueueOrder, b.QueueOrder) })
	at, room := map[models.AccountID]float64{}, map[models.AccountID]int{}
	for _, h := range heads {
		at[h.AccountID], room[h.AccountID] = h.VirtualTime, left[h.ID].room
	}
	var order []models.JobID
	for len(order) < limit && len(heads) > 0 {
		next := slices.MinFunc(heads, func(a, b models.QueuedJob) int {
			return cmp.Or(cmp.Compare(at[a.AccountID], at[b.AccountID]), cmp.Compare(a.QueueOrder, b.QueueOrder))
		})
		order = append(order, next.ID)
		at[next.AccountID] += left[next.ID].takes
		room[next.AccountID]--
		heads = slices.DeleteFunc(heads, func(j models.QueuedJob) bool {
			return j.ID == next.ID || j.AccountID == next.AccountID && room[j.AccountID] == 0
		})
	}
	return order
}

// standing is what a job advances its account by, and how many the account may
// start.
type standing struct {
	takes float64
	room  int
}

func TestNextInOrder(t *testing.T) {
	t.Parallel()

	t.Run("GivesJobsAsIfOneByOneAndStopsWhereItReadTooFew", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		fillWith(t, db, 12, 600, 1, 1)
		for _, query := range []string{
			// a1 has half of all jobs. a2 is far behind the others, a3 may start three more.
			`UPDATE account_lanes SET virtual_time = CASE account_id WHEN md5('a1')::uuid THEN 1000 WHEN md5('a2')::uuid THEN 0 ELSE 1200 END`,
			`UPDATE accounts SET weight = 2, max_running = 10 WHERE id = md5('a4')::uuid`,
			`UPDATE accounts SET max_running = 3 WHERE id = md5('a3')::uuid`,
			`UPDATE jobs SET estimated_gpu_seconds = 1 + (hashtext(id::text) & 31)`,
		} {
			_, err := db.ExecContext(t.Context(), query)
			require.NoError(t, err)
		}
		heads, err := models.ListQueuedJobs(t.Context(), db, 1000)
		require.NoError(t, err)
		left := map[models.JobID]standing{}
		var rows []struct {
			ID    models.JobID `bun:"id"`
			Takes float64      `bun:"takes"`
			Room  int          `bun:"room"`
		}
		require.NoError(t, db.NewRaw(`SELECT j.id, j.estimated_gpu_seconds / a.weight AS takes, a.max_running - a.running AS room
			FROM jobs j JOIN accounts a ON a.id = j.account_id WHERE j.status = 'QUEUED'`).Scan(t.Context(), &rows))
		for _, row := range rows {
			left[row.ID] = standing{takes: row.Takes, room: row.Room}
		}

		var found []models.JobID
		rounds := 0
		for limit := 60; len(found) < limit; rounds++ {
			next, err := models.NextInOrder(t.Context(), db, everyQueue(), nil, limit)
			require.NoError(t, err)
			require.NotEmpty(t, next)
			for _, job := range next[:min(len(next), limit-len(found))] {
				found = append(found, job.ID)
				_, err := db.NewRaw(`WITH taken AS (UPDATE jobs SET status = 'SCHEDULED', run_at = now() WHERE id = ?0 RETURNING account_id),
					counted AS (UPDATE accounts SET max_running = max_running - 1 WHERE id = (SELECT account_id FROM taken))
					UPDATE account_lanes SET virtual_time = virtual_time + ?1 WHERE account_id = (SELECT account_id FROM taken)`,
					job.ID, left[job.ID].takes).Exec(t.Context())
				require.NoError(t, err)
			}
		}

		require.Equal(t, oneByOne(heads, left, 60), found)
		require.Greater(t, rounds, 1, "the account that is behind has more jobs than are read of one")
	})
}
