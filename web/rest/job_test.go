package rest_test

import (
	"encoding/json"
	"fmt"
	"image/color"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

const work = "/api/v1/jobs"

func TestCreateJob(t *testing.T) {
	t.Parallel()

	t.Run("MapsEveryFieldToTheDomain", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)

		got := a.post(t, work, map[string]any{
			"job_type": "video.generate", "model": "testcard", "execute_at": at, "priority": "high", "idempotency_key": "k",
			"payload":      map[string]any{"prompt": "a lighthouse", "durationSeconds": 1, "pace": 0},
			"retry_policy": map[string]any{"max_retries": 0, "backoff": "fixed", "initial_delay_sec": 0.5},
		})

		require.Equal(t, http.StatusCreated, got.status, got.raw)
		id, _ := got.body["job_id"].(string)
		require.Equal(t, map[string]any{"job_id": id, "status": "scheduled", "execute_at": at.Format(time.RFC3339), "status_url": a.Base + work +
			"/" + id}, got.body)
		require.Equal(t, a.Base+work+"/"+id, got.header.Get("Location"))
		job := a.Reload(t, models.JobID(id))
		require.Equal(t, 1, job.MaxAttempts)
		require.Equal(t, 1, job.Priority)
		require.Equal(t, models.TierEnterprise, job.Tier)
		require.Equal(t, models.BackoffFixed, job.RetryPolicy.Backoff)
		require.InDelta(t, 0.5, *job.RetryPolicy.InitialDelaySeconds, 0)
		read := a.get(t, work+"/"+id)
		require.Equal(t, map[string]any{
			"job_id": id, "job_type": "video.generate", "model": "testcard", "status": "scheduled", "timeout_seconds": 600.0,
			"execute_at": at.Format(time.RFC3339), "started_at": nil, "completed_at": nil,
			"retries": 0.0, "waited_seconds": 0.0, "ran_seconds": 0.0, "preview_url": nil, "result": nil, "inputs": []any{},
			"user_id": nil, "metadata": nil,
			"jobId": id, "provider": "testcard", "progress": 0.0, "phase": nil, "videoUrl": nil, "thumbnailUrl": nil, "error": nil,
			"estimatedWaitSeconds": nil, "createdAt": read.body["createdAt"], "completedAt": nil, "cost_usd": 0.0, "estimated_cost_usd": nil,
			"actualCost": 0.0, "estimatedCost": nil,
		}, read.body)
		require.Equal(t, "cancelled", a.ask(t, http.MethodDelete, work+"/"+id, "", nil).body["status"])
	})

	t.Run("ReadsThePriorityWords", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		for word, want := range map[string]string{"high": "ENTERPRISE 1", "normal": "ENTERPRISE 0", "low": "BATCH 0"} {
			got := a.post(t, work, map[string]any{"priority": word, "payload": map[string]any{"prompt": "x"}})
			require.Equal(t, http.StatusCreated, got.status, got.raw)
			job := a.Reload(t, models.JobID(got.body["job_id"].(string)))
			require.Equal(t, want, fmt.Sprint(job.Tier, " ", job.Priority))
		}
		critical := `{"priority": "critical", "payload": {"prompt": "x"}}`
		require.Equal(t, http.StatusForbidden, a.ask(t, http.MethodPost, work, critical, nil).status)
		got := a.ask(t, http.MethodPost, work, critical, as(a.Secrets[access.RoleOperator]))
		require.Equal(t, http.StatusCreated, got.status, got.raw)
		require.Equal(t, models.TierCritical, a.Reload(t, models.JobID(got.body["job_id"].(string))).Tier)
	})

	t.Run("SaysWhatIsExpectedOfItsDeadline", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		a.Worker(t, "one")
		require.NoError(t, a.Estimates.Pass(t.Context()))
		soon := time.Now().Add(time.Second).UTC().Truncate(time.Millisecond)
		for _, finishBy := range []time.Time{soon, soon.Add(24 * time.Hour)} {
			got := a.post(t, work, map[string]any{"finish_by": finishBy, "payload": map[string]any{"prompt": "x", "durationSeconds": 60}})
			require.Equal(t, http.StatusCreated, got.status, got.raw)
		}
		a.post(t, work, map[string]any{"payload": map[string]any{"prompt": "x"}})

		listed := a.get(t, work).body["jobs"].([]any)

		require.Len(t, listed, 3)
		require.NotContains(t, listed[0], "deadline")
		for i, feasible := range map[int]bool{1: true, 2: false} {
			job := listed[i].(map[string]any)
			deadline := job["deadline"].(map[string]any)
			require.Equal(t, feasible, deadline["feasible"])
			require.Equal(t, job["finish_by"], deadline["finish_by"])
			earliest, err := time.Parse(time.RFC3339, deadline["earliest_finish"].(string))
			require.NoError(t, err)
			require.True(t, earliest.After(soon))
			path := work + "/" + job["job_id"].(string)
			one := a.get(t, path)
			require.Equal(t, feasible, one.body["deadline"].(map[string]any)["feasible"])
			require.Equal(t, one.header.Get("ETag"), a.get(t, path).header.Get("ETag"), "it does not move with the clock")
		}
	})

	t.Run("NamesTheInvalidField", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		for body, code := range map[string]string{
			`{}`:                         "422 INVALID_INPUT payload",
			`{"payload": {}}`:            "422 INVALID_INPUT payload.prompt",
			`{"payload": {"prompt": 7}}`: "422 INVALID_INPUT payload.prompt",
			`{"payload": []}`:            "422 INVALID_INPUT payload",
			`{"payload": {"prompt": "x", "fps": 99}}`:                                    "422 INVALID_INPUT payload.fps",
			`{"payload": {"prompt": "x", "y": 1}}`:                                       "422 INVALID_INPUT payload.y",
			`{"payload": {"prompt": "x", "fps": 1e400}}`:                                 "422 INVALID_INPUT payload.fps",
			`{"payload": {"prompt": "x"}, "retry_policy": {"max_retries": 1e400}}`:       "422 INVALID_INPUT retry_policy.max_retries",
			`{"payload": {"prompt": "x"}, "retry_policy": {"max_retries": 1.5}}`:         "422 INVALID_INPUT retry_policy.max_retries",
			`{"payload": {"prompt": "x"}, "job_type": "mail.send"}`:                      "422 INVALID_INPUT job_type",
			`{"payload": {"prompt": "x"}, "job_type": "mail.send", "model": "testcard"}`: "422 INVALID_INPUT job_type",
			`{"payload": {"prompt": "x"}, "model": "nope"}`:                              "422 INVALID_INPUT model",
			`{"payload": {"prompt": "x"}, "priority": "HIGH"}`:                           "422 INVALID_INPUT priority",
			`{"payload": {"prompt": "x"}, "execute_at": "tomorrow"}`:                     "422 INVALID_INPUT execute_at",
			`{"payload": {"prompt": "x"}, "execute_at": "9999-01-01T00:00:00Z"}`:         "422 INVALID_INPUT execute_at",
			`{"payload": {"prompt": "x"}, "execute_at": "` + time.Now().Add(48*time.Hour).UTC().Format("2006-01-02T15:04:05") +
				`+24:00"}`: "422 INVALID_INPUT execute_at",
			`{"payload": {"prompt": "x"}, "execute_at": "` + time.Now().Add(48*time.Hour).UTC().Format("2006-01-02T15:04:05") +
				`,5Z"}`: "422 INVALID_INPUT execute_at",
			`{"payload": {"prompt": "x"}, "execute_at": "` + time.Now().Add(48*time.Hour).UTC().Format("2006-01-02") +
				`T9:00:00Z"}`: "422 INVALID_INPUT execute_at",
			`{"payload": {"prompt": "x"}, "retry_policy": {"max_retries": 20}}`:                        "422 INVALID_INPUT retry_policy.max_retries",
			`{"payload": {"prompt": "x"}, "retry_policy": {"max_retries": -1}}`:                        "422 INVALID_INPUT retry_policy.max_retries",
			`{"payload": {"prompt": "x"}, "retry_policy": {"backoff": "none"}}`:                        "422 INVALID_INPUT retry_policy.backoff",
			`{"payload": {"prompt": "x"}, "retry_policy": {"initial_delay_sec": 0}}`:                   "422 INVALID_INPUT retry_policy.initial_delay_sec",
			`{"payload": {"prompt": "x"}, "retry_policy": {"delay": 1}}`:                               "422 INVALID_INPUT retry_policy.delay",
			`{"payload": {"prompt": "x"}, "at_most_once": "yes"}`:                                      "422 INVALID_INPUT at_most_once",
			`{"payload": {"prompt": "x"}, "at_most_once": true, "retry_policy": {"max_retries": 1}}`:   "422 INVALID_INPUT retry_policy.max_retries",
			`{"payload": {"prompt": "x"}, "at_most_once": true, "retry_policy": {"backoff": "fixed"}}`: "422 INVALID_INPUT retry_policy",
			`{"payload": {"prompt": "x"}, "reuse": "yes"}`:                                             "422 INVALID_INPUT reuse",
			`{"payload": {"prompt": "x"}, "at_most_once": true, "reuse": true}`:                        "422 INVALID_INPUT reuse",
			`{"payload": {"prompt": "x"}, "draft": {"steps": 3}, "reuse": true}`:                       "422 INVALID_INPUT reuse",
			`{"payload": {"prompt": "x"}, "max_preemptions": -1}`:                                      "422 INVALID_INPUT max_preemptions",
			`{"payload": {"prompt": "x"}, "max_preemptions": 1.5}`:                                     "422 INVALID_INPUT max_preemptions",
			`{"payload": {"prompt": "x"}, "max_price_per_hour": -0.5}`:                                 "422 INVALID_INPUT max_price_per_hour",
			`{"payload": {"prompt": "x"}, "max_price_per_hour": "NaN"}`:                                "422 INVALID_INPUT max_price_per_hour",
			`{"payload": {"prompt": "x"}, "finish_by": "2020-01-01T00:00:00Z"}`:                        "422 INVALID_INPUT finish_by",
			`{"payload": {"prompt": "x"}, "finish_by": "tomorrow"}`:                                    "422 INVALID_INPUT finish_by",
			`{"payload": {"prompt": "x"}, "idempotency_key": ""}`:                                      "422 INVALID_INPUT idempotency_key",
		} {
			got := a.ask(t, http.MethodPost, work, body, nil)
			require.Equal(t, code, fmt.Sprint(got.status, " ", got.code()), "%s: %s", body, got.raw)
		}
		require.Zero(t, a.Count(t, "jobs"))
	})
}

