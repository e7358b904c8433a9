package query_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestChanges(t *testing.T) {
	t.Parallel()

	all := paging.Request{First: 50}
	titles := func(t *testing.T, s *jobstest.Stack, p jobs.Principal, f query.ChangeFilter) (found []string) {
		t.Helper()
		page, err := s.Reads.History.Changes(t.Context(), p, f, all)
		require.NoError(t, err)
		for _, c := range page.Items {
			found = append(found, c.Title)
		}
		return found
	}

	t.Run("TellOperatorsAndViewersWhatChangedWithoutTheRest", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		viewer := s.NewKey(t, s.NewAccount(t, "ops", models.TierCritical), access.RoleViewer)
		pool := jobstest.AddPool(t, s, 0, 5)
		_, err := s.Pools.Pause(t.Context(), s.Admin, pool.ID)
		require.NoError(t, err)
		_, err = s.Operator.PauseQueue(t.Context(), s.Admin, models.TierPro, "", "ticket 4711")
		require.NoError(t, err)
		_, err = s.Operator.Halt(t.Context(), s.Admin, []models.HaltTarget{models.HaltSchedules}, "storage")
		require.NoError(t, err)
		s.NewMember(t, "ana@example.com", access.RoleOperator)
		one := 5
		_, err = s.Accounts.Update(t.Context(), s.Admin, s.Account.ID, auth.AccountInput{MaxRunning: &one})
		require.NoError(t, err)
		job := s.Submit(t)
		_, err = s.Canceller.Cancel(t.Context(), s.Admin, job.ID)
		require.NoError(t, err)

		page, err := s.Reads.History.Changes(t.Context(), viewer, query.ChangeFilter{}, all)
		require.NoError(t, err)
		var told []string
		for _, c := range page.Items {
			told = append(told, c.Title)
			require.NotEmpty(t, c.Actor)
			require.NotContains(t, strings.Join(c.Details, "\n")+c.Title, string(job.ID), "jobs are for the audit log")
		}
		require.Contains(t, told, "Pool "+pool.Name+" paused")
		require.Contains(t, told, "Pro lane paused")
		require.Contains(t, told, "Schedules halted")
		require.Contains(t, told, "Member ana@example.com created")
		require.NotContains(t, strings.Join(told, "\n"), "{", "each word of a title has a value")
		require.Contains(t, page.Items[0].Details, "maxRunning: 200 → 5")
	})

	t.Run("SayInPlainWordsWhatWasPausedAndHalted", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		_, err := s.Operator.PauseQueue(t.Context(), s.Admin, models.TierPro, "testcard", "")
		require.NoError(t, err)
		_, err = s.Operator.ResumeQueue(t.Context(), s.Admin, models.TierPro, "testcard")
		require.NoError(t, err)
		_, err = s.Operator.Halt(t.Context(), s.Admin, models.HaltTargets, "storage")
		require.NoError(t, err)
		_, err = s.Operator.Resume(t.Context(), s.Admin, models.HaltTargets[:1])
		require.NoError(t, err)

		require.Equal(t, []string{"Schedules resumed", "Schedules and leases halted", "Pro lane resumed for testcard",
			"Pro lane paused for testcard"},
			titles(t, s, s.Admin, query.ChangeFilter{Kinds: []query.ChangeKind{query.ChangeHalt, query.ChangeQueue}}))
	})

	t.Run("NameWhatTheyMentionById", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "gpu-host-7")
		_, err := s.Fleet.QuarantineWorker(t.Context(), s.Admin, worker.WorkerID, 5, "loud fan")
		require.NoError(t, err)
		acme := s.NewAccount(t, "acme", models.TierPro)
		_, err = s.Accounts.Update(t.Context(), s.Admin, acme.ID, auth.AccountInput{MaxRunning: new(7)})
		require.NoError(t, err)
		_, _, err = s.Keys.Create(t.Context(), s.Admin, auth.NewKey{AccountID: acme.ID, Role: access.RoleClient, Name: "ci"})
		require.NoError(t, err)

		page, err := s.Reads.History.Changes(t.Context(), s.Admin, query.ChangeFilter{}, all)
		require.NoError(t, err)
		acts, err := s.Reads.History.AuditLog(t.Context(), s.Admin, "", all)
		require.NoError(t, err)
		_, refused := s.Reads.History.AuditLog(t.Context(), s.Client, "", all)

		require.Equal(t, "Key ci created", page.Items[0].Title)
		require.Contains(t, page.Items[0].Details, "account: acme ("+string(acme.ID)+")")
		require.Contains(t, titles(t, s, s.Admin, query.ChangeFilter{}), "Host of worker gpu-host-7 quarantined")
		require.Equal(t, "ci", *acts.Items[0].TargetName)
		require.Contains(t, acts.Items[0].Details, "account: acme ("+string(acme.ID)+")")
		of, err := s.Reads.History.AuditLog(t.Context(), s.Admin, string(worker.WorkerID), all)
		require.NoError(t, err)
		require.Equal(t, "gpu-host-7", *of.Items[0].TargetName)
		jobstest.RequireCode(t, refused, apierror.CodeForbidden)
	})

	t.Run("AreFilteredAndPaged", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for _, lane := range []models.Tier{models.TierPro, models.TierFree, models.TierPro} {
			_, err := s.Operator.PauseQueue(t.Context(), s.Admin, lane, "", "")
			require.NoError(t, err)
		}
		_, err := s.Operator.Halt(t.Context(), s.Admin, []models.HaltTarget{models.HaltLeases}, "why")
		require.NoError(t, err)

		require.Equal(t, []string{"Leases halted"}, titles(t, s, s.Admin, query.ChangeFilter{Kinds: []query.ChangeKind{query.ChangeHalt}}))
		require.Equal(t, []string{"Free lane paused"}, titles(t, s, s.Admin, query.ChangeFilter{Target: "FREE"}))
		require.Empty(t, titles(t, s, s.Admin, query.ChangeFilter{Until: time.Now().Add(-time.Hour)}))
		queues := query.ChangeFilter{Kinds: []query.ChangeKind{query.ChangeQueue}}
		first, err := s.Reads.History.Changes(t.Context(), s.Admin, queues, paging.Request{First: 2})
		require.NoError(t, err)
		require.True(t, first.More)
		rest, err := s.Reads.History.Changes(t.Context(), s.Admin, queues, paging.Request{First: 2, After: first.End})
		require.NoError(t, err)
		require.Len(t, rest.Items, 1)
		require.False(t, rest.More)
	})

	t.Run("RefuseWhoMayNotAndWhatIsWrong", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		_, err := s.Reads.History.Changes(t.Context(), s.Client, query.ChangeFilter{}, all)
		jobstest.RequireCode(t, err, apierror.CodeForbidden)
		for name, f := range map[string]query.ChangeFilter{
			"unknown kind": {Kinds: []query.ChangeKind{"COFFEE"}}, "NUL": {Target: "a\x00"}, "long": {Target: strings.Repeat("x", 300)},
			"backwards": {Since: time.Now(), Until: time.Now().Add(-time.Hour)},
		} {
			_, err := s.Reads.History.Changes(t.Context(), s.Admin, f, all)
			require.True(t, apierror.HasCode(err, apierror.CodeInvalidInput), name)
		}
	})
}

