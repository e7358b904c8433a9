package rest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestRecurring(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	const path = "/api/v1/jobs/recurring"
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
	id, _ := made.body["recurring_id"].(string)
	require.True(t, models.ScheduleID(id).Valid(), made.raw)
	require.NotNil(t, made.body["next_execute_at"])
	require.Equal(t, "every weekday at 09:00, Europe/Berlin", made.body["description"])
	require.True(t, strings.HasSuffix(made.header.Get("Location"), path+"/"+id))

	require.Equal(t, id, a.get(t, path+"/"+id).body["recurring_id"])
	require.Len(t, a.get(t, path).body["recurring"], 1)
	stranger := as(a.Secrets[models.RoleOperator])
	require.Len(t, a.ask(t, http.MethodGet, path, "", stranger).body["recurring"], 1, "operators see all")

	for code, change := range map[string]map[string]any{
		"INVALID_INPUT cron_expression": {"cron_expression": "61 * * * *"},
		"INVALID_INPUT timezone":        {"timezone": "Mars/Olympus"},
		"INVALID_INPUT payload.prompt":  {"payload": map[string]any{"prompt": ""}},
		"INVALID_INPUT end_at":          {"start_at": "2030-01-02T00:00:00Z", "end_at": "2030-01-01T00:00:00Z"},
		"FORBIDDEN priority":            {"priority": "critical"},
	} {
		require.Equal(t, code, a.post(t, path, request(change)).code(), code)
	}
	require.Equal(t, http.StatusUnprocessableEntity, a.post(t, path, request(map[string]any{"runAt": "x"})).status, "an unknown field")
	require.Equal(t, http.StatusNotFound, a.get(t, path+"/sch_x").status)
	require.Equal(t, http.StatusNoContent, a.ask(t, http.MethodDelete, path+"/"+id, "", nil).status)
	require.Equal(t, http.StatusNotFound, a.ask(t, http.MethodDelete, path+"/"+id, "", nil).status)
}