func TestReuse(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	for path, body := range map[string]map[string]any{
		work:   {"payload": map[string]any{"prompt": "a lighthouse", "durationSeconds": 1}},
		videos: {"prompt": "a fox", "duration_sec": 1},
	} {
		made := a.post(t, path, body)
		require.Contains(t, []int{http.StatusCreated, http.StatusAccepted}, made.status, made.raw)
		first := jobstest.CompleteNext(t, a.Stack, a.Worker(t, path))
		body["reuse"] = true

		guess := a.post(t, path+"/estimate", body)
		require.JSONEq(t, `{"wait_seconds": 0, "wait_seconds_p90": 0, "render_seconds": 0, "cost_usd": 0, "position": 0, "reused_from": "`+string(first.ID)+`"}`,
			guess.raw)
		again := a.post(t, path, body)

		require.Equal(t, made.status, again.status, again.raw)
		require.NotEqual(t, made.body["job_id"], again.body["job_id"])
		got := a.get(t, path+"/"+again.body["job_id"].(string))
		require.Equal(t, "completed", got.body["status"])
		require.Equal(t, string(first.ID), got.body["reused_from"])
		require.NotContains(t, a.get(t, path+"/"+string(first.ID)).body, "reused_from")
	}
	require.Equal(t, 4, a.Count(t, "jobs"))
}

