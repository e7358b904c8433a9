package costs

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/shopspring/decimal"
	"github.com/uptrace/bun"
)

// Group is what a report has a row for each of.
type Group string

// The groups. A day is one in UTC.
const (
	ByDay      Group = "DAY"
	ByAccount  Group = "ACCOUNT"
	ByUser     Group = "USER"
	ByModel    Group = "MODEL"
	ByType     Group = "TYPE"
	ByPool     Group = "POOL"
	ByProvider Group = "PROVIDER"
	ByRegion   Group = "REGION"
	ByGPUType  Group = "GPU_TYPE"
)

// Groups are all groups.
var Groups = []Group{ByDay, ByAccount, ByUser, ByModel, ByType, ByPool, ByProvider, ByRegion, ByGPUType}

// keys are the columns by which reports group, which the ledger and its sums of days both have.
var keys = map[Group]string{
	ByDay: "day", ByAccount: "account_id", ByUser: "user_id", ByModel: "model", ByType: "type", ByPool: "pool", ByProvider: "provider",
	ByRegion: "region", ByGPUType: "gpu_type",
}

// shown are the SQL of the key of a group, if that is not the column itself: each row is grouped first, which is faster.
var shown = map[Group]string{ByDay: "to_char(days.key, 'YYYY-MM-DD')", ByAccount: "days.key::text"}

// Filter says what a report covers: the days (UTC) from From, and before To.
type Filter struct {
	From, To time.Time
	// Account narrows it to one account, unless it is "".
	Account models.AccountID
	// Zone is the time zone of the days, by its IANA name; "" is UTC. From and To are midnights there. Days of other zones are
	// read from the ledger itself.
	Zone string
}

// Row is a sum of the ledger. Amounts leave out what is unknown.
type Row struct {
	// Key is what the row is of: an account's id, a day as 2026-01-31, or a name, which can be empty.
	Key string `bun:"key"`
	// Total is true for the row that sums up all.
	Total bool `bun:"total"`
	// Attempts is how many ended, and Completed how many of them completed their jobs.
	Attempts  int64 `bun:"attempts"`
	Completed int64 `bun:"completed"`
	// Unpriced is how many entries have an unknown amount, since their pool, or a model of a hosted provider, had no price.
	Unpriced      int64           `bun:"unpriced"`
	UsefulSeconds float64         `bun:"useful_seconds"`
	WastedSeconds float64         `bun:"wasted_seconds"`
	UsefulUSD     decimal.Decimal `bun:"useful_usd"`
	WastedUSD     decimal.Decimal `bun:"wasted_usd"`
	// ChargedUSD is what accounts pay.
	ChargedUSD decimal.Decimal `bun:"charged_usd"`
}

// USD is what the time and the fees of the row cost.
func (r *Row) USD() decimal.Decimal { return r.UsefulUSD.Add(r.WastedUSD) }

// PerVideo is what each completed job cost, with all that was wasted; nil if none completed.
func (r *Row) PerVideo() *decimal.Decimal {
	if r.Completed == 0 {
		return nil
	}
	return new(r.USD().DivRound(decimal.NewFromInt(r.Completed), 10))
}

// sumsOfRowsSQL sums up rows of the ledger l.
const sumsOfRowsSQL = `count(*) FILTER (WHERE l.kind = 'ATTEMPT') AS attempts, count(*) FILTER (WHERE l.completed) AS completed,
		count(*) FILTER (WHERE l.useful_usd IS NULL OR l.wasted_usd IS NULL OR l.charged_usd IS NULL) AS unpriced,
		sum(l.useful_seconds) AS useful_seconds, sum(l.wasted_seconds) AS wasted_seconds,
		coalesce(sum(l.useful_usd), 0) AS useful_usd, coalesce(sum(l.wasted_usd), 0) AS wasted_usd,
		coalesce(sum(l.charged_usd), 0) AS charged_usd`

// dayTable has the sums of the days that are over, by some columns.
type dayTable struct{ name, columns, keys string }

var (
	byKind = dayTable{"ledger_days", "account_id, day, type, model, pool, provider, region, gpu_type",
		"l.account_id, (l.at AT TIME ZONE 'UTC')::date AS day, l.type, l.model, l.pool, l.provider, l.region, l.gpu_type"}
	byUser = dayTable{"ledger_user_days", "account_id, day, user_id",
		"l.account_id, (l.at AT TIME ZONE 'UTC')::date AS day, coalesce(l.user_id, '') AS user_id"}
)

