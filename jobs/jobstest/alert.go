package jobstest

import (
	"context"
	"testing"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/alerts"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// FireAlert makes the rule queue-depth fire.
func (s *Stack) FireAlert(t testing.TB) models.AlertID {
	t.Helper()
	now := time.Now()
	a := &alerts.Alert{
		ID: models.NewAlertID(), Rule: "queue-depth", Severity: alerts.SeverityP3, Message: "250 jobs wait (limit 200).",
		Value: 250, Threshold: 200, Since: now, HeldAt: now, FiredAt: &now,
	}
	require.NoError(t, jobs.InTx(t.Context(), s.DB, func(ctx context.Context, tx bun.Tx) error {
		_, err := alerts.InsertAlert(ctx, tx, a)
		return err
	}))
	return a.ID
}