func TestDraft(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	ask := func(steps any) answer {
		return a.post(t, work, map[string]any{"payload": map[string]any{"prompt": "a lighthouse", "durationSeconds": 1, "pace": 0},
			"draft": map[string]any{"steps": steps}, "at_most_once": true, "max_preemptions": 3, "finish_by": time.Now().Add(24 * time.Hour)})
	}
	for _, bad := range []any{0, 25, 1.5, "x"} {
		got := ask(bad)
		require.Equal(t, http.StatusUnprocessableEntity, got.status, got.raw)
		require.Contains(t, got.raw, "draft.steps")
	}
	made := ask(6)
	require.Equal(t, http.StatusCreated, made.status, made.raw)
	at := work + "/" + made.body["job_id"].(string)
	require.Equal(t, map[string]any{"steps": 6.0, "kept_until": nil, "continued_by": nil}, a.get(t, at).body["draft"])
	require.Equal(t, true, a.get(t, at).body["at_most_once"])
	require.Equal(t, 3.0, a.get(t, at).body["max_preemptions"])
	require.NotEmpty(t, a.get(t, at).body["finish_by"])
	require.Equal(t, http.StatusConflict, a.post(t, at+"/continue", nil).status)
	require.Equal(t, http.StatusNotFound, a.post(t, work+"/"+string(models.NewJobID())+"/continue", nil).status)
	draft := jobstest.FinishDraft(t, a.Stack, a.Worker(t, "one"), a.Reload(t, models.JobID(made.body["job_id"].(string))))

	got := a.get(t, at).body
	require.Nil(t, got["result"].(map[string]any)["result_url"])
	require.Contains(t, got["preview_url"], "/objects/")
	require.Equal(t, draft.KeptUntil.UTC().Format(time.RFC3339Nano), got["draft"].(map[string]any)["kept_until"])
	next := a.post(t, at+"/continue", nil)
	require.Equal(t, http.StatusCreated, next.status, next.raw)
	bare := a.ask(t, http.MethodPost, at+"/continue", "", http.Header{"Content-Type": nil})
	require.Equal(t, next.body["job_id"], bare.body["job_id"], "a request without a body, as OpenAPI describes it: %s", bare.raw)
	require.Equal(t, next.body["job_id"], a.post(t, at+"/continue", nil).body["job_id"])
	require.Equal(t, string(draft.ID), a.get(t, work+"/"+next.body["job_id"].(string)).body["continues"])
	listed := a.get(t, work).body["jobs"].([]any)
	require.Len(t, listed, 2)
	require.Equal(t, next.body["job_id"], listed[1].(map[string]any)["draft"].(map[string]any)["continued_by"])
	require.Contains(t, listed[1].(map[string]any)["preview_url"], "/objects/")
}

