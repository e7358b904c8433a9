package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestReconcile compares a bill of three machines, and an export of two tasks, with what a server has.
func TestReconcile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	const header = "Resource name;Usage start date;Usage end date;Cost ($);Currency\n"
	const times = ";2026-10-01 00:00:00 UTC;2026-10-02 00:00:00 UTC;"
	machine := func(id, usd, provider string) string {
		return `{"node": {"instanceId": "` + id + `", "provider": "` + provider + `", "paidSeconds": 60, "costUsd": ` + usd + `}}`
	}
	url, sent := serveOperations(t, map[string]string{
		"machines": `{"machines": {"pageInfo": {"hasNextPage": false}, "edges": [` + machine("zones/z/same", "2",
			"gce") + "," + machine("far", "5", "gce") + "," +
			machine("unbilled", "1", "gce") + "," + machine("here", "9", "local") + "," + machine("unpriced", "0", "gce") + `]}}`,
		"providerTasks": `{"providerTasks": [{"entry": 1, "at": "2026-10-01T12:00:00Z", "task": "t1", "costUsd": 0.5}]}`,
	})
	at := []string{"--endpoint", url, "--key", "rl_x"}
	reconcile := func(args ...string) (int, string, string) {
		return call(t, t.Context(), append(append([]string{"costs", "reconcile"}, args...), at...)...)
	}
	good := file("good.csv", header+"same"+times+"2,02;USD\n")
	bad := file("bad.csv",
		header+"same"+times+"2;USD\nsame"+times+"2;USD\nfar"+times+"6;USD\nunknown"+times+"3;USD\nunpriced"+times+"1;USD\n;broken\n")

	status, out, errs := reconcile("--bill", bad, "--from", "2026-10-01", "--to", "2026-11-01")

	require.Equal(t, 1, status)
	require.Contains(t, errs, "the bill and Reelay differ")
	for _, says := range []string{"1 line repeated an earlier line: counted once", "1 line cannot be read: not counted",
		"line 7: it has 2 fields, and the first line 5",
		"3 machines in both. Billed $12.0000, Reelay has $8.0000: a difference of $4.0000", "Only the bill has 1 machine:", "unknown  $3.0000  n/a",
		"Only Reelay has 1 machine:", "unbilled  n/a", "More than 2 % apart, or without a price 2 machines:", "far       $6.0000  $5.0000", "unpriced  $1.0000  n/a"} {
		require.Contains(t, out, says)
	}
	require.Equal(t, map[string]any{"states": nil, "paidFrom": "2026-10-01T00:00:00Z", "paidUntil": "2026-11-01T00:00:00Z"},
		sent["machines"]["filter"])

	status, out, _ = reconcile("--bill", bad, "--json")
	require.Equal(t, 1, status)
	var found struct {
		Machines struct {
			Repeated, Broken, Both int
			BilledUSD              string
			Unknown                []struct{ ID, BilledUSD string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &found))
	require.Equal(t, "12", found.Machines.BilledUSD)
	require.Equal(t, "unknown", found.Machines.Unknown[0].ID)

	status, out, errs = reconcile("--usage",
		file("usage.csv", "task_id,time,amount,currency\nt1,2026-10-01T11:59:00Z,1.50,USD\n")) // the server answers for each of three days
	require.Zero(t, status, errs)
	require.Contains(t, out, "The bill and Reelay agree on all tasks.")
	for text, says := range map[string]string{
		"task_id,time,amount,currency\nt1,2026-10-01,1,EUR\n": `line 2: "EUR" is another currency than USD`, "": "the file is empty",
		"task_id,time,amount,currency\nt1,2026-10-01,1,\xe9\n": "line 2 is not valid UTF-8",
	} {
		status, _, errs = reconcile("--usage", file("wrong.csv", text))
		require.Equal(t, 1, status)
		require.Contains(t, errs, says)
	}
	for _, wrong := range [][]string{{}, {"--bill", good, "--tolerance", "-1"}, {"--bill", good, "--tolerance", "NaN"},
		{"--bill", good, "--from", "2026-10-02", "--to", "2026-10-02"}, {"--bill", good, "--from", "yesterday"}} {
		status, _, _ = reconcile(wrong...)
		require.Equal(t, 2, status, wrong)
	}
	status, _, errs = reconcile("--bill", filepath.Join(folder, "missing.csv"))
	require.Equal(t, 1, status)
	require.Contains(t, errs, "missing.csv")
}

func TestStatementCommand(t *testing.T) {
	t.Parallel()
	url, sent := serveOperations(t, map[string]string{"statement": `{"statement": {"accountName": "acme", "month": "2026-10", "timeZone": "UTC", "total": {"chargedUsd": 3, "completed": 2, "videos": 2, "unpriced": 1},
		"parts": [{"by": "DAY", "rows": [{"name": "2026-10-01", "completed": 2, "videos": 2, "usefulSeconds": 3600, "chargedUsd": 3}]}, {"by": "USER", "rows": [{"name": "", "completed": 2, "videos": 2, "chargedUsd": 3}]}]}}`})

	status, out, errs := call(t, t.Context(), "costs", "statement", "--month", "2026-10", "--endpoint", url, "--key", "rl_x")

	require.Zero(t, status, errs)
	for _, says := range []string{"acme, 2026-10 (UTC): $3.00 for 2 videos", "The month is not complete.", "1 entry without an amount",
		"2026-10-01  2       1.00       $3.00", "USER  VIDEOS"} {
		require.Contains(t, out, says)
	}
	require.Equal(t, "2026-10", sent["statement"]["month"])
	status, _, _ = call(t, t.Context(), "costs", "statement", "--month", "October", "--endpoint", url, "--key", "rl_x")
	require.Equal(t, 2, status)
}

