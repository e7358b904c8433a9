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
	// Drafts is how many of Completed completed drafts.
	Drafts int64 `bun:"drafts"`
	// Cancelled is how many of Attempts ended because their jobs were cancelled.
	Cancelled int64 `bun:"cancelled"`
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

// Videos is how many jobs completed that are not drafts.
func (r *Row) Videos() int64 { return r.Completed - r.Drafts }

// PerVideo is what all time and all fees cost for each of Videos, with drafts, failures and all that was wasted; nil without a video.
func (r *Row) PerVideo() *decimal.Decimal {
	if r.Videos() == 0 {
		return nil
	}
	return new(r.USD().DivRound(decimal.NewFromInt(r.Videos()), 10))
}

// sumsOfRowsSQL sums up rows of the ledger l.
const sumsOfRowsSQL = `count(*) FILTER (WHERE l.kind = 'ATTEMPT') AS attempts, count(*) FILTER (WHERE l.completed) AS completed,
		count(*) FILTER (WHERE l.draft) AS drafts, count(*) FILTER (WHERE l.cancelled) AS cancelled,
		count(*) FILTER (WHERE l.useful_usd IS NULL OR l.wasted_usd IS NULL OR l.charged_usd IS NULL) AS unpriced,
		sum(l.useful_seconds) AS useful_seconds, sum(l.wasted_seconds) AS wasted_seconds,
		coalesce(sum(l.useful_usd), 0) AS useful_usd, coalesce(sum(l.wasted_usd), 0) AS wasted_usd,
		coalesce(sum(l.charged_usd), 0) AS charged_usd`

// dayTable has the sums of the days that are over, by some columns. Months, if not "", has the sums of its months.
type dayTable struct {
	name, months string
	by           []string
}

// kinds are the columns of the ledger that say what an attempt was.
var kinds = []string{"type", "model", "pool", "provider", "region", "gpu_type"}

// The tables of sums. ledger_days also serves one account: it has an index for that.
var (
	byKind    = dayTable{"ledger_days", "", append([]string{"account_id"}, kinds...)}
	byFleet   = dayTable{"ledger_fleet_days", "", kinds}
	byAccount = dayTable{"ledger_days", "ledger_months", []string{"account_id"}}
	byUser    = dayTable{"ledger_user_days", "ledger_user_months", []string{"account_id", "user_id"}}
)

// tableOf returns what to read for the sums by a group.
func tableOf(by Group, f Filter) dayTable {
	switch {
	case by == ByUser:
		return byUser
	case by == ByAccount:
		return byAccount
	case f.Account == "":
		return byFleet
	default:
		return byKind
	}
}

const sumColumns = "attempts, completed, drafts, cancelled, unpriced, useful_seconds, wasted_seconds, useful_usd, wasted_usd, charged_usd"

// addedSQL adds up rows that are sums.
var addedSQL = "sum(" + strings.ReplaceAll(sumColumns, ", ", "), sum(") + ")"

// insert returns the statement that enters the sums of the rows of the ledger from ?0 and before ?1, a day in UTC.
func (d dayTable) insert() string {
	keys := strings.Replace("l."+strings.Join(d.by, ", l."), "l.user_id", "coalesce(l.user_id, '')", 1)
	return `INSERT INTO ` + d.name + ` (day, ` + strings.Join(d.by, ", ") + `, ` + sumColumns + `)
		SELECT (?0::timestamptz AT TIME ZONE 'UTC')::date, ` + keys + `, ` + sumsOfRowsSQL + ` FROM ledger l
		WHERE l.at >= ?0::timestamptz AND l.at < ?1::timestamptz GROUP BY ` + keys
}

// insertMonth returns the statement that enters the sums of the month before ?1, from those of its days.
func (d dayTable) insertMonth() string {
	columns := strings.Join(d.by, ", ")
	return `WITH m AS MATERIALIZED (SELECT (?1::timestamptz AT TIME ZONE 'UTC')::date AS until)
		INSERT INTO ` + d.months + ` (month, ` + columns + `, ` + sumColumns + `)
		SELECT (until - interval '1 month')::date, ` + columns + `, ` + addedSQL + `
		FROM m JOIN ` + d.name + ` ON day >= until - interval '1 month' AND day < until
		GROUP BY until, ` + columns
}

// cover says from which sums a report adds up the time from From and before To: days from From and before Months, months from there
// and before Rest, days from there and before Open, and rows of the ledger from there on.
type cover struct{ From, Months, Rest, Open, To time.Time }

// cover returns the fewest sums, given the time until which days are summed up. The times are midnights in UTC, or in the zone
// of the filter, of which nothing is summed up.
func (f Filter) cover(closed time.Time, months bool) cover {
	c := cover{From: f.From, Months: f.From, Rest: f.From, Open: f.From, To: f.To}
	if zone := cmp.Or(f.Zone, "UTC"); zone != "UTC" || !closed.After(f.From) {
		return c
	}
	c.Open = closed
	if f.To.Before(closed) {
		c.Open = f.To
	}
	c.Months, c.Rest = c.Open, c.Open
	first, last := month(f.From), month(c.Open)
	if first.Before(f.From) {
		first = first.AddDate(0, 1, 0)
	}
	if months && first.Before(last) {
		c.Months, c.Rest = first, last
	}
	return c
}