func TestActLines(t *testing.T) {
	t.Parallel()

	const account = "acc_0198b3a0-0000-7000-8000-000080746054"
	for name, c := range map[string]struct {
		payload string
		want    []string
	}{
		"a change": {`{"before": {"max": 3, "same": 1}, "after": {"max": 5, "same": 1}, "address": "127.0.0.1"}`,
			[]string{"max: 3 → 5", "address: 127.0.0.1"}},
		"one value": {`{"before": 0, "after": 2}`, []string{"value: 0 → 2"}},
		"values of objects": {`{"before": {"limits": {"a": 1, "b": {"c": true}}}, "after": {"limits": {"a": 2, "b": {"c": false}}}}`,
			[]string{"limits.a: 1 → 2", "limits.b.c: yes → no"}},
		"a value that is gone": {`{"before": {"zone": "a", "x": 1}, "after": {"x": 1}}`, []string{"zone: a → none"}},
		"a value that is new":  {`{"before": {"x": 1}, "after": {"x": 1, "zones": ["a", "b"]}}`, []string{"zones: none → a, b"}},
		"times": {`{"before": {"until": "2019-01-31T12:00:00Z"}, "after": {"until": "2019-01-31T13:05:09.123456+02:00"}}`,
			[]string{"until: 31 Jan 2019 12:00 UTC → 31 Jan 2019 11:05:09 UTC"}},
		"more times": {`{"expires": "2019-01-31T12:00:00+01:00", "at": ["2019-01-31T12:00:00Z", "2019-01-31"]}`,
			[]string{"at: 31 Jan 2019 12:00 UTC, 2019-01-31", "expires: 31 Jan 2019 11:00 UTC"}},
		"what was deleted": {`{"before": {"x": 1}}`, []string{}},
		"what was created": {`{"after": {"x": 1, "y": null}}`, []string{"x: 1"}},
		"large numbers":    {`{"n": 12345678901234567890}`, []string{"n: 12345678901234567890"}},
		"an id with a name": {`{"account": "` + account + `", "accounts": ["` + account + `", "x"]}`,
			[]string{"account: acme (" + account + ")", "accounts: acme (" + account + "), x"}},
		"a list of objects":       {`{"filters": [{"a": 1}]}`, []string{`filters: {"a":1}`}},
		"nothing":                 {`{}`, []string{}},
		"no payload":              {``, []string{}},
		"no object":               {`"no object"`, []string{`"no object"`}},
		"control characters":      {`{"reason": "a\u001b[31mb"}`, []string{`reason: ab`}},
		"empty texts and objects": {`{"a": "", "b": {}, "c": []}`, []string{}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()

			require.Equal(t, c.want, query.ActLines(json.RawMessage(c.payload), query.Names{account: "acme"}))
		})
	}
}

