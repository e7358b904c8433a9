package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/reelay/reelay/internal/periodic"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/budgets"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/costs"
	"github.com/reelay/reelay/models/postgres"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/uptrace/bun"
)

// Upkeep removes data that is no longer needed. Its passes are safe in every process at once.
// They work in short transactions that skip locked rows, and return how much they removed.
// What a pass has no time for waits for the next one.
type Upkeep struct {
	DB      *bun.DB
	Objects jobs.Objects
	Keep    Retention
}

// Retention says how long data is kept.
type Retention struct {
	// Jobs counts from a job's end until its row and everything that belongs to it are
	// removed.
	Jobs time.Duration
	// Events counts from a job's end until its events are removed; at most Jobs.
	Events time.Duration
	// Videos counts from a job's end until its videos, pictures and logs are removed; at most
	// Jobs.
	Videos time.Duration
}

const day = 24 * time.Hour

// DefaultRetention is used unless the configuration says otherwise.
var DefaultRetention = Retention{Jobs: 180 * day, Events: 90 * day, Videos: 30 * day}

const (
	// upkeepTime is how long a pass continues while there is more to do. In its first half it
	// pauses after each transaction, for upkeepRest times the transaction's duration, to leave
	// the stores to requests. In its second half it does not.
	upkeepTime = 20 * time.Second
	upkeepRest = 9
	// statementLimit bounds a statement of the upkeep. lockLimit bounds how long it may wait
	// for a lock, because other transactions then wait behind it.
	statementLimit = 5 * time.Second
	lockLimit      = 100 * time.Millisecond

	artifactBatch = 100
	jobBatch      = 100
	rowBatch      = 500
)

// transactions runs one transaction after another, with pauses, until one finds nothing to do.
func (u *Upkeep) transactions(ctx context.Context, what string, batch func(context.Context, bun.Tx) (int, error)) (int, error) {
	hurry := time.Now().Add(upkeepTime / 2)
	ctx, cancel := context.WithTimeout(ctx, upkeepTime)
	defer cancel()
	total := 0
	for {
		n, begun := 0, time.Now()
		err := jobs.InTx(ctx, u.DB, func(ctx context.Context, tx bun.Tx) error {
			if err := models.Bound(ctx, tx, statementLimit, lockLimit); err != nil {
				return err
			}
			var err error
			n, err = batch(ctx, tx)
			return err
		})
		switch {
		case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
			return total, nil // there is more: the next pass continues
		case models.IsLockTimeout(err):
			return total, nil // other transactions hold the rows
		case err != nil:
			return total, fmt.Errorf("%s: %w", what, err)
		case n == 0:
			return total, nil
		}
		total += n
		periodic.Rest(ctx, min(upkeepRest*time.Since(begun), time.Until(hurry)))
	}
}

// ForgetJobs removes jobs that ended long ago and everything that belongs to them: prompts,
// attempts, artifacts, events, dead letters, also open ones.
func (u *Upkeep) ForgetJobs(ctx context.Context) (int, error) {
	return u.transactions(ctx, "forget jobs", func(ctx context.Context, tx bun.Tx) (int, error) {
		ids, err := models.LockJobsOver(ctx, tx, u.Keep.Jobs, jobBatch)
		if err != nil || len(ids) == 0 {
			return 0, err
		}
		if err := models.DoomObjectsOf(ctx, tx, ids); err != nil {
			return 0, fmt.Errorf("doom their objects: %w", err)
		}
		return len(ids), models.DeleteJobs(ctx, tx, ids)
	})
}

// KeepEvents creates the partitions of the coming months, drops those whose jobs all ended
// long ago, and removes events as old from the default partition. It returns how many
// partitions and events it removed.
func (u *Upkeep) KeepEvents(ctx context.Context) (int, error) {
	_, err := u.transactions(ctx, "make partitions of events", func(ctx context.Context, tx bun.Tx) (int, error) {
		return 0, models.MakeEventPartitions(ctx, tx)
	})
	if err != nil {
		return 0, err
	}
	dropped, err := u.transactions(ctx, "drop partitions of events", u.dropPartition)
	if err != nil {
		return dropped, err
	}
	stray, err := u.transactions(ctx, "remove events", func(ctx context.Context, tx bun.Tx) (int, error) {
		return models.DeleteStrayEvents(ctx, tx, u.Keep.Events, jobBatch)
	})
	return dropped + stray, err
}

// partitionsLock is the advisory lock under which one process at a time drops partitions.
const partitionsLock = 0x6576656e7473

// dropPartition drops the oldest partition that may go. A retry may have reopened one of its
// jobs, so it checks again once it holds the lock that stops writers.
func (u *Upkeep) dropPartition(ctx context.Context, tx bun.Tx) (int, error) {
	mine, err := postgres.TryLock(ctx, tx, partitionsLock)
	if err != nil || !mine {
		return 0, err
	}
	found, err := models.ListEventPartitionsOver(ctx, tx, u.Keep.Events)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	name := found[0]
	if err := models.LockEventPartition(ctx, tx, name); err != nil {
		return 0, err
	}
	again, err := models.ListEventPartitionsOver(ctx, tx, u.Keep.Events)
	if err != nil || len(again) == 0 || again[0] != name {
		return 0, err
	}
	return 1, models.DropEventPartition(ctx, tx, name)
}

