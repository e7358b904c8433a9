package rest_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

var lists = []string{videos, work}

// ids returns the job ids of a page.
func ids(t *testing.T, got answer) (found []string) {
	t.Helper()
	require.Equal(t, http.StatusOK, got.status, got.raw)
	for _, job := range got.body["jobs"].([]any) {
		found = append(found, job.(map[string]any)["job_id"].(string))
	}
	return found
}

func query(pairs ...string) string {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return "?" + v.Encode()
}

// stranger returns the key of a client of another account.
func (a *api) stranger(t *testing.T) http.Header {
	t.Helper()
	account := a.NewAccount(t, "stranger", models.TierPro)
	_, secret, err := a.Keys.Create(t.Context(), a.Admin, auth.NewKey{AccountID: account.ID, Role: access.RoleClient, Name: "stranger"})
	require.NoError(t, err)
	return as(secret)
}

func TestList(t *testing.T) {
	t.Parallel()

	t.Run("PagesThroughAllJobs", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		var newestFirst []string
		for range 5 {
			newestFirst = append([]string{string(a.Submit(t).ID)}, newestFirst...)
		}

		for _, path := range lists {
			var found []string
			after, pages := []string{"limit", "2"}, 0
			for {
				got := a.get(t, path+query(after...))
				page := ids(t, got)
				found, pages = append(found, page...), pages+1
				require.LessOrEqual(t, len(page), 2)
				require.Equal(t, "no-store", got.header.Get("Cache-Control"))
				next, more := got.body["next"].(string)
				if !more {
					require.Nil(t, got.body["next"])
					break
				}
				after = []string{"limit", "2", "after", next}
			}
			require.Equal(t, newestFirst, found, path)
			require.Equal(t, 3, pages, path)
			require.Equal(t, newestFirst, ids(t, a.get(t, path)), path)
		}
	})

	t.Run("FiltersByEachParameter", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		submit := func(body map[string]any) string {
			got := a.post(t, videos, body)
			require.Equal(t, http.StatusAccepted, got.status, got.raw)
			return got.body["job_id"].(string)
		}
		plain := submit(map[string]any{"prompt": "x"})
		batch := submit(map[string]any{"prompt": "x", "priority_tier": "batch"})
		drill := submit(map[string]any{"prompt": "x", "model_version": "drill"})
		ann := submit(map[string]any{"prompt": "x", "user_id": "ann", "metadata": map[string]any{"order": "A7"}})
		gone := submit(map[string]any{"prompt": "x"})
		require.Equal(t, http.StatusOK, a.ask(t, http.MethodDelete, videos+"/"+gone, "", nil).status)
		created := a.Reload(t, models.JobID(ann)).CreatedAt.Format(time.RFC3339Nano)

		for _, path := range lists {
			for _, c := range []struct {
				query string
				want  []string
			}{
				{query("status", "cancelled"), []string{gone}},
				{query("status", "Cancelled"), []string{gone}},
				{query("status", "RUNNING, CANCELLED"), []string{gone}},
				{query("status", "queued", "tier", "Batch,free"), []string{batch}},
				{query("status", ""), []string{gone, ann, drill, batch, plain}},
				{query("model", "drill"), []string{drill}},
				{query("user_id", "ann"), []string{ann}},
				{query("search", "A7"), []string{ann}},
				{query("search", "status:cancelled,QUEUED -model:drill tier:enterprise"), []string{gone, ann, plain}},
				{query("search", plain), []string{plain}},
				{query("created_after", created), []string{gone}},
				{query("created_before", created), []string{drill, batch, plain}},
				{query("search", "x"), nil}, // prompts are not searched
			} {
				require.Equal(t, c.want, ids(t, a.get(t, path+c.query)), path+c.query)
			}
		}
		require.Len(t, ids(t, a.get(t, work+query("job_type", "video.generate"))), 5)
		require.Empty(t, ids(t, a.get(t, work+query("job_type", "still.generate"))))
	})

	t.Run("ShowsEachJobLikeASingleRead", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		done, waiting := a.completed(t), a.Submit(t)
		unsigned := func(job any) map[string]any {
			shown := job.(map[string]any)
			links := shown
			if result, ok := shown["result"].(map[string]any); ok {
				links = result
			}
			for _, name := range []string{"result_url", "thumbnail_url"} {
				if link, ok := links[name].(string); ok {
					links[name], _, _ = strings.Cut(link, "?")
				}
			}
			return shown
		}

		for _, path := range lists {
			listed := a.get(t, path).body["jobs"].([]any)

			require.Len(t, listed, 2)
			for i, id := range []models.JobID{waiting.ID, done.ID} {
				require.Equal(t, unsigned(a.get(t, path+"/"+string(id)).body), unsigned(listed[i]), path)
			}
		}
	})

	t.Run("HidesJobsOfOtherAccounts", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.completed(t)
		a.Submit(t)
		stranger := a.stranger(t)

		for _, path := range lists {
			for _, q := range []string{"", query("status", "completed"), query("search", string(job.ID)), query("search", "status:completed,queued"),
				query("model", "testcard")} {
				got := a.ask(t, http.MethodGet, path+q, "", stranger)
				require.Equal(t, http.StatusOK, got.status, got.raw)
				require.JSONEq(t, `{"jobs": [], "next": null}`, got.raw, path+q)
			}
			for _, account := range []string{"client", string(a.Account.ID)} {
				got := a.ask(t, http.MethodGet, path+query("search", "account:"+account), "", stranger)
				require.Equal(t, "404 NOT_FOUND", fmt.Sprint(got.status, " ", got.code()))
			}
			next := a.get(t, path+query("limit", "1")).body["next"].(string)
			got := a.ask(t, http.MethodGet, path+query("limit", "1", "after", next), "", stranger)
			require.Equal(t, "422 INVALID_INPUT after", fmt.Sprint(got.status, " ", got.code()))
			require.Len(t, ids(t, a.ask(t, http.MethodGet, path, "", as(a.Secrets[access.RoleOperator]))), 2)
		}
	})

	t.Run("NamesTheInvalidParameter", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		a.Submit(t)
		a.Submit(t)
		for _, path := range lists {
			next := a.get(t, path+query("limit", "1")).body["next"].(string)
			for q, want := range map[string]string{
				query("status", "done"):                              "422 INVALID_INPUT status",
				query("status", "queued,"):                           "422 INVALID_INPUT status",
				query("status", strings.Repeat("x", 5000)):           "422 INVALID_INPUT status",
				query("tier", "gold"):                                "422 INVALID_INPUT tier",
				query("model", strings.Repeat("x", 2000)):            "422 INVALID_INPUT model",
				query("model", "a\nb"):                               "422 INVALID_INPUT model",
				query("user_id", "\x00"):                             "422 INVALID_INPUT user_id",
				query("search", "foo:bar"):                           "422 INVALID_INPUT search",
				query("search", "status:done"):                       "422 INVALID_INPUT search",
				query("search", strings.Repeat("x ", 400)):           "422 INVALID_INPUT search",
				query("search", strings.Repeat("x ", 21)):            "422 INVALID_INPUT search",
				query("search", "\xff"):                              "422 INVALID_INPUT search",
				query("search", "account:nobody"):                    "404 NOT_FOUND",
				query("limit", "0"):                                  "422 INVALID_INPUT limit",
				query("limit", "201"):                                "422 INVALID_INPUT limit",
				query("limit", "two"):                                "422 INVALID_INPUT limit",
				query("limit", "99999999999999999999"):               "422 INVALID_INPUT limit",
				query("created_after", "yesterday"):                  "422 INVALID_INPUT created_after",
				query("created_before", "2026-01-01"):                "422 INVALID_INPUT created_before",
				query("created_after", "2026-01-31T12:00:00+24:00"):  "422 INVALID_INPUT created_after",
				query("created_after", "2026-01-31T12:00:00,5Z"):     "422 INVALID_INPUT created_after",
				query("created_before", "2026-01-31T9:00:00Z"):       "422 INVALID_INPUT created_before",
				query("created_before", "2026-01-31T12:00:00-24:30"): "422 INVALID_INPUT created_before",
				query("after", "x"):                                  "422 INVALID_INPUT after",
				query("after", strings.Repeat("x", 5000)):            "422 INVALID_INPUT after",
				query("after", next, "status", "queued"):             "422 INVALID_INPUT after",
				query("first", "1"):                                  "422 INVALID_INPUT first",
				"?status=queued&status=running":                      "400 INVALID_INPUT status",
				query("search", a.Secrets[access.RoleClient]):        "400 INVALID_INPUT",
			} {
				got := a.get(t, path+q)
				require.Equal(t, want, fmt.Sprint(got.status, " ", got.code()), "%s: %s", path+q, got.raw)
				require.Less(t, len(got.raw), 1000)
				require.NotContains(t, got.raw, "filter.")
				require.NotContains(t, got.raw, "pageInfo")
			}
		}
	})
}

