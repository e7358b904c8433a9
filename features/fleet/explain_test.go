package fleet_test

import (
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/stretchr/testify/require"
)

func TestExplain(t *testing.T) {
	t.Parallel()

	t.Run("SaysWhatARoundWouldDoAndChangesNothing", func(t *testing.T) {
		t.Parallel()
		s, _, _, pool := scaled(t, 0, 2)
		for range 3 {
			jobstest.SubmitAs(t, s, s.Admin, nil) // CRITICAL: each needs a worker at once
		}
		before := s.Dump(t)

		got, err := s.Pools.Explain(t.Context(), s.Admin, pool.ID)

		require.NoError(t, err)
		require.Equal(t, []int{0, 2, 2, 0}, []int{got.Workers, got.Desired, got.Boot, got.Drain})
		require.Equal(t, "3 waiting jobs need 3 workers; pool maximum is 2.", got.Reason)
		require.Equal(t, before, s.Dump(t))
		_, err = s.Pools.Explain(t.Context(), s.Client, pool.ID)
		jobstest.RequireCode(t, err, apierror.CodeForbidden)
		_, err = s.Pools.ExplainNamed(t.Context(), s.Admin, "nonesuch")
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
	})

	for name, c := range map[string]struct {
		close   string
		desired int
		reason  string
	}{
		"LeavesOutJobsWhileLeasesAreHalted": {"INSERT INTO halts (what, halted_by, reason) VALUES ('LEASES', 'test', 'x')", 0,
			"No jobs wait or run (paused and halted queues not counted)."},
		"LeavesOutJobsOfAPausedModel": {"INSERT INTO queue_pauses (lane, model, paused, changed_by) VALUES ('CRITICAL', 'testcard', true, 'test')", 0, "No jobs wait or run (paused and halted queues not counted)."},
		"CountsJobsWhileOtherLanesArePaused": {"INSERT INTO queue_pauses (lane, model, paused, changed_by) VALUES ('BATCH', '', true, 'test')",
			2, "2 waiting jobs need 2 workers (paused and halted queues not counted)."},
		"CountsJobsWhileOtherModelsArePaused": {"INSERT INTO queue_pauses (lane, model, paused, changed_by) VALUES ('CRITICAL', 'other', true, 'test')", 2, "2 waiting jobs need 2 workers."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, scaler, provider, pool := scaled(t, 0, 9)
			for range 2 {
				jobstest.SubmitAs(t, s, s.Admin, nil)
			}
			s.Exec(t, c.close)

			got, err := s.Pools.Explain(t.Context(), s.Admin, pool.ID)

			require.NoError(t, err)
			require.Equal(t, c.desired, got.Desired)
			require.Equal(t, c.reason, got.Reason)
			require.NoError(t, scaler.Scale(t.Context()))
			require.Len(t, provider.Running, c.desired)
		})
	}

	t.Run("SizesAStaticPoolForWhoeverStartsItsMachines", func(t *testing.T) {
		t.Parallel()
		s, _, _, pool := scaled(t, 0, 9)
		s.Exec(t, "UPDATE pools SET provider = 'static'")
		jobstest.SubmitAs(t, s, s.Admin, nil)

		got, err := s.Pools.ExplainNamed(t.Context(), s.Admin, pool.Name)

		require.NoError(t, err)
		require.Equal(t, 1, got.Desired)
	})
}