const sumColumns = "attempts, completed, unpriced, useful_seconds, wasted_seconds, useful_usd, wasted_usd, charged_usd"

// Report returns the sums of the ledger, the dearest first, but days in their order. The first row is the total; at
// most limit others follow.
func Report(ctx context.Context, db bun.IDB, by Group, f Filter, limit int) (found []*Row, err error) {
	order, table := "useful_usd + wasted_usd DESC, useful_seconds + wasted_seconds DESC, key", byKind
	switch by {
	case ByDay:
		order = "key"
	case ByUser:
		table = byUser
	}
	err = db.NewRaw(`
		WITH closing AS (SELECT until FROM ledger_closing),
		days AS (
			SELECT `+keys[by]+` AS key, `+sumColumns+` FROM `+table.name+`
			WHERE ?5 = 'UTC' AND day >= (?0::timestamptz AT TIME ZONE 'UTC')::date AND day < (?1::timestamptz AT TIME ZONE 'UTC')::date AND (?2 OR account_id = ?3)
			UNION ALL
			SELECT `+keys[by]+`, `+sumColumns+` FROM (
				SELECT `+strings.ReplaceAll(table.keys, "'UTC'", "?5")+`, `+sumsOfRowsSQL+` FROM ledger l
				WHERE l.at >= greatest(CASE WHEN ?5 = 'UTC' THEN (SELECT until FROM closing) END, ?0::timestamptz) AND l.at < ?1::timestamptz AND (?2 OR l.account_id = ?3)
				GROUP BY `+table.columns+`) open_days),
		groups AS MATERIALIZED (
			SELECT `+cmp.Or(shown[by], "days.key")+` AS key, sum(attempts)::bigint AS attempts, sum(completed)::bigint AS completed, sum(unpriced)::bigint AS unpriced,
				sum(useful_seconds) AS useful_seconds, sum(wasted_seconds) AS wasted_seconds, sum(useful_usd) AS useful_usd,
				sum(wasted_usd) AS wasted_usd, sum(charged_usd) AS charged_usd
			FROM days GROUP BY days.key)
		SELECT '' AS key, true AS total, coalesce(sum(attempts), 0)::bigint AS attempts, coalesce(sum(completed), 0)::bigint AS completed,
			coalesce(sum(unpriced), 0)::bigint AS unpriced, coalesce(sum(useful_seconds), 0) AS useful_seconds,
			coalesce(sum(wasted_seconds), 0) AS wasted_seconds, coalesce(sum(useful_usd), 0) AS useful_usd,
			coalesce(sum(wasted_usd), 0) AS wasted_usd, coalesce(sum(charged_usd), 0) AS charged_usd
		FROM groups
		UNION ALL
		(SELECT key, false, attempts, completed, unpriced, useful_seconds, wasted_seconds, useful_usd, wasted_usd, charged_usd
		FROM groups ORDER BY `+order+` LIMIT ?4)`,
		f.From, f.To, f.Account == "", f.Account, limit, cmp.Or(f.Zone, "UTC")).Scan(ctx, &found)
	return found, err
}

// closeAfter is how long after its end a day is summed up: no transaction that ends an attempt takes as long.
const closeAfter = time.Hour

// CloseDay sums up the first day of the ledger that has been over for an hour and is not summed up yet. It returns
// false if there is none.
func CloseDay(ctx context.Context, tx bun.Tx) (bool, error) {
	// The day is read first: with its bounds as constants, the rows are found by the index of times.
	var day time.Time
	err := tx.NewRaw(`
		SELECT until FROM ledger_closing WHERE until + interval '24 hours' < clock_timestamp() - make_interval(secs => ?) FOR UPDATE SKIP LOCKED`,
		closeAfter.Seconds()).Scan(ctx, &day)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	sums := func(of dayTable) string {
		return `INSERT INTO ` + of.name + ` (` + of.columns + `, ` + sumColumns + `)
			SELECT ` + of.keys + `, ` + sumsOfRowsSQL + ` FROM ledger l
			WHERE l.at >= ?0::timestamptz AND l.at < ?0::timestamptz + interval '24 hours' GROUP BY ` + of.columns
	}
	for _, statement := range []string{sums(byKind), sums(byUser), `UPDATE ledger_closing SET until = ?0::timestamptz + interval '24 hours'`} {
		if _, err := tx.NewRaw(statement, day).Exec(ctx); err != nil {
			return false, err
		}
	}
	return true, nil
}