func TestGetJob(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	job := a.completed(t)

	got := a.get(t, work+"/"+string(job.ID))

	require.Equal(t, http.StatusOK, got.status, got.raw)
	require.Equal(t, "completed", got.body["status"])
	result := got.body["result"].(map[string]any)
	require.Contains(t, result["result_url"], "http")
	require.Contains(t, result["thumbnail_url"], "http")
	require.InDelta(t, 1, result["duration_sec"], 0)
	require.Nil(t, result["output"])
	require.Equal(t, http.StatusConflict, a.ask(t, http.MethodDelete, work+"/"+string(job.ID), "", nil).status)
}

func TestJobInputs(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	image := a.UploadInput(t, a.Client, jobstest.Picture(t, color.White))
	ask := func(payload map[string]any) string {
		made := a.post(t, work, map[string]any{"payload": payload})
		require.Equal(t, http.StatusCreated, made.status, made.raw)
		return work + "/" + made.body["job_id"].(string)
	}
	bare := ask(map[string]any{"prompt": "without a file"})
	at := ask(map[string]any{"prompt": "from an image", "referenceImage": image})

	require.Equal(t, []any{}, a.get(t, bare).body["inputs"])
	got := a.get(t, at)
	require.Len(t, got.body["inputs"], 1, got.raw)
	in := got.body["inputs"].([]any)[0].(map[string]any)
	require.Contains(t, in["url"], "/objects/")
	listed := a.get(t, work).body["jobs"].([]any)[0].(map[string]any)["inputs"].([]any)[0].(map[string]any)
	for _, view := range []map[string]any{in, listed} {
		delete(view, "url")
		delete(view, "size_bytes")
		require.Equal(t, map[string]any{"name": "referenceImage", "reference": string(image), "artifact_id": string(image),
			"content_type": "image/png"}, view)
	}
	require.Equal(t, got.header.Get("ETag"), a.get(t, at).header.Get("ETag"), "the links' signatures do not count")
	_, err := a.DB.ExecContext(t.Context(), "DELETE FROM input_uses WHERE artifact_id = ?", image)
	require.NoError(t, err)
	gone := a.get(t, at)
	require.Equal(t, []any{map[string]any{
		"name": "referenceImage", "reference": string(image), "artifact_id": nil, "content_type": nil, "size_bytes": nil, "url": nil,
	}}, gone.body["inputs"])
	require.NotEqual(t, got.header.Get("ETag"), gone.header.Get("ETag"))
}

