package schedules_test

import (
	"context"
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/schedules"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// TestScheduleQueries runs the queries of each pass over many schedules of which few are due, and
// over a long history of one.
func TestScheduleQueries(t *testing.T) {
	t.Parallel()

	db := modelstest.DB(t)
	const one, films = models.ScheduleID("sch_ffffffff-0000-7000-8000-000000000001"),
		models.ScheduleID("sch_ffffffff-0000-7000-8000-000000000002")
	_, err := db.ExecContext(t.Context(), `
		SET LOCAL session_replication_role = replica; -- no account is needed
		INSERT INTO schedules (id, account_id, created_by, name, every_seconds, timezone, dst_gap, dst_overlap, jitter_seconds, catch_up,
			catch_up_window_seconds, overlap, ciphertext, wrapped_key, model, tier, decided_until, next_slot, next_fire_at)
		SELECT ('ffffffff-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, gen_random_uuid(), gen_random_uuid(), i, 1, 'UTC', 'SHIFT', 'FIRST', 0, 'ALL',
			60, 'SKIP', 'sealed', '', 'testcard', 'PRO', now(), at, at
		FROM generate_series(1, 10000) i, LATERAL (SELECT now() + (i - 6) * interval '1 minute' AS at) t;
		INSERT INTO schedule_slots (schedule_id, slot, cause, state, tier, job_id, ended_at)
		SELECT 'ffffffff-0000-7000-8000-000000000001', now() - i * interval '1 minute', 'CRON', 'FIRED', 'PRO', gen_random_uuid(), now() - i * interval '1 minute'
		FROM generate_series(1, 10000) i;
		INSERT INTO schedule_slots (schedule_id, account_id, slot, cause, state, tier, due_at)
		SELECT ('ffffffff-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, ('aaaaaaaa-0000-7000-8000-' || lpad(to_hex(i % 10), 12, '0'))::uuid, now(),
			'CRON', 'PENDING', 'PRO', now() + (i - 6) * interval '1 minute'
		FROM generate_series(1, 1000) i;
		INSERT INTO workflows (id, account_id, name, status, nodes, open, request_digest, completed_at)
		SELECT ('eeeeeeee-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, gen_random_uuid(), 'film', 'COMPLETED', 1, 0, '', now()
		FROM generate_series(1, 10000) i;
		INSERT INTO schedule_slots (schedule_id, slot, cause, state, tier, workflow_id, ended_at)
		SELECT ('ffffffff-0000-7000-8000-' || lpad(to_hex(2 + i % 100), 12, '0'))::uuid, now() - i * interval '1 minute', 'CRON', 'FIRED', 'PRO',
			('eeeeeeee-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, now()
		FROM generate_series(1, 10000) i`)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "ANALYZE schedules, schedule_slots, workflows")
	require.NoError(t, err)
	last := &modelstest.LastQuery{}
	flows, _, err := schedules.ListSlotFlows(t.Context(), db, schedules.SlotFlow{}, 1000)
	require.NoError(t, err)
	require.Len(t, flows, 6)
	watched := db.WithQueryHook(last)

	for name, c := range map[string]struct {
		run   func() error
		scans int
	}{
		"LockDueSchedules": {func() error {
			return watched.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
				due, _, err := schedules.LockDueSchedules(ctx, tx, 100, nil)
				require.Len(t, due, 6)
				return err
			})
		}, 6},
		"ReadRequest": {func() error {
			s, err := schedules.GetSchedule(t.Context(), watched, one)
			require.NoError(t, err)
			require.Empty(t, s.Ciphertext, "it may be as large as a workflow")
			defer func() { require.NotEmpty(t, s.Ciphertext) }()
			return schedules.ReadRequest(t.Context(), watched, s)
		}, 1},
		"TakeDueSlots": {func() error {
			var shares []schedules.SlotShare
			for _, flow := range flows {
				shares = append(shares, schedules.SlotShare{SlotFlow: flow, Most: 100})
			}
			taken, err := schedules.TakeDueSlots(t.Context(), watched, shares, 0)
			require.Len(t, taken, 6)
			return err
		}, 2 * 6},
		"ListSlotFlows": {func() error {
			due, last, err := schedules.ListSlotFlows(t.Context(), watched, schedules.SlotFlow{}, 100)
			require.Len(t, due, len(flows))
			require.Empty(t, last)
			return err
		}, 10 * 2},
		"ReadSlotUse": {func() error {
			use, err := schedules.ReadSlotUse(t.Context(), watched, []models.AccountID{flows[0].AccountID})
			require.Empty(t, use, "there is no such account")
			return err
		}, 100},
		"ListOpenRuns": {func() error {
			_, err := schedules.ListOpenRuns(t.Context(), watched, one, time.Now(), 20)
			return err
		}, 20 + 1},
		"ListWorkflows": {func() error {
			found, err := models.ListWorkflows(t.Context(), watched, models.WorkflowFilter{ScheduleID: films}, "", 20)
			require.Len(t, found, 20)
			return err
		}, 20},
		"GetSchedulesOfWorkflows": {func() error {
			found, err := schedules.GetSchedulesOfWorkflows(t.Context(), watched, []models.WorkflowID{"wfl_eeeeeeee-0000-7000-8000-000000000004"})
			require.Len(t, found, 1)
			return err
		}, 2},
		"HasLaterSlot": {func() error {
			_, err := schedules.HasLaterSlot(t.Context(), watched, one, time.Now().Add(-time.Hour))
			return err
		}, 1},
		"DeleteOldSlots": {func() error {
			n, err := schedules.DeleteOldSlots(t.Context(), watched, time.Hour, 100)
			require.Equal(t, 100, n)
			return err
		}, 2 * 100},
	} {
		require.NoError(t, c.run(), name)
		plan := modelstest.Explain(t, db, last.Text, "schedules", "schedule_slots")
		require.NotContains(t, plan.Text, "Seq Scan on schedule", name)
		require.LessOrEqual(t, plan.Rows, c.scans, "%s reads too much:\n%s", name, plan.Text)
	}
}
