package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/stretchr/testify/require"
)

// TestCommands covers what commands print for the answers of an API, and what they send.
func TestCommands(t *testing.T) {
	t.Parallel()
	const (
		job    = `{"id": "job_1", "status": "QUEUED", "tier": "PRO", "lane": "PRO", "priority": 5, "progress": {"phase": "WAITING"}}`
		ended  = `{"id": "job_1", "status": "CANCELLED", "progress": {"phase": "WAITING"}}`
		bulk   = `{"id": "bulk_1", "action": "CANCEL", "matched": 3, "done": 1, "failed": 1, "paused": false, "perMinute": 60, "canary": 0, "canaryOver": true, "errors": [{"code": "CONFLICT", "message": "It has ended.", "field": ["job_9"]}], "skips": [{"status": "FAILED", "jobs": 2, "more": true}]}`
		letter = `{"id": "dead_1", "job": {"id": "job_1", "status": "FAILED", "prompt": "a fox", "params": {}}, "run": 1, "model": "drill", "fingerprint": "f1", "failureClass": "POISON",
			"audience": "OPERATOR", "reason": "It crashed.", "attempts": 3, "createdAt": "2026-01-31T12:00:00Z"}`
		letters = `{"deadLetters": {"edges": [{"node": ` + letter + `}], "pageInfo": {"hasNextPage": false}, "totalCount": 7}}`
		event   = `{"seq": 1, "run": 1, "type": "QUEUED", "payload": {"tier": "PRO"}, "createdAt": "2026-01-31T12:00:00Z"}`
		moving  = `{"seq": 2, "run": 1, "type": "PROGRESS", "payload": {}, "createdAt": "2026-01-31T12:00:00Z"}`
		worker  = `{"id": "wrk_1", "provider": "static", "providerInstanceId": "i-1", "region": "local", "gpuType": "H100", "capacityClass": "SPOT", "status": "BUSY", "currentJob": {"id": "job_1", "model": "drill", "status": "RUNNING"}, "models": ["drill"], "gpus": [{"index": 0, "utilization": 1, "at": "2026-01-31T12:00:00Z"}]}`
	)
	page := func(field, nodes string) string {
		return `{"` + field + `": {"edges": [{"node": ` + nodes + `}], "pageInfo": {"hasNextPage": false}, "totalCount": 1}}`
	}

	for name, c := range map[string]struct {
		args    string
		answers map[string]string
		shows   []string
		sends   map[string]map[string]any
	}{
		"cancel with a reason": {"cancel job_1 --reason wrong", map[string]string{"cancelJob": `{"cancelJob": ` + ended + `}`},
			[]string{"job_1 is cancelled"},
			map[string]map[string]any{"cancelJob": {"id": "job_1", "reason": "wrong"}}},
		"cancel several": {"cancel job_1 job_1 --jq .items|length", map[string]string{"cancelJob": `{"cancelJob": ` + ended + `}`},
			[]string{"2\n"}, nil},
		"delete": {"delete job_1 --yes", map[string]string{"deleteJob": `{"deleteJob": ` + ended + `}`}, []string{"job_1 is deleted"},
			nil},
		"set-tier": {"jobs set-tier pro job_1", map[string]string{"setJobTier": `{"setJobTier": ` + job + `}`},
			[]string{"job_1 is now of the tier PRO"}, map[string]map[string]any{"setJobTier": {"id": "job_1", "tier": "PRO"}}},
		"set-priority": {"jobs set-priority 5 job_1", map[string]string{"setJobPriority": `{"setJobPriority": ` + job + `}`},
			[]string{"job_1 has the priority 5"}, map[string]map[string]any{"setJobPriority": {"id": "job_1", "priority": 5.0}}},
		"a prompt in get": {"get job_1",
			map[string]string{"jobHistory": `{"job": {"id": "job_1", "status": "QUEUED", "prompt": "a fox", "idempotencyKey": "k1", "account": {"id": "acc_1", "name": "acme"}, "dependsOn": [{"id": "job_0", "status": "RUNNING"}], "metadata": {"shot": 7}, "progress": {"phase": "WAITING"}}}`}, []string{"prompt     a fox", "account    acme", "key        k1", "after      job_0 (running)", `metadata   {"shot": 7}`}, nil},
		"a prompt in list": {"list -o wide", map[string]string{"jobsExplained": page("jobs",
			`{"id": "job_1", "status": "QUEUED", "prompt": "a fox", "idempotencyKey": "k1", "account": {"id": "acc_1", "name": "acme"}, "progress": {"phase": "WAITING"}}`)}, []string{"acme", "k1", "a fox"}, nil},
		"a deleted job": {"jobs", map[string]string{"jobs": page("jobs",
			`{"id": "job_1", "status": "COMPLETED", "deletedAt": "2026-01-31T12:00:00Z", "account": {}, "progress": {"phase": "DONE"}}`)},
			[]string{"COMPLETED, deleted", "(deleted)"}, nil},
		"events": {"events job_1", map[string]string{"jobEventPage": `{"job": {"status": "QUEUED", "events": {"edges": [{"node": ` +
			event + `}, {"node": ` + moving + `}], "pageInfo": {"hasNextPage": false}}}}`}, []string{"QUEUED  tier PRO"}, nil},
		"events in JSON": {"events job_1 --progress --jq .items|length",
			map[string]string{"jobEventPage": `{"job": {"status": "QUEUED", "events": {"edges": [{"node": ` + event + `}, {"node": ` + moving +
				`}], "pageInfo": {"hasNextPage": false}}}}`}, []string{"2\n"}, nil},
		"estimate": {"estimate --prompt fox --tier pro",
			map[string]string{"estimate": `{"estimate": {"waitSeconds": 65, "waitSecondsP90": null, "renderSeconds": 10, "position": 2}}`},
			[]string{"position    2", "starts in   1 min 05 s", "at worst    unknown", "runs for    10 s"}, nil},
		"estimate of a reuse": {"estimate --prompt fox --idempotency-key k --reuse",
			map[string]string{"estimate": `{"estimate": {"position": 0, "reusedFrom": "job_1"}}`},
			[]string{"reuses      job_1: no worker renders it\n"},
			map[string]map[string]any{"estimate": {"input": map[string]any{"model": "testcard", "prompt": "fox", "idempotencyKey": "k", "reuse": true}}}},
		"estimate in a region": {"estimate --prompt fox --idempotency-key k --region eu --require-region --timeout 90s --backoff fixed --retry-delay 5s", map[string]string{"estimate": `{"estimate": {"position": 1}}`}, nil,
			map[string]map[string]any{"estimate": {"input": map[string]any{"model": "testcard", "prompt": "fox", "idempotencyKey": "k",
				"region": "eu", "requireRegion": true, "timeoutSeconds": 90.0,
				"retry": map[string]any{"backoff": "FIXED", "initialDelaySeconds": 5.0}}}}},
		"dead letters": {"dead-letters list --class poison --audience all", map[string]string{"deadLetters": letters},
			[]string{"dead_1", "POISON", "It crashed."},
			map[string]map[string]any{"deadLetters": {"failureClass": "POISON", "audience": []any{"OPERATOR", "CUSTOMER"}, "resolved": false,
				"first": 50.0}}},
		"causes": {"dead-letters",
			map[string]string{"deadLetterGroups": `{"deadLetterGroups": [{"fingerprint": "f1", "count": 7, "failureClass": "POISON", "model": "drill", "reason": "It crashed."}]}`}, []string{"f1", "7", "It crashed."}, nil},
		"a dead letter": {"dead-letters show dead_1", map[string]string{"deadLetter": `{"node": {"__typename": "DeadLetter", ` + letter[1:] +
			`}`}, []string{"prompt       a fox", "why          POISON: It crashed."}, nil},
		"redrive with edits": {`dead-letters redrive dead_1 --params {"seed":7}`,
			map[string]string{"redriveDeadLetter": `{"redriveDeadLetter": ` + job + `}`}, []string{"job_1 runs again"},
			map[string]map[string]any{"redriveDeadLetter": {"id": "dead_1", "params": map[string]any{"seed": 7.0}}}},
		"redrive a cause": {"dead-letters redrive --fingerprint f1 --canary 1 --yes",
			map[string]string{"deadLetters": letters, "redriveDeadLetters": `{"redriveDeadLetters": 7}`}, []string{"7 jobs will be redriven"},
			map[string]map[string]any{"redriveDeadLetters": {"fingerprint": "f1", "canary": 1.0, "limit": 1000.0}}},
		"discard": {"dead-letters discard dead_1 --note refunded", map[string]string{"discardDeadLetter": `{"discardDeadLetter": ` +
			letter + `}`}, []string{"dead_1 is discarded"}, map[string]map[string]any{"discardDeadLetter": {"id": "dead_1", "note": "refunded"}}},
		"discard a cause": {"dead-letters discard --fingerprint f1 -y",
			map[string]string{"deadLetters": letters, "discardDeadLetters": `{"discardDeadLetters": 7}`}, []string{"Discarded 7 dead letters."},
			nil},
		"bulk operations": {"bulk", map[string]string{"bulkOperations": page("bulkOperations", bulk)}, []string{"bulk_1", "cancel", "running"},
			nil},
		"a bulk operation": {"bulk show bulk_1", map[string]string{"bulkOperation": `{"bulkOperation": ` + bulk + `}`},
			[]string{"bulk_1", "job_9", "It has ended."}, nil},
		"a dry run": {"bulk start cancel --status queued user:u42 --dry-run",
			map[string]string{"startBulkOperation": `{"startBulkOperation": ` + bulk + `}`},
			[]string{"cancel: 3 jobs (left out: 2 or more failed). Nothing was done."}, nil},
		"a bulk start": {"bulk start set-tier --to batch --all --yes", map[string]string{"startBulkOperation": `{"startBulkOperation": ` +
			bulk + `}`}, []string{"bulk_1 is started: 3 jobs."}, nil},
		"a bulk priority": {"bulk start set-priority --to -5 --all --yes", map[string]string{"startBulkOperation": `{"startBulkOperation": ` +
			bulk + `}`}, []string{"bulk_1 is started: 3 jobs."}, nil},
		"receivers": {"alerts receivers",
			map[string]string{"alertRoutes": `{"alertRoutes": [{"name": "night", "kind": "webhook", "severities": ["P1", "P2"]}, {"name": "wall", "kind": "Slack", "severities": []}]}`}, []string{"night     webhook  P1, P2", "wall      Slack    all"}, nil},
		"reasons in a list": {"list -o wide", map[string]string{"jobsExplained": page("jobs",
			`{"id": "job_1", "status": "QUEUED", "account": {}, "progress": {"phase": "WAITING"}, "waitingFor": [{"code": "NO_POOL", "message": "No pool can run it."}]}`)}, []string{"No pool can run it."}, nil},
		"failures in a list": {"list -o wide", map[string]string{"jobsExplained": page("jobs",
			`{"id": "job_1", "status": "FAILED", "failureClass": "POISON", "failureReason": "It crashed.", "account": {}, "progress": {"phase": "WAITING"}}`)}, []string{"POISON: It crashed."}, nil},
		"workers": {"workers", map[string]string{"workers": page("workers", worker[:len(worker)-1]+
			`, "pool": {"id": "p", "name": "spots"}}`)}, []string{"WORKER  STATUS  INSTANCE  POOL   MODELS  GPU   USE    JOB    SEEN\n",
			"spots  drill   H100  100 %  job_1"}, nil},
		"a version in get": {"get job_1",
			map[string]string{"jobHistory": `{"job": {"id": "job_1", "status": "QUEUED", "model": "ltx", "modelVersion": 3, "alias": "best", "params": {}, "account": {}, "progress": {"phase": "WAITING"}}}`}, []string{"model      ltx, version 3, by the alias best  {}"}, nil},
		"a waiting job explained": {"explain job_1",
			map[string]string{"jobHistory": `{"job": {"id": "job_1", "status": "QUEUED", "model": "coral", "onDemandOnly": true, "maxPricePerHour": 2, "params": {}, "account": {}, "progress": {"phase": "WAITING"},
			"waitingFor": [{"code": "NO_POOL", "message": "No pool and no worker can run it: it needs coral.", "consequence": "No worker will take it as things are.", "change": "An operator adds a pool."},
				{"code": "QUEUE_PAUSED", "message": "The pro lane is paused.", "consequence": "None of its jobs starts.", "change": "An operator resumes the pro lane."}],
			"placements": [{"poolId": "p1", "poolName": "spots", "idle": 1, "pricePerHourUsd": 2, "bootSeconds": 0, "loadSeconds": 60, "renderSeconds": 120, "costUsd": 0.1, "preferred": true},
				{"poolId": "p2", "poolName": "reserve", "idle": 0, "pricePerHourUsd": 4, "bootSeconds": 60, "loadSeconds": 60, "renderSeconds": 60, "costUsd": 0.2, "obstacle": "paused"}]}}`},
			[]string{"status  QUEUED\nwhy     No pool and no worker can run it: it needs coral.\n        The pro lane is paused.\nneeds   a worker that serves coral\n        a machine that is not taken away (ON_DEMAND)\n        a machine of at most $2.00 per hour\nnext    No worker will take it as things are.\n        None of its jobs starts.\nchange  An operator adds a pool.\n        An operator resumes the pro lane.\n\nPOOL ",
				"$0.1000  preferred", "$0.2000  paused"}, nil},
		"a change of the model explained": {"explain job_1",
			map[string]string{"jobHistory": `{"job": {"id": "job_1", "status": "COMPLETED", "model": "veo", "params": {}, "account": {}, "progress": {"phase": "WAITING"},
			"routes": [{"run": 1, "from": "wan", "to": "veo", "reason": "nothing can render wan now", "at": "2026-01-31T12:00:00Z"}]}}`},
			[]string{"routes  wan until 31 Jan 12:00:00 UTC, then veo: nothing can render wan now\n"}, nil},
		"a wait with an end explained": {"explain job_1",
			map[string]string{"jobHistory": `{"job": {"id": "job_1", "status": "QUEUED", "model": "coral", "params": {}, "account": {}, "progress": {"phase": "WAITING"},
			"waitingFor": [{"code": "CAPACITY_EXHAUSTED", "consequence": "Not before that.", "change": "Nothing needs to be done.", "message": "Its pools have workers at certain hours only.", "until": "2000-01-01T00:00:00Z"}]}}`},
			[]string{"next    Not before that.\n        That can change in 0 s."}, nil},
		"a retry explained": {"explain job_1",
			map[string]string{"jobHistory": `{"job": {"id": "job_1", "status": "SCHEDULED", "run": 1, "attemptNo": 1, "model": "x", "params": {}, "account": {}, "progress": {"phase": "WAITING"}, "waitingFor": [{"code": "RUN_AT", "consequence": "Not before that.", "change": "Nothing needs to be done.", "message": "It is tried again.", "until": "2000-01-01T00:00:00Z"}]}}`}, []string{"next    Not before that.\n        Attempt 2 of run 1 is queued in 0 s."}, nil},
		"a failed job explained": {"explain job_1 --jq .why[0],.next[0]",
			map[string]string{"jobHistory": `{"job": {"id": "job_1", "status": "FAILED", "failureClass": "POISON", "failureReason": "It crashed.", "params": {}, "account": {}, "progress": {"phase": "WAITING"}}}`}, []string{"POISON: It crashed.\nNothing: it is not retried. `reelay retry job_1` runs it again.\n"}, nil},
		"a running job explained": {"explain job_1",
			map[string]string{"jobHistory": `{"job": {"id": "job_1", "status": "RUNNING", "params": {}, "account": {}, "progress": {"phase": "WAITING"}, "attempts": [{"attemptNo": 2, "status": "RUNNING", "worker": {"id": "wrk_1"}}]}}`}, []string{"next    Attempt 2 runs on wrk_1. If its worker is lost, another one continues from the newest checkpoint."}, nil},
		"machines": {"machines --pool spots --state gone,running --instance vm-1 -o wide", map[string]string{"machines": page("machines",
			`{"id": "1", "instanceId": "vm-1", "provider": "gce", "pool": {"id": "pol_1", "name": "spots"}, "workers": 2, "state": "GONE", "askedAt": "2026-01-31T12:00:00Z",
				"createdAt": "2026-01-31T12:00:10Z", "billedUntil": "2026-01-31T13:00:10Z", "paidSeconds": 7200, "costUsd": 1.5, "workerIds": ["wrk_1", "wrk_2"]}`)},
			[]string{"MACHINE  STATE  POOL   PROVIDER", "vm-1     GONE   spots  gce", "2.000         $1.5000  wrk_1, wrk_2\n"},
			map[string]map[string]any{"machines": {"first": 50.0, "filter": map[string]any{"poolId": "spots", "states": []any{"GONE", "RUNNING"}, "instanceId": "vm-1"}}}},
		"a worker": {"workers show wrk_1", map[string]string{"worker": `{"worker": ` + worker + `}`},
			[]string{"runs        job_1  drill  RUNNING", "0    100 %"}, nil},
		"top": {"top", map[string]string{"queues": `{"queues": [{"tier": "PRO", "depth": 3, "running": 1, "pause": {"tier": "PRO", "by": "night", "at": "2026-01-31T12:00:00Z", "reason": "storage"}}]}`,
			"workers": page("workers", worker[:len(worker)-1]+`, "quarantinedUntil": "2200-01-31T12:00:00Z", "quarantineReason": "it crashes"}`),
			"attention": `{"attention": [{"kind": "HALT", "urgent": true, "title": "Schedules are halted", "detail": "by day: a move", "since": "2026-01-31T12:00:00Z", "alerts": [{"name": "halted", "severity": "P2"}]},
				{"kind": "FLOODING_ACCOUNT", "title": "Account ac\u0007me floods the pro lane", "detail": "with 30 of its 32 waiting jobs"}]}`,
			"overview": `{"overview": {"queued": 3, "running": 1, "waitSecondsP50": 65, "failureRate": 0.1, "deadLetters": 1}}`},
			[]string{"jobs   3 queued · 1 running", "10 % failed · 1 dead letter\n", "waits  p50 1 min 05 s · p95 n/a", "cost   n/a per hour",
				"fleet  1 worker: 1 busy · GPUs n/a", "wrk_1", "urgent Schedules are halted · by day: a move · ", " ago · P2 halted\n",
				"notice Account acme floods the pro lane · with 30 of its 32 waiting jobs\n"}, nil},
		"slots": {"schedules usage",
			map[string]string{"ownSlotUsage": `{"viewer": {"role": "CLIENT", "account": {"id": "acc_1", "name": "acme", "slotUsage": {"perMinute": 0.5, "maxPerMinute": 60, "waiting": 3}}}}`},
			[]string{"ACCOUNT  SLOTS/MIN  WAITING\nacme     0.5 of 60  3, no limit\n"}, nil},
		"slots of all": {"schedules usage", map[string]string{"ownSlotUsage": `{"viewer": {"role": "OPERATOR"}}`,
			"slotUsages": page("accounts", `{"id": "acc_1", "name": "acme", "slotUsage": {"perMinute": 12, "waiting": 0, "maxWaiting": 1000}}`)},
			[]string{"acme     12, no limit  0 of 1000\n"}, nil},
		"attention": {"attention", map[string]string{"attention": `{"attention": [{"kind": "HALT", "urgent": true, "title": "Schedules are halted", "detail": "by day: a move", "alerts": [{"name": "halted", "severity": "P2"}]}]}`},
			[]string{"URGENT  CAUSE                 SINCE  DETAIL          ALERTS", "yes     Schedules are halted  "}, nil},
		"whoami": {"whoami",
			map[string]string{"viewer": `{"viewer": {"role": "OPERATOR", "account": {"id": "acc_1", "name": "acme", "tier": "PRO"}}}`},
			[]string{"key       from --key", "role      OPERATOR", "account   acme, PRO, acc_1"}, nil},
		"version": {"version", map[string]string{"serverVersion": `{"version": "9.9.9"}`},
			[]string{"reelay 0.", "server 9.9.9 (http://127.0.0.1:"}, nil},
		"a part of the version": {"version --client --jq .version|type", nil, []string{"string\n"}, nil},
		"version of no server":  {"version --json", nil, []string{`"version": "0.`, `"problem": `}, nil},
		"open":                  {"open job_1", nil, []string{"http://127.0.0.1:", "/jobs/job_1\n"}, nil},
		"graphql": {`graphql --jq .data.viewer.role {viewer{role}}`, map[string]string{"": `{"viewer": {"role": "ADMIN"}}`},
			[]string{"ADMIN\n"}, nil},
		"graphql's variables": {`graphql query($n:Int){x} -F n=7 -F s=x`, map[string]string{"": `{"x": 1}`}, []string{`"x": 1`},
			map[string]map[string]any{"": {"n": 7.0, "s": "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, sent := serveOperations(t, c.answers)
			args := strings.Fields(c.args)

			status, out, errs := call(t, t.Context(), append(args, "--endpoint", url, "--key", "rl_x")...)

			require.Zero(t, status, errs)
			for _, text := range c.shows {
				require.Contains(t, out, text)
			}
			for operation, variables := range c.sends {
				require.Equal(t, variables, sent[operation])
			}
		})
	}

	for name, c := range map[string]struct {
		args   string
		status int
		says   string
	}{
		"no job":                     {"delete", terminal.ExitUsage, "give the ids of jobs"},
		"a wrong priority":           {"jobs set-priority high job_1", terminal.ExitUsage, "from -100 to 100"},
		"a wrong tier":               {"jobs set-tier gold job_1", terminal.ExitUsage, "there is no lane"},
		"no filter":                  {"bulk start cancel", terminal.ExitUsage, "say which jobs"},
		"a wrong action":             {"bulk start explode", terminal.ExitUsage, "cancel, retry, redrive, delete, set-tier or set-priority"},
		"set-tier without a tier":    {"bulk start set-tier --all", terminal.ExitUsage, "--to pro"},
		"set-priority without one":   {"bulk start set-priority --all", terminal.ExitUsage, "--to 50"},
		"set-priority of words":      {"bulk start set-priority --to high --all", terminal.ExitUsage, "from -100 to 100"},
		"a priority of others":       {"bulk start cancel --to 5 --all", terminal.ExitUsage, "leave it out"},
		"a bulk start without --yes": {"bulk start cancel --all", terminal.ExitUsage, "answer with --yes"},
		"redrive of nothing":         {"dead-letters redrive", terminal.ExitUsage, "name a dead letter"},
		"discard of nothing":         {"dead-letters discard", terminal.ExitUsage, "--fingerprint"},
		"a wrong class":              {"dead-letters list --class sick", terminal.ExitUsage, "transient"},
		"no query":                   {"graphql", terminal.ExitUsage, "there is no query"},
		"two queries":                {"graphql {a} -f b.graphql", terminal.ExitUsage, "given twice"},
		"a log of two kinds":         {"logs job_1 -f --attempt 2", terminal.ExitUsage, "use one of them"},
		"a file for an estimate":     {"estimate --prompt x --image /etc/hosts", terminal.ExitUsage, "uploads nothing"},
		"an unknown format":          {"top -o xml", terminal.ExitUsage, "table, wide, json, yaml or name"},
	} {
		t.Run("Refuses "+name, func(t *testing.T) {
			t.Parallel()
			url, _ := serveOperations(t, map[string]string{"startBulkOperation": `{"startBulkOperation": ` + bulk + `}`})

			status, _, errs := call(t, t.Context(), append(strings.Fields(c.args), "--endpoint", url, "--key", "rl_x")...)

			require.Equal(t, c.status, status, errs)
			require.Contains(t, errs, c.says)
		})
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_,
			_ = w.Write([]byte("log of " + r.URL.Path + "\n"))
	}))
	t.Cleanup(files.Close)
	attempt := func(no, log string) string {
		if log != "null" {
			log = `{"url": "` + files.URL + log + `"}`
		}
		return `{"attemptNo": ` + no + `, "status": "FAILED", "endedAt": "2026-01-31T12:00:00Z", "id": "att_` + no + `", "log": ` + log + `}`
	}

	running := `{"attemptNo": 2, "status": "RUNNING", "id": "att_2", "log": null}`
	live := `{"node": {"__typename": "Attempt", "liveLog": {"text": "so far\n", "end": "7"}}}`

	for name, c := range map[string]struct {
		attempts string
		args     []string
		status   int
		out, err string
	}{
		"the newest":  {attempt("1", "/a1") + "," + attempt("2", "/a2") + "," + attempt("3", "null"), nil, 0, "log of /a2\n", ""},
		"one of them": {attempt("1", "/a1") + "," + attempt("2", "/a2"), []string{"--attempt", "1"}, 0, "log of /a1\n", ""},
		"all": {attempt("1", "/a1") + "," + attempt("2", "/a2"), []string{"-f"}, 0, "log of /a1\nlog of /a2\n",
			"==> attempt 2, failed <=="},
		"one without":     {attempt("1", "null"), []string{"--attempt", "1"}, 1, "", "attempt 1 has no log"},
		"one that is not": {attempt("1", "null"), []string{"--attempt", "4"}, 1, "", "there is no attempt 4: the job has 1"},
		"a running one":   {attempt("1", "/a1") + "," + running, nil, 0, "so far\n", ""},
		"none":            {"", nil, 1, "", "no worker has started the job yet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := serveOperations(t, map[string]string{
				"jobAttempts": `{"job": {"status": "FAILED", "attempts": [` + c.attempts + `]}}`,
				"liveLog":     strings.ReplaceAll(live, "so far\\n", map[bool]string{true: "so far\\n"}[strings.Contains(c.attempts, "RUNNING")]),
			})

			status, out, errs := call(t, t.Context(), append([]string{"logs", "job_1", "--endpoint", url, "--key", "rl_x"}, c.args...)...)

			require.Equal(t, c.status, status, errs)
			require.Equal(t, c.out, out)
			require.Contains(t, errs, c.err)
		})
	}
}

