package alert_test

import (
	"context"
	"testing"
	"time"

	"github.com/reelay/reelay/features/alert"
	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/alerts"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
)

func TestAcceptance(t *testing.T) {
	t.Parallel()
	s := jobstest.New(t)
	s.Exec(t, "UPDATE learning SET began_at = clock_timestamp() - interval '2 hours'")
	_, err := (&history.Recorder{DB: s.DB}).Pass(t.Context())
	require.NoError(t, err)
	rule := (&alert.Config{Rules: alert.Defaults()}).Rule("acceptance")
	share := func() *float64 {
		now, err := postgres.Now(t.Context(), s.DB)
		require.NoError(t, err)
		state := new(alert.State)
		state.Hour, err = (&history.Timeline{DB: s.DB}).Window(t.Context(), now.Add(-time.Hour), now)
		require.NoError(t, err)
		state.Refused, err = alerts.CountRefusals(t.Context(), s.DB, time.Hour)
		require.NoError(t, err)
		return rule.Value(state)
	}
	refusals := &jobs.Refusals{DB: s.DB}
	refuse := func(code apierror.Code, times int) {
		for range times {
			refusals.Refused(code, models.TierPro)
		}
	}
	for range 9 {
		s.Submit(t)
	}
	require.Nil(t, share(), "nine submits say little")
	s.Submit(t)
	require.InDelta(t, 1, *share(), 1e-9)

	refuse(apierror.CodeRateLimited, 100)
	refuse(apierror.CodeInvalidInput, 100)
	require.NoError(t, refusals.Pass(t.Context()))
	require.InDelta(t, 1, *share(), 1e-9, "callers did that")

	refuse(apierror.CodeInternal, 7)
	away, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, refusals.Pass(away), "PostgreSQL is away")
	refuse(apierror.CodeOverloaded, 3)
	require.NoError(t, refusals.Pass(t.Context()))
	require.NoError(t, refusals.Pass(t.Context()))
	require.InDelta(t, 0.5, *share(), 1e-9)
	require.Less(t, *share(), rule.Threshold)

	s.Exec(t, "UPDATE submit_refusals SET at = at - interval '2 hours'")
	require.InDelta(t, 1, *share(), 1e-9, "it was not in the last hour")
	s.Exec(t, "UPDATE submit_refusals SET at = at - interval '2 days'")
	refuse(apierror.CodeInternal, 1)
	require.NoError(t, refusals.Pass(t.Context()))
	var rows int
	require.NoError(t, s.DB.NewRaw("SELECT count(*) FROM submit_refusals").Scan(t.Context(), &rows))
	require.Equal(t, 1, rows, "old minutes are forgotten")
}
