package fleet

import (
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

func TestPlanOfPrices(t *testing.T) {
	t.Parallel()

	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	priced := func(name string, price float64, most int, workers ...models.WorkerStatus) poolState {
		p := poolOf(0, most, "m", workers...)
		p.pool.ID, p.pool.Name, p.pool.PricePerHourUSD = models.NewPoolID(), name, price
		return p
	}
	quoted := func(price float64, ahead ...capacity.PriceStep) func(*capacity.Pool) {
		return func(p *capacity.Pool) {
			p.QuotedUSD, p.QuotedAt, p.QuoteEndsAt, p.QuoteAhead = &price, now, now.Add(24*time.Hour), ahead
		}
	}
	falls := func(in time.Duration, to float64) capacity.PriceStep {
		return capacity.PriceStep{From: now.Add(in), PricePerHourUSD: to}
	}
	few, many := queueOf("BATCH", "m", 8, 8*60), queueOf("BATCH", "m", 1000, 1000*600)
	waits := "No jobs wait or run"

	for name, c := range map[string]struct {
		cheap, dear func(*capacity.Pool)
		busy        []models.WorkerStatus // of the cheap pool, of 2 at most
		idle        []models.WorkerStatus // of the dear one
		queue       backlog.QueueDemand
		want        [2]int
		reason      string // of the dear one
	}{
		"TheCheapPoolHasRoom": {queue: few, want: [2]int{1, 0}, reason: waits + "."},
		"TheCheapPoolIsFull": {queue: few, busy: []models.WorkerStatus{busy, busy}, want: [2]int{2, 0}, reason: waits +
			"; 8 BATCH jobs can wait for the cheaper pool cheap, $0.3 instead of $0.9 per hour."},
		"TheCheapPoolIsNotEnough": {queue: many, busy: []models.WorkerStatus{busy, busy}, want: [2]int{2, 1},
			reason: "928 waiting jobs need 1 worker; 72 BATCH jobs can wait for the cheaper pool cheap, $0.3 instead of $0.9 per hour."},
		"OtherLanesDoNotWait": {queue: queueOf("FREE", "m", 8, 8*60), busy: []models.WorkerStatus{busy, busy}, want: [2]int{2, 1},
			reason: "6 waiting jobs need 1 worker."},
		"AnIdleWorkerTakesThem": {queue: few, busy: []models.WorkerStatus{busy, busy}, idle: []models.WorkerStatus{idle}, want: [2]int{2, 1},
			reason: "8 waiting jobs need 1 worker."},
		"TheCheapPoolOpensSoon": {cheap: func(p *capacity.Pool) { p.ActiveHours = "0 17 * * * for 8h" }, queue: few, reason: waits +
			"; 8 BATCH jobs can wait for the cheaper pool cheap, $0.3 at 17:00 UTC instead of $0.9 per hour."},
		"TheCheapPoolOpensTooLate": {cheap: func(p *capacity.Pool) { p.ActiveHours = "0 19 * * * for 8h" }, queue: few, want: [2]int{0, 1},
			reason: "8 waiting jobs need 1 worker."},
		"TheCheapPoolIsPaused": {cheap: func(p *capacity.Pool) { p.PausedAt = now }, queue: few, want: [2]int{0, 1},
			reason: "8 waiting jobs need 1 worker."},
		"TheCheapPoolIsOutOfStock": {cheap: func(p *capacity.Pool) { p.BackoffUntil, p.BackoffClass = now.Add(time.Minute), "STOCKOUT" },
			queue: few, reason: waits + "; 8 BATCH jobs can wait for the cheaper pool cheap, $0.3 instead of $0.9 per hour."},
		"TheCheapPoolIsNotAllowed": {cheap: func(p *capacity.Pool) { p.BackoffUntil, p.BackoffClass = now.Add(time.Minute), "PERMISSION" },
			queue: few, want: [2]int{0, 1}, reason: "8 waiting jobs need 1 worker."},
		"TheDearPoolBecomesCheap": {cheap: func(p *capacity.Pool) { p.PausedAt = now },
			dear: quoted(0.9, falls(2*time.Hour, 0.2), falls(3*time.Hour, 0.1), falls(7*time.Hour, 0.01)), queue: few, reason: waits +
				"; 8 BATCH jobs can wait for a lower price, $0.1 at 15:00 UTC instead of $0.9 per hour."},
		"TheDearPoolBecomesCheapest": {dear: quoted(0.9, falls(2*time.Hour, 0.1)), queue: few, reason: waits + "."},
		"TheCheapPoolBecomesCheaper": {cheap: quoted(0.3, falls(time.Hour, 0.2)), queue: few, reason: waits + "."},
		"TheQuoteEndsBefore": {dear: func(p *capacity.Pool) {
			quoted(0.2, falls(2*time.Hour, 0.1))(p)
			p.QuoteEndsAt = now.Add(time.Hour)
		}, queue: few, want: [2]int{0, 1}, reason: "8 waiting jobs need 1 worker."},
		"TheQuoteHasEnded": {dear: func(p *capacity.Pool) {
			quoted(0.1)(p)
			p.QuoteEndsAt = now
		}, queue: few, want: [2]int{1, 0}, reason: waits + "."},
		"TheQuoteIsTheCheapest": {dear: quoted(0.1), queue: few, want: [2]int{0, 1}, reason: "8 waiting jobs need 1 worker."},
		"TheCheapPoolIsAboveItsLimit": {cheap: func(p *capacity.Pool) {
			quoted(0.3)(p)
			p.MaxPricePerHourUSD = 0.29
		}, queue: few, want: [2]int{0, 1}, reason: "8 waiting jobs need 1 worker."},
		"TheDearPoolIsAboveItsLimit": {cheap: func(p *capacity.Pool) { p.Models = nil },
			dear:  func(p *capacity.Pool) { p.MaxPricePerHourUSD = 0.5 },
			queue: queueOf("PRO", "m", 8, 8*60),
			idle:  []models.WorkerStatus{busy}, want: [2]int{0, 1},
			reason: "8 waiting and 1 running job need 5 workers; its price of $0.9 per hour is above its limit of $0.5."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cheap, dear := priced("cheap", 0.3, 2, c.busy...), priced("dear", 0.9, 2, c.idle...)
			if c.cheap != nil {
				c.cheap(cheap.pool)
			}
			if c.dear != nil {
				c.dear(dear.pool)
			}

			all := plan(snapshot{now: now, pools: []poolState{cheap, dear}, queues: []backlog.QueueDemand{c.queue}})

			require.Equal(t, c.want, [2]int{all[0].workers, all[1].workers}, "%s %s", all[0].reason, all[1].reason)
			require.Equal(t, c.reason, all[1].reason)
		})
	}
}
