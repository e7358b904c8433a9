package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/stretchr/testify/require"
)

// timetable answers for a schedule that submits a workflow, and keeps what was applied.
type timetable struct{ applied []client.ScheduleInput }

const (
	filmSchedule = `"id": "sch_1", "name": "news", "description": "every 2 s", "timezone": "UTC", "workflow": {"name": "harbour", "jobs": 2}, "tier": "PRO", "paused": false, "nextFireAt": "2026-01-31T12:00:00Z"`
	filmRun      = `{"at": "2026-01-31T11:59:58Z", "state": "FIRED", "workflow": {"id": "wfl_1", "name": "harbour", "status": "RUNNING", "counts": {"total": 2}}}`
)

func (s *timetable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		OperationName string
		Variables     struct{ Input client.ScheduleInput }
	}
	_ = json.NewDecoder(r.Body).Decode(&request)
	answer := map[string]string{
		"schedules":      `{"edges": [{"node": {` + filmSchedule + `}}], "pageInfo": {"hasNextPage": false}}`,
		"applySchedule":  `{` + filmSchedule + `}`,
		"fireSchedule":   filmRun,
		"fireSlots":      `[` + filmRun + `]`,
		"scheduleDetail": `{` + filmSchedule + `, "upcoming": ["2026-01-31T12:00:02Z"], "slots": [` + filmRun + `]}`,
	}[request.OperationName]
	field := request.OperationName
	switch field {
	case "applySchedule":
		s.applied = append(s.applied, request.Variables.Input)
	case "scheduleDetail":
		field = "schedule"
	}
	fmt.Fprintf(w, `{"data": {%q: %s}}`, field, answer)
}

func TestSchedules(t *testing.T) {
	t.Parallel()
	s := &timetable{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	args := []string{"--endpoint", server.URL, "--key", "k"}

	const yaml = "schedules:\n- name: news\n  everySeconds: 2\n  overlap: SKIP\n  workflow:\n    name: harbour\n    output: b\n    jobs:\n" +
		"    - {key: a, job: {model: testcard, prompt: a fox, priority: 5}}\n    - {key: b, after: [a], onParentFailure: CONTINUE, job: {model: http.call, params: {url: \"{{a.video}}\"}}}\n" +
		"- name: 007\n  cron: \"@daily\"\n  job: {model: testcard, prompt: 1.10, userId: 010, metadata: {order: \"007\", price: 1.10}}\n"
	const asJSON = `{"schedules": [{"name": "news", "everySeconds": 2, "overlap": "SKIP", "workflow": {"name": "harbour", "output": "b", "jobs": [{"key": "a", "job": {"model": "testcard", "prompt": "a fox", "priority": 5}}, {"key": "b", "after": ["a"], "onParentFailure": "CONTINUE", "job": {"model": "http.call", "params": {"url":"{{a.video}}"}}}]}}]}`
	for _, file := range []string{"\ufeff" + yaml, asJSON} {
		status, out, errs := call(t, t.Context(), append(args, "schedules", "apply", "-f", shots(t, file))...)
		require.Zero(t, status, errs)
		require.Contains(t, out, "news: every 2 s; next at ")
	}
	require.Len(t, s.applied, 3)
	require.Equal(t, s.applied[0], s.applied[2])
	film := s.applied[0].Workflow
	require.Nil(t, s.applied[0].Job)
	require.Equal(t, "harbour", film.Name)
	require.Equal(t, "b", *film.Output)
	require.Equal(t, 5, *film.Jobs[0].Job.Priority)
	require.Equal(t, client.FailurePolicyContinue, *film.Jobs[1].OnParentFailure)
	require.Nil(t, s.applied[1].Workflow)
	require.Equal(t, []string{"007", "1.10", "010"}, []string{s.applied[1].Name, *s.applied[1].Job.Prompt, *s.applied[1].Job.UserId})
	require.JSONEq(t, `{"order": "007", "price": 1.10}`, string(*s.applied[1].Job.Metadata))

	for file, says := range map[string]string{
		"schedules: [{name: x, everySeconds: 2}]": "needs a job or a workflow",
		"schedules:\n- name: x\n  job: {model: m}\n  workflow:\n    name: y\n    jobs: [{key: a, job: {model: m}}]\n":         ":5: a schedule submits either a job or a workflow",
		"schedules:\n- name: x\n  workflow:\n    name: y\n":                                                                   ":4: the workflow has no jobs",
		"schedules:\n- name: x\n  workflow:\n    name: y\n    jobs:\n    - {key: a}\n":                                        ":6: the node a needs a job",
		"schedules:\n- name: x\n  workflow:\n    name: y\n    jobs:\n    - {key: a, job: {model: m, promt: x}}\n":             ":6: the job of the node a: ",
		"schedules:\n- name: x\n  workflow:\n    name: y\n    nodes: []\n":                                                    "unknown field",
		"schedules:\n- name: x\n  workflow:\n    name: y\n    jobs:\n    - {key: a, onParentFailure: MAYBE, job: {model: m}}": ":6: onParentFailure of the node a is MAYBE",
	} {
		status, _, errs := call(t, t.Context(), append(args, "schedules", "apply", "-f", shots(t, file))...)
		require.NotZero(t, status)
		require.Contains(t, errs, says, file)
	}
	require.Len(t, s.applied, 3)

	for flags, says := range map[string][]string{
		"list":         {"workflow harbour (2 jobs)"},
		"show news":    {"workflow harbour (2 jobs), pro", "fired  wfl_1  running", server.URL + "/schedules/sch_1"},
		"next news":    {"Sat 31 Jan 12:00:02 UTC"},
		"trigger news": {"wfl_1\n"},
		"backfill news --from 2026-01-01T00:00:00Z --to 2026-01-02T00:00:00Z": {"wfl_1\n"},
		"trigger news --json": {`"name": "harbour"`},
	} {
		status, out, errs := call(t, t.Context(), append(append(args, "schedules"), strings.Fields(flags)...)...)
		require.Zero(t, status, errs)
		for _, text := range says {
			require.Contains(t, out, text, flags)
		}
	}
}
