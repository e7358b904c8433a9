package rest_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestSchedules(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	const path = "/api/v1/schedules"
	request := func(change map[string]any) map[string]any {
		asked := map[string]any{
			"job_type": "video.generate", "model": "testcard", "cron_expression": "0 9 * * MON-FRI", "timezone": "Europe/Berlin", "priority": "low",
			"payload": map[string]any{"prompt": "the weather", "seed": 3},
		}
		for name, value := range change {
			if asked[name] = value; value == nil {
				delete(asked, name)
			}
		}
		return asked
	}

	made := a.post(t, path, request(nil))
	require.Equal(t, http.StatusCreated, made.status, made.raw)
	id, _ := made.body["schedule_id"].(string)
	require.True(t, models.ScheduleID(id).Valid(), made.raw)
	require.NotNil(t, made.body["next_execute_at"])
	require.Equal(t, "every weekday at 09:00, Europe/Berlin", made.body["description"])
	require.True(t, strings.HasSuffix(made.header.Get("Location"), path+"/"+id))

	require.Equal(t, "testcard every weekday at 09:00", made.body["name"])
	second := a.post(t, path, request(nil))
	require.Regexp(t, `^testcard every weekday at 09:00 \(\d+ \w+ \d\d:\d\d UTC\)$`, second.body["name"])
	second = a.ask(t, http.MethodDelete, path+"/"+fmt.Sprint(second.body["schedule_id"]), "", nil)
	require.Equal(t, http.StatusNoContent, second.status)

	require.Equal(t, map[string]any{"per_minute": 1.0 / 60, "max_per_minute": 3000.0, "waiting": 0.0, "max_waiting": 6000.0},
		a.get(t, path).body["slots"])
	all := a.ask(t, http.MethodGet, path, "", as(a.Secrets[access.RoleOperator])).body
	require.Len(t, all["schedules"], 1)
	require.Nil(t, all["slots"], "an operator sees the schedules of all accounts")

	// A repeated request with its key makes one schedule, at once or later.
	keyed := map[string]any{"idempotency_key": "rec-1", "cron_expression": "0 5 * * *"}
	var both sync.WaitGroup
	ids := make([]any, 4)
	for n := range ids {
		both.Go(func() { ids[n] = a.post(t, path, request(keyed)).body["schedule_id"] })
	}
	both.Wait()
	require.NotNil(t, ids[0])
	require.Equal(t, []any{ids[0], ids[0], ids[0], ids[0]}, ids)
	keyed["cron_expression"] = "0 6 * * *"
	require.Equal(t, "IDEMPOTENCY_CONFLICT idempotency_key", a.post(t, path, request(keyed)).code())
	require.Equal(t, http.StatusNoContent, a.ask(t, http.MethodDelete, path+"/"+fmt.Sprint(ids[0]), "", nil).status)
	again := a.post(t, path, request(keyed))
	require.Equal(t, http.StatusCreated, again.status, again.raw)
	require.Equal(t, http.StatusNoContent, a.ask(t, http.MethodDelete, path+"/"+fmt.Sprint(again.body["schedule_id"]), "", nil).status)
	keyed["idempotency_key"] = " "
	require.Equal(t, "INVALID_INPUT idempotency_key", a.post(t, path, request(keyed)).code())

	require.Equal(t, id, a.get(t, path+"/"+id).body["schedule_id"])
	require.Len(t, a.get(t, path).body["schedules"], 1)
	const alias = "/api/v1/jobs/recurring"
	require.Equal(t, id, a.get(t, alias+"/"+id).body["recurring_id"])
	require.Equal(t, id, a.get(t, alias).body["recurring"].([]any)[0].(map[string]any)["recurring_id"])
	require.NotNil(t, a.get(t, alias).body["slots"])
	old := a.post(t, alias, request(map[string]any{"name": "old"}))
	require.Equal(t, http.StatusCreated, old.status, old.raw)
	require.True(t, strings.HasSuffix(old.header.Get("Location"), alias+"/"+old.body["recurring_id"].(string)))
	require.Equal(t, http.StatusNoContent, a.ask(t, http.MethodDelete, alias+"/"+old.body["recurring_id"].(string), "", nil).status)
	stranger := as(a.Secrets[access.RoleOperator])
	require.Len(t, a.ask(t, http.MethodGet, path, "", stranger).body["schedules"], 1, "operators see all")

	for says, change := range map[string]map[string]any{
		`INVALID_INPUT cron_expression: The cron expression is not valid: the minute "61" is not allowed`:      {"cron_expression": "61 * * * *"},
		"INVALID_INPUT cron_expression: The cron expression is not valid: no day within five years matches it": {"cron_expression": "0 0 30 2 *"},
		"INVALID_INPUT cron_expression: The cron expression is not valid: it has 1024 bytes":                   {"cron_expression": strings.Repeat(",", 1024)},
		"INVALID_INPUT cron_expression: The cron expression is not valid: an expression has no zone":           {"cron_expression": "CRON_TZ=UTC 0 9 * * *"},
		`INVALID_INPUT cron_expression: The cron expression is not valid: the minute "0,,5" is not allowed`:    {"cron_expression": "0,,5 * * * *"},
		"INVALID_INPUT cron_expression: Give either a cron expression or an interval":                          {"cron_expression": nil},
		"INVALID_INPUT cron_expression: Give either a cron expression or an interval, and not both":            {"every_seconds": 5},
		"INVALID_INPUT every_seconds: every_seconds must be from 1 to 31622400; it is 2000000000": {"every_seconds": 2000000000,
			"cron_expression": nil},
		`INVALID_INPUT timezone: "Mars/Olympus" is no time zone of the IANA database: use a name`: {"timezone": "Mars/Olympus"},
		`INVALID_INPUT timezone: "+02:00" is no time zone of the IANA database: use a name`:       {"timezone": "+02:00"},
		"INVALID_INPUT payload.prompt: ":                                  {"payload": map[string]any{"prompt": ""}},
		"INVALID_INPUT end_at: end_at must be after the start":            {"start_at": "2030-01-02T00:00:00Z", "end_at": "2030-01-01T00:00:00Z"},
		"INVALID_INPUT start_at: start_at must be within 10 years of now": {"start_at": "1500-01-01T00:00:00Z"},
		"INVALID_INPUT end_at: The schedule would never fire": {"cron_expression": "0 0 29 2 *", "start_at": "2029-03-01T00:00:00Z",
			"end_at": "2030-03-01T00:00:00Z"},
		"FORBIDDEN priority: ": {"priority": "critical"},
	} {
		refused := a.post(t, path, request(change))
		require.Contains(t, fmt.Sprint(refused.code(), ": ", refused.body["detail"]), says)
	}
	shots := func(prompt string) map[string]any {
		return map[string]any{"name": "film", "jobs": []map[string]any{
			{"key": "s1", "job": map[string]any{"model": "testcard", "payload": map[string]any{"prompt": prompt}}},
			{"key": "s2", "after": []string{"s1"}, "job": map[string]any{"model": "testcard", "payload": map[string]any{"prompt": "dusk"}}},
		}}
	}
	nightly := map[string]any{"cron_expression": "0 3 * * *", "workflow": shots("dawn")}
	film := a.post(t, path, nightly)
	require.Equal(t, http.StatusCreated, film.status, film.raw)
	require.Equal(t, []any{"film", nil}, []any{film.body["workflow"], film.body["model"]})
	long := shots("dusk")
	long["name"] = strings.Repeat("film ", 19) + "<end>"
	film = a.post(t, path, map[string]any{"every_seconds": 60, "workflow": long})
	require.Equal(t, http.StatusCreated, film.status, film.raw)
	require.Equal(t, long["name"], film.body["workflow"])
	require.Regexp(t, `^(film ){15,}.*… every minute$`, film.body["name"])
	for says, asked := range map[string]map[string]any{
		"INVALID_INPUT payload: Give either payload or workflow": {"every_seconds": 60},
		"INVALID_INPUT payload: With workflow, leave out payload": {"every_seconds": 60, "payload": map[string]any{},
			"workflow": shots("dawn")},
		"INVALID_INPUT model: With workflow, leave out model": {"every_seconds": 60, "callback_url": "x", "priority": "low",
			"model": "testcard", "workflow": shots("dawn")},
		"INVALID_INPUT metadata: With workflow, leave out metadata": {"every_seconds": 60, "metadata": map[string]any{"a": 1},
			"workflow": shots("dawn")},
		"INVALID_INPUT workflow.name: ": {"every_seconds": 60,
			"workflow": map[string]any{"name": "", "jobs": shots("dawn")["jobs"]}},
		"INVALID_INPUT workflow.jobs.s1.job.payload.prompt: The node s1: The prom": {"every_seconds": 60, "workflow": shots("")},
		"INVALID_INPUT workflow.idempotency_key: The workflow of a schedule": {"every_seconds": 60,
			"workflow": map[string]any{"name": "x", "idempotency_key": "k", "jobs": shots("dawn")["jobs"]}},
	} {
		refused := a.post(t, path, asked)
		require.Contains(t, fmt.Sprint(refused.code(), ": ", refused.body["detail"]), says)
	}
	require.Equal(t, http.StatusUnprocessableEntity, a.post(t, path, request(map[string]any{"runAt": "x"})).status, "an unknown field")
	require.Equal(t, http.StatusNotFound, a.get(t, path+"/sch_x").status)
	require.Equal(t, http.StatusNoContent, a.ask(t, http.MethodDelete, path+"/"+id, "", nil).status)
	require.Equal(t, http.StatusNotFound, a.ask(t, http.MethodDelete, path+"/"+id, "", nil).status)
}
