package rest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestCreateVideo(t *testing.T) {
	t.Parallel()

	t.Run("MapsEveryFieldToTheDomain", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)

		got := a.post(t, videos, map[string]any{
			"prompt": "a lighthouse", "model_version": "testcard", "duration_sec": 2.5, "resolution": "720p", "aspect_ratio": "9:16",
			"fps": 12, "seed": 9007199254740991, "idempotency_key": "one", "priority_tier": "Pro", "user_id": "u-1",
			"metadata": map[string]any{"order": 17}, "params": map[string]any{"pace": 0}, "style": "noir",
			"callback_url": "https://example.com/told",
		})

		require.Equal(t, http.StatusAccepted, got.status, got.raw)
		id, _ := got.body["job_id"].(string)
		url := a.Base + videos + "/" + id
		require.Equal(t, map[string]any{"job_id": id, "status": "queued", "estimated_wait_seconds": nil, "status_url": url}, got.body)
		require.Equal(t, url, got.header.Get("Location"))
		job := a.Reload(t, models.JobID(id))
		require.JSONEq(t, `{"durationSeconds": 2.5, "resolution": "720p", "aspectRatio": "9:16", "fps": 12, "seed": 9007199254740991, "pace": 0, "style": "noir"}`, string(job.Params))
		require.JSONEq(t, `{"order": 17}`, string(job.Metadata))
		require.Equal(t, []any{models.TierPro, "u-1", "one", "testcard", "https://example.com/told"},
			[]any{job.Tier, job.UserID, job.IdempotencyKey, job.Model, job.CallbackURL})
		prompts, err := a.Edges(t, job.ID).Prompts(t.Context())
		require.NoError(t, err)
		require.Equal(t, "a lighthouse", prompts[job.ID].Text)
	})

	t.Run("RequiresOnlyAPrompt", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)

		got := a.ask(t, http.MethodPost, videos,
			`{"prompt": "a lighthouse", "seed": null, "style": null, "metadata": null, "params": null, "user_id": null}`, nil)

		require.Equal(t, http.StatusAccepted, got.status, got.raw)
		job := a.Reload(t, models.JobID(got.body["job_id"].(string)))
		require.Equal(t, "testcard", job.Model)
		require.Equal(t, models.TierEnterprise, job.Tier)
	})

	t.Run("ReturnsTheFirstJobForARepeatedKey", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		answers := make([]answer, 20)
		var group sync.WaitGroup
		for i := range answers {
			group.Go(func() {
				answers[i] = a.ask(t, http.MethodPost, videos, `{"prompt": "one"}`, http.Header{"Idempotency-Key": {"k"}})
			})
		}
		group.Wait()

		for _, got := range answers {
			require.Equal(t, http.StatusAccepted, got.status, got.raw)
			require.Equal(t, answers[0].body, got.body)
		}
		require.Equal(t, 1, a.Count(t, "jobs"))
		inBody := a.ask(t, http.MethodPost, videos, `{"prompt": "one", "idempotency_key": "k"}`, nil)
		require.Equal(t, answers[0].body, inBody.body)
		both := a.ask(t, http.MethodPost, videos, `{"prompt": "one", "idempotency_key": "k"}`, http.Header{"Idempotency-Key": {"k"}})
		require.Equal(t, answers[0].body, both.body)
		another := a.ask(t, http.MethodPost, videos, `{"prompt": "two", "idempotency_key": "k"}`, nil)
		require.Equal(t, http.StatusConflict, another.status)
		require.Equal(t, "IDEMPOTENCY_CONFLICT idempotency_key", another.code())
		require.NotContains(t, another.raw, "job_")
	})

	t.Run("NamesTheInvalidField", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		for body, code := range map[string]string{
			`{}`:                                                                      "422 INVALID_INPUT prompt",
			`{"prompt": ""}`:                                                          "422 INVALID_INPUT prompt",
			`{"prompt": "  "}`:                                                        "422 INVALID_INPUT prompt",
			`{"prompt": null}`:                                                        "422 INVALID_INPUT prompt",
			`{"prompt": 7}`:                                                           "422 INVALID_INPUT prompt",
			`{"Prompt": "x"}`:                                                         "422 INVALID_INPUT Prompt",
			`{"prompt": "a\u0000b"}`:                                                  "422 INVALID_INPUT prompt",
			`{"prompt": "x", "promt": "y"}`:                                           "422 INVALID_INPUT promt",
			`{"prompt": "x", "model_version": "v9"}`:                                  "422 INVALID_INPUT model_version",
			`{"prompt": "x", "duration_sec": 0}`:                                      "422 INVALID_INPUT duration_sec",
			`{"prompt": "x", "duration_sec": "4"}`:                                    "422 INVALID_INPUT duration_sec",
			`{"prompt": "x", "duration_sec": -1e300}`:                                 "422 INVALID_INPUT duration_sec",
			`{"prompt": "x", "duration_sec": 1e400}`:                                  "422 INVALID_INPUT duration_sec",
			`{"prompt": "x", "duration_sec": 1e308}`:                                  "422 INVALID_INPUT duration_sec",
			`{"prompt": "x", "duration_sec": 60.000001}`:                              "422 INVALID_INPUT duration_sec",
			`{"prompt": "x", "duration_sec": -0.0}`:                                   "422 INVALID_INPUT duration_sec",
			`{"prompt": "x", "duration_sec": "NaN"}`:                                  "422 INVALID_INPUT duration_sec",
			`{"prompt": "x", "duration_sec": NaN}`:                                    "400 INVALID_INPUT",
			`{"prompt": "x", "fps": 61}`:                                              "422 INVALID_INPUT fps",
			`{"prompt": "x", "fps": -0}`:                                              "422 INVALID_INPUT fps",
			`{"prompt": "x", "fps": 1e308}`:                                           "422 INVALID_INPUT fps",
			`{"prompt": "x", "fps": "Infinity"}`:                                      "422 INVALID_INPUT fps",
			`{"prompt": "x", "fps": 18446744073709551616}`:                            "422 INVALID_INPUT fps",
			`{"prompt": "x", "seed": 9007199254740993}`:                               "422 INVALID_INPUT seed",
			`{"prompt": "x", "seed": -9223372036854775809}`:                           "422 INVALID_INPUT seed",
			`{"prompt": "a\ufffeb"}`:                                                  "422 INVALID_INPUT prompt",
			"{\"prompt\": \"a\xed\xa0\x80b\"}":                                        "400 INVALID_INPUT",
			`{"prompt": "a\ud800b"}`:                                                  "400 INVALID_INPUT",
			`{"prompt": "x", "fps": 23.976}`:                                          "422 INVALID_INPUT fps",
			`{"prompt": "x", "seed": 9223372036854775808}`:                            "422 INVALID_INPUT seed",
			`{"prompt": "x", "seed": -1}`:                                             "422 INVALID_INPUT seed",
			`{"prompt": "x", "resolution": "9000p"}`:                                  "422 INVALID_INPUT resolution",
			`{"prompt": "x", "aspect_ratio": "1:2"}`:                                  "422 INVALID_INPUT aspect_ratio",
			`{"prompt": "x", "style": ""}`:                                            "422 INVALID_INPUT style",
			`{"prompt": "x", "model_version": "drill", "style": "noir"}`:              "422 INVALID_INPUT style",
			`{"prompt": "x", "reference_image_url": "https://169.254.169.254/a.png"}`: "422 INVALID_INPUT reference_image_url",
			`{"prompt": "x", "callback_url": "ftp://example.com/"}`:                   "422 INVALID_INPUT callback_url",
			`{"prompt": "x", "priority_tier": "gold"}`:                                "422 INVALID_INPUT priority_tier",
			`{"prompt": "x", "priority_tier": "critical"}`:                            "403 FORBIDDEN",
			`{"prompt": "x", "user_id": "a\nb"}`:                                      "422 INVALID_INPUT user_id",
			`{"prompt": "x", "idempotency_key": ""}`:                                  "422 INVALID_INPUT idempotency_key",
			`{"prompt": "x", "metadata": [1]}`:                                        "422 INVALID_INPUT metadata",
			`{"prompt": "x", "metadata": {"a": "\u0000"}}`:                            "422 INVALID_INPUT metadata.a",
			`{"prompt": "x", "metadata": {"a": [1e400]}}`:                             "422 INVALID_INPUT metadata.a.0",
			`{"prompt": "x", "params": {"pace": 1e400}}`:                              "422 INVALID_INPUT params.pace",
			`{"prompt": "x", "params": "y"}`:                                          "422 INVALID_INPUT params",
			`{"prompt": "x", "params": {"fps": 99}}`:                                  "422 INVALID_INPUT params.fps",
			`{"prompt": "x", "params": {"fps": 9}, "fps": 9}`:                         "422 INVALID_INPUT fps",
			`{"prompt": "x", "callback": "http://x"}`:                                 "422 INVALID_INPUT callback",
			`[]`: "422 INVALID_INPUT", `"x"`: "422 INVALID_INPUT", `null`: "422 INVALID_INPUT",
		} {
			got := a.ask(t, http.MethodPost, videos, body, nil)
			require.Equal(t, code, fmt.Sprint(got.status, " ", got.code()), "%s: %s", body, got.raw)
		}
		require.Zero(t, a.Count(t, "jobs"))
	})

	t.Run("IsBlockedUntilTheImageIsFetched", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)

		got := a.post(t, videos, map[string]any{"prompt": "a lighthouse", "reference_image_url": "https://example.com/a.png"})

		require.Equal(t, http.StatusAccepted, got.status, got.raw)
		require.Equal(t, "blocked", got.body["status"])
		require.Contains(t, string(document(t, a)), "queued, or blocked until the image at reference_image_url is fetched")
	})

	t.Run("RefusesAnEmptyKeyOrCallback", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		for _, sent := range []struct {
			path, body string
			header     http.Header
			code       string
		}{
			{videos, `{"prompt": "x"}`, http.Header{"Idempotency-Key": {""}}, "INVALID_INPUT idempotency_key"},
			{videos, `{"prompt": "x"}`, http.Header{"Idempotency-Key": {"  "}}, "INVALID_INPUT idempotency_key"},
			{videos, `{"prompt": "x", "idempotency_key": "k"}`, http.Header{"Idempotency-Key": {""}}, "INVALID_INPUT idempotency_key"},
			{videos, `{"prompt": "x", "idempotency_key": " "}`, nil, "INVALID_INPUT idempotency_key"},
			{videos, `{"prompt": "x", "callback_url": ""}`, nil, "INVALID_INPUT callback_url"},
			{"/api/v1/jobs", `{"job_type": "video.generate", "payload": {"prompt": "x"}}`, http.Header{"Idempotency-Key": {""}},
				"INVALID_INPUT idempotency_key"},
			{"/api/v1/jobs", `{"job_type": "video.generate", "payload": {"prompt": "x"}, "idempotency_key": " "}`, nil,
				"INVALID_INPUT idempotency_key"},
			{"/api/v1/jobs", `{"job_type": "video.generate", "payload": {"prompt": "x"}, "callback_url": ""}`, nil, "INVALID_INPUT callback_url"},
		} {
			got := a.ask(t, http.MethodPost, sent.path, sent.body, sent.header)
			require.Equal(t, http.StatusUnprocessableEntity, got.status, "%s: %s", sent.body, got.raw)
			require.Equal(t, sent.code, got.code(), sent.body)
		}
		require.Zero(t, a.Count(t, "jobs"))
	})

	t.Run("SetsRetryAfter", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		a.Exec(t, "UPDATE accounts SET max_queued = 0")

		got := a.post(t, videos, map[string]any{"prompt": "x"})

		require.Equal(t, http.StatusTooManyRequests, got.status)
		require.Equal(t, "QUOTA_EXCEEDED", got.code())
		require.Equal(t, "10", got.header.Get("Retry-After"))
		require.InDelta(t, 10, got.body["retry_after_seconds"], 0)
	})

	t.Run("SetsRetryAfterOnOverload", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		a.Worker(t, "one")
		_, _, err := a.Submitter.Submit(t.Context(), a.Client, submit.Submission{
			Model: "testcard", Prompt: "x", Params: []byte(`{"durationSeconds": 1, "pace": 400}`),
		})
		require.NoError(t, err)
		require.NoError(t, a.Estimates.Refresh(t.Context()))

		got := a.post(t, videos, map[string]any{"prompt": "x"})

		require.Equal(t, http.StatusServiceUnavailable, got.status, got.raw)
		require.Equal(t, "OVERLOADED", got.code())
		require.InDelta(t, 101, got.body["retry_after_seconds"], 2)
		require.Equal(t, fmt.Sprint(got.body["retry_after_seconds"]), got.header.Get("Retry-After"))
	})
}

