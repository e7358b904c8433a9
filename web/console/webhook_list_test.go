package console

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestWebhookPages(t *testing.T) {
	t.Parallel()

	t.Run("ManageABucket", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		s3, err := localstack.StartS3(t.Context(), localstack.S3Config{Dir: t.TempDir(), Bucket: "films"})
		require.NoError(t, err)
		t.Cleanup(func() { s3.Stop(context.Background()) })
		access, secret := s3.Keys()
		form := url.Values{
			"id": {string(models.NewWebhookEndpointID())}, "url": {"s3://films/raw/?endpoint=" + s3.Endpoint()}, "accessKey": {access},
			"secretKey": {"hunter2"},
		}
		require.Contains(t, b.get(t, "/webhooks/bucket").Body, "Test and create")

		bad := b.post(t, "/webhooks/bucket", form)
		form.Set("secretKey", secret)
		made := b.post(t, "/webhooks/bucket", form)

		require.Equal(t, http.StatusUnprocessableEntity, bad.Status)
		require.Contains(t, bad.Body, "the secret key is wrong")
		require.Contains(t, bad.Body, `value="`+access+`"`, "what was typed stays")
		require.NotContains(t, bad.Body, "hunter2")
		path := made.Header.Get("Location")
		require.Regexp(t, `^/webhooks/whk_`, path)
		page := b.get(t, path).Body
		require.Contains(t, page, path+"/keys")
		require.NotContains(t, page, path+"/rotate")
		require.Contains(t, b.get(t, path+"/keys").Body, "Replace keys")
		wrong := url.Values{"accessKey": {access}, "secretKey": {"hunter2"}}
		require.Equal(t, http.StatusUnprocessableEntity, b.post(t, path+"/keys", wrong).Status)
		require.Equal(t, path, b.post(t, path+"/keys", url.Values{"accessKey": {access}, "secretKey": {secret}}).Header.Get("Location"))
	})

	t.Run("ManageAnEndpoint", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
		t.Cleanup(answers.Close)
		require.Contains(t, b.get(t, "/webhooks").Body, "No endpoints.")
		bad := b.post(t, "/webhooks/new", url.Values{"id": {string(models.NewWebhookEndpointID())}, "url": {"ftp://<b>"}, "format": {"STANDARD"}})
		require.Equal(t, http.StatusUnprocessableEntity, bad.Status)
		require.Contains(t, bad.Body, `value="ftp://&lt;b&gt;"`, "what was typed stays")

		made := b.post(t, "/webhooks/new", url.Values{"id": {string(models.NewWebhookEndpointID())}, "url": {answers.URL + "/?<script>"},
			"format": {"STANDARD"}})

		require.Contains(t, made.Body, "shown only once")
		secret := regexp.MustCompile(`whsec_[^<"]+`).FindString(made.Body)
		require.NotEmpty(t, secret)
		list := b.get(t, "/webhooks").Body
		require.NotContains(t, list, secret)
		require.NotContains(t, list, "?<script>")
		path := regexp.MustCompile(`/webhooks/whk_[^"]+`).FindString(list)

		require.Equal(t, path, b.post(t, path+"/test", nil).Header.Get("Location"))
		_, err := b.Deliverer.Pass(t.Context())
		require.NoError(t, err)
		page := b.get(t, path).Body
		require.Contains(t, page, "status 418")
		redeliver := regexp.MustCompile(`/webhooks/deliveries/[^"]+`).FindString(page)
		require.Equal(t, path, b.post(t, redeliver, url.Values{"back": {"endpoint"}}).Header.Get("Location"))
		require.Contains(t, b.get(t, path+"/rotate").Body, "24 hours")
		require.NotContains(t, b.post(t, path+"/rotate", nil).Body, secret)

		require.Contains(t, b.get(t, path+"/disable").Body, "until it is enabled again")
		for range 2 {
			require.Equal(t, path, b.post(t, path+"/disable", nil).Header.Get("Location"), "a second click is harmless")
		}
		off := b.get(t, path).Body
		require.Contains(t, off, "It was disabled by hand.")
		require.NotContains(t, off, path+"/test")
		require.Equal(t, http.StatusConflict, b.post(t, path+"/test", nil).Status)
		require.Equal(t, path, b.post(t, path+"/enable", nil).Header.Get("Location"))
		require.NotContains(t, b.get(t, path).Body, "Disabled.")

		for range 2 {
			require.Equal(t, "/webhooks", b.post(t, path+"/delete", nil).Header.Get("Location"), "a second click is harmless")
		}
		require.Equal(t, http.StatusNotFound, b.get(t, path).Status)
	})
}

