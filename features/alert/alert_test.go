package alert_test

import (
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/features/alert"
	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/alerts"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { jobstest.Main(m) }

// watched is a stack with one rule, which looks at the outbox, and receivers that are never
// called: nothing sends.
type watched struct {
	*jobstest.Stack
	evaluator *alert.Evaluator
	desk      *alert.Desk
	rule      *alert.Rule
	operator  jobs.Principal
}

func watch(t *testing.T, lasting time.Duration, routes ...*alert.Route) *watched {
	t.Helper()
	s := jobstest.New(t)
	config := &alert.Config{Rules: alert.Defaults(), Routes: routes}
	rule := config.Rule("outbox-lag")
	rule.For = lasting
	config.Rules = []*alert.Rule{rule}
	return &watched{s, &alert.Evaluator{DB: s.DB, History: &history.Timeline{DB: s.DB}, Config: config},
		&alert.Desk{DB: s.DB, Config: config, URL: "https://reelay.example"}, rule, s.NewKey(t, s.Account, access.RoleOperator)}
}

func (w *watched) pass(t *testing.T) int {
	t.Helper()
	n, err := w.evaluator.Pass(t.Context())
	require.NoError(t, err)
	return n
}

// lag makes the oldest message of the outbox as old as that, or empties it.
func (w *watched) lag(t *testing.T, seconds int) {
	t.Helper()
	w.Exec(t, "DELETE FROM outbox")
	if seconds > 0 {
		w.Exec(t, "INSERT INTO outbox (kind, payload, created_at) VALUES ('job.ready', '{}', clock_timestamp() - make_interval(secs => ?))",
			seconds)
	}
}

// age moves all times of the alerts back.
func (w *watched) age(t *testing.T, seconds int) {
	t.Helper()
	w.Exec(t, "UPDATE alerts SET since = since - make_interval(secs => ?0), clear_since = clear_since - make_interval(secs => ?0)", seconds)
}

func (w *watched) list(t *testing.T, active bool) []*alerts.Alert {
	t.Helper()
	all, err := w.desk.List(t.Context(), w.operator, active)
	require.NoError(t, err)
	return all
}

func (w *watched) events(t *testing.T) (events []string) {
	t.Helper()
	require.NoError(t, w.DB.NewRaw("SELECT event || ' ' || route FROM alert_notices ORDER BY id").Scan(t.Context(), &events))
	return events
}

var (
	onCall = &alert.Route{Name: "on-call", Severities: []alerts.Severity{alerts.SeverityP1}, Slack: &alert.Slack{URL: "http://127.0.0.1:1"}}
	everyP = &alert.Route{Name: "all", Slack: &alert.Slack{URL: "http://127.0.0.1:1"}}
	nobody = &alert.Route{Name: "p3", Severities: []alerts.Severity{alerts.SeverityP3}, Slack: &alert.Slack{URL: "http://127.0.0.1:1"}}
)

func TestEvaluate(t *testing.T) {
	t.Parallel()

	t.Run("FiresAfterItsTimeAndIsResolvedAMinuteAfterItsCause", func(t *testing.T) {
		t.Parallel()
		w := watch(t, 5*time.Minute, onCall, everyP, nobody)
		w.lag(t, 90)
		require.Zero(t, w.pass(t), "it must hold for 5 minutes")
		require.Empty(t, w.list(t, false))
		w.age(t, 301)

		require.Equal(t, 1, w.pass(t))
		require.Zero(t, w.pass(t), "it fires once")

		fired := w.list(t, true)
		require.Len(t, fired, 1)
		require.Equal(t, "outbox-lag", fired[0].Rule)
		require.Contains(t, fired[0].Message, "old (limit 60 s).")
		require.Equal(t, []string{"FIRED on-call", "FIRED all"}, w.events(t))

		w.lag(t, 0)
		require.Zero(t, w.pass(t), "not at once: it may come back")
		require.Len(t, w.list(t, true), 1)
		w.age(t, 61)
		require.Equal(t, 1, w.pass(t))
		require.Empty(t, w.list(t, true))
		require.NotNil(t, w.list(t, false)[0].ResolvedAt)
		require.ElementsMatch(t, []string{"FIRED on-call", "FIRED all", "RESOLVED on-call", "RESOLVED all"}, w.events(t))
	})

	t.Run("ForgetsAConditionThatEndedBeforeItsTime", func(t *testing.T) {
		t.Parallel()
		w := watch(t, 5*time.Minute, everyP)
		w.lag(t, 90)
		w.pass(t)
		w.age(t, 290)
		w.lag(t, 0)
		w.pass(t)
		w.lag(t, 90)
		w.pass(t)
		w.age(t, 290)

		require.Zero(t, w.pass(t))
	})

	t.Run("BeginsAnewAfterATimeInWhichNobodyLooked", func(t *testing.T) {
		t.Parallel()
		w := watch(t, 5*time.Minute, everyP)
		w.lag(t, 90)
		w.pass(t)
		w.Exec(t, "UPDATE alerts SET since = since - interval '1 h', held_at = held_at - interval '1 h'")

		require.Zero(t, w.pass(t))
		require.Empty(t, w.list(t, false))
	})

	t.Run("LeavesAnAlertAsItIsWhileItsFigureIsUnknown", func(t *testing.T) {
		t.Parallel()
		w := watch(t, 0, everyP)
		w.lag(t, 90)
		require.Equal(t, 1, w.pass(t))
		w.rule.Value = func(*alert.State) *float64 { return nil }
		w.age(t, 3600)

		require.Zero(t, w.pass(t))
		require.Len(t, w.list(t, true), 1)
	})

	t.Run("FiresOnceInSeveralProcesses", func(t *testing.T) {
		t.Parallel()
		w := watch(t, 0, everyP)
		w.lag(t, 90)

		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				_, err := w.evaluator.Pass(t.Context())
				require.NoError(t, err)
			})
		}
		all.Wait()

		require.Len(t, w.list(t, false), 1)
		require.Equal(t, []string{"FIRED all"}, w.events(t))
	})

	t.Run("ResolvesAlertsOfRulesThatAreOff", func(t *testing.T) {
		t.Parallel()
		w := watch(t, 0, everyP)
		w.lag(t, 90)
		w.pass(t)
		w.rule.Off = true
		w.pass(t)

		require.Empty(t, w.list(t, true))
	})

	t.Run("EvaluatesAllRulesOfAnEmptyInstallation", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		n, err := (&alert.Evaluator{DB: s.DB, History: &history.Timeline{DB: s.DB}, Config: alert.Default()}).Pass(t.Context())
		require.NoError(t, err)
		require.Zero(t, n)
	})
}

