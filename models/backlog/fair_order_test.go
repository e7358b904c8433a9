package backlog_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/jobs/fairqueue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/samber/lo"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"pgregory.net/rapid"
)

// contender is a queued job, with what decides when it starts.
type contender struct {
	backlog.QueuedJob
	GPUSeconds float64 `bun:"gpu_seconds"`
	Weight     float64 `bun:"weight"`
	Running    int     `bun:"running"`
	MaxRunning int     `bun:"max_running"`
}

// given is a job with its account's virtual time before it starts.
type given struct {
	ID          models.JobID
	VirtualTime float64
}

// contenders returns all queued jobs.
func contenders(t require.TestingT, db bun.IDB) []contender {
	var all []contender
	require.NoError(t, db.NewRaw(`
		SELECT j.id, j.account_id, j.lane, l.promoted, j.model, j.gpu_rank, coalesce(CASE WHEN j.require_region THEN j.region END, '') AS region, j.needs,
			j.queue_order, l.virtual_time, j.estimated_gpu_seconds AS gpu_seconds, a.weight, a.running, a.max_running
		FROM jobs j
		JOIN accounts a ON a.id = j.account_id
		JOIN account_lanes l ON l.account_id = j.account_id AND l.lane = j.lane AND l.promoted = (j.lane <> j.tier AND j.lane <> 'CRITICAL')
		WHERE j.status = 'QUEUED'`).Scan(context.Background(), &all))
	return all
}

// inOrder returns the first limit jobs of a line in the order of package fairqueue, if they
// start one at a time and none ends.
func inOrder(waiting []contender, limit int) []given {
	shares, running := map[models.AccountID]*fairqueue.Share{}, map[models.AccountID]int{}
	for _, j := range waiting {
		shares[j.AccountID] = &fairqueue.Share{VirtualTime: j.VirtualTime, Weight: j.Weight}
		running[j.AccountID] = j.Running
	}
	place := func(j contender) fairqueue.Place {
		return fairqueue.Place{Line: j.Line, VirtualTime: shares[j.AccountID].VirtualTime, Order: j.QueueOrder}
	}
	var order []given
	for len(order) < limit {
		waiting = lo.Filter(waiting, func(j contender, _ int) bool { return fairqueue.Eligible(1, running[j.AccountID], j.MaxRunning) })
		if len(waiting) == 0 {
			break
		}
		next := slices.MinFunc(waiting, func(a, b contender) int { return fairqueue.Turns{}.Compare(place(a), place(b)) })
		order = append(order, given{next.ID, shares[next.AccountID].VirtualTime})
		shares[next.AccountID].Advance(next.GPUSeconds)
		running[next.AccountID]++
		waiting = slices.DeleteFunc(waiting, func(j contender) bool { return j.ID == next.ID })
	}
	return order
}

