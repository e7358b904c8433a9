package alert_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/reelay/reelay/features/alert"
	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestRegionRules(t *testing.T) {
	t.Parallel()

	rules := []string{"regions-split", "region-overtaken", "region-silent", "region-alone", "standby-async"}
	for name, c := range map[string]struct {
		regions alert.Regions
		fires   []string
	}{
		"ACalmNight":            {alert.Regions{}, nil},
		"BothServe":             {alert.Regions{Serving: 1}, []string{"regions-split"}},
		"AnOldPrimary":          {alert.Regions{Overtaken: 1}, []string{"region-overtaken"}},
		"ALostRegion":           {alert.Regions{Silent: 1, Alone: true}, []string{"region-silent", "region-alone"}},
		"AnAddressOfAnother":    {alert.Regions{Foreign: 2}, []string{"region-silent"}},
		"CommitsThatDoNotAwait": {alert.Regions{Async: 1}, []string{"standby-async"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, rule := range rules {
				r := (&alert.Config{Rules: alert.Defaults()}).Rule(rule)
				value := r.Value(&alert.State{Regions: c.regions})
				require.NotNil(t, value)
				holds := *value > r.Threshold
				require.Equal(t, slices.Contains(c.fires, rule), holds, rule)
			}
		})
	}
}

func TestRegionsAreEvaluated(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	config := &alert.Config{Rules: alert.Defaults()}
	config.Rules = []*alert.Rule{config.Rule("regions-split")}
	found, failed := alert.Regions{Serving: 1}, error(nil)
	e := &alert.Evaluator{DB: s.DB, History: &history.Timeline{DB: s.DB}, Config: config,
		Regions: func(context.Context) (alert.Regions, error) { return found, failed }}
	operator := s.NewKey(t, s.Account, access.RoleOperator)

	changed, err := e.Pass(t.Context())

	require.NoError(t, err)
	require.Equal(t, 1, changed)
	active, err := (&alert.Desk{DB: s.DB, Config: config}).Active(t.Context(), operator)
	require.NoError(t, err)
	require.Equal(t, "Other regions that served at the same time as this one: 1.", active[0].Message)
	failed = errors.New("down")
	_, err = e.Pass(t.Context())
	require.ErrorIs(t, err, failed, "what is not known changes nothing")
}