func TestDesk(t *testing.T) {
	t.Parallel()

	t.Run("ShowsAndAcknowledges", func(t *testing.T) {
		t.Parallel()
		w := watch(t, 0, everyP)
		w.lag(t, 90)
		w.pass(t)
		id := w.list(t, true)[0].ID

		_, err := w.desk.Acknowledge(t.Context(), w.Client, id)
		jobstest.RequireCode(t, err, apierror.CodeForbidden)
		_, err = w.desk.List(t.Context(), w.Client, true)
		jobstest.RequireCode(t, err, apierror.CodeForbidden)
		first, err := w.desk.Acknowledge(t.Context(), w.operator, id)
		require.NoError(t, err)
		second, err := w.desk.Acknowledge(t.Context(), w.Admin, id)
		require.NoError(t, err)

		require.Equal(t, w.operator.KeyID, second.AcknowledgedBy, "the first one works on it")
		require.Equal(t, first.AcknowledgedAt, second.AcknowledgedAt)
		require.Equal(t, []string{"FIRED all", "ACKNOWLEDGED all"}, w.events(t))
		_, err = w.desk.Acknowledge(t.Context(), w.operator, models.NewAlertID())
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
	})

	t.Run("SilencesWithAnEnd", func(t *testing.T) {
		t.Parallel()
		w := watch(t, 0, everyP)
		silence, err := w.desk.Silence(t.Context(), w.operator, "outbox-lag", 60, "a deploy")
		require.NoError(t, err)
		w.lag(t, 90)
		w.pass(t)
		require.Len(t, w.list(t, true), 1, "it is shown")
		require.Empty(t, w.events(t))

		_, err = w.desk.EndSilence(t.Context(), w.operator, silence.ID)
		require.NoError(t, err)
		left, err := w.desk.Silences(t.Context(), w.operator)
		require.NoError(t, err)
		require.Empty(t, left)
		_, err = w.desk.EndSilence(t.Context(), w.operator, silence.ID)
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
	})

	t.Run("RefusesSilencesThatSayTooLittle", func(t *testing.T) {
		t.Parallel()
		w := watch(t, 0)
		for field, try := range map[string]struct {
			rule, reason string
			minutes      int
		}{
			"rule":    {"no-such-rule", "x", 5},
			"minutes": {"", "x", 43_201},
			"reason":  {"", "a\x1bb", 5},
		} {
			_, err := w.desk.Silence(t.Context(), w.operator, try.rule, try.minutes, try.reason)
			jobstest.RequireInvalid(t, err, field)
		}
	})
}
