package costs_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/costs"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// tables have the sums of the ledger.
var tables = []string{"ledger_days", "ledger_fleet_days", "ledger_months", "ledger_user_days", "ledger_user_months"}

// closeDays sums up all days of the ledger from a day on.
func closeDays(t *testing.T, db *bun.DB, from time.Time) {
	t.Helper()
	exec(t, db, "UPDATE ledger_closing SET until = ?", from)
	for closed := true; closed; {
		require.NoError(t, db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) (err error) {
			closed, err = costs.CloseDay(ctx, tx)
			return err
		}))
	}
	for _, table := range tables {
		exec(t, db, "ANALYZE "+table)
	}
}

// amounts are the sums of a ledger, of which no digit may be lost.
type amounts struct {
	Useful, Wasted, Charged decimal.Decimal
}

func (a *amounts) add(r *costs.Row) {
	a.Useful, a.Wasted, a.Charged = a.Useful.Add(r.UsefulUSD), a.Wasted.Add(r.WastedUSD), a.Charged.Add(r.ChargedUSD)
}

func (a *amounts) String() string { return fmt.Sprint(a.Useful, " ", a.Wasted, " ", a.Charged) }

// TestYear enters a year. With REELAY_LEDGER_ROWS=10000000 it measures, with -v, how long reports of it take.
func TestYear(t *testing.T) {
	t.Parallel()

	db, rows := modelstest.DB(t), modelstest.LedgerRows(t, 20_000)
	to := time.Now().UTC().Truncate(24 * time.Hour)
	from := to.AddDate(0, 0, -365)
	begun := time.Now()
	modelstest.FillLedger(t, db, rows, from)
	t.Logf("%d rows were entered in %s", rows, time.Since(begun).Round(time.Millisecond))
	all := new(amounts)
	patient, done, err := postgres.OpenPatient(t.Context(), modelstest.DSNOf(t, db), 1)
	require.NoError(t, err)
	defer done()
	require.NoError(t, patient.NewRaw("SELECT sum(useful_usd) AS useful, sum(wasted_usd) AS wasted, sum(charged_usd) AS charged FROM ledger").
		Scan(t.Context(), all))
	if rows <= 1_000_000 { // else each reads all rows
		exec(t, db, "UPDATE ledger_closing SET until = ?", from)
		addUp(t, patient, all, costs.Filter{From: from, To: to})
	}
	begun = time.Now()
	closeDays(t, db, from)
	t.Logf("its days were summed up in %s", time.Since(begun).Round(time.Millisecond))
	addUp(t, db, all, costs.Filter{From: from, To: to})

	one := costs.Filter{From: from, To: to, Account: models.AccountID("acc_00000000-0000-0000-0000-000000000007")}
	for _, by := range costs.Groups {
		begun := time.Now()
		_, err := costs.Report(t.Context(), db, by, one, 100)
		require.NoError(t, err)
		t.Logf("a year of one account by %s: %s", by, time.Since(begun).Round(time.Millisecond))
	}
	month := costs.Filter{From: to.AddDate(0, 0, -30), To: to}
	for _, by := range costs.Groups {
		begun := time.Now()
		_, err := costs.Report(t.Context(), db, by, month, 100)
		require.NoError(t, err)
		t.Logf("30 days of all accounts by %s: %s", by, time.Since(begun).Round(time.Millisecond))
	}

	// A day that is not summed up yet.
	for _, table := range []string{"ledger_days", "ledger_fleet_days", "ledger_user_days"} {
		exec(t, db, "DELETE FROM "+table+" WHERE day = ?", to.AddDate(0, 0, -1))
	}
	exec(t, db, "UPDATE ledger_closing SET until = ?", to.AddDate(0, 0, -1))
	addUp(t, db, all, costs.Filter{From: from, To: to})
	for range 3 {
		begun := time.Now()
		for _, part := range []struct {
			by   costs.Group
			days int
		}{{costs.ByAccount, 7}, {costs.ByDay, 7}, {costs.ByAccount, 1}, {costs.ByDay, 30}} {
			_, err := costs.Report(t.Context(), db, part.by, costs.Filter{From: to.AddDate(0, 0, -part.days), To: to}, 400)
			require.NoError(t, err)
		}
		t.Logf("the reports of the page Costs: %s", time.Since(begun).Round(time.Millisecond))
	}
}

// addUp requires that the total and the rows of each report add up to the rows of the ledger.
func addUp(t *testing.T, db *bun.DB, all *amounts, f costs.Filter) {
	t.Helper()
	for _, by := range costs.Groups {
		begun := time.Now()
		found, err := costs.Report(t.Context(), db, by, f, 1_000_000)
		require.NoError(t, err)
		t.Logf("a year of all accounts by %s: %s, %d rows", by, time.Since(begun).Round(time.Millisecond), len(found)-1)
		total, sum := new(amounts), new(amounts)
		total.add(found[0])
		for _, row := range found[1:] {
			sum.add(row)
		}
		require.Equal(t, all.String(), total.String(), by)
		require.Equal(t, all.String(), sum.String(), by)
	}
}