const (
	// hintAge is the age at which a hint that could not be published is useless: sweeps have
	// done its work long before.
	hintAge = day
	// A pool keeps its newest decisions, and all decisions within this time.
	newestDecisions = 1000
	decisionAge     = 30 * day
	// closureAge is how long pauses of queues are kept that are over. No job waits that long.
	closureAge = 400 * day
	// priceAge is how long the prices of pools are kept.
	priceAge = 30 * day
	// poolAge is how long after the end of its pool a machine may still have to be deleted, and somewhat more.
	poolAge = 2 * day
	// machineAge is how long the ledger keeps machines that are gone.
	machineAge = 90 * day
	// quarantineAge is how long a host is remembered that is in quarantine no more.
	quarantineAge = 7 * day
	// liveLogSpare is how long the live log of an attempt stays for those who follow it, after the
	// whole log was stored. One of an attempt without a stored log stays for liveLogAge.
	liveLogSpare = 10 * time.Minute
	liveLogAge   = day
	// webhookAge is how long deliveries are kept, for display and redelivery.
	webhookAge = 30 * day
)

// CloseDays sums up the days of the ledger that are over. It returns how many.
func (u *Upkeep) CloseDays(ctx context.Context) (int, error) {
	return u.transactions(ctx, "sum up a day of the ledger", func(ctx context.Context, tx bun.Tx) (int, error) {
		closed, err := costs.CloseDay(ctx, tx)
		if !closed {
			return 0, err
		}
		return 1, err
	})
}

// ForgetRest removes hints that could not be published, old scaling decisions, prices, machines, webhooks
// and quarantines, and terminated workers that no attempt refers to.
func (u *Upkeep) ForgetRest(ctx context.Context) (total int, err error) {
	for _, rest := range []struct {
		what   string
		remove func(context.Context, bun.Tx) (int, error)
	}{
		{"remove hints", forgetHints},
		{"remove scaling decisions", func(ctx context.Context, tx bun.Tx) (int, error) {
			return models.DeleteOldDecisions(ctx, tx, decisionAge, newestDecisions, rowBatch)
		}},
		{"remove webhooks", func(ctx context.Context, tx bun.Tx) (int, error) {
			return webhooks.DeleteOld(ctx, tx, webhookAge, rowBatch)
		}},
		{"remove live logs", func(ctx context.Context, tx bun.Tx) (int, error) {
			return models.DeleteOldLogs(ctx, tx, liveLogSpare, liveLogAge, rowBatch)
		}},
		{"remove notices of budgets", func(ctx context.Context, tx bun.Tx) (int, error) {
			return budgets.ForgetNotices(ctx, tx, rowBatch)
		}},
		{"remove prices", func(ctx context.Context, tx bun.Tx) (int, error) {
			return capacity.DeleteOldPrices(ctx, tx, priceAge, rowBatch)
		}},
		{"close the ledger of deleted pools", func(ctx context.Context, tx bun.Tx) (int, error) {
			return capacity.CloseMachines(ctx, tx, poolAge)
		}},
		{"remove machines", func(ctx context.Context, tx bun.Tx) (int, error) {
			return capacity.DeleteOldMachines(ctx, tx, machineAge, rowBatch)
		}},
		{"remove pauses", func(ctx context.Context, tx bun.Tx) (int, error) {
			return backlog.DeleteOldClosures(ctx, tx, closureAge, rowBatch)
		}},
		{"remove quarantines", func(ctx context.Context, tx bun.Tx) (int, error) {
			return models.DeleteOldQuarantines(ctx, tx, quarantineAge, rowBatch)
		}},
		{"remove workers", func(ctx context.Context, tx bun.Tx) (int, error) {
			return models.DeleteWorkersOver(ctx, tx, u.Keep.Jobs, rowBatch)
		}},
	} {
		n, err := u.transactions(ctx, rest.what, rest.remove)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

func forgetHints(ctx context.Context, tx bun.Tx) (int, error) {
	gone, err := models.DeleteOldHints(ctx, tx, hintAge, rowBatch)
	for _, m := range gone {
		slog.WarnContext(ctx, "an outbox message was removed, because it could not be relayed", "id", m.ID, "kind", m.Kind, "written",
			m.CreatedAt)
	}
	return len(gone), err
}

// Analyze renews the statistics of tables that have doubled since their last ANALYZE, and of
// jobs when the queue has, and returns how many. Autovacuum checks only once a minute; until
// then connections keep the plans that they made for an empty table or queue.
func (u *Upkeep) Analyze(ctx context.Context) (int, error) {
	tables, err := models.ListGrownTables(ctx, u.DB)
	if err != nil {
		return 0, fmt.Errorf("find the tables that have grown: %w", err)
	}
	for _, table := range tables {
		if err := models.Analyze(ctx, u.DB, table); err != nil {
			return 0, fmt.Errorf("analyze %s: %w", table, err)
		}
	}
	return len(tables), nil
}
