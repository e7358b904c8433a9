package models_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// contender is a queued job, by how much it advances its account, and how many jobs the
// account may start.
type contender struct {
	ID          models.JobID     `bun:"id"`
	AccountID   models.AccountID `bun:"account_id"`
	QueueOrder  int64            `bun:"queue_order"`
	VirtualTime float64          `bun:"virtual_time"`
	Takes       float64          `bun:"takes"`
	Room        int              `bun:"room"`
}

type given struct {
	ID          models.JobID
	VirtualTime float64
}

// oneByOne returns the order in which jobs start if they are leased one at a time: always the
// first job of the account with the least virtual time, which the job advances.
func oneByOne(waiting []contender, limit int) []given {
	at, room := map[models.AccountID]float64{}, map[models.AccountID]int{}
	for _, j := range waiting {
		at[j.AccountID], room[j.AccountID] = j.VirtualTime, j.Room
	}
	slices.SortFunc(waiting, func(a, b contender) int { return cmp.Compare(a.QueueOrder, b.QueueOrder) })
	var order []given
	for len(order) < limit && len(waiting) > 0 {
		next := slices.MinFunc(waiting, func(a, b contender) int {
			return cmp.Or(cmp.Compare(at[a.AccountID], at[b.AccountID]), cmp.Compare(a.QueueOrder, b.QueueOrder))
		})
		order = append(order, given{next.ID, at[next.AccountID]})
		at[next.AccountID] += next.Takes
		room[next.AccountID]--
		waiting = slices.DeleteFunc(waiting, func(j contender) bool {
			return j.ID == next.ID || j.AccountID == next.AccountID && room[j.AccountID] == 0
		})
	}
	return order
}

// contenders returns all waiting jobs of all lines.
func contenders(t *testing.T, db *bun.DB) []contender {
	t.Helper()
	var all []contender
	require.NoError(t, db.NewRaw(`
		SELECT j.id, j.account_id, j.queue_order, l.virtual_time, j.estimated_gpu_seconds / a.weight AS takes, a.max_running - a.running AS room
		FROM jobs j JOIN accounts a ON a.id = j.account_id JOIN account_lanes l ON l.account_id = j.account_id AND l.lane = j.lane
		WHERE j.status = 'QUEUED'`).Scan(t.Context(), &all))
	return all
}

func TestNextInOrder(t *testing.T) {
	t.Parallel()

	bothModels := everyQueue()
	for _, queue := range everyQueue() {
		queue.Model = "rare"
		bothModels = append(bothModels, queue)
	}

	t.Run("GivesJobsAsIfTheyCameOneByOne", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		fillWith(t, db, 23, 2300, 1, 1)
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
			expected := oneByOne(contenders(t, db), limit)

			found, err := models.NextInOrder(t.Context(), db, bothModels, nil, limit)

			require.NoError(t, err)
			var got []given
			for _, job := range found {
				got = append(got, given{job.ID, job.VirtualTime})
			}
			require.Equal(t, expected[:len(got)], got)
			require.GreaterOrEqual(t, len(got), limit/2, "few of them are left to another look")
		}
	})

	t.Run("ListsAllOfAnAccountThatIsBehind", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		fillWith(t, db, 23, 2300, 1, 1)
		_, err := db.ExecContext(t.Context(), `UPDATE account_lanes SET virtual_time = CASE account_id WHEN md5('a1')::uuid THEN 0 ELSE 10000 END`)
		require.NoError(t, err)

		found, err := models.NextInOrder(t.Context(), db, everyQueue(), nil, 50)

		require.NoError(t, err)
		require.Len(t, found, 50)
	})

	t.Run("ListsNothingBehindWhatItDidNotRead", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		fillWith(t, db, 23, 2300, 1, 1)
		for _, query := range []string{
			`UPDATE account_lanes SET virtual_time = CASE account_id WHEN md5('a5')::uuid THEN 1 ELSE 0 END`,
			`UPDATE jobs SET estimated_gpu_seconds = CASE account_id WHEN md5('a5')::uuid THEN 0.125 ELSE 100 END`,
		} {
			_, err := db.ExecContext(t.Context(), query)
			require.NoError(t, err)
		}
		expected := oneByOne(contenders(t, db), 50)

		found, err := models.NextInOrder(t.Context(), db, everyQueue(), nil, 50)

		require.NoError(t, err)
		require.Less(t, len(found), 50, "the account with short jobs is the last in line, of which least is read")
		for i, job := range found {
			require.Equal(t, expected[i], given{job.ID, job.VirtualTime})
		}
	})

	t.Run("ReadsOnlyTheFirstLineThatHasAJob", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		fillWith(t, db, 23, 2300, 1, 1)
		for _, query := range []string{
			`UPDATE jobs SET lane = 'FREE', tier = 'FREE' WHERE status = 'QUEUED' AND account_id <> md5('a1')::uuid`,
			`UPDATE account_lanes SET lane = 'FREE' WHERE account_id <> md5('a1')::uuid`,
			`ANALYZE`,
		} {
			_, err := db.ExecContext(t.Context(), query)
			require.NoError(t, err)
		}

		found, err := models.NextInOrder(t.Context(), db, everyQueue(), nil, 8)

		require.NoError(t, err)
		require.Len(t, found, 8)
		require.Equal(t, models.TierPro, found[0].Lane)
		plan := explain(t, db, picking(t, models.NextInOrderSQL, everyQueue()))
		require.Equal(t, 1+1+8, plan.rows, "one finds the line, one the account:\n%s", plan.text)
	})

	t.Run("ListsNothingOfNoQueues", func(t *testing.T) {
		t.Parallel()

		found, err := models.NextInOrder(t.Context(), modelstest.DB(t), nil, nil, 8)

		require.NoError(t, err)
		require.Empty(t, found)
	})
}