// TestOwn tests that what clients say of their own comes back with the job, in each of its forms.
func TestOwn(t *testing.T) {
	t.Parallel()

	for path, asked := range map[string]map[string]any{
		work: {"payload": map[string]any{"prompt": "x"}}, videos: {"prompt": "x"},
		work + "/recurring": {"payload": map[string]any{"prompt": "x"}, "every_seconds": 60},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			for says, own := range map[string]string{
				"metadata.a.0": `{"a": [1e400]}`, "metadata.b": `{"b": "\u0000"}`, "metadata": `"text"`,
			} {
				asked := maps.Clone(asked)
				asked["metadata"] = json.RawMessage(own)
				refused := a.post(t, path, asked)
				require.Equal(t, http.StatusUnprocessableEntity, refused.status, refused.raw)
				require.Equal(t, says, refused.body["field"], refused.raw)
			}
			asked["user_id"] = "a\nb"
			require.Equal(t, "user_id", a.post(t, path, asked).body["field"])

			asked["user_id"], asked["metadata"] = "ann", json.RawMessage(`{"order": 12345678901234567890, "deep": {"of": ["é", null]}}`)
			made := a.post(t, path, asked)
			require.Less(t, made.status, 300, made.raw)
			if id, _ := made.body["recurring_id"].(string); id != "" {
				slot, err := a.Schedules.FireNow(t.Context(), a.Client, models.ScheduleID(id), time.Time{})
				require.NoError(t, err)
				made.body["job_id"] = string(slot.JobID)
			}
			id := "/" + made.body["job_id"].(string)
			for _, view := range []string{videos + id, work + id, videos, work} {
				got := a.get(t, view)
				require.Contains(t, got.raw, `"user_id":"ann"`, view)
				require.Regexp(t, `"metadata":\{"deep":\{"of": ?\["é", ?null\]\},"order":12345678901234567890\}`, got.raw, view)
			}
		})
	}
}

