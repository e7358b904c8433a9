//lint:file-ignore SA1019 the package calls its videos deprecated since OpenAI serves them no more; Reelay does

package videos_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/upkeep"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/videos"
	"github.com/stretchr/testify/require"
)

func TestList(t *testing.T) {
	t.Parallel()

	t.Run("IsPagedByTheOfficialClient", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		var made []string
		for i := range 5 {
			made = append(made, d.create(t, fmt.Sprintf(`{"prompt": "video %d"}`, i)))
		}
		job := d.Submit(t) // over another API
		made = append(made, models.VideoID(job.ID))
		client := d.official()

		var ascending, descending []string
		up := client.Videos.ListAutoPaging(t.Context(), openai.VideoListParams{Limit: openai.Int(2), Order: openai.VideoListParamsOrderAsc})
		for up.Next() {
			ascending = append(ascending, up.Current().ID)
		}
		require.NoError(t, up.Err())
		down := client.Videos.ListAutoPaging(t.Context(), openai.VideoListParams{Limit: openai.Int(4)})
		for down.Next() {
			descending = append([]string{down.Current().ID}, descending...)
		}
		require.NoError(t, down.Err())

		require.Equal(t, made, ascending)
		require.Equal(t, made, descending)
	})

	t.Run("ShowsNoDrafts", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		draft := jobstest.SubmitAs(t, d.Stack, d.Client, func(in *submit.Submission) { in.Draft = &submit.Draft{Steps: 6} })

		require.Empty(t, d.get(t, "/v1/videos").Body["data"])
		require.Equal(t, http.StatusNotFound, d.get(t, "/v1/videos/"+models.VideoID(draft.ID)).Status)
	})

	t.Run("HasFirstAndLastID", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		empty := d.get(t, "/v1/videos")
		require.Equal(t, map[string]any{"object": "list", "data": []any{}, "first_id": nil, "last_id": nil, "has_more": false}, empty.Body)
		first, second := d.create(t, `{"prompt": "1"}`), d.create(t, `{"prompt": "2"}`)

		got := d.get(t, "/v1/videos?limit=1")
		require.Equal(t, []any{second, second, true}, []any{got.Body["first_id"], got.Body["last_id"], got.Body["has_more"]})
		got = d.get(t, "/v1/videos?limit=1&after="+second)
		require.Equal(t, []any{first, first, false}, []any{got.Body["first_id"], got.Body["last_id"], got.Body["has_more"]})
		got = d.get(t, "/v1/videos?limit=0")
		require.Equal(t, []any{nil, true}, []any{got.Body["last_id"], got.Body["has_more"]})
	})

	t.Run("ContinuesAfterADeletedVideo", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		first, second := d.create(t, `{"prompt": "1"}`), d.create(t, `{"prompt": "2"}`)
		require.Equal(t, http.StatusOK, d.do(t, http.MethodDelete, "/v1/videos/"+second, "", nil).Status)

		require.Equal(t, first, d.get(t, "/v1/videos?after="+second).Body["first_id"])
	})

	t.Run("RefusesInvalidInput", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		for query, param := range map[string]string{
			"limit=101": "limit", "limit=-1": "limit", "limit=x": "limit", "limit=99999999999999999999": "limit", "order=up": "order",
			"after=video_1": "after", "after=" + string(models.NewJobID()): "after", "after=%00": "after",
		} {
			got := d.get(t, "/v1/videos?"+query)
			require.Equal(t, http.StatusBadRequest, got.Status, query)
			requireError(t, got, "invalid_request_error", "invalid_value", param)
		}
		require.Equal(t, http.StatusNotFound, d.get(t, "/v1/videos?after="+models.VideoID(models.NewJobID())).Status)
	})
}