// month returns the first midnight of a month in UTC.
func month(t time.Time) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// Report returns the sums of the ledger, the dearest first, but days in their order. The first row is the total; at
// most limit others follow.
func Report(ctx context.Context, db bun.IDB, by Group, f Filter, limit int) (found []*Row, err error) {
	// The times are read first: with bounds that are constants, PostgreSQL plans well. A day that is summed up meanwhile is
	// still in the ledger.
	var closed time.Time
	if err := db.NewRaw("SELECT until FROM ledger_closing").Scan(ctx, &closed); err != nil {
		return nil, err
	}
	from := tableOf(by, f)
	c := f.cover(closed, from.months != "")
	key := keys[by]
	read := []string{
		`SELECT ` + key + ` AS key, ` + sumColumns + ` FROM ` + from.name + `
			WHERE (day >= ?0::date AND day < ?1::date OR day >= ?2::date AND day < ?3::date)`,
		`SELECT ` + openKey(by) + `, ` + sumsOfRowsSQL + ` FROM ledger l WHERE l.at >= ?6::timestamptz AND l.at < ?7::timestamptz`,
	}
	if from.months != "" {
		read = append(read, `SELECT `+key+`, `+sumColumns+` FROM `+from.months+` WHERE month >= ?1::date AND month < ?2::date`)
	}
	if f.Account != "" {
		for i := range read {
			read[i] += ` AND account_id = ?4`
		}
	}
	read[1] += ` GROUP BY 1`
	order := "useful_usd + wasted_usd DESC, useful_seconds + wasted_seconds DESC, key"
	if by == ByDay {
		order = "key"
	}
	day := func(t time.Time) string { return t.UTC().Format(time.DateOnly) }
	err = db.NewRaw(`
		WITH days AS (`+strings.Join(read, ` UNION ALL `)+`),
		groups AS MATERIALIZED (
			SELECT `+cmp.Or(shown[by], "days.key")+` AS key, sum(attempts)::bigint AS attempts, sum(completed)::bigint AS completed,
				sum(drafts)::bigint AS drafts, sum(cancelled)::bigint AS cancelled, sum(unpriced)::bigint AS unpriced,
				sum(useful_seconds) AS useful_seconds, sum(wasted_seconds) AS wasted_seconds, sum(useful_usd) AS useful_usd,
				sum(wasted_usd) AS wasted_usd, sum(charged_usd) AS charged_usd
			FROM days GROUP BY days.key)
		SELECT '' AS key, true AS total, coalesce(sum(attempts), 0)::bigint AS attempts, coalesce(sum(completed), 0)::bigint AS completed,
			coalesce(sum(drafts), 0)::bigint AS drafts, coalesce(sum(cancelled), 0)::bigint AS cancelled,
			coalesce(sum(unpriced), 0)::bigint AS unpriced, coalesce(sum(useful_seconds), 0) AS useful_seconds,
			coalesce(sum(wasted_seconds), 0) AS wasted_seconds, coalesce(sum(useful_usd), 0) AS useful_usd,
			coalesce(sum(wasted_usd), 0) AS wasted_usd, coalesce(sum(charged_usd), 0) AS charged_usd
		FROM groups
		UNION ALL
		(SELECT key, false, attempts, completed, drafts, cancelled, unpriced, useful_seconds, wasted_seconds, useful_usd, wasted_usd, charged_usd
		FROM groups ORDER BY `+order+` LIMIT ?5)`,
		day(c.From), day(c.Months), day(c.Rest), day(c.Open), f.Account, limit, c.Open, c.To, cmp.Or(f.Zone, "UTC")).Scan(ctx, &found)
	return found, err
}

// openKey is the SQL of the key of a row of the ledger.
func openKey(by Group) string {
	switch by {
	case ByDay:
		return "(l.at AT TIME ZONE ?8)::date"
	case ByUser:
		return "coalesce(l.user_id, '')"
	default:
		return "l." + keys[by]
	}
}

// closeAfter is how long after its end a day is summed up: no transaction that ends an attempt takes as long.
const closeAfter = time.Hour

// CloseDay sums up the first day of the ledger that has been over for an hour and is not summed up yet, and with the
// last day of a month the month. It returns false if there is none.
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
	until := day.Add(24 * time.Hour)
	statements := []string{byKind.insert(), byFleet.insert(), byUser.insert(), "UPDATE ledger_closing SET until = ?1::timestamptz"}
	if until.Equal(month(until)) {
		statements = append(statements, byAccount.insertMonth(), byUser.insertMonth())
	}
	for _, statement := range statements {
		if _, err := tx.NewRaw(statement, day, until).Exec(ctx); err != nil {
			return false, err
		}
	}
	return true, nil
}
