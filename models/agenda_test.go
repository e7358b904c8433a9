package models_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// job inserts a job with further columns.
func job(columns, values string) string {
	return `INSERT INTO jobs (
			id, account_id, type, model, tier, lane, params, max_attempts, timeout_seconds, estimated_gpu_seconds, ` + columns + `)
		VALUES (gen_random_uuid(), gen_random_uuid(), 'video.generate', 'testcard', 'PRO', 'PRO', '{}', 3, 600, 5, ` + values + `)`
}

// asking inserts an approval that waits for so many things.
func asking(blockedBy string) string {
	return strings.Replace(job("status, blocked_by", "'BLOCKED', "+blockedBy), "'video.generate'", "'workflow.approval'", 1)
}

const (
	schedule = `INSERT INTO schedules (id, account_id, created_by, name, every_seconds, timezone, dst_gap, dst_overlap, jitter_seconds,
		catch_up, catch_up_window_seconds, overlap, ciphertext, wrapped_key, model, tier, decided_until, next_slot, next_fire_at)
		VALUES (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'night', 60, 'UTC', 'SKIP', 'FIRST', 0, 'SKIP', 0, 'ALLOW', '', '',
		'testcard', 'PRO', now(), now(), `
	slot = `INSERT INTO schedule_slots (schedule_id, slot, cause, state, tier, account_id, due_at)
		VALUES (gen_random_uuid(), now(), 'CRON', 'PENDING', 'PRO', gen_random_uuid(), `
	fetch    = `INSERT INTO input_fetches (job_id, account_id, claimed_until, next_at) VALUES (gen_random_uuid(), gen_random_uuid(), `
	delivery = `INSERT INTO webhook_deliveries (id, event_id, endpoint_id, account_id, job_id, run, event, url, next_attempt_at)
		VALUES (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 1, 'job.completed',
		'https://a.example', `
	message = `INSERT INTO outbox (kind, payload, claimed_until) VALUES ('job.ready', '{}', `
	attempt = `INSERT INTO job_attempts (id, job_id, run, attempt_no, worker_id, fencing_token, status, leased_at, lease_expires_at, ended_at)
		VALUES (gen_random_uuid(), gen_random_uuid(), 1, 1, gen_random_uuid(), gen_random_uuid(), `
	approval = `INSERT INTO approvals (job_id, run, on_timeout, expires_at) VALUES (gen_random_uuid(), 1, 'reject', `
	workflow = `INSERT INTO workflows (id, account_id, name, status, nodes, open, request_digest, cancel_requested_at)
		VALUES (gen_random_uuid(), gen_random_uuid(), 'film', 'RUNNING', 1, 1, '', `
	operation = `INSERT INTO bulk_operations (id, action, filter, per_minute, canary, canary_over, matched, account_id, started_by, role,
		paused, next_at)
		VALUES (gen_random_uuid(), 'CANCEL', '{}', 60, 0, true, 1, gen_random_uuid(), gen_random_uuid(), 'ADMIN', `
	erasure  = `INSERT INTO account_deletions (account_id, next_at) VALUES (gen_random_uuid(), `
	notice   = `INSERT INTO alert_notices (id, event, route, next_at) VALUES (gen_random_uuid(), 'DIGEST', 'mail', `
	deletion = `INSERT INTO object_deletions (object_key, next_at) VALUES (gen_random_uuid(), `
	pool     = `INSERT INTO pools (id, name, provider, region, gpu_type, capacity_class, models, min_workers, max_workers, provider_problem)
		VALUES (gen_random_uuid(), 'spot', 'p', 'r', 'g', 'SPOT', '{testcard}', 0, 1, `
	worker = `INSERT INTO workers (id, provider, provider_instance_id, region, gpu_type, capacity_class, models, last_heartbeat_at, status)
		VALUES (gen_random_uuid(), 'p', gen_random_uuid(), 'r', 'g', 'SPOT', '{testcard}', now(), `
)

// agendaWith returns the agenda with these rows, which refer to none, and the kinds of work that there
// are. It leaves no rows.
func agendaWith(t *testing.T, db *bun.DB, rows ...string) (agenda models.Agenda, due []models.Work) {
	t.Helper()
	undo := errors.New("undo")
	err := db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) (err error) {
		for _, row := range append([]string{"SET LOCAL session_replication_role = replica"}, rows...) {
			_, err := tx.ExecContext(ctx, row)
			require.NoError(t, err, row)
		}
		agenda, err = models.ReadAgenda(ctx, tx)
		require.NoError(t, err)
		return undo
	})
	require.ErrorIs(t, err, undo)
	for kind, there := range agenda.Due {
		if there {
			due = append(due, kind)
		}
	}
	slices.Sort(due)
	return agenda, due
}