func TestDelete(t *testing.T) {
	t.Parallel()

	t.Run("DeletesACompletedVideo", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		id := d.create(t, boat)
		d.render(t)
		client := d.official()

		got, err := client.Videos.Delete(t.Context(), id)

		require.NoError(t, err)
		require.True(t, got.Deleted)
		require.Equal(t, id, got.ID)
		d.requireGone(t, id)
		require.False(t, d.Reload(t, jobID(t, id)).DeletedAt.IsZero())
		require.Equal(t, http.StatusNotFound, d.do(t, http.MethodDelete, "/v1/videos/"+id, "", nil).Status)
	})

	t.Run("CancelsAWaitingVideoFirst", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		id := d.create(t, boat)

		got := d.do(t, http.MethodDelete, "/v1/videos/"+id, "", nil)

		require.Equal(t, map[string]any{"id": id, "object": "video.deleted", "deleted": true}, got.Body)
		d.requireGone(t, id)
		require.False(t, d.Reload(t, jobID(t, id)).DeletedAt.IsZero())
	})

	t.Run("HidesARunningVideoAndDeletesItOnceItHasEnded", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		id := d.create(t, boat)
		worker := d.Worker(t, "one")
		_, fence := d.Lease(t, worker)

		got := d.do(t, http.MethodDelete, "/v1/videos/"+id, "", nil)

		require.Equal(t, true, got.Body["deleted"])
		d.requireGone(t, id)
		require.False(t, d.Reload(t, jobID(t, id)).CancelRequestedAt.IsZero())
		n, err := d.Videos.Sweep(t.Context())
		require.NoError(t, err)
		require.Zero(t, n, "its worker was told, and has yet to stop")
		_, err = d.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
		require.NoError(t, err)
		n, err = d.Videos.Sweep(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.False(t, d.Reload(t, jobID(t, id)).DeletedAt.IsZero())
		n, err = d.Videos.Sweep(t.Context())
		require.NoError(t, err)
		require.Zero(t, n)
		d.RequireInvariants(t)
	})

	t.Run("IsFinishedByTheSweepAfterACrash", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		id := d.create(t, boat)
		require.NoError(t, models.AskVideoDeleted(t.Context(), d.DB, jobID(t, id)))
		d.requireGone(t, id)

		_, err := d.Videos.Sweep(t.Context())

		require.NoError(t, err)
		job := d.Reload(t, jobID(t, id))
		require.Equal(t, models.JobCancelled, job.Status)
		require.False(t, job.DeletedAt.IsZero())
	})
}

// requireGone fails the test if any endpoint still shows the video.
func (d *desk) requireGone(t *testing.T, id string) {
	t.Helper()
	got := d.get(t, "/v1/videos/"+id)
	require.Equal(t, http.StatusNotFound, got.Status, got.Text)
	requireError(t, got, "invalid_request_error", "not_found", "")
	require.Equal(t, http.StatusNotFound, d.get(t, "/v1/videos/"+id+"/content").Status)
	require.NotContains(t, d.get(t, "/v1/videos").Text, id)
}

func TestContent(t *testing.T) {
	t.Parallel()

	t.Run("RedirectsToALinkThatNeedsNoKey", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		id := d.create(t, boat)
		d.render(t)
		client := d.official()

		for variant, want := range map[openai.VideoDownloadContentParamsVariant]string{
			"": "a video", openai.VideoDownloadContentParamsVariantVideo: "a video", openai.VideoDownloadContentParamsVariantThumbnail: "a picture",
		} {
			res, err := client.Videos.DownloadContent(t.Context(), id, openai.VideoDownloadContentParams{Variant: variant})
			require.NoError(t, err)
			data, err := io.ReadAll(res.Body)
			res.Body.Close()
			require.NoError(t, err)
			require.Equal(t, want, string(data))
		}

		for _, accept := range []string{"application/binary", "application/json, image/webp, video/mp4", "text/html"} {
			got := d.do(t, http.MethodGet, "/v1/videos/"+id+"/content", "", nil, "Accept", accept)
			require.Equal(t, http.StatusFound, got.Status)
			require.Empty(t, got.Text)
			res, err := http.Get(d.url + got.Header.Get("Location"))
			require.NoError(t, err)
			res.Body.Close()
			require.Equal(t, http.StatusOK, res.StatusCode)
			require.Equal(t, "video/mp4", res.Header.Get("Content-Type"))
		}
	})

	t.Run("IsMissingBeforeTheEnd", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		id := d.create(t, boat)

		got := d.get(t, "/v1/videos/"+id+"/content")

		require.Equal(t, http.StatusNotFound, got.Status, "not 409: clients would try again at once")
		require.Contains(t, got.err()["message"], "Video is not ready yet")
		requireError(t, got, "invalid_request_error", "video_not_ready", "")
		_, err := d.Canceller.Cancel(t.Context(), d.Client, jobID(t, id))
		require.NoError(t, err)
		requireError(t, d.get(t, "/v1/videos/"+id+"/content"), "invalid_request_error", "video_failed", "")
	})

	t.Run("ReportsMissingVariants", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		id := d.create(t, boat)
		d.render(t)

		got := d.get(t, "/v1/videos/"+id+"/content?variant=spritesheet")
		require.Equal(t, http.StatusNotFound, got.Status)
		requireError(t, got, "invalid_request_error", "variant_not_found", "")
		got = d.get(t, "/v1/videos/"+id+"/content?variant=gif")
		require.Equal(t, http.StatusBadRequest, got.Status)
		requireError(t, got, "invalid_request_error", "invalid_value", "variant")

		shown := d.get(t, "/v1/videos/"+id).Body
		require.Equal(t, shown["completed_at"].(float64)+upkeep.DefaultRetention.Videos.Seconds(), shown["expires_at"])
		d.Exec(t, "UPDATE artifacts SET review_at = '-infinity'")
		d.Exec(t, "UPDATE jobs SET created_at = created_at - interval '31 days', completed_at = completed_at - interval '31 days'")
		_, err := d.Upkeep.ReviewArtifacts(t.Context())
		require.NoError(t, err)
		requireError(t, d.get(t, "/v1/videos/"+id+"/content"), "invalid_request_error", "video_expired", "")
	})
}