func TestGetVideo(t *testing.T) {
	t.Parallel()

	t.Run("LinksToTheVideoOnceCompleted", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.completed(t)

		got := a.get(t, videos+"/"+string(job.ID))

		require.Equal(t, http.StatusOK, got.status, got.raw)
		require.Equal(t, "completed", got.body["status"])
		video, err := http.Get(got.body["result_url"].(string))
		require.NoError(t, err)
		defer video.Body.Close()
		bytes, err := io.ReadAll(video.Body)
		require.NoError(t, err)
		require.Equal(t, "a video", string(bytes))
	})

	t.Run("AnswersNotModified", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		for _, paths := range []string{videos, work} {
			job := a.Submit(t)
			path := paths + "/" + string(job.ID)
			tag := a.get(t, path).header.Get("ETag")
			require.NotEmpty(t, tag)

			same := a.ask(t, http.MethodGet, path, "", http.Header{"If-None-Match": {`"x", ` + tag}})
			require.Equal(t, http.StatusNotModified, same.status)
			require.Empty(t, same.raw)
			require.Equal(t, tag, same.header.Get("ETag"))
			_, err := a.Canceller.Cancel(t.Context(), a.Client, job.ID)
			require.NoError(t, err)
			other := a.ask(t, http.MethodGet, path, "", http.Header{"If-None-Match": {tag}})

			require.Equal(t, http.StatusOK, other.status)
			require.Equal(t, "cancelled", other.body["status"])
			require.NotEqual(t, tag, other.header.Get("ETag"))
		}
	})

	t.Run("AnswersNotModifiedThoughLinksAreSignedAgain", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.completed(t)
		for _, paths := range []string{videos, work} {
			path := paths + "/" + string(job.ID)
			same := func() bool {
				first, later := a.get(t, path), answer{}
				require.Contains(t, first.raw, "result_url")
				testrun.Eventually(t, "the video has changed", func() bool {
					later = a.get(t, path)
					return later.raw != first.raw
				})
				return first.header.Get("ETag") == later.header.Get("ETag")
			}
			if !same() { // the ETag's hour may end in between, but not twice
				require.True(t, same())
			}
		}
	})

	t.Run("HidesJobsOfOtherAccounts", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.completed(t)
		stranger, secret, err := a.Keys.Create(t.Context(), a.Admin, auth.NewKey{AccountID: a.NewAccount(t, "stranger", models.TierPro).ID,
			Role: access.RoleClient, Name: "stranger"})
		require.NoError(t, err)
		require.NotEmpty(t, stranger)
		for _, path := range []string{"/api/v1/jobs/", videos + "/"} {
			for _, rest := range []struct{ method, tail string }{{"GET", ""}, {"DELETE", ""}, {"GET", "/events"}, {"GET", "/video"},
				{"GET", "?wait=1"}} {
				if path != videos+"/" && strings.HasPrefix(rest.tail, "/") {
					continue
				}
				theirs := a.ask(t, rest.method, path+string(job.ID)+rest.tail, "", as(secret))
				absent := a.ask(t, rest.method, path+string(models.NewJobID())+rest.tail, "", nil)

				require.Equal(t, http.StatusNotFound, theirs.status, path+rest.tail)
				require.Equal(t, absent.raw, theirs.raw)
			}
		}
	})

	t.Run("RefusesStrangeIDs", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		for _, id := range []string{
			"x", "job_", "job_%00", "%2e%2e", "%2e%2e/%2e%2e/etc/passwd", "..%2f..%2fetc", "job_1;a=b", "%ff%fe", "job_' OR 1=1",
			strings.Repeat("a", 10_000), "/", "job_00000000-0000-0000-0000-000000000000/", "JOB_x", "art_0192f3c8-7a1e-7c3b-9f52-3f3a3c0f7a11",
		} {
			got := a.get(t, videos+"/"+strings.ReplaceAll(id, " ", "%20"))
			require.Equal(t, http.StatusNotFound, got.status, "%.40s: %s", id, got.raw)
			require.Equal(t, "NOT_FOUND", got.code())
			require.Less(t, len(got.raw), 300)
		}
	})
}

