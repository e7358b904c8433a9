package alerts

import (
	"context"
	"fmt"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/budgets"
	"github.com/reelay/reelay/models/capacity"
	"github.com/uptrace/bun"
)

// Health is what shows at a glance whether work gets stuck anywhere.
type Health struct {
	// OutboxLagSeconds is the age of the oldest message that waits to be relayed, 0 without any.
	OutboxLagSeconds float64 `bun:"outbox_lag"`
	// SchedulerLagSeconds is by how long the most overdue job's start, or slot of a schedule, was
	// missed, 0 without any. Slots do not count while schedules are halted.
	SchedulerLagSeconds float64 `bun:"scheduler_lag"`
	// StalledJobs render without progress for longer than the caller's limit.
	StalledJobs int `bun:"stalled"`
	// DeadLetters that operators must act on are open, counted up to the caller's limit.
	DeadLetters int `bun:"dead_letters"`
	// SchedulesHaltedSeconds and LeasesHaltedSeconds are for how long they have been halted, 0 if
	// they are not.
	SchedulesHaltedSeconds float64 `bun:"schedules_halted"`
	LeasesHaltedSeconds    float64 `bun:"leases_halted"`
	// Unsettled are dependencies on ended jobs that wait to be settled, counted up to the caller's
	// limit. UnsettledSeconds is the age of the oldest, 0 without any.
	Unsettled        int     `bun:"unsettled"`
	UnsettledSeconds float64 `bun:"unsettled_lag"`
	// OpenApprovals are questions that wait for an answer, counted up to the caller's limit.
	// OpenApprovalSeconds is the age of the oldest of them, 0 without any.
	OpenApprovals       int     `bun:"open_approvals"`
	OpenApprovalSeconds float64 `bun:"open_approval_age"`
	// NotBootingPools are pools whose machines do not start.
	NotBootingPools int `bun:"not_booting"`
	// EnginesDown and EnginesDrained are the engines of [capacity.ListTroubledEngines].
	EnginesDown    int `bun:"engines_down"`
	EnginesDrained int `bun:"engines_drained"`
	// ProvidersDown are accounts at hosted providers whose circuit has been open for three minutes, and
	// SubmitsUnknown the jobs that wait for a decision about a submit that was not answered.
	ProvidersDown  int `bun:"providers_down"`
	SubmitsUnknown int `bun:"submits_unknown"`
	// BudgetsHalf, BudgetsNear and BudgetsSpent are the budgets of accounts of which 50, 80 and 100 percent or more are
	// spent in the present period.
	BudgetsHalf  int `bun:"budgets_half"`
	BudgetsNear  int `bun:"budgets_near"`
	BudgetsSpent int `bun:"budgets_spent"`
	// DeletionsStuck are deletions of accounts that have done nothing for an hour.
	DeletionsStuck int `bun:"deletions_stuck"`
	// Standbys follow PostgreSQL. Commits do not wait for AsyncStandbys of them. StandbyBehindBytes is how much of the log the
	// slowest has not replayed yet: 0 without any, and if the role may not see it.
	Standbys           int   `bun:"standbys"`
	AsyncStandbys      int   `bun:"async_standbys"`
	StandbyBehindBytes int64 `bun:"standby_behind"`
	// CommitsWait is true if commits wait for a standby. Then nothing can be written while none follows.
	CommitsWait bool `bun:"commits_wait"`
}