func TestRoutes(t *testing.T) {
	t.Parallel()

	t.Run("AnswerErrorsInTheEnvelope", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		id := d.create(t, boat)
		for request, want := range map[string]struct {
			status int
			code   string
		}{
			"GET /v1/":                                    {404, "unknown_url"},
			"GET /v1/videos?api_key=x":                    {400, "invalid_value"},
			"GET /v1/videos?after=rl_live_x":              {400, "invalid_value"},
			"GET /v1/chat/completions":                    {404, "unknown_url"},
			"GET /v1/videos/":                             {404, "not_found"},
			"GET /v1/videos/video_1":                      {404, "not_found"},
			"GET /v1/videos/" + id + "/x":                 {404, "unknown_url"},
			"GET /v1/videos/" + id + "/content/x":         {404, "unknown_url"},
			"PUT /v1/videos":                              {405, "method_not_supported"},
			"PATCH /v1/videos/" + id:                      {405, "method_not_supported"},
			"GET /v1/videos/" + id + "/remix":             {405, "method_not_supported"},
			"POST /v1/videos/edits":                       {404, "not_supported"},
			"POST /v1/videos/extensions":                  {404, "not_supported"},
			"POST /v1/videos/characters":                  {404, "not_supported"},
			"GET /v1/videos/characters/char_1":            {404, "not_supported"},
			"GET /v1/videos/edits":                        {405, "method_not_supported"},
			"GET /v1/videos/characters/" + id + "/":       {404, "unknown_url"},
			"GET /v1/videos/%2e%2e%2fmodels":              {404, "unknown_url"},
			"GET /v1/videos/" + strings.Repeat("a", 5000): {404, "not_found"},
			"GET /v1" + strings.Repeat("/x", 5000):        {404, "unknown_url"},
			"GET /v1/videos/" + id + ";a=b":               {404, "not_found"},
			"GET /v1/videos/" + id + "%00":                {404, "not_found"},
			"BREW /v1/videos":                             {405, "method_not_supported"},
			"OPTIONS /v1/videos":                          {405, "method_not_supported"},
		} {
			method, path, _ := strings.Cut(request, " ")

			got := d.do(t, method, path, "", nil, "X-HTTP-Method-Override", "DELETE")

			require.Equal(t, want.status, got.Status, "%.80s %s", request, got.Text)
			requireError(t, got, "invalid_request_error", want.code, "")
			require.Less(t, len(got.Text), 500, "it repeats no long input")
		}
		require.Equal(t, http.StatusOK, d.do(t, http.MethodHead, "/v1/videos/"+id, "", nil).Status)
		require.Equal(t, "GET, POST", d.do(t, http.MethodPut, "/v1/videos", "", nil).Header.Get("Allow"))
	})

	t.Run("AnswerAPanic", func(t *testing.T) {
		t.Parallel()

		api := videos.New(videos.Config{Authenticate: func(context.Context, string) (jobs.Principal, error) { panic("a canary") }})
		answer := httptest.NewRecorder()

		api.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/v1/models", nil))

		require.Equal(t, http.StatusInternalServerError, answer.Code)
		require.Contains(t, answer.Body.String(), `"type":"server_error"`)
		require.Regexp(t, "^req_", answer.Header().Get("X-Request-Id"))
		require.NotContains(t, answer.Body.String(), "canary")
	})

	t.Run("CloseTheConnectionAfterAPanicInTheBody", func(t *testing.T) {
		t.Parallel()

		api := videos.New(videos.Config{Authenticate: func(context.Context, string) (jobs.Principal, error) {
			return jobs.Principal{},
				errors.New("no")
		}})

		require.PanicsWithValue(t, http.ErrAbortHandler, func() {
			api.ServeHTTP(brokenPipe{httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, "/v1/models", nil))
		})
	})

	t.Run("AcceptAClientsKey", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		id := d.create(t, boat)
		for _, authorization := range []string{"", "Bearer", "Bearer rl_unknown", "Basic " + d.Secrets[access.RoleClient],
			d.Secrets[access.RoleClient]} {
			got := d.do(t, http.MethodGet, "/v1/videos/"+id, "", nil, "Authorization", authorization)
			require.Equal(t, http.StatusUnauthorized, got.Status, authorization)
			requireError(t, got, "invalid_request_error", "invalid_api_key", "")
			message := got.err()["message"]
			require.Contains(t, message, "OPENAI_API_KEY")
			require.NotContains(t, message, "header", "OpenAI's clients write it")
		}
		got := d.do(t, http.MethodGet, "/v1/videos", "", nil, "Authorization", "Bearer "+d.Secrets[access.RoleWorker])
		require.Equal(t, http.StatusForbidden, got.Status)
		requireError(t, got, "invalid_request_error", "insufficient_permissions", "")
	})

	t.Run("AcceptOnlyOneKey", func(t *testing.T) {
		t.Parallel()
		request := httptest.NewRequest(http.MethodGet, "/v1/videos", nil)
		request.Header["Authorization"] = []string{"Bearer a", "Bearer b"}
		answer := httptest.NewRecorder()

		videos.New(videos.Config{}).ServeHTTP(answer, request)

		require.Equal(t, http.StatusBadRequest, answer.Code)
		require.Contains(t, answer.Body.String(), "has the header Authorization twice")
	})

	t.Run("HideOtherAccountsVideos", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		id := d.create(t, boat)
		d.render(t)
		_, stranger, err := d.Keys.Create(t.Context(), jobs.Host, auth.NewKey{AccountID: d.NewAccount(t, "other", models.TierPro).ID,
			Role: access.RoleClient, Name: "other"})
		require.NoError(t, err)
		unknown := models.VideoID(models.NewJobID())
		for _, secret := range []string{stranger, d.Secrets[access.RoleOperator]} {
			for _, request := range []string{"GET /v1/videos/%s", "DELETE /v1/videos/%s", "GET /v1/videos/%s/content", "POST /v1/videos/%s/remix",
				"GET /v1/videos?after=%s"} {
				ask := func(id string) answer {
					method, path, _ := strings.Cut(fmt.Sprintf(request, id), " ")
					body := ""
					if method == http.MethodPost {
						body = boat
					}
					return d.do(t, method, path, "application/json", strings.NewReader(body), "Authorization", "Bearer "+secret)
				}

				got := ask(id)

				require.Equal(t, http.StatusNotFound, got.Status, request)
				require.Equal(t, strings.ReplaceAll(ask(unknown).Text, unknown, id), got.Text, "as an unknown one")
			}
		}
		require.Equal(t, http.StatusOK, d.get(t, "/v1/videos/"+id).Status)
	})

	t.Run("ListTheModels", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		client := d.official()

		page, err := client.Models.List(t.Context())

		require.NoError(t, err)
		var names []string
		for _, m := range page.Data {
			names = append(names, m.ID)
		}
		require.Equal(t, []string{"sora-2", "sora-2-pro", "testcard", "drill", "ltx-video", "ltx-image", "wan-1.3b", "wan-image-14b"}, names)
		one, err := client.Models.Get(t.Context(), "sora-2-2025-10-06")
		require.NoError(t, err)
		require.Equal(t, "sora-2-2025-10-06", one.ID)
		require.Equal(t, http.StatusNotFound, d.get(t, "/v1/models/gpt-5").Status)
	})
}

// brokenPipe panics on a write.
type brokenPipe struct{ http.ResponseWriter }

func (brokenPipe) Write([]byte) (int, error) { panic("a canary") }

func TestReadShares(t *testing.T) {
	t.Parallel()

	d := open(t)
	d.BeginReads(t, d.Client)

	got := d.get(t, "/v1/videos")

	require.Equal(t, http.StatusTooManyRequests, got.Status)
	require.Equal(t, "rate_limit_exceeded", got.err()["code"])
	require.Equal(t, "1", got.Header.Get("Retry-After"))
}