func TestEstimate(t *testing.T) {
	t.Parallel()

	t.Run("AcceptsTheBodyOfASubmitAndSubmitsNothing", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		a.Worker(t, "one")
		require.NoError(t, a.Estimates.Pass(t.Context()))
		for path, body := range map[string]map[string]any{
			videos: {"prompt": "x", "duration_sec": 4, "params": map[string]any{"pace": 1}, "idempotency_key": "k", "priority_tier": "batch",
				"metadata": map[string]any{"a": 1}},
			work: {"payload": map[string]any{"prompt": "x", "durationSeconds": 4}, "priority": "low", "idempotency_key": "k",
				"retry_policy": map[string]any{"max_retries": 1}},
		} {
			got := a.post(t, path+"/estimate", body)

			require.Equal(t, http.StatusOK, got.status, got.raw)
			require.Equal(t, "no-store", got.header.Get("Cache-Control"))
			require.Zero(t, got.body["wait_seconds"], got.raw)
			require.Zero(t, got.body["wait_seconds_p90"])
			require.Greater(t, got.body["render_seconds"], 0.0)
			require.InDelta(t, 1, got.body["position"], 0)
			require.Len(t, got.body, 6)
		}
		require.Zero(t, a.Count(t, "jobs"))
	})

	t.Run("IsNullWithoutWorkers", func(t *testing.T) {
		t.Parallel()

		got := newAPI(t).post(t, videos+"/estimate", map[string]any{"prompt": "x"})

		require.Equal(t, http.StatusOK, got.status, got.raw)
		require.JSONEq(t, `{"wait_seconds": null, "wait_seconds_p90": null, "render_seconds": null, "cost_usd": null, "position": 1, "reused_from": null}`, got.raw)
	})

	t.Run("RefusesTheInputThatSubmitRefuses", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		for path, bodies := range map[string][]string{
			videos: {
				`{}`, `[]`, `{"prompt": ""}`, `{"prompt": 7}`, `{"prompt": "x", "fps": 99}`, `{"prompt": "x", "params": {"y": 1}}`,
				`{"prompt": "x", "model_version": "nope"}`,
				`{"prompt": "x", "priority_tier": "gold"}`, `{"prompt": "x", "priority_tier": "critical"}`, `{"prompt": "x", "idempotency_key": ""}`,
				`{"prompt": "x", "callback_url": "http://example.com"}`, `{"prompt": "x", "prompt": "y"}`, `{"prompt": "x", "metadata": 1}`,
			},
			work: {
				`{}`, `{"payload": {}}`, `{"payload": {"prompt": "x", "fps": 99}}`, `{"payload": {"prompt": "x"}, "job_type": "mail.send"}`,
				`{"payload": {"prompt": "x"}, "priority": "critical"}`,
				`{"payload": {"prompt": "x"}, "retry_policy": {"max_retries": 20}}`,
				`{"payload": {"prompt": "x"}, "execute_at": "9999-01-01T00:00:00Z"}`,
			},
		} {
			for _, body := range bodies {
				submitted := a.ask(t, http.MethodPost, path, body, nil)
				require.GreaterOrEqual(t, submitted.status, 400, body)
				require.Equal(t, submitted.raw, a.ask(t, http.MethodPost, path+"/estimate", body, nil).raw, body)
			}
		}
	})
}

