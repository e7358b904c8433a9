package attention_test

import (
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/attention"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/alerts"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/samber/lo"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { jobstest.Main(m) }

// firing are alerts of these rules, given as "P1 completion".
func firing(rules ...string) (all []*alerts.Alert) {
	for _, rule := range rules {
		severity, name, _ := strings.Cut(rule, " ")
		all = append(all, &alerts.Alert{Rule: name, Severity: alerts.Severity(severity), Message: name})
	}
	return all
}

// shown writes causes as "title > rule, rule".
func shown(causes []attention.Cause) (all []string) {
	for _, c := range causes {
		line := c.Title
		rules := lo.Map(c.Alerts, func(a *alerts.Alert, _ int) string { return a.Rule })
		if len(rules) > 0 {
			line += " > " + strings.Join(rules, ", ")
		}
		all = append(all, line)
	}
	return all
}

func TestRank(t *testing.T) {
	t.Parallel()

	slo := firing("P2 slo-slow-burn", "P2 dead-letters", "P2 failures", "P1 completion", "P1 slo-fast-burn")
	failing := []capacity.FailingWorker{{ID: "wrk_1", Host: models.Host{InstanceID: "h3"}, Failures: 4, Jobs: 3}}
	source := alerts.FailureSource{Fingerprint: "f", Model: "http.call", Account: "acme", Accounts: 1, DeadLetters: 29, All: 30}
	pause := models.Pause{Lane: models.TierPro, By: "ann", Reason: "migration"}
	flood := &backlog.LaneShare{Lane: models.TierPro, Name: "acme", Queued: 2999, LaneQueued: 3008, Share: 0.5}
	booting := func(failures int, paused time.Time) *query.PoolStatus {
		p := &query.PoolStatus{Pool: new(capacity.Pool)}
		p.Name, p.PausedAt, p.BootFailures, p.BootFailure = "spots", paused, failures, "the agent's key is refused"
		return p
	}
	for name, c := range map[string]struct {
		facts attention.Facts
		want  []string
	}{
		"machines that do not start stand below halts and above the rest": {attention.Facts{
			Overview: &query.Overview{Halts: []models.Halt{{What: models.HaltSchedules, By: "ann"}}, Failing: failing, Queued: 2},
			Pools:    []*query.PoolStatus{booting(capacity.NotBootingAfter, time.Time{})}, Alerts: firing("P2 queue-depth", "P1 completion"),
		}, []string{"Schedules are halted > queue-depth", "Machines of pool spots do not start", "Jobs fail on worker h3 > completion",
			"No workers"}},
		"machines that do not start explain a long queue": {attention.Facts{Pools: []*query.PoolStatus{booting(capacity.NotBootingAfter,
			time.Time{})}, Alerts: firing("P2 queue-depth")},
			[]string{"Machines of pool spots do not start > queue-depth"}},
		"a few machines may fail": {attention.Facts{Pools: []*query.PoolStatus{booting(capacity.NotBootingAfter-1, time.Time{})}}, nil},
		"a paused pool starts none": {attention.Facts{Pools: []*query.PoolStatus{booting(capacity.NotBootingAfter, time.Unix(1, 0))}},
			[]string{"Pool spots is paused"}},
		"nothing": {attention.Facts{}, nil},
		"failures of one cause fold into it": {attention.Facts{Failures: []alerts.FailureSource{source}, Alerts: slo},
			[]string{"29 http.call jobs of account acme failed for one reason > completion, slo-fast-burn, failures, slo-slow-burn, dead-letters"}},
		"failures of many causes": {attention.Facts{Failures: []alerts.FailureSource{{DeadLetters: 4, All: 30}}, Alerts: slo},
			[]string{"completion > completion, slo-fast-burn, failures, slo-slow-burn, dead-letters"}},
		"a bad host explains failures": {attention.Facts{Overview: &query.Overview{Failing: failing}, Failures: []alerts.FailureSource{source},
			Alerts: slo[:2]},
			[]string{"Jobs fail on worker h3 > slo-slow-burn, dead-letters", "29 http.call jobs of account acme failed for one reason"}},
		"SLO alerts stand last": {attention.Facts{
			Overview: &query.Overview{Pauses: []models.Pause{pause}},
			Shares:   []*backlog.LaneShare{flood}, Endpoints: []*webhooks.Endpoint{{URL: "https://a.example"}},
			Alerts: firing("P1 completion", "P3 webhook-failures", "P3 queue-depth", "P1 outbox-lag"),
		}, []string{"outbox-lag > outbox-lag", "The pro lane is paused", "Account acme floods the pro lane > queue-depth",
			"A webhook endpoint fails > webhook-failures", "completion > completion"}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()

			if c.facts.Overview == nil {
				c.facts.Overview = new(query.Overview)
			}
			require.Equal(t, c.want, shown(attention.Rank(c.facts)))
		})
	}
}

func TestCauses(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	worker := s.Worker(t, "one")
	for range 4 {
		s.Submit(t)
		_, fence := s.Lease(t, worker)
		_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailUnauthorized,
			Message: "the server refused the key"})
		require.NoError(t, err)
	}
	_, err := s.Operator.PauseQueue(t.Context(), s.Admin, models.TierPro, "", "ticket 4711")
	require.NoError(t, err)
	s.FireAlert(t)
	_, _, err = s.Webhooks.CreateEndpoint(t.Context(), s.Client, "https://dead.example.com/hook", webhooks.FormatStandard, nil)
	require.NoError(t, err)
	s.Exec(t, "UPDATE webhook_endpoints SET failing_since = clock_timestamp() - interval '1 hour', failed_tries = 9 WHERE url IS NOT NULL")
	reader := attention.Finder{Reads: s.Reads, Alerts: s.Alerts}

	found, err := reader.Causes(t.Context(), s.Admin)
	_, refused := reader.Causes(t.Context(), s.Client)

	require.NoError(t, err)
	require.Error(t, refused, "it is for operators")
	titles := shown(found)
	require.Contains(t, titles[0], "jobs of account client failed for one reason")
	require.Contains(t, titles, "The pro lane is paused > queue-depth")
	require.Contains(t, titles, "A webhook endpoint fails")
	for _, c := range found {
		require.NotEmpty(t, c.Path, c.Title)
	}
}