func TestCancelVideo(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	waiting, done := a.Submit(t), (*models.Job)(nil)
	got := a.ask(t, http.MethodDelete, videos+"/"+string(waiting.ID), "", nil)
	require.Equal(t, http.StatusOK, got.status, got.raw)
	require.Equal(t, "cancelled", got.body["status"])
	again := a.ask(t, http.MethodDelete, videos+"/"+string(waiting.ID), "", nil)
	require.Equal(t, http.StatusOK, again.status)

	running := a.Submit(t)
	worker := a.Worker(t, "one")
	_, fence := a.Lease(t, worker)
	asked := a.ask(t, http.MethodDelete, videos+"/"+string(running.ID), "", nil)
	require.Equal(t, http.StatusOK, asked.status)
	require.Equal(t, "assigned", asked.body["status"])
	require.Contains(t, asked.body["progress_message"], "cancelling")
	_, err := a.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
	require.NoError(t, err)
	require.Equal(t, "cancelled", a.get(t, videos+"/"+string(running.ID)).body["status"])

	a.Submit(t)
	_, fence = a.Lease(t, worker)
	done = a.finish(t, worker, fence)
	late := a.ask(t, http.MethodDelete, videos+"/"+string(done.ID), "", nil)
	require.Equal(t, http.StatusConflict, late.status)
	require.Equal(t, "CONFLICT", late.code())
}

