package jobs_test

import (
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// due is the job that comes first, by the rules and without any index: lane,
// the account's virtual time, requeued ones, priority, age.
const due = `
	SELECT j.id FROM jobs j
	JOIN accounts a ON a.id = j.account_id AND a.running < a.max_running
	JOIN account_lanes l ON l.account_id = j.account_id AND l.lane = j.lane
	WHERE j.status = 'QUEUED'
	ORDER BY array_position(ARRAY['CRITICAL', 'ENTERPRISE', 'PRO', 'FREE', 'BATCH'], j.lane), l.virtual_time,
		NOT j.requeued, j.priority DESC, j.ticket
	LIMIT 1`

func TestOrder(t *testing.T) {
	t.Parallel()

	t.Run("IsTheSameWithTheIndexAndWithout", func(t *testing.T) {
		t.Parallel()

		leases := 0
		rapid.Check(t, func(rt *rapid.T) {
			l := newLife(t, models.TierCritical, models.TierEnterprise, models.TierEnterprise, models.TierPro, models.TierFree, models.TierBatch)
			s := l.s
			s.Exec(t, "UPDATE accounts SET weight = 1 + ascii(name) % 2, max_running = 1 + ascii(name) % 3 WHERE name < 'a'")
			rt.Repeat(map[string]func(*rapid.T){
				"submit":      l.submit,
				"submit too":  l.submit,
				"submit more": l.submit,
				"release":     l.release,
				"fail":        l.fail,
				"cancel":      l.cancel,
				"due":         l.due(t),
				"lose":        func(*rapid.T) { s.Index().Lose() },
				"sweep":       func(rt *rapid.T) { require.NoError(rt, s.Readier.Sweep(background)) },
				"lease": func(rt *rapid.T) {
					var idle []jobs.Principal
					for _, w := range l.workers {
						if _, err := models.FindLiveAttempt(background, s.DB, w.WorkerID); err != nil {
							idle = append(idle, w)
						}
					}
					worker := pick(rt, idle, "worker")
					var expected []models.JobID
					require.NoError(rt, s.DB.NewRaw(due).Scan(background, &expected))

					got := lease(rt, s, worker)

					l.keep(worker, got)
					if len(expected) == 0 {
						require.Nil(rt, got)
						return
					}
					require.NotNil(rt, got)
					require.Equal(rt, expected[0], got.Job.ID)
					leases++
				},
			})
		})
		require.Positive(t, leases)
	})
}