func TestReadAgenda(t *testing.T) {
	t.Parallel()

	const now, later = "now())", "now() + interval '1 h')"

	t.Run("FindsEachKindOfWork", func(t *testing.T) {
		t.Parallel()

		db, seen := modelstest.DB(t), map[models.Work]bool{}
		for row, kinds := range map[string][]models.Work{
			job("status, run_at", "'SCHEDULED', now()"):              {models.WorkDelayed},
			job("status, blocked_by, run_at", "'BLOCKED', 0, now()"): {models.WorkDelayed},
			schedule + now:                {models.WorkSchedules},
			slot + now:                    {models.WorkSlots},
			fetch + "'-infinity', " + now: {models.WorkFetches},
			delivery + later:              {models.WorkWebhooks},
			message + "NULL)":             {models.WorkOutbox},
			message + now:                 {models.WorkOutbox},
			"INSERT INTO unsettled VALUES (gen_random_uuid(), gen_random_uuid())":           {models.WorkUnsettled},
			attempt + "'RUNNING', now(), now() + interval '1 h', NULL)":                     {models.WorkJobs, models.WorkLeases},
			job("status, run_at, expires_at", "'SCHEDULED', now() + interval '1 h', now()"): {models.WorkExpiring},
			"INSERT INTO parent_retries VALUES (gen_random_uuid(), 1)":                      {models.WorkParents},
			asking("2"):                 {models.WorkApprovals},
			approval + now:              {models.WorkApprovals},
			workflow + now:              {models.WorkCancels},
			operation + "false, " + now: {models.WorkBulk},
			erasure + now:               {models.WorkErasures},
			notice + now:                {models.WorkNotices},
			deletion + now:              {models.WorkDeletions},
			job("status, queued_at", "'QUEUED', now()"):                                                                                {models.WorkFleet, models.WorkJobs, models.WorkQueue},
			job("status, queued_at, slack_until", "'QUEUED', now(), now()"):                                                            {models.WorkFleet, models.WorkJobs, models.WorkQueue, models.WorkSlack},
			job("status, queued_at, needs", "'QUEUED', now(), 'held'"):                                                                 {models.WorkBudgets, models.WorkFleet, models.WorkJobs, models.WorkQueue},
			"INSERT INTO purse_entries (account_id, user_id, at, spent_usd, reserved_usd) VALUES (gen_random_uuid(), '', now(), 1, 0)": {models.WorkBudgets},
			job("status, completed_at", "'COMPLETED', now()"):                                                                          {models.WorkJobs},
			pool + "'down')":      {models.WorkFleet},
			worker + "'BOOTING')": {models.WorkFleet},
		} {
			_, due := agendaWith(t, db, row)
			require.Equal(t, kinds, due, row)
			for _, kind := range kinds {
				seen[kind] = true
			}
		}
		agenda, none := agendaWith(t, db)
		require.Empty(t, none)
		require.Equal(t, slices.Sorted(maps.Keys(agenda.Due)), slices.Sorted(maps.Keys(seen)), "each kind has a test")
	})

	t.Run("LeavesOutWhatIsNotDue", func(t *testing.T) {
		t.Parallel()

		_, due := agendaWith(t, modelstest.DB(t),
			job("status, run_at", "'SCHEDULED', now() + interval '1 h'"), job("status, blocked_by, run_at", "'BLOCKED', 1, now()"),
			schedule+later, slot+later, approval+later, asking("1"), fetch+"'-infinity', "+later, fetch+"now() + interval '1 h', "+now, message+later,
			attempt+"'SUCCEEDED', now(), now(), now())",
			job("status, run_at, expires_at", "'SCHEDULED', now() + interval '2 h', now() + interval '1 h'"),
			workflow+"NULL)", operation+"false, "+later, operation+"true, "+now, notice+later, notice+"NULL)", deletion+later,
			job("status, completed_at", "'COMPLETED', now() - interval '1 h'"), worker+"'IDLE')", pool+"'')")

		require.Empty(t, due)
	})

	t.Run("SaysWhenMoreIsDue", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		for _, row := range []string{
			job("status, run_at", "'SCHEDULED', now() + interval '1 h'"), schedule + later, slot + later, fetch + "'-infinity', " + later,
			approval + later,
		} {
			agenda, _ := agendaWith(t, db)
			require.Zero(t, agenda.Next)

			agenda, _ = agendaWith(t, db, row, strings.ReplaceAll(row, "1 h", "2 h"), strings.ReplaceAll(row, "1 h", "-2 h"))

			require.InDelta(t, time.Hour, agenda.Next, float64(time.Minute), "%s", row)
		}
	})

	t.Run("ReadsFewRows", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		before, err := models.ReadAgenda(t.Context(), db) // whose plan is for empty tables
		require.NoError(t, err)
		require.Zero(t, before.Next)
		modelstest.Fill(t, db)
		_, err = db.ExecContext(t.Context(), `
			INSERT INTO jobs (
				id, account_id, type, model, status, tier, lane, params, max_attempts, timeout_seconds, estimated_gpu_seconds, run_at)
			SELECT md5('d' || i)::uuid, md5('a1')::uuid, 'video.generate', 'testcard', 'SCHEDULED', 'PRO', 'PRO', '{}', 3, 600, 5,
				now() + make_interval(hours => i - 1000) FROM generate_series(1, 3000) i`)
		require.NoError(t, err)
		for _, known := range []string{"SELECT", "ANALYZE"} { // with statistics from before, and with new ones
			_, err := db.ExecContext(t.Context(), known)
			require.NoError(t, err)

			plan := modelstest.Explain(t, db, models.AgendaSQL)

			require.LessOrEqual(t, plan.Rows, 20, plan.Text)
		}
	})
}