func TestVideoLink(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	waiting := a.Submit(t)
	early := a.get(t, videos+"/"+string(waiting.ID)+"/video")
	require.Equal(t, http.StatusConflict, early.status)
	require.Contains(t, early.raw, "QUEUED")
	worker := a.Worker(t, "one")
	_, fence := a.Lease(t, worker)
	done := a.finish(t, worker, fence)

	link := a.ask(t, http.MethodGet, videos+"/"+string(done.ID)+"/video", "", http.Header{"Accept": {"video/mp4"}})
	require.Equal(t, http.StatusFound, link.status, link.raw)
	require.Equal(t, "no-store", link.header.Get("Cache-Control"))
	video, err := http.Get(link.header.Get("Location"))
	require.NoError(t, err)
	defer video.Body.Close()
	bytes, err := io.ReadAll(video.Body)
	require.NoError(t, err)
	require.Equal(t, "a video", string(bytes))

	_, err = a.Deleter.Delete(t.Context(), a.Client, done.ID)
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, a.get(t, videos+"/"+string(done.ID)+"/video").status)
	after := a.get(t, videos+"/"+string(done.ID))
	require.Equal(t, http.StatusOK, after.status)
	require.Nil(t, after.body["result_url"])
	jobstest.RequireCode(t, func() error { _, err := a.Reads.Jobs.Video(t.Context(), a.Client, done.ID); return err }(), "NOT_FOUND")
}
