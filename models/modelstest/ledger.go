package modelstest

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// ledger fills the ledger with rows over the 365 days from ?1 on: of 50 accounts with 40 users each, 8 models and 5 pools,
// which have 2 providers, 3 regions and 4 types of GPU. Each combination of an account, model and pool has 1 of 2,000 rows.
// Each hundredth row is a correction, each thousandth has no amount, and each tenth attempt failed. Amounts have ten digits
// after the point.
const ledger = `
	INSERT INTO ledger (kind, at, attempt_id, job_id, run, account_id, user_id, type, model, pool, provider, region, gpu_type, completed,
		useful_seconds, wasted_seconds, useful_usd, wasted_usd, charged_usd)
	SELECT CASE WHEN i % 100 = 7 THEN 'CORRECTION' ELSE 'ATTEMPT' END, ?1::timestamptz + i * (interval '365 days' / ?0),
		lpad(to_hex(i), 32, '0')::uuid, lpad(to_hex(i), 32, '0')::uuid, 1,
		lpad(to_hex(1 + i % 50), 32, '0')::uuid, 'user ' || i % 2000, 'video.generate',
		'model ' || i / 50 % 8, 'pool ' || pool, 'provider ' || pool % 2, 'region ' || pool % 3, 'gpu ' || pool % 4,
		i % 10 <> 3 AND i % 100 <> 7, i % 300, i % 40, amount, (i % 997) / 11::numeric, coalesce(amount, 0)
	FROM generate_series(0, ?0 - 1) i CROSS JOIN LATERAL (
		SELECT i / 400 % 5 AS pool, CASE WHEN i % 1000 <> 9 THEN (i % 100003) / 7::numeric END AS amount) r`

// FillLedger enters rows in the ledger, spread evenly over the 365 days from from on. See the statement for what they are.
func FillLedger(t testing.TB, db *bun.DB, rows int, from time.Time) {
	t.Helper()
	conn, done, err := postgres.OpenPatient(t.Context(), DSNOf(t, db), 1)
	require.NoError(t, err)
	defer done()
	run := func(statement string, args ...any) {
		_, err := conn.NewRaw(statement, args...).Exec(t.Context())
		require.NoError(t, err)
	}
	run("SET statement_timeout = 0")
	run("SET session_replication_role = replica")
	run(ledger, rows, from)
	run("VACUUM ANALYZE ledger") // as autovacuum does: it also summarizes the blocks in the index of times
}

// LedgerRows is how many rows a measurement enters: REELAY_LEDGER_ROWS, or fewer.
func LedgerRows(t testing.TB, fewer int) int {
	t.Helper()
	text := os.Getenv("REELAY_LEDGER_ROWS")
	if text == "" {
		return fewer
	}
	rows, err := strconv.Atoi(text)
	require.NoError(t, err)
	return rows
}