func TestStatementCommandNamesItsMonth(t *testing.T) {
	t.Parallel()
	url, _ := serveOperations(t,
		map[string]string{"statement": `{"statement": {"accountName": "acme", "month": "2026-10", "timeZone": "UTC", "total": {}, "parts": []}}`})

	status, _, errs := call(t, t.Context(), "costs", "statement", "--endpoint", url, "--key", "rl_x")

	require.Zero(t, status, errs)
	require.Regexp(t, `This is the last month, \d{4}-\d\d\. For the present one, until now: --month `+time.Now().UTC().Format("2006-01"),
		errs)
}

func TestCostsCommandNamesWrongDays(t *testing.T) {
	t.Parallel()
	for says, args := range map[string][]string{
		"--from is 2999-01-01: it must not be in the future": {"--from", "2999-01-01"},
		"--to is 2026-01-02 and --from is 2026-01-02":        {"--from", "2026-01-02", "--to", "2026-01-02"},
	} {
		status, _, errs := call(t, t.Context(), append([]string{"costs", "--endpoint", "http://127.0.0.1:1", "--key", "rl_x"}, args...)...)
		require.Equal(t, 2, status)
		require.Contains(t, errs, says)
	}
}

func TestBudgetsCommand(t *testing.T) {
	t.Parallel()
	const id = "acc_01937d3e-1111-7aaa-8000-000000000001"
	budget := func(scope, limit, use string) string {
		return `{"id": "bud_1", "scope": "` + scope + `", "period": "DAY", "limitUsd": ` + limit + `, "hard": true, "atLimit": "WAIT", "unknown": "REFUSE",
			"account": {"id": "` + id + `", "name": "acme"}, "use": [` + use + `]}`
	}
	const ann = `{"userId": "ann", "spentUsd": 1, "percent": 50, "reservedUsd": 0, "endsAt": "2026-01-31T12:00:00Z"}`
	const bob = `{"userId": "bob", "spentUsd": 0.5, "percent": 25, "reservedUsd": 0, "endsAt": "2026-01-31T12:00:00Z"}`
	url, sent := serveOperations(t, map[string]string{
		"budgets":   `{"budgets": [` + budget("EACH_USER", "2", ann+","+bob) + `,` + budget("EACH_USER", "2", "") + `]}`,
		"setBudget": `{"setBudget": ` + budget("ACCOUNT", "0", "") + `}`,
	})
	at := []string{"--endpoint", url, "--key", "rl_x"}

	status, out, errs := call(t, t.Context(), append([]string{"budgets"}, at...)...)
	require.Zero(t, status, errs)
	require.Regexp(t, `each user +day +\$2\.00 +hard, wait, unknown refuse +- +- +2026-01-31 \d\d:\d\d \S+`, out)
	require.Regexp(t, ` +ann +\$1\.00 +50% +\$0(\.00)? +2026-01-31 \d\d:\d\d \S+\n +bob +\$0\.50`, out)

	status, out, errs = call(t, t.Context(), append([]string{"budgets", "set", "--account", id, "--month", "0"}, at...)...)
	require.Zero(t, status, errs)
	require.Contains(t, out, "Its limit is 0: it refuses every job from now on that costs something.")
	require.EqualValues(t, 0, sent["setBudget"]["input"].(map[string]any)["limitUsd"])

	for _, wrong := range []string{"NaN", "Inf", "-5", "1e300"} {
		status, _, errs = call(t, t.Context(), append([]string{"budgets", "set", "--account", id, "--month=" + wrong}, at...)...)
		require.Equal(t, 2, status, wrong)
		require.Regexp(t, `--month is \S+: it must be from 0 to 1000000000 US dollars`, errs)
	}
}

func TestReportsCommand(t *testing.T) {
	t.Parallel()
	url, sent := serveOperations(t, map[string]string{"reports": `{"reports": {"days": 30, "moreDeadLetters": true, "deadLetters": [{"type": "video.generate", "model": "ltx", "failureClass": "POISON", "count": 3,
		"oldestAt": "2026-01-31T12:00:00Z", "newestAt": "2026-01-31T12:00:00Z"}], "waiting": [{"seconds": 65, "job": {"id": "job_1", "type": "t", "model": "m", "lane": "PRO"}, "reasons": [{"message": "No pool."}]}],
		"retries": [], "flakiness": [{"by": "POOL", "name": "", "attempts": 4, "completed": 0, "cancelled": 1, "failureRate": 1}], "retention": [{"kind": "DEAD_LETTERS", "rows": 20000, "exact": false, "keptSeconds": null}]}}`})

	status, out, errs := call(t, t.Context(), "reports", "--days", "30", "--endpoint", url, "--key", "rl_x")

	require.Zero(t, status, errs)
	for _, says := range []string{"of the newest 10,000", "video.generate  ltx    poison  3", "job_1  1 min 05 s  pro", "No pool.",
		"No job completed.", "pool  -     4         0          1          n/a        100 %",
		"dead letters  about 20000", "for ever"} {
		require.Contains(t, out, says)
	}
	require.EqualValues(t, 30, sent["reports"]["days"])
	status, _, _ = call(t, t.Context(), "reports", "--days", "91", "--endpoint", url, "--key", "rl_x")
	require.Equal(t, 2, status)
}