func TestModels(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	listed := func() []any {
		got := a.get(t, "/api/v1/models")
		require.Equal(t, http.StatusOK, got.status, got.raw)
		return got.body["models"].([]any)
	}

	before := listed()
	a.Worker(t, "one")
	after := listed()

	require.Len(t, after, len(before))
	first := after[0].(map[string]any)
	require.Equal(t, "testcard", first["name"])
	require.Equal(t, "video.generate", first["job_type"])
	require.Equal(t, []any{"any"}, first["gpu_types"])
	require.NotEmpty(t, first["description"])
	require.Contains(t, first["params_schema"].(map[string]any)["properties"], "durationSeconds")
	require.Equal(t, false, before[0].(map[string]any)["available"])
	require.Equal(t, true, first["available"])
	require.Equal(t, []any{"not_served", "available"}, []any{before[0].(map[string]any)["state"], first["state"]})
}

func TestReadShares(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	job := a.Submit(t)
	a.Happen(t, job.ID, 10)
	a.BeginReads(t, a.Client)

	require.Equal(t, http.StatusOK, a.get(t, videos+"/"+string(job.ID)).status, "one job is no list")
	for _, path := range append(lists, videos+"/"+string(job.ID)+"/events") {
		got := a.get(t, path)

		require.Equal(t, http.StatusTooManyRequests, got.status, path)
		require.Equal(t, string(apierror.CodeRateLimited), got.code())
		require.Equal(t, "1", got.header.Get("Retry-After"))
	}
}
