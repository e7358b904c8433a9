package erase_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/reelay/reelay/features/erase"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models/erasure"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// gone lists the tables whose rows of an account are deleted with it.
var gone = []string{
	"arrivals", "artifacts", "budget_holds", "budgets", "bulk_operations", "input_fetches", "invitations", "job_words", "jobs", "members",
	"purse_entries", "purses", "schedule_slots", "schedules", "sessions", "uploads", "webhook_deliveries", "webhook_endpoints",
	"webhook_events", "workflows",
}

// kept lists the tables whose rows stay, and why.
var kept = map[string]string{
	"account_deletions":  "the report",
	"account_lanes":      "virtual times of the lanes, which must not go back",
	"accounts":           "a row without a name: the ledger names it",
	"alert_silences":     "what operators did, under a key without a name",
	"alerts":             "what operators did, under a key without a name",
	"api_keys":           "rows without names and secrets: workers and alerts name them",
	"ledger":             "what was paid, without users",
	"ledger_days":        "what was paid",
	"ledger_months":      "what was paid",
	"ledger_user_days":   "what was paid, without users",
	"ledger_user_months": "what was paid, without users",
	"pools":              "dedicated to an account: without it, they would serve all",
	"workers":            "copies of the pools', and the key that enrolled them",
}

// TestTables fails for a new table with data of accounts until somebody decides what becomes of its rows.
func TestTables(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	var tables []string
	require.NoError(t, s.DB.NewRaw(`
		SELECT DISTINCT c.table_name FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
		WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE' AND c.column_name IN ('account_id', 'accounts', 'member_id')
			AND c.table_name <> 'audit_log' -- append-only
		UNION
		SELECT conrelid::regclass::text FROM pg_constraint
		WHERE contype = 'f' AND conparentid = 0 AND confrelid IN ('accounts'::regclass, 'api_keys'::regclass, 'members'::regclass)
		UNION SELECT 'accounts' ORDER BY 1`).Scan(t.Context(), &tables))

	require.Equal(t, slices.Sorted(slices.Values(slices.Concat(gone, slices.Collect(maps.Keys(kept))))), tables,
		"decide in models/erasure what becomes of the rows, and name the table here and in docs/operators/retention.md")
}

func TestDeletion(t *testing.T) {
	t.Parallel()

	t.Run("LeavesNothingButTheLedger", func(t *testing.T) {
		t.Parallel()

		s, job := furnish(t)
		ledger := s.Count(t, "ledger")
		require.NotEmpty(t, jobstest.Stored(t, s))
		stranger := s.NewAccount(t, "stranger", "PRO")
		start(t, s)

		over := finish(t, s)

		for _, table := range gone {
			require.Zero(t, s.Count(t, table), table)
		}
		require.Equal(t, ledger, s.Count(t, "ledger"))
		require.Equal(t, ledger, over.Deletion.Kept[erasure.Ledger])
		for kind, n := range map[erasure.Kind]int{
			erasure.Jobs: 8, erasure.Workflows: 2, erasure.Schedules: 1, erasure.Webhooks: 2,
			erasure.Inputs: 2, erasure.Operations: 1, erasure.Budgets: 1,
			erasure.Views: 1, erasure.Members: 1, erasure.Keys: 3, erasure.Users: 1,
		} {
			require.Equal(t, n, count(over, kind), kind)
		}
		require.NotZero(t, count(over, erasure.Cancelled))
		require.Equal(t, erase.DeletedName, over.Name)
		require.WithinDuration(t, time.Now().Add(s.Eraser.ObjectsGone), over.ObjectsGoneAt, time.Minute)
		requireNo(t, s, jobstest.Secret, "audit_log") // names that operators gave to views and members
		_, err := s.Upkeep.DeleteObjects(t.Context())
		require.NoError(t, err)
		require.Empty(t, jobstest.Stored(t, s))
		requireNo(t, s, job.ID.UUID(), "ledger", "outbox", "audit_log")
		require.Equal(t, "stranger", stranger.Name)
		s.RequireRows(t)
	})
}

// requireNo fails the test if a row contains a text, except in these tables.
func requireNo(t *testing.T, s *jobstest.Stack, text string, except ...string) {
	t.Helper()
	var tables []string
	require.NoError(t, s.DB.NewRaw(`SELECT table_name FROM information_schema.tables
		WHERE table_schema = 'public' AND table_type = 'BASE TABLE'`).Scan(t.Context(), &tables))
	for _, table := range tables {
		if slices.Contains(except, table) {
			continue
		}
		var rows []string
		require.NoError(t, s.DB.NewRaw("SELECT r::text FROM ? r WHERE r::text LIKE ?", bun.Ident(table), "%"+text+"%").Scan(t.Context(), &rows))
		require.Empty(t, rows, fmt.Sprint(table, " has ", text))
	}
}
