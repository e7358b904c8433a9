package history_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// bill is the ledger of a cloud and of its workers, second by second: the class of each paid second of
// each place of a machine, and what it cost.
type bill map[string]models.PaidSum

func (b bill) add(class string, from, to int, price func(second int) float64) {
	for at := from; at < to; at++ {
		sum := b[class]
		b[class] = models.PaidSum{Seconds: sum.Seconds + 1, USD: sum.USD + price(at)/3600}
	}
}

func (b bill) move(from, to string, seconds, price float64) {
	less, more := b[from], b[to]
	b[from] = models.PaidSum{Seconds: less.Seconds - seconds, USD: less.USD - seconds*price/3600}
	b[to] = models.PaidSum{Seconds: more.Seconds + seconds, USD: more.USD + seconds*price/3600}
}

// put is a statement of the ledger.
func put(t *testing.T, db *bun.DB, query string, args ...any) {
	t.Helper()
	_, err := db.NewRaw(query, args...).Exec(t.Context())
	require.NoError(t, err)
}

// TestPaid makes machines that are created late, register late or never, render, lose their jobs, fall
// silent, restart, and end at random, at a price that changes, and compares what they were paid for with
// a bill that counts each second.
func TestPaid(t *testing.T) {
	t.Parallel()
	db := modelstest.DB(t)
	now := began(t, db, 3*time.Hour)
	begin := now.Add(-2 * time.Hour).UTC().Truncate(time.Hour)
	at := func(second int) time.Time { return begin.Add(time.Duration(second) * time.Second) }
	const length = 3600 // seconds in which everything ends
	random := rand.New(rand.NewPCG(1, 2))
	put(t, db, `INSERT INTO accounts (id, name, tier, max_queued, max_running, submits_per_minute, queued, running)
		VALUES (md5('a')::uuid, 'a', 'PRO', 1, 1, 1, 0, 0)`)
	prices := map[string]func(int) float64{
		"spot": func(second int) float64 {
			switch {
			case second < 600: // as before it was noted
				return 2
			case second < 1234:
				return 1
			}
			return 4
		},
		"sure": func(int) float64 { return 7 },
		"":     func(int) float64 { return 0 },
	}
	for _, name := range []string{"spot", "sure"} {
		put(t, db, `INSERT INTO pools (id, name, provider, region, gpu_type, capacity_class, models, min_workers, max_workers, workers_per_machine, price_per_hour_usd)
			VALUES (md5(?0)::uuid, ?0, 'cloud', 'mars', 'h100', 'SPOT', '{}', 0, 9, 1, 7)`, name)
	}
	put(t, db, `INSERT INTO pool_prices (pool_id, since, usd) VALUES (md5('spot')::uuid, ?, 2), (md5('spot')::uuid, ?, 1), (md5('spot')::uuid, ?, 4)`,
		at(300), at(600), at(1234))

	want := map[string]bill{"spot": {}, "sure": {}, "": {}}
	worker := func(pool, machine string, slot, created, registered, ended int) string {
		id := uuid.Must(uuid.NewV7()).String()
		when := func(second int) any {
			if second < 0 {
				return nil
			}
			return at(second)
		}
		put(t, db, `INSERT INTO workers (id, pool_id, provider, provider_instance_id, slot, region, gpu_type, capacity_class, models, status, created_at, registered_at, ended_at)
			VALUES (?, (SELECT id FROM pools WHERE name = ?), 'cloud', ?, ?, 'mars', 'h100', 'SPOT', '{}', 'TERMINATED', ?, ?, ?)`,
			id, pool, machine, slot, when(created), when(registered), when(ended))
		return id
	}
	// render makes the attempts of a registered worker, and counts its seconds.
	jobs := 0
	render := func(pool, id string, from, ended int) {
		b, price := want[pool], prices[pool]
		idle := from
		for {
			leased := idle + random.IntN(60)
			load, work, lost, silent := random.IntN(20), 1+random.IntN(120), 0, 0
			if random.IntN(3) == 0 {
				lost, silent = random.IntN(work+load+1), random.IntN(30)
			}
			end := leased + load + work + silent
			if end > ended {
				break
			}
			jobs++
			b.add("idle", idle, leased, price)
			b.add("load", leased, leased+load, price)
			worked := leased + load + work
			b.add("useful", leased+load, end, price)
			// What is lost is known at the end, and moves then, at the price of that time.
			n := min(lost, work) + silent
			b.move("useful", "wasted", float64(n), price(end))
			job := fmt.Sprintf("job%d", jobs)
			put(t, db, `INSERT INTO jobs (id, account_id, type, model, status, tier, lane, params, max_attempts, timeout_seconds, estimated_gpu_seconds, completed_at, created_at)
				VALUES (md5(?)::uuid, md5('a')::uuid, 'video.generate', 'testcard', 'COMPLETED', 'PRO', 'PRO', '{}', 3, 600, 5, now(), now())`, job)
			put(t, db, `INSERT INTO job_attempts (id, job_id, run, attempt_no, worker_id, fencing_token, status, leased_at, lease_expires_at, started_at, ended_at, failure_class, gpu_seconds, wasted_gpu_seconds)
				VALUES (overlay(uuid7_floor(?0)::text PLACING '7000-8000-' || lpad(to_hex(?6), 12, '0') FROM 15)::uuid, md5(?1)::uuid, 1, 1, ?2, gen_random_uuid(), 'LOST', ?0, ?0, ?3, ?4, 'WORKER_LOST', ?5, ?7)`,
				at(leased), job, id, at(leased+load), at(end), worked-leased, jobs, lost)
			idle = end
		}
		b.add("idle", idle, ended, price)
	}
	for n := range 60 {
		pool := []string{"spot", "sure"}[n%2]
		machine, slots := fmt.Sprint("m", n), 1+n%3
		created := random.IntN(length / 2)
		gone := created + random.IntN(length/2)
		put(t, db, `INSERT INTO machines (pool_id, provider, instance_id, workers, asked_at, created_at, gone_at, billed_until)
			VALUES (md5(?)::uuid, 'cloud', ?, ?, ?, ?, ?, ?)`, pool, machine, slots, at(created), at(created), at(gone+7), at(gone))
		for slot := range slots {
			b, price := want[pool], prices[pool]
			registered := created + random.IntN(120)
			if n%7 == 0 || registered >= gone { // it never registers
				ended := created + random.IntN(gone-created+1)
				worker(pool, machine, slot, created, -1, ended)
				b.add("boot", created, ended, price)
				b.add("ending", ended, gone, price)
				continue
			}
			b.add("boot", created, registered, price)
			ended := registered + random.IntN(gone-registered+40) // its machine can vanish before
			paid := min(ended, gone)
			id := worker(pool, machine, slot, created, registered, ended)
			render(pool, id, registered, paid)
			if left := gone - paid; left > 20 && n%5 == 0 { // its agent starts again
				id := worker(pool, machine, slot, paid+10, paid+10, gone)
				b.add("ending", paid, paid+10, price)
				render(pool, id, paid+10, gone)
				continue
			}
			b.add("ending", paid, gone, price)
		}
	}
	for n := range 5 { // of no pool
		registered := random.IntN(length / 2)
		ended := registered + random.IntN(length/2)
		render("", worker("", fmt.Sprint("free", n), 0, registered, registered, ended), registered, ended)
	}

	// However the time is divided into spans, they add up to the bill.
	for name, step := range map[string]time.Duration{"minutes": time.Minute, "at once": 2 * time.Hour, "odd": 97 * time.Second} {
		got := map[string]*models.Paid{"spot": {}, "sure": {}, "": {}}
		for from := begin; from.Before(at(length)); from = from.Add(step) {
			for _, row := range counted(t, db, from, from.Add(step)) {
				got[row.Pool].Add(row.Paid)
			}
		}
		for pool, classes := range want {
			total := models.PaidSum{}
			for _, class := range models.PaidClasses {
				sum, of := *got[pool].Of(class), classes[strings.ToLower(string(class))]
				require.InDelta(t, of.Seconds, sum.Seconds, 0.01, "%s: seconds of %s, %q", name, class, pool)
				require.InDelta(t, of.USD, sum.USD, 0.001, "%s: cost of %s, %q", name, class, pool)
				total = models.PaidSum{Seconds: total.Seconds + of.Seconds, USD: total.USD + of.USD}
			}
			require.InDelta(t, total.Seconds, got[pool].Total().Seconds, 0.01)
			require.InDelta(t, total.USD, got[pool].Total().USD, 0.01)
		}
	}
	require.NotZero(t, jobs)

	// Machine by machine it is the same bill.
	for _, pool := range []string{"spot", "sure"} {
		id, err := capacity.FindPoolID(t.Context(), db, pool)
		require.NoError(t, err)
		machines, err := capacity.ListBilledMachines(t.Context(), db, capacity.MachineFilter{PoolID: id}, capacity.MachineMark{}, 100)
		require.NoError(t, err)
		require.Len(t, machines, 30)
		var sum, of models.PaidSum
		for _, m := range machines {
			sum = models.PaidSum{Seconds: sum.Seconds + m.PaidSeconds, USD: sum.USD + m.CostUSD}
		}
		for _, class := range want[pool] {
			of = models.PaidSum{Seconds: of.Seconds + class.Seconds, USD: of.USD + class.USD}
		}
		require.InDelta(t, of.Seconds, sum.Seconds, 0.01, pool)
		require.InDelta(t, of.USD, sum.USD, 0.001, pool)
	}

	// The history says the same, and so do the counters.
	recordAll(t, db)
	f, err := (&history.Timeline{DB: db}).Window(t.Context(), begin, at(length))
	require.NoError(t, err)
	totals, err := models.ListPaidTotals(context.Background(), db)
	require.NoError(t, err)
	for _, total := range totals {
		if total.Pool == "" {
			continue // which selects all
		}
		require.InDelta(t, f.Of(history.Selection{Pool: total.Pool}).Paid().Total().Seconds, total.Paid.Total().Seconds, 0.01, total.Pool)
	}
	require.InDelta(t, f.Paid().Total().USD, *f.CostPerHour(), 0.01)
}

func counted(t *testing.T, db *bun.DB, from, to time.Time) []*models.HistoryPool {
	t.Helper()
	rows, err := models.CountHistoryPools(t.Context(), db, from, to, nil, "")
	require.NoError(t, err)
	return rows
}