func TestGallery(t *testing.T) {
	t.Parallel()

	t.Run("ShowsFinishedVideosOnly", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job, worker, fence := b.resumed(t)
		b.complete(t, worker, fence)
		waiting := b.Submit(t)

		got := b.get(t, "/gallery?within=24h&model=testcard").Body

		require.Contains(t, got, `href="/jobs/`+string(job.ID)+`/video"`)
		require.NotContains(t, got, string(waiting.ID))
		require.Contains(t, got, `id="`+string(job.ID)+`" data-row`, "the keys j and k move over it")
		require.Contains(t, b.get(t, "/gallery?account="+url.QueryEscape(b.Account.Name)).Body, `href="/jobs/`+string(job.ID)+`/video"`)
		for name, account := range map[string]string{"unknown": "nobody", "hostile": `<b>" status:failed`, "long": strings.Repeat("x", 300)} {
			refused := b.get(t, "/gallery?account="+url.QueryEscape(account))
			require.NotContains(t, refused.Body, string(job.ID), name)
			require.NotContains(t, refused.Body, "<b>", name)
			require.Less(t, refused.Status, http.StatusInternalServerError, name)
		}
		require.Contains(t, b.get(t, "/gallery?user=nobody").Body, "No finished videos match.")
	})
}

func TestJobForm(t *testing.T) {
	t.Parallel()

	soon := time.Now().UTC().AddDate(0, 0, 2).Format("2006-01-02T15:04")
	full := url.Values{
		"model": {"testcard"}, "prompt": {"<b>fog"}, "priority": {"7"}, "userId": {"u-1"}, "metadata": {`{"campaign": "<i>"}`},
		"maxAttempts":    {"2"},
		"timeoutSeconds": {"600"}, "callbackUrl": {"https://example.com/told"}, "runAt": {"2026-01-01T00:00"}, "idempotencyKey": {"once"},
		"backoff": {"FIXED"}, "retry.initialDelaySeconds": {"2.5"}, "retry.maxDelaySeconds": {"60"}, "finishBy": {soon},
		"takes": {"1"}, "draftSteps": {"30"},
	}

	t.Run("SubmitsTheRareFieldsAndClonesThem", func(t *testing.T) {
		t.Parallel()

		b := operator(t)

		got := b.post(t, "/jobs/new", full)

		require.Equal(t, http.StatusSeeOther, got.Status, got.Body)
		made := b.jobs(t)[0]
		require.Equal(t, 30, made.DraftSteps)
		require.Equal(t, []any{7, "u-1", 2, 600, "https://example.com/told", "once#1"},
			[]any{made.Priority, made.UserID, made.MaxAttempts, made.TimeoutSeconds, made.CallbackURL, made.IdempotencyKey})
		clone := b.get(t, "/jobs/new?from="+string(made.ID)).Body
		require.Contains(t, clone, `&lt;b&gt;fog</textarea>`)
		require.Regexp(t, `name="priority"[^>]* value="7"`, clone)
		require.Contains(t, clone, "&lt;i&gt;")
		for name, value := range map[string]string{"retry.initialDelaySeconds": "2.5", "retry.maxDelaySeconds": "60", "finishBy": soon,
			"draftSteps": "30", "takes": "1", "runAt": ""} {
			require.Regexp(t, `name="`+name+`"[^>]* value="`+value+`"`, clone)
		}
		require.Contains(t, clone, `<option value="FIXED" selected>`)
		require.NotContains(t, clone, `value="once"`, "a clone has a key of its own")
	})

	t.Run("EstimatesWithoutASubmit", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		form := url.Values{"model": {"testcard"}, "prompt": {"fog"}, "estimate": {"1"}}

		page := b.post(t, "/jobs/new", form)

		require.Equal(t, http.StatusOK, page.Status)
		require.Contains(t, page.Body, "Renders for about")
		require.Contains(t, page.Body, "fog</textarea>")
		require.Contains(t, b.post(t, "/jobs/estimate", form).Body, "Starts in about")
		require.Empty(t, b.jobs(t))
	})

	t.Run("SaysWhatIsWrongBesideARareField", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		for name, value := range map[string]string{"priority": "x", "runAt": "soon", "metadata": "{", "dependsOn": string(models.NewJobID()),
			"callbackUrl": "ftp://x"} {
			form := url.Values{"model": {"testcard"}, "prompt": {"fog"}, name: {value}}
			got := b.post(t, "/jobs/new", form)
			require.Equal(t, http.StatusUnprocessableEntity, got.Status, name)
			require.Contains(t, got.Body, `id="`+name+`-error"`, name)
			require.True(t, strings.Contains(got.Body, "<details class=\"extras\" open>"), name)
		}
	})
}