// TestPlacing tests that REST takes when and where a job may run, as GraphQL and the CLI do, and shows it.
func TestPlacing(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	parent := a.post(t, work, map[string]any{"payload": map[string]any{"prompt": "a"}}).body["job_id"].(string)
	asked := map[string]any{
		"payload": map[string]any{"prompt": "b"}, "depends_on": []string{parent}, "region": "europe-west4", "require_region": true,
		"timeout_seconds": 90, "expires_at": time.Now().Add(48 * time.Hour).UTC().Truncate(time.Second).Format(time.RFC3339),
	}

	made := a.post(t, work, asked)

	require.Equal(t, http.StatusCreated, made.status, made.raw)
	require.Equal(t, "blocked", made.body["status"])
	shown := a.get(t, work+"/"+made.body["job_id"].(string))
	require.Equal(t, []any{parent}, shown.body["depends_on"])
	for name := range asked {
		if name != "payload" {
			require.Equal(t, fmt.Sprint(asked[name]), fmt.Sprint(shown.body[name]), name)
		}
	}
	require.NotContains(t, a.get(t, work+"/"+parent).raw, "depends_on")
	again := a.ask(t, http.MethodGet, work+"/"+made.body["job_id"].(string), "", http.Header{"If-None-Match": {shown.header.Get("ETag")}})
	require.Equal(t, http.StatusNotModified, again.status)

	for field, bad := range map[string]any{
		"depends_on":      []string{"job_01937d3e-0000-7000-8000-000000000000"},
		"require_region":  true,
		"timeout_seconds": 18001,
		"expires_at":      "2020-01-01T00:00:00Z",
		"region":          strings.Repeat("x", 300),
	} {
		refused := a.post(t, work, map[string]any{"payload": map[string]any{"prompt": "b"}, field: bad})
		require.Contains(t, []int{http.StatusUnprocessableEntity, http.StatusNotFound}, refused.status, refused.raw)
		require.Contains(t, refused.raw, field)
	}
}

func TestPreviewURL(t *testing.T) {
	t.Parallel()

	for name, path := range map[string]string{"Job": work, "Video": "/api/video-generations"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			a := newAPI(t)
			a.Submit(t)
			worker := a.Worker(t, "one")
			granted, fence := a.Lease(t, worker)
			at := path + "/" + string(granted.Job.ID)
			none := a.get(t, at)
			require.Nil(t, none.body["preview_url"])
			object := a.Upload(t, worker, fence, models.ArtifactPreview, []byte("a picture"))
			_, err := a.Attempts.CommitArtifact(t.Context(), worker, fence, models.ArtifactPreview, object)
			require.NoError(t, err)

			first := a.get(t, at)
			require.Contains(t, first.body["preview_url"], "/objects/")
			require.NotEqual(t, none.header.Get("ETag"), first.header.Get("ETag"))

			_, err = a.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailInvalidInput, Message: "no such style"})
			require.NoError(t, err)
			require.Nil(t, a.get(t, at).body["preview_url"], "the job has ended")
		})
	}
}

func TestQueueStats(t *testing.T) {
	t.Parallel()

	t.Run("CountsTheJobsOfAllAccounts", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		a.completed(t)
		a.Submit(t)
		a.Submit(t)
		a.Lease(t, a.Worker(t, "two"))
		a.post(t, work, map[string]any{"payload": map[string]any{"prompt": "x"}, "execute_at": time.Now().Add(time.Hour)})
		a.Exec(t, "INSERT INTO queue_pauses (lane, paused, changed_by, changed_at, reason) VALUES ('BATCH', true, 'test', '2026-01-31T12:00:00Z', 'why'), ('PRO', false, 'test', DEFAULT, NULL)")

		got := a.ask(t, http.MethodGet, "/api/v1/queue/stats", "", as(a.Secrets[access.RoleOperator]))

		require.Equal(t, http.StatusOK, got.status, got.raw)
		require.Equal(t, map[string]any{"waiting": 1.0, "active": 1.0, "completed": 1.0, "failed": 0.0, "delayed": 1.0, "paused": 1.0,
			"paused_queues": []any{
				map[string]any{"tier": "BATCH", "model": nil, "paused_by": "test", "paused_at": "2026-01-31T12:00:00Z", "reason": "why"},
			}}, got.body)
	})

	t.Run("IsForOperators", func(t *testing.T) {
		t.Parallel()

		got := newAPI(t).get(t, "/api/v1/queue/stats")

		require.Equal(t, http.StatusForbidden, got.status)
		require.Equal(t, "FORBIDDEN", got.code())
	})
}