// startable returns the jobs of queues that may start, of the first line that has any.
func startable(all []contender, queues []models.Queue, passed []models.JobID) []contender {
	for _, first := range queues {
		found := lo.Filter(all, func(j contender, _ int) bool {
			return j.Line == first.Line && slices.Contains(queues, j.Queue) && !slices.Contains(passed, j.ID) &&
				fairqueue.Eligible(1, j.Running, j.MaxRunning)
		})
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

// heads returns the first job of each account.
func heads(waiting []contender) []contender {
	slices.SortFunc(waiting, func(a, b contender) int { return cmp.Compare(a.QueueOrder, b.QueueOrder) })
	return lo.UniqBy(waiting, func(j contender) models.AccountID { return j.AccountID })
}

func ids[T any](of []T, id func(T) models.JobID) []models.JobID {
	return lo.Map(of, func(j T, _ int) models.JobID { return id(j) })
}

// The GPU seconds and weights are powers of two, so that virtual times are exact and
// often equal. Tests that run in parallel cannot share a generator.
func drawnSeconds() *rapid.Generator[float64] { return rapid.SampledFrom([]float64{1, 2, 4, 32}) }
func drawnWeight() *rapid.Generator[float64]  { return rapid.SampledFrom([]float64{1, 2, 4}) }
func drawnLanes() *rapid.Generator[models.Tier] {
	return rapid.SampledFrom([]models.Tier{models.TierCritical, models.TierPro, models.TierFree})
}
func drawnModel() *rapid.Generator[string] { return rapid.SampledFrom([]string{"testcard", "rare"}) }

func drawnNeeds() *rapid.Generator[models.Needs] {
	return rapid.SampledFrom([]models.Needs{"", "", "on-demand"})
}

// fillAtRandom adds accounts with queued jobs.
func fillAtRandom(rt *rapid.T, tx bun.Tx) {
	var accounts, jobs []map[string]any
	lanes := rapid.SampledFrom([]*rapid.Generator[models.Tier]{rapid.Just(models.TierPro), drawnLanes()}).Draw(rt, "lanes")
	for i := range rapid.SampledFrom([]int{6, 3, 1}).Draw(rt, "accounts") {
		account := fmt.Sprintf("00000000-0000-0000-0000-%012d", i)
		accounts = append(accounts, map[string]any{
			"id": account, "name": fmt.Sprint("account ", i), "tier": "PRO", "max_queued": 1000, "submits_per_minute": 1000,
			"weight":  drawnWeight().Draw(rt, "weight"),
			"running": rapid.IntRange(0, 2).Draw(rt, "running"), "max_running": rapid.SampledFrom([]int{60, 4, 1}).Draw(rt, "maxRunning"),
		})
		for range rapid.SampledFrom([]int{30, 8, 1, 0}).Draw(rt, "jobs") {
			jobs = append(jobs, map[string]any{
				"id": uuid.NewString(), "account_id": account, "type": "video.generate", "status": "QUEUED", "params": struct{}{}, "max_attempts": 3,
				"timeout_seconds": 600,
				"queued_at":       time.Now(), "model": drawnModel().Draw(rt, "model"), "tier": lanes.Draw(rt, "tier"), "lane": lanes.Draw(rt, "lane"),
				"estimated_gpu_seconds": drawnSeconds().Draw(rt, "seconds"), "priority": rapid.IntRange(0, 2).Draw(rt, "priority"),
				"requeued": rapid.IntRange(0, 5).Draw(rt, "requeued") == 0, "gpu_rank": rapid.IntRange(0, 1).Draw(rt, "rank"),
				"region": "eu", "require_region": rapid.Bool().Draw(rt, "region"), "needs": drawnNeeds().Draw(rt, "needs"),
			})
		}
	}
	insert := func(table string, rows []map[string]any) {
		if len(rows) == 0 {
			return
		}
		columns := strings.Join(slices.Sorted(maps.Keys(rows[0])), ", ")
		text, err := json.Marshal(rows)
		require.NoError(rt, err)
		_, err = tx.ExecContext(context.Background(), fmt.Sprintf(
			"INSERT INTO %[1]s (%[2]s) SELECT %[2]s FROM jsonb_populate_recordset(NULL::%[1]s, ?)", table, columns), string(text))
		require.NoError(rt, err)
	}
	insert("accounts", accounts)
	insert("jobs", jobs)
	_, err := tx.ExecContext(context.Background(), `
		INSERT INTO account_lanes (account_id, lane, promoted, queued, virtual_time, capped)
		SELECT j.account_id, j.lane, j.lane <> j.tier AND j.lane <> 'CRITICAL', count(*), 4 * (hashtext(j.account_id || j.lane) & 3), a.running >= a.max_running
		FROM jobs j JOIN accounts a ON a.id = j.account_id GROUP BY 1, 2, 3, a.id`)
	require.NoError(rt, err)
}

// drawQueues draws queues to read, line by line, in the order of the lanes and turns.
func drawQueues(rt *rapid.T) []models.Queue {
	queues := rapid.SliceOfNDistinct(rapid.Custom(func(rt *rapid.T) models.Queue {
		return models.Queue{
			Line:  models.Line{Lane: drawnLanes().Draw(rt, "lane"), Promoted: rapid.Bool().Draw(rt, "promoted")},
			Model: drawnModel().Draw(rt, "model"), GPURank: rapid.IntRange(0, 1).Draw(rt, "rank"),
			Region: rapid.SampledFrom([]string{"", "eu"}).Draw(rt, "region"),
			Needs:  drawnNeeds().Draw(rt, "needs"),
		}
	}), rapid.SampledFrom([]int{40, 1}).Draw(rt, "least"), 48, rapid.ID).Draw(rt, "queues")
	turns := fairqueue.Turns{models.TierPro: rapid.SampledFrom([]int{0, models.PromotedEvery - 1}).Draw(rt, "since")}
	slices.SortStableFunc(queues, func(a, b models.Queue) int { return turns.CompareLines(a.Line, b.Line) })
	return queues
}

func TestFairOrder(t *testing.T) {
	t.Parallel()

	// eachFilled calls check with databases that are filled at random.
	eachFilled := func(t *testing.T, check func(rt *rapid.T, tx bun.Tx, all []contender)) {
		t.Helper()
		db := modelstest.DB(t)
		rapid.Check(t, func(rt *rapid.T) {
			tx, err := db.BeginTx(context.Background(), nil)
			require.NoError(rt, err)
			defer func() { require.NoError(rt, tx.Rollback()) }()
			fillAtRandom(rt, tx)
			check(rt, tx, contenders(rt, tx))
		})
	}
	queuedID := func(j backlog.QueuedJob) models.JobID { return j.ID }

	t.Run("IsThatOfNextInOrder", func(t *testing.T) {
		t.Parallel()

		eachFilled(t, func(rt *rapid.T, tx bun.Tx, all []contender) {
			queues, limit := drawQueues(rt), rapid.SampledFrom([]int{20, 7, 1}).Draw(rt, "limit")
			passed := ids(lo.Filter(all, func(contender, int) bool { return rapid.IntRange(0, 9).Draw(rt, "passed") == 0 }),
				func(j contender) models.JobID { return j.ID })
			expected := inOrder(startable(all, queues, passed), limit)

			found, err := backlog.NextInOrder(context.Background(), tx, queues, nil, passed, limit)

			require.NoError(rt, err)
			require.Equal(rt, len(expected) == 0, len(found) == 0)
			got := lo.Map(found, func(j backlog.QueuedJob, _ int) given { return given{j.ID, j.VirtualTime} })
			require.Equal(rt, expected[:min(len(expected), len(got))], append([]given(nil), got...))
		})
	})

	t.Run("IsThatOfNextJobs", func(t *testing.T) {
		t.Parallel()

		eachFilled(t, func(rt *rapid.T, tx bun.Tx, all []contender) {
			queues, limit := drawQueues(rt), rapid.IntRange(1, 8).Draw(rt, "limit")
			expected := inOrder(heads(startable(all, queues, nil)), limit)

			found, err := backlog.NextJobs(context.Background(), tx, queues, nil, nil, limit)

			require.NoError(rt, err)
			require.Equal(rt, ids(expected, func(g given) models.JobID { return g.ID }), ids(found, queuedID))
		})
	})

	t.Run("IsThatOfListLinedUp", func(t *testing.T) {
		t.Parallel()

		eachFilled(t, func(rt *rapid.T, tx bun.Tx, all []contender) {
			limit := rapid.SampledFrom([]int{20, 7, 1}).Draw(rt, "limit")
			queues := lo.Uniq(lo.Map(drawQueues(rt), func(q models.Queue, _ int) models.Queue {
				return models.Queue{Line: models.Line{Lane: q.Lane},
					Model: q.Model, GPURank: q.GPURank, Region: q.Region, Needs: q.Needs}
			}))
			of := lo.Uniq(lo.Map(all, func(j contender, _ int) models.AccountID { return j.AccountID }))
			asked := []backlog.LineUp{
				{Lane: drawnLanes().Draw(rt, "lane"), Queues: queues},
				{Lane: drawnLanes().Draw(rt, "lane"), Queues: queues, Accounts: of[:min(len(of), 2)]},
				{Lane: drawnLanes().Draw(rt, "lane"), Queues: queues, AccountID: "acc_00000000-0000-0000-0000-000000000000"},
			}

			found, err := backlog.ListLinedUp(context.Background(), tx, asked, limit)

			require.NoError(rt, err)
			for number, up := range asked {
				for _, promoted := range []bool{false, true} {
					waiting := lo.FilterMap(all, func(j contender, _ int) (contender, bool) {
						counts := j.Line == (models.Line{Lane: up.Lane, Promoted: promoted}) && slices.ContainsFunc(up.Queues, func(q models.Queue) bool { q.Promoted = j.Promoted; return q == j.Queue }) &&
							(len(up.Accounts) == 0 || slices.Contains(up.Accounts, j.AccountID)) && (j.AccountID == up.AccountID || up.AccountID == "" && j.Running < j.MaxRunning)
						j.MaxRunning = math.MaxInt // running jobs end meanwhile
						return j, counts
					})
					got := lo.Filter(found, func(l backlog.LinedUp, _ int) bool { return l.Number == number && l.Promoted == promoted })
					require.Equal(rt, ids(inOrder(waiting, limit), func(g given) models.JobID { return g.ID }),
						ids(got, func(l backlog.LinedUp) models.JobID { return l.ID }))
				}
			}
		})
	})
}