func TestGraphQLPages(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct{ Variables map[string]any }
		_ = json.NewDecoder(r.Body).Decode(&request)
		info := `{"hasNextPage": true, "endCursor": "c1"}`
		if request.Variables["after"] == "c1" {
			info = `{"hasNextPage": false, "endCursor": "c2"}`
		}
		_, _ = w.Write([]byte(`{"data": {"jobs": {"pageInfo": ` + info + `}}}`))
	}))
	t.Cleanup(server.Close)

	status, out, errs := call(t, t.Context(), "graphql", "--paginate", "--jq", ".data.jobs.pageInfo.endCursor",
		"query($after: String) { jobs }", "--endpoint", server.URL, "--key", "rl_x")

	require.Zero(t, status, errs)
	require.Equal(t, "c1\nc2\n", out)
}

// TestContexts runs each command line as a process, because they share a folder of settings.
func TestContexts(t *testing.T) {
	t.Parallel()
	url, _ := serveOperations(t, map[string]string{"viewer": `{"viewer": {"role": "CLIENT", "account": {"id": "acc_1", "name": "acme", "tier": "PRO"}}}`, "models": "!UNAUTHENTICATED wrong"})
	folder := t.TempDir()
	reelay := func(t *testing.T, in string, args ...string) (string, error) {
		t.Helper()
		cmd := program(t, args...)
		cmd.Dir = t.TempDir()
		cmd.Env = append(cmd.Env, "REELAY_CONFIG_DIR="+folder, "REELAY_ENDPOINT=", "REELAY_API_KEY=")
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	says := func(t *testing.T, in string, text string, args ...string) {
		t.Helper()
		out, err := reelay(t, in, args...)
		require.NoError(t, err, out)
		require.Contains(t, out, text)
		require.NotContains(t, out, "rl_secret")
	}

	says(t, "", "No contexts.", "context")
	says(t, "rl_secret\n", "Logged in to "+url+" as CLIENT of acme. The context prod is the current one.", "login", url, "--name", "prod")
	info, err := os.Stat(filepath.Join(folder, "contexts.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	says(t, "", "key       from the context prod", "whoami")
	says(t, "rl_secret\n", "The context "+strings.ReplaceAll(strings.TrimPrefix(url, "http://"), ":", "-"), "login", url)
	says(t, "", "The current context is prod", "context", "use", "prod")
	says(t, "", `{"current":true,"endpoint":"`+url+`","name":"prod"}`, "context", "list", "--jq", ".items[] | select(.current)")
	says(t, "", "The context prod is now main.", "context", "rename", "prod", "main")
	says(t, "", "main\t"+url, "__complete", "context", "use", "")
	out, err := reelay(t, "", "models", "--context", "main")
	require.Error(t, err)
	require.Contains(t, out, "the key from the context main is unknown, expired or revoked")
	out, err = reelay(t, "", "whoami", "--context", "nowhere")
	require.Error(t, err)
	require.Contains(t, out, "there is no context nowhere; there are main")
	out, err = reelay(t, "", "login", url)
	require.Error(t, err)
	require.Contains(t, out, "there is no key")
	out, err = reelay(t, "k", "login", "ftp://x")
	require.Error(t, err)
	require.Contains(t, out, "is not the address of an API")
	says(t, "", "Logged out of main.", "logout")
	require.NoError(t, os.Chmod(filepath.Join(folder, "contexts.json"), 0o644))
	out, err = reelay(t, "", "whoami")
	require.Error(t, err)
	require.Contains(t, out, "chmod 600")
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	url, _ := serveOperations(t, map[string]string{
		"jobs":   `{"jobs": {"edges": [{"node": {"id": "job_1", "status": "RUNNING", "prompt": "a fox", "account": {}, "progress": {"phase": "WAITING"}}}], "pageInfo": {}}}`,
		"models": `{"models": [{"name": "testcard", "description": "A card."}]}`,
	})
	at := []string{"--endpoint", url, "--key", "rl_x"}

	for name, c := range map[string]struct {
		line []string
		want string
	}{
		"ids of jobs":          {[]string{"get", ""}, "job_1\trunning a fox\n:36\n"},
		"an id of a page":      {[]string{"open", ""}, "job_1\trunning a fox\n:36\n"},
		"ids not given yet":    {[]string{"cancel", "job_1", ""}, ":36\n"},
		"models":               {[]string{"submit", "--model", ""}, "testcard\tA card.\n:36\n"},
		"statuses":             {[]string{"list", "--status", "q"}, "queued\n:4\n"},
		"a list of statuses":   {[]string{"list", "--status", "failed,q"}, "failed,queued\n:4\n"},
		"states of machines":   {[]string{"machines", "--state", "running,m"}, "running,missing\n:4\n"},
		"states of workers":    {[]string{"workers", "--status", "i"}, "idle\n:4\n"},
		"lanes":                {[]string{"queues", "pause", "e"}, "enterprise\n:4\n"},
		"roles":                {[]string{"keys", "create", "--role", "a"}, "admin\n:4\n"},
		"formats":              {[]string{"list", "--output", ""}, "table\nwide\njson\nyaml\nname\n:4\n"},
		"actions":              {[]string{"bulk", "start", "re"}, "retry\nredrive\n:4\n"},
		"no files for numbers": {[]string{"list", "--first", ""}, ":4\n"},
		"no files for nothing": {[]string{"audit", ""}, ":4\n"},
		"files for files":      {[]string{"submit", "--prompt-file", ""}, ":0\n"},
		"kinds":                {[]string{"download", "--kind", "vid"}, "video\n:4\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			last := len(c.line) - 1
			args := append([]string{"__complete"}, c.line[:1]...)
			args = append(append(args, at...), c.line[1:last]...)
			if !strings.Contains("get open cancel submit list workers machines queues keys audit download bulk", c.line[0]) {
				t.Fatal(c.line)
			}
			if c.line[0] == "queues" || c.line[0] == "keys" || c.line[0] == "bulk" { // the flags belong to a subcommand
				args = append([]string{"__complete"}, c.line[:last]...)
			}

			status, out, errs := call(t, t.Context(), append(args, c.line[last])...)

			require.Zero(t, status, errs)
			require.Equal(t, c.want, out)
		})
	}

	t.Run("IsQuietOnFailure", func(t *testing.T) {
		t.Parallel()

		status, out, errs := call(t, t.Context(), "__complete", "get", "--endpoint", "http://127.0.0.1:1", "--key", "rl_x", "")

		require.Zero(t, status)
		require.Equal(t, ":4\n", out)
		require.NotContains(t, errs, "reelay:")
	})
}
