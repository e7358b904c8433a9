package alerts

import (
	"context"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/uptrace/bun"
)

// FailureSource is one cause for which jobs failed for good.
type FailureSource struct {
	Fingerprint string              `bun:"fingerprint"`
	Class       models.FailureClass `bun:"class"`
	Model       string              `bun:"model"`
	Reason      string              `bun:"reason"`
	// DeadLetters counts its open dead letters among All, the newest ones.
	DeadLetters int `bun:"letters"`
	All         int `bun:"all_letters"`
	// Accounts counts whose jobs they are; Account is the name of one of them.
	Accounts int       `bun:"accounts"`
	Account  string    `bun:"account"`
	Since    time.Time `bun:"since"`
}

// failureSourceDeadLetters bounds the dead letters that ListFailureSources reads.
const failureSourceDeadLetters = 300

// ListFailureSources groups the newest open dead letters for operators that are not older than
// window by their cause: the most frequent first, up to limit.
func ListFailureSources(ctx context.Context, db bun.IDB, window time.Duration, limit int) (found []FailureSource, err error) {
	err = db.NewRaw(`
		WITH newest AS (
			SELECT * FROM (
				SELECT id, job_id, fingerprint, failure_class, model, reason, created_at FROM dead_letters
				WHERE resolved_at IS NULL AND `+models.OperatorsSQL+`
				ORDER BY id DESC LIMIT ?1) dl
			WHERE dl.created_at > (SELECT clock_timestamp()) - make_interval(secs => ?0))
		SELECT n.fingerprint, min(n.failure_class) AS class, min(n.model) AS model, (array_agg(n.reason ORDER BY n.id DESC))[1] AS reason,
			count(*) AS letters, (SELECT count(*) FROM newest) AS all_letters,
			count(DISTINCT j.account_id) AS accounts, coalesce(min(a.name), '') AS account, min(n.created_at) AS since
		FROM newest n LEFT JOIN jobs j ON j.id = n.job_id LEFT JOIN accounts a ON a.id = j.account_id
		GROUP BY n.fingerprint ORDER BY count(*) DESC, n.fingerprint LIMIT ?2`,
		window.Seconds(), failureSourceDeadLetters, limit).Scan(ctx, &found)
	return found, err
}

// ListFailingEndpoints returns the webhook endpoints that have failed for at least this time and so many tries, and
// those that Reelay turned off for it within a day: the longest first, up to limit.
func ListFailingEndpoints(ctx context.Context, db bun.IDB, least time.Duration, leastTries int, limit int64) (found []*webhooks.Endpoint,
	err error) {
	err = db.NewSelect().Model(&found).
		Where("we.deleted_at IS NULL AND we.failing_since < clock_timestamp() - make_interval(secs => ?) AND we.failed_tries >= ?",
			least.Seconds(), leastTries).
		Where("we.disabled_at IS NULL OR we.disabled_at > clock_timestamp() - interval '24 hours'").
		OrderExpr("we.failing_since, we.id").Limit(limit).Scan(ctx)
	return found, err
}