// ReadHealth reads the health in one statement, by indexes: its cost does not grow with the
// number of jobs.
func ReadHealth(ctx context.Context, db bun.IDB, stall time.Duration, most int) (*Health, error) {
	h := new(Health)
	err := db.NewRaw(`
		SELECT outbox_lag, greatest(job_lag, CASE WHEN schedules_halted > 0 THEN 0 ELSE slot_lag END) AS scheduler_lag,
			stalled, dead_letters, unsettled, unsettled_lag, schedules_halted, leases_halted, not_booting, engines_down, engines_drained, providers_down, submits_unknown,
			deletions_stuck, budgets_half, budgets_near, budgets_spent, open_approvals, coalesce(open_approval_age, 0) AS open_approval_age,
			standbys, async_standbys, standby_behind, commits_wait FROM (SELECT
			(SELECT count(*) FROM account_deletions WHERE finished_at IS NULL AND progress_at < clock_timestamp() - interval '1 hour') AS deletions_stuck,
			(SELECT count(*) FROM pools WHERE boot_failures >= ? AND deleted_at IS NULL AND paused_at IS NULL) AS not_booting,
			coalesce((SELECT greatest(extract(epoch FROM clock_timestamp() - created_at), 0) FROM outbox
				WHERE claimed_until IS NULL OR claimed_until < clock_timestamp() ORDER BY id LIMIT 1), 0) AS outbox_lag,
			coalesce((SELECT greatest(extract(epoch FROM clock_timestamp() - min(run_at)), 0) FROM (`+
		fmt.Sprintf(models.FirstDelayedSQL, "IS NOT NULL")+
		`) first), 0) AS job_lag,
			coalesce((SELECT greatest(extract(epoch FROM clock_timestamp() - least((SELECT min(next_fire_at) FROM schedules WHERE next_fire_at IS NOT NULL),
				(SELECT min(due_at) FROM schedule_slots WHERE due_at IS NOT NULL))), 0)), 0) AS slot_lag,
			`+haltedSQL(models.HaltSchedules)+` AS schedules_halted, `+haltedSQL(models.HaltLeases)+` AS leases_halted,
			(SELECT count(*) FROM jobs WHERE status IN ('ASSIGNED', 'RUNNING', 'COMPLETING')
				AND phase = 'RENDERING' AND progress_at < clock_timestamp() - make_interval(secs => ?)) AS stalled,
			(SELECT count(*) FROM (SELECT FROM dead_letters WHERE resolved_at IS NULL AND `+models.OperatorsSQL+` LIMIT ?) open) AS dead_letters,
			(SELECT count(*) FROM (SELECT FROM unsettled LIMIT ?) waiting) AS unsettled,
			coalesce((SELECT greatest(extract(epoch FROM clock_timestamp() - min(since)), 0) FROM unsettled), 0) AS unsettled_lag) health
		CROSS JOIN (`+capacity.CountTroubledEnginesSQL+`) engines
		CROSS JOIN (`+capacity.CountTroubledProvidersSQL+`) providers
		CROSS JOIN (`+budgets.CountReachedSQL+`) budgets
		CROSS JOIN (
			SELECT count(*) AS standbys, count(*) FILTER (WHERE sync_state = 'async') AS async_standbys,
				coalesce(max(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)), 0)::bigint AS standby_behind,
				current_setting('synchronous_standby_names') <> '' AS commits_wait
			FROM pg_stat_replication) replication
		CROSS JOIN (
			SELECT count(*) AS open_approvals, greatest(extract(epoch FROM clock_timestamp() - min(asked_at)), 0) AS open_approval_age
			FROM (SELECT a.asked_at FROM approvals a JOIN jobs j ON j.id = a.job_id AND j.run = a.run AND j.status = 'BLOCKED'
				WHERE a.decided_at IS NULL LIMIT ?) open) approvals`,
		capacity.NotBootingAfter, stall.Seconds(), most, most, most).Scan(ctx, h)
	return h, err
}

// haltedSQL is for how many seconds a target has been halted, or 0.
func haltedSQL(what models.HaltTarget) string {
	return "coalesce((SELECT greatest(extract(epoch FROM clock_timestamp() - since), 0.001) FROM halts WHERE what = '" + string(what) +
		"'), 0)"
}

// WorkerCount is the number of workers in a state.
type WorkerCount struct {
	Status models.WorkerStatus `bun:"status"`
	Count  int                 `bun:"count"`
}

// CountWorkersByStatus counts the workers that have not ended, by state.
func CountWorkersByStatus(ctx context.Context, db bun.IDB) (counts []WorkerCount, err error) {
	err = db.NewSelect().Model((*models.Worker)(nil)).ColumnExpr("w.status, count(*) AS count").
		Where("w.ended_at IS NULL").Group("w.status").Scan(ctx, &counts)
	return counts, err
}