func TestChangesOfProcesses(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	start := func(version string, settings map[string]string) {
		t.Helper()
		process := &lease.Presence{DB: s.DB, Kind: models.ProcessAPI, Version: version, Host: "one", Settings: lease.SafeSettings(settings)}
		require.NoError(t, process.Pass(t.Context()))
		require.NoError(t, process.Pass(t.Context()))
	}
	processes := query.ChangeFilter{Kinds: []query.ChangeKind{query.ChangeProcess}}
	count := func() int {
		t.Helper()
		page, err := s.Reads.History.Changes(t.Context(), s.Admin, processes, paging.Request{First: 50})
		require.NoError(t, err)
		return len(page.Items)
	}
	settings := map[string]string{
		"DATABASE_URL":              "postgres://reelay:hunter2@db.example:5432/reelay?password=hunter3#hunter4",
		"REDIS_URL":                 "redis://:hunter5@127.0.0.1:4711/0",
		"REELAY_OIDC_CLIENT_SECRET": "hunter6", "REELAY_SPOT_PERCENT": "70", "GCS_BUCKET": "",
	}

	start("1.0", settings)
	require.Equal(t, 0, count(), "the first start changes nothing")
	settings["REDIS_URL"] = "redis://:hunter5@127.0.0.1:4712/0"
	start("1.0", settings)
	require.Equal(t, 0, count(), "nor does the same again, with a store of this machine at another port")
	delete(settings, "REELAY_OIDC_CLIENT_SECRET")
	settings["DATABASE_URL"] = "postgres://reelay:hunter2@other.example:5432/reelay"
	settings["REELAY_SPOT_PERCENT"] = "50"
	start("1.1", settings)

	page, err := s.Reads.History.Changes(t.Context(), s.Admin, processes, paging.Request{First: 50})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	require.Equal(t, []string{
		"DATABASE_URL: postgres://db.example:5432/reelay → postgres://other.example:5432/reelay", "REELAY_OIDC_CLIENT_SECRET: (set) → none",
		"REELAY_SPOT_PERCENT: 70 → 50", "version: 1.0 → 1.1", "host: one",
	}, page.Items[0].Details)
	var stored string
	require.NoError(t, s.DB.NewRaw("SELECT string_agg(setup::text, '') || (SELECT string_agg(payload::text, '') FROM audit_log) FROM process_setups").Scan(t.Context(), &stored))
	require.NotContains(t, stored, "hunter")
}
