// Package alerts holds the rows of alerts, silences and notices, and reads the figures that the
// alert rules judge.
package alerts

import (
	"context"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Severity says how soon somebody must act on an alert.
type Severity string

const (
	// SeverityP1 means now: jobs are being lost or delayed for most customers.
	SeverityP1 Severity = "P1"
	// SeverityP2 means within the hour.
	SeverityP2 Severity = "P2"
	// SeverityP3 means on the next working day.
	SeverityP3 Severity = "P3"
)

// Severities are all severities, the most urgent first.
var Severities = []Severity{SeverityP1, SeverityP2, SeverityP3}

// Alert is one time during which the condition of a rule holds. It is pending until FiredAt.
type Alert struct {
	bun.BaseModel `bun:"table:alerts,alias:a"`

	ID        models.AlertID `bun:"id,pk"`
	Rule      string         `bun:"rule"`
	Severity  Severity       `bun:"severity"`
	Message   string         `bun:"message"`
	Value     float64        `bun:"value"`
	Threshold float64        `bun:"threshold"`
	// Since is when the condition began to hold.
	Since time.Time `bun:"since"`
	// HeldAt is when it was last found to hold.
	HeldAt time.Time `bun:"held_at"`
	// ClearSince is since when it does not hold any more, while the alert fires.
	ClearSince     *time.Time   `bun:"clear_since"`
	FiredAt        *time.Time   `bun:"fired_at"`
	ResolvedAt     *time.Time   `bun:"resolved_at"`
	AcknowledgedAt *time.Time   `bun:"acknowledged_at"`
	AcknowledgedBy models.KeyID `bun:"acknowledged_by,nullzero"`
}

// IsNode marks a type of GraphQL's Node.
func (*Alert) IsNode() {}

// LockOpenAlerts returns the alerts that are not resolved, also pending ones, and locks them.
func LockOpenAlerts(ctx context.Context, tx bun.Tx) (open []*Alert, err error) {
	err = tx.NewSelect().Model(&open).Where("a.resolved_at IS NULL").Order("a.id").For("UPDATE").Scan(ctx)
	return open, err
}

// InsertAlert writes a pending alert. It returns false if the rule has an open one already.
func InsertAlert(ctx context.Context, tx bun.Tx, a *Alert) (bool, error) {
	n, err := postgres.Affected(tx.NewInsert().Model(a).On("CONFLICT (rule) WHERE resolved_at IS NULL DO NOTHING").Exec(ctx))
	return n > 0, err
}

// UpdateAlert saves what an evaluation changes of an open alert.
func UpdateAlert(ctx context.Context, tx bun.Tx, a *Alert) error {
	_, err := tx.NewUpdate().Model(a).
		Column("severity", "message", "value", "threshold", "since", "held_at", "clear_since", "fired_at", "resolved_at").
		WherePK().Where("resolved_at IS NULL").Exec(ctx)
	return err
}

// DeleteAlert deletes a pending alert.
func DeleteAlert(ctx context.Context, tx bun.Tx, id models.AlertID) error {
	_, err := tx.NewDelete().Model((*Alert)(nil)).Where("id = ? AND fired_at IS NULL", id).Exec(ctx)
	return err
}

// GetAlert returns an alert, or sql.ErrNoRows.
func GetAlert(ctx context.Context, db bun.IDB, id models.AlertID) (*Alert, error) {
	a := &Alert{ID: id}
	return a, db.NewSelect().Model(a).WherePK().Where("a.fired_at IS NOT NULL").Scan(ctx)
}

// ListAlerts returns at most limit alerts that fired, the newest first: those that still fire if
// active, or all; of one rule if there is one.
func ListAlerts(ctx context.Context, db bun.IDB, rule string, active bool, limit int) (all []*Alert, err error) {
	q := db.NewSelect().Model(&all).Where("a.fired_at IS NOT NULL").Order("a.fired_at DESC", "a.id DESC").Limit(int64(limit))
	if rule != "" {
		q.Where("a.rule = ?", rule)
	}
	if active {
		q.Where("a.resolved_at IS NULL")
	}
	return all, q.Scan(ctx)
}

// ListPendingAlerts returns the alerts whose condition does not hold for long enough yet.
func ListPendingAlerts(ctx context.Context, db bun.IDB) (all []*Alert, err error) {
	err = db.NewSelect().Model(&all).Where("a.resolved_at IS NULL AND a.fired_at IS NULL").Order("a.rule").Scan(ctx)
	return all, err
}

// AcknowledgeAlert records who handles an alert that fires, or returns sql.ErrNoRows if it does
// not fire or was acknowledged before.
func AcknowledgeAlert(ctx context.Context, tx bun.Tx, id models.AlertID, by models.KeyID) (*Alert, error) {
	a := new(Alert)
	err := tx.NewRaw(`UPDATE alerts SET acknowledged_at = clock_timestamp(), acknowledged_by = ?
		WHERE id = ? AND fired_at IS NOT NULL AND resolved_at IS NULL AND acknowledged_at IS NULL RETURNING *`, by, id).Scan(ctx, a)
	return a, err
}

// CountAlerts counts the alerts that fired since a time, by severity.
func CountAlerts(ctx context.Context, db bun.IDB, since time.Time) (map[Severity]int, error) {
	var rows []struct {
		Severity Severity `bun:"severity"`
		Count    int      `bun:"count"`
	}
	err := db.NewSelect().Model((*Alert)(nil)).ColumnExpr("a.severity, count(*) AS count").
		Where("a.fired_at >= ?", since).Group("a.severity").Scan(ctx, &rows)
	counts := map[Severity]int{}
	for _, row := range rows {
		counts[row.Severity] = row.Count
	}
	return counts, err
}

// Silence keeps alerts of a rule, or of all rules, from being sent to anybody.
type Silence struct {
	bun.BaseModel `bun:"table:alert_silences,alias:s"`

	ID        models.SilenceID `bun:"id,pk"`
	Rule      string           `bun:"rule"`
	Reason    string           `bun:"reason"`
	CreatedAt time.Time        `bun:"created_at,nullzero,default:clock_timestamp()"`
	CreatedBy models.KeyID     `bun:"created_by"`
	Until     time.Time        `bun:"until"`
}

// Covers reports whether the silence is for a rule.
func (s *Silence) Covers(rule string) bool { return s.Rule == "" || s.Rule == rule }

// ExtendSilence lets a silence that is in force, of the same rule, reason and key, last at least
// that long from now, or returns sql.ErrNoRows if there is none. No other silence begins until the
// end of the transaction.
func ExtendSilence(ctx context.Context, tx bun.Tx, s *Silence, lasts time.Duration) error {
	if _, err := tx.ExecContext(ctx, "LOCK TABLE alert_silences IN SHARE ROW EXCLUSIVE MODE"); err != nil {
		return err
	}
	return tx.NewRaw(`UPDATE alert_silences SET until = greatest(until, clock_timestamp() + make_interval(secs => ?3))
		WHERE id = (SELECT id FROM alert_silences WHERE rule = ?0 AND reason = ?1 AND created_by = ?2 AND until > clock_timestamp() ORDER BY until DESC LIMIT 1)
		RETURNING *`, s.Rule, s.Reason, s.CreatedBy, lasts.Seconds()).Scan(ctx, s)
}

// InsertSilence writes a silence that lasts that long.
func InsertSilence(ctx context.Context, tx bun.Tx, s *Silence, lasts time.Duration) error {
	return tx.NewRaw(`INSERT INTO alert_silences (id, rule, reason, created_by, until)
		VALUES (?, ?, ?, ?, clock_timestamp() + make_interval(secs => ?)) RETURNING *`,
		s.ID, s.Rule, s.Reason, s.CreatedBy, lasts.Seconds()).Scan(ctx, s)
}

// EndSilence ends a silence now, or returns sql.ErrNoRows if it is over or unknown.
func EndSilence(ctx context.Context, tx bun.Tx, id models.SilenceID) (*Silence, error) {
	s := new(Silence)
	err := tx.NewRaw(`UPDATE alert_silences SET until = greatest(clock_timestamp(), created_at + interval '1 microsecond')
		WHERE id = ? AND until > clock_timestamp() RETURNING *`, id).Scan(ctx, s)
	return s, err
}

// ListSilences returns the silences that are not over, the newest first.
func ListSilences(ctx context.Context, db bun.IDB) (all []*Silence, err error) {
	err = db.NewSelect().Model(&all).Where("s.until > clock_timestamp()").Order("s.id DESC").Limit(200).Scan(ctx)
	return all, err
}

// NoticeEvent is what a notice is about.
type NoticeEvent string

const (
	NoticeFired        NoticeEvent = "FIRED"
	NoticeResolved     NoticeEvent = "RESOLVED"
	NoticeAcknowledged NoticeEvent = "ACKNOWLEDGED"
	NoticeDigest       NoticeEvent = "DIGEST"
)

// Notice is one message to one receiver of alerts.
type Notice struct {
	bun.BaseModel `bun:"table:alert_notices,alias:n"`

	ID        models.NoticeID `bun:"id,pk"`
	AlertID   models.AlertID  `bun:"alert_id,nullzero"`
	Event     NoticeEvent     `bun:"event"`
	Route     string          `bun:"route"`
	Body      string          `bun:"body"`
	CreatedAt time.Time       `bun:"created_at,nullzero,default:clock_timestamp()"`
	NextAt    *time.Time      `bun:"next_at,nullzero,default:clock_timestamp()"`
	Tries     int             `bun:"tries"`
	SentAt    *time.Time      `bun:"sent_at"`
	LastError *string         `bun:"last_error"`
}

// InsertNotices writes notices, except those that are there.
func InsertNotices(ctx context.Context, tx bun.Tx, all []*Notice) error {
	if len(all) == 0 {
		return nil
	}
	_, err := tx.NewInsert().Model(&all).On("CONFLICT (alert_id, event, route) DO NOTHING").Exec(ctx)
	return err
}

// ClaimNotices returns at most limit due notices, and counts a try of each. They are due again
// after lease, unless SettleNotice was called.
func ClaimNotices(ctx context.Context, db bun.IDB, limit int, lease time.Duration) (due []*Notice, err error) {
	err = db.NewRaw(`
		WITH due AS (SELECT id FROM alert_notices WHERE next_at <= clock_timestamp() ORDER BY next_at LIMIT ? FOR UPDATE SKIP LOCKED)
		UPDATE alert_notices n SET tries = tries + 1, next_at = clock_timestamp() + make_interval(secs => ?)
		FROM due WHERE n.id = due.id RETURNING n.*`, limit, lease.Seconds()).Scan(ctx, &due)
	return due, err
}

// SettleNotice records how a try ended. With an empty failure the notice was sent; otherwise it
// is due again after wait, or never if wait is 0.
func SettleNotice(ctx context.Context, db bun.IDB, id models.NoticeID, failure string, wait time.Duration) error {
	_, err := db.NewRaw(`
		UPDATE alert_notices SET
			sent_at = CASE WHEN ?1 = '' THEN clock_timestamp() END,
			last_error = nullif(?1, ''),
			next_at = CASE WHEN ?1 <> '' AND ?2 > 0 THEN clock_timestamp() + make_interval(secs => ?2) END
		WHERE id = ?0 AND sent_at IS NULL`, id, failure, wait.Seconds()).Exec(ctx)
	return err
}

// ListNotices returns the newest notices, or those of one alert.
func ListNotices(ctx context.Context, db bun.IDB, alert models.AlertID, limit int) (all []*Notice, err error) {
	q := db.NewSelect().Model(&all).Order("n.created_at DESC", "n.id DESC").Limit(int64(limit))
	if alert != "" {
		q.Where("n.alert_id = ?", alert)
	}
	return all, q.Scan(ctx)
}

// ClaimDigest reports whether the caller must write the digest of a day, such as 2026-11-26.
func ClaimDigest(ctx context.Context, tx bun.Tx, day string) (bool, error) {
	n, err := postgres.Affected(tx.NewRaw("INSERT INTO alert_digests (day) VALUES (?::date) ON CONFLICT DO NOTHING", day).Exec(ctx))
	return n > 0, err
}

// WebhookHealth counts the webhook deliveries that were made since a time, and the accounts that
// they were for. A dead endpoint is for its owner to mend: it makes one account failing.
type WebhookHealth struct {
	Deliveries int `bun:"deliveries"` // that ended, or were tried three times
	Accounts   int `bun:"accounts"`
	// Failing are the accounts of which more than half of the deliveries failed three times or for
	// good.
	Failing int `bun:"failing"`
}

// CountWebhooks counts how the webhook deliveries that were made within the last long ended. It
// finds them by their ids, which begin with the time in milliseconds.
func CountWebhooks(ctx context.Context, db bun.IDB, long time.Duration) (*WebhookHealth, error) {
	h := new(WebhookHealth)
	err := db.NewRaw(`
		WITH ended AS (
			SELECT account_id, count(*) AS n, count(*) FILTER (WHERE state <> 'DELIVERED') AS failed
			FROM webhook_deliveries WHERE (state <> 'PENDING' OR tries >= 3) AND id >= (
				SELECT (left(hex, 8) || '-' || right(hex, 4) || '-0000-0000-000000000000')::uuid
				FROM (SELECT lpad(to_hex((extract(epoch FROM clock_timestamp() - make_interval(secs => ?)) * 1000)::bigint), 12, '0') AS hex) bound)
			GROUP BY account_id)
		SELECT coalesce(sum(n), 0) AS deliveries, count(*) AS accounts, count(*) FILTER (WHERE 2 * failed > n) AS failing FROM ended`,
		long.Seconds()).Scan(ctx, h)
	return h, err
}

// FleetAtMaximum reports whether there are pools, and each that is not paused has as many workers
// as it may have.
func FleetAtMaximum(ctx context.Context, db bun.IDB) (full bool, err error) {
	err = db.NewRaw(`SELECT count(*) > 0 AND bool_and(have >= max_workers) FROM (
		SELECT p.max_workers, (SELECT count(*) FROM workers w WHERE w.pool_id = p.id AND w.ended_at IS NULL) AS have
		FROM pools p WHERE p.paused_at IS NULL) pool`).Scan(ctx, &full)
	return full, err
}

// ForgetAlerts deletes at most limit resolved alerts with their notices, and digests and silences,
// that are older than keep.
func ForgetAlerts(ctx context.Context, db bun.IDB, keep time.Duration, limit int) (n int, err error) {
	err = db.NewRaw(`
		WITH old AS (SELECT clock_timestamp() - make_interval(secs => ?0) AS at),
		a AS (DELETE FROM alerts WHERE id IN (SELECT id FROM alerts, old WHERE resolved_at < old.at LIMIT ?1) RETURNING 1),
		n AS (DELETE FROM alert_notices WHERE id IN (SELECT n.id FROM alert_notices n, old WHERE n.alert_id IS NULL AND n.next_at IS NULL AND n.created_at < old.at LIMIT ?1) RETURNING 1),
		s AS (DELETE FROM alert_silences WHERE id IN (SELECT id FROM alert_silences, old WHERE until < old.at LIMIT ?1) RETURNING 1)
		SELECT (SELECT count(*) FROM a) + (SELECT count(*) FROM n) + (SELECT count(*) FROM s)`, keep.Seconds(), limit).Scan(ctx, &n)
	return n, err
}
