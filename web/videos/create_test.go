//lint:file-ignore SA1019 the package calls its videos deprecated since OpenAI serves them no more; Reelay does

package videos_test

import (
	"context"
	"encoding/json"
	"image/color"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestCreate(t *testing.T) {
	t.Parallel()

	t.Run("AcceptsTheOfficialClientsMultipart", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		client := d.official()

		v, err := client.Videos.New(t.Context(), openai.VideoNewParams{
			Prompt: "a paper boat", Model: openai.VideoModelSora2Pro, Seconds: openai.VideoSeconds8, Size: openai.VideoSize1792x1024,
		})

		require.NoError(t, err)
		require.Equal(t, openai.VideoStatusQueued, v.Status)
		require.Equal(t, "sora-2-pro", string(v.Model))
		require.Equal(t, "8", string(v.Seconds))
		require.Equal(t, "1792x1024", string(v.Size))
		job := d.Reload(t, jobID(t, v.ID))
		require.Equal(t, "testcard", job.Model)
		require.JSONEq(t, `{"durationSeconds": 8, "size": "1792x1024", "resolution": "480p", "aspectRatio": "16:9", "fps": 24, "seed": 0, "pace": 1}`, string(job.Params))
		d.RequireInvariants(t)
	})

	t.Run("ReturnsEveryKey", func(t *testing.T) {
		t.Parallel()

		d := open(t)

		got := d.json(t, "/v1/videos", `{"prompt": "a paper boat", "seconds": 8}`)

		require.Equal(t, http.StatusOK, got.Status, got.Text)
		job := d.Reload(t, jobID(t, got.Body["id"].(string)))
		require.Equal(t, map[string]any{
			"id": models.VideoID(job.ID), "object": "video", "model": "sora-2", "status": "queued", "progress": 0.0,
			"created_at": float64(job.CreatedAt.Unix()), "completed_at": nil, "expires_at": nil, "prompt": "a paper boat",
			"size": "720x1280", "seconds": "8", "remixed_from_video_id": nil, "error": nil,
		}, got.Body)
		require.Equal(t, "500", got.Header.Get("Openai-Poll-After-Ms"))
		require.JSONEq(t, `{"durationSeconds": 8, "resolution": "720p", "aspectRatio": "9:16", "fps": 24, "seed": 0, "pace": 1}`,
			string(job.Params))
	})

	t.Run("AcceptsMultipartWithoutALength", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		contentType, body := form(t, "prompt", "a paper boat", "model", "sora-2-2025-12-08", "seconds", "12", "size", "1080x1920")

		got := d.do(t, http.MethodPost, "/v1/videos", contentType, io.MultiReader(body))

		require.Equal(t, http.StatusOK, got.Status, got.Text)
		require.Equal(t, "sora-2-2025-12-08", got.Body["model"])
		require.Equal(t, "12", got.Body["seconds"])
		require.Equal(t, "1080x1920", got.Body["size"])
	})

	t.Run("SuggestsAPollIntervalForTheJobsLength", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		id := d.create(t, `{"prompt": "a paper boat"}`)
		d.Exec(t, "UPDATE jobs SET estimated_gpu_seconds = 60")
		require.Equal(t, "3000", d.get(t, "/v1/videos/"+id).Header.Get("Openai-Poll-After-Ms"))
		d.Exec(t, "UPDATE jobs SET estimated_gpu_seconds = 1e300")
		require.Equal(t, "5000", d.get(t, "/v1/videos/"+id).Header.Get("Openai-Poll-After-Ms"))
	})

	t.Run("RefusesInvalidFieldsAndNamesThem", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		for body, want := range map[string]struct{ code, param, says string }{
			`{}`:              {"missing_required_parameter", "prompt", "'prompt'"},
			`{"prompt": ""}`:  {"missing_required_parameter", "prompt", "'prompt'"},
			`{"prompt": " "}`: {"invalid_value", "prompt", "empty"},
			`{"prompt": 5}`: {"invalid_type", "prompt",
				"Invalid type for 'prompt': expected a string, but got a number instead."},
			`{"prompt": "x", "model": "sora-3"}`: {"model_not_found", "model",
				"did you mean \"sora-2\"? Supported models are: sora-2, sora-2-pro, testcard, drill, ltx-video, ltx-image, wan-1.3b, wan-image-14b"},
			`{"prompt": "x", "model": ["sora-2"]}`: {"invalid_type", "model", "an array"},
			`{"prompt": "x", "seconds": "10"}`: {"invalid_value", "seconds",
				"Invalid value: '10'. Supported values are: '4', '8', '12', '16', and '20'."},
			`{"prompt": "x", "seconds": 4.5}`:                       {"invalid_value", "seconds", "'4.5'"},
			`{"prompt": "x", "seconds": true}`:                      {"invalid_type", "seconds", "a boolean"},
			`{"prompt": "x", "size": "64x64"}`:                      {"invalid_value", "size", "'1920x1080'"},
			`{"prompt": "x", "model": "drill", "size": "720x1280"}`: {"invalid_value", "size", "has no such setting"},
			`{"prompt": "x", "fps": 24}`:                            {"unknown_parameter", "fps", "Unknown parameter: 'fps'"},
			`{"prompt": "x", "characters": [{"id": "char_1"}]}`:     {"not_supported", "characters", "characters"},
			`{"prompt": "x", "input_reference": "a.png"}`: {"invalid_type", "input_reference",
				"Invalid type for 'input_reference': expected a file, but got a string instead."},
			`{"prompt": "x", "input_reference": {}}`: {"invalid_value", "input_reference", "exactly one"},
			`{"prompt": "x", "input_reference": {"file_id": "a", "image_url": "b"}}`: {"invalid_value",
				"input_reference", "exactly one"},
			`{"prompt": "x", "input_reference": {"image_url": "data:image/png;base64,%"}}`: {"invalid_value",
				"input_reference", "malformed"},
			`{"prompt": "x", "input_reference": {"image_url": "data:image/jpeg;base64,AAAAGGZ0eXBoZWljAAAAAG1pZjFoZWlj"}}`: {"unsupported_file",
				"input_reference", "HEIC: convert it to JPEG, PNG or WebP"},
			`{"prompt": "x", "input_reference": {"image_url": "data:text/html;base64,PGI+"}}`: {"unsupported_file",
				"input_reference", "text/html"},
			`{"prompt": "` + strings.Repeat("x", 10_001) + `"}`: {"invalid_value",
				"prompt", "10000"},
			`{"prompt": "` + strings.Repeat("🎬", 10_000) + `x"}`: {"invalid_value",
				"prompt", "40000 bytes"},
			`{"prompt": "x \ud800"}`:                      {"invalid_json", "", "half of a character"},
			"{\"prompt\": \"x \xff\"}":                    {"invalid_json", "", "UTF-8"},
			`{"prompt": "x", "prompt": "y"}`:              {"duplicate_parameter", "prompt", "the key prompt twice"},
			`{"prompt": "x", "p": {"a": 1, "\u0061": 2}}`: {"duplicate_parameter", "p.a", "the key p.a twice"},
			`{"prompt": "x", "p": ` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`: {"invalid_json", "", "levels deep"},
			`{"prompt": "x"} {}`: {"invalid_json", "", "JSON"},
			`null`:               {"invalid_json", "", "JSON"},
			`[`:                  {"invalid_json", "", "JSON"},
		} {
			got := d.json(t, "/v1/videos", body)

			require.Equal(t, http.StatusBadRequest, got.Status, "%.100s: %s", body, got.Text)
			requireError(t, got, "invalid_request_error", want.code, want.param)
			require.Contains(t, got.err()["message"], want.says)
		}
		require.Zero(t, d.Count(t, "jobs"))
	})

	t.Run("PassesParametersOfTheModelOn", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		contentType, nested := form(t, "prompt", "a boat", "params[fps]", "12", "params[style]", "7", "params[resolution]", "480p")
		formType, text := form(t, "prompt", "a boat", "params", `{"fps": 12, "style": "7", "resolution": "480p"}`)
		for name, got := range map[string]answer{
			"JSON":               d.json(t, "/v1/videos", `{"prompt": "a boat", "params": {"fps": 12, "style": "7", "resolution": "480p"}}`),
			"a form with keys":   d.do(t, http.MethodPost, "/v1/videos", contentType, nested),
			"a form with a text": d.do(t, http.MethodPost, "/v1/videos", formType, text),
		} {
			require.Equal(t, http.StatusOK, got.Status, got.Text)
			var params map[string]any
			require.NoError(t, json.Unmarshal(d.Reload(t, jobID(t, got.Body["id"].(string))).Params, &params))
			require.InDelta(t, 12, params["fps"], 0, name)
			require.Equal(t, "7", params["style"], name)
			require.Equal(t, "480p", params["resolution"], "not the default of the API: %s", name)
			require.InDelta(t, 4, params["durationSeconds"], 0, name)
		}
		for body, want := range map[string]struct{ code, param, says string }{
			`{"prompt": "x", "params": {"fsp": 1}}`: {"invalid_value", "params.fsp",
				`Unknown parameter "fsp"; did you mean "fps"?`},
			`{"prompt": "x", "params": {"fps": 99}}`: {"invalid_value", "params.fps", "at most"},
			`{"prompt": "x", "params": {"durationSeconds": 1e9}}`: {"invalid_value", "params.durationSeconds",
				"params.durationSeconds"},
			`{"prompt": "x", "params": [1]}`: {"invalid_type", "params",
				"expected an object, but got an array instead"},
			`{"prompt": "x", "params": "{}"}`:                                       {"invalid_type", "params", "expected an object"},
			`{"prompt": "x", "seconds": "8", "params": {"durationSeconds": 8}}`:     {"invalid_value", "params.durationSeconds", "send one of them"},
			`{"prompt": "x", "size": "1280x720", "params": {"resolution": "720p"}}`: {"invalid_value", "params.resolution", "send one of them"},
			`{"prompt": "x", "promt": "y"}`:                                         {"unknown_parameter", "promt", `did you mean "prompt"?`},
		} {
			got := d.json(t, "/v1/videos", body)

			requireError(t, got, "invalid_request_error", want.code, want.param)
			require.Contains(t, got.err()["message"], want.says)
		}
	})

	t.Run("ReusesTheResultOfAnEqualVideo", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		d.json(t, "/v1/videos", `{"prompt": "a boat", "reuse": false}`)
		first := jobstest.CompleteNext(t, d.Stack, d.Worker(t, "one"))
		contentType, body := form(t, "prompt", "a boat", "reuse", "true")

		for _, got := range []answer{d.json(t, "/v1/videos", `{"prompt": "a boat", "reuse": true}`), d.do(t, http.MethodPost, "/v1/videos", contentType, body)} {
			require.Equal(t, http.StatusOK, got.Status, got.Text)
			require.Equal(t, "completed", got.Body["status"])
			require.NotEqual(t, first.ID, jobID(t, got.Body["id"].(string)))
			require.NotEmpty(t, d.Reload(t, jobID(t, got.Body["id"].(string))).ReusedFrom)
		}
		for _, bad := range []string{`"true"`, `1`, `{}`} {
			requireError(t, d.json(t, "/v1/videos", `{"prompt": "a boat", "reuse": `+bad+`}`), "invalid_request_error", "invalid_type", "reuse")
		}
	})

	t.Run("RefusesInvalidMultipart", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		for name, pairs := range map[string][]string{
			"duplicate_parameter": {"prompt", "x", "prompt", "y"},
			"invalid_parameter":   {"prompt", "x", "input_reference[a", "y"},
			"not_supported":       {"prompt", "x", "characters[][id]", "char_1", "characters[][id]", "char_2"},
			"unknown_parameter":   {"prompt", "x", "input_reference[path]", "/etc/passwd"},
			"invalid_multipart":   strings.Split(strings.Repeat("x,y,", 65)+"x,y", ","),
		} {
			if name == "invalid_multipart" {
				for i := 0; i < len(pairs); i += 2 {
					pairs[i] += strings.Repeat("x", i)
				}
				pairs = pairs[:130]
			}
			contentType, body := form(t, pairs...)

			got := d.do(t, http.MethodPost, "/v1/videos", contentType, body)

			require.Equal(t, http.StatusBadRequest, got.Status, got.Text)
			require.Equal(t, name, got.err()["code"], got.Text)
		}
		contentType, body := form(t, "prompt", "x")
		cut := body.Bytes()[:body.Len()-10]
		got := d.do(t, http.MethodPost, "/v1/videos", contentType, strings.NewReader(string(cut)))
		require.Equal(t, "invalid_body", got.err()["code"], got.Text)
		got = d.do(t, http.MethodPost, "/v1/videos", "multipart/form-data", strings.NewReader("x"))
		require.Equal(t, "invalid_multipart", got.err()["code"], got.Text)
		for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "a/b/c"} {
			got := d.do(t, http.MethodPost, "/v1/videos", contentType, strings.NewReader("prompt=x"))
			require.Equal(t, http.StatusUnsupportedMediaType, got.Status, contentType)
		}
		got = d.json(t, "/v1/videos", `{"prompt": "`+strings.Repeat("x", 31<<20)+`"}`)
		require.Equal(t, http.StatusRequestEntityTooLarge, got.Status)
		require.Zero(t, d.Count(t, "jobs"))
	})

	t.Run("RefusesOddNumbersAndTextInEveryEncoding", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		for _, seconds := range []string{
			"-0", "0", "4.0", "21", "1e308", "4e0", "9223372036854775808", "NaN", "Infinity", "-Inf", "0x4", "٤", " 4",
		} {
			contentType, body := form(t, "prompt", "x", "seconds", seconds)
			quoted, err := json.Marshal(seconds)
			require.NoError(t, err)
			for _, got := range []answer{
				d.do(t, http.MethodPost, "/v1/videos", contentType, body),
				d.json(t, "/v1/videos", `{"prompt": "x", "seconds": `+string(quoted)+`}`),
			} {
				require.Equal(t, http.StatusBadRequest, got.Status, "%s: %s", seconds, got.Text)
				requireError(t, got, "invalid_request_error", "invalid_value", "seconds")
				require.Contains(t, got.err()["message"], "Supported values are: '4', '8', '12', '16', and '20'.")
			}
		}
		for _, number := range []string{"-0", "-0.0", "1e308", "1e400", "9223372036854775808", "4.0"} {
			got := d.json(t, "/v1/videos", `{"prompt": "x", "seconds": `+number+`}`)
			requireError(t, got, "invalid_request_error", "invalid_value", "seconds")
		}
		for _, size := range []string{"99999999999x99999999999", "-720x1280", "720x1280x1", "NaNxNaN", "0x0"} {
			contentType, body := form(t, "prompt", "x", "size", size)
			requireError(t, d.do(t, http.MethodPost, "/v1/videos", contentType, body), "invalid_request_error", "invalid_value", "size")
		}
		for _, prompt := range []string{"a\x00b", "a\xffb", "a\xed\xa0\x80b", "a\ufffeb"} {
			contentType, body := form(t, "prompt", prompt)
			requireError(t, d.do(t, http.MethodPost, "/v1/videos", contentType, body), "invalid_request_error", "invalid_value", "prompt")
		}
		require.Zero(t, d.Count(t, "jobs"))
	})

	t.Run("NamesTheReferenceLikeTheClient", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		for reference, status := range map[string]int{
			`{"image_url": "https://169.254.169.254/a.png"}`: http.StatusBadRequest,
			`{"image_url": "a.png"}`:                         http.StatusBadRequest,
			`{"file_id": "file-1"}`:                          http.StatusBadRequest,
			`{"file_id": "art_1"}`:                           http.StatusNotFound,
		} {
			got := d.json(t, "/v1/videos", `{"prompt": "x", "input_reference": `+reference+`}`)

			require.Equal(t, status, got.Status, "%s: %s", reference, got.Text)
			require.Equal(t, "input_reference", got.err()["param"], got.Text)
			require.NotContains(t, got.Text, "referenceImage")
		}
	})

	t.Run("ReportsLimitsSoThatClientsStop", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		d.Exec(t, "UPDATE accounts SET max_queued = 0")

		got := d.json(t, "/v1/videos", `{"prompt": "x"}`)

		require.Equal(t, http.StatusTooManyRequests, got.Status)
		requireError(t, got, "rate_limit_error", "insufficient_quota", "")
		require.Equal(t, "false", got.Header.Get("X-Should-Retry"))
		require.Equal(t, "10", got.Header.Get("Retry-After"))
	})
}

// requireError fails the test unless the response has all four keys of an error, with these
// values.
func requireError(t *testing.T, got answer, kind, code, param string) {
	t.Helper()
	shown := got.err()
	require.Len(t, shown, 4, got.Text)
	require.Equal(t, kind, shown["type"], got.Text)
	require.Equal(t, code, shown["code"], got.Text)
	require.NotEmpty(t, shown["message"])
	if param == "" {
		require.Nil(t, shown["param"], got.Text)
	} else {
		require.Equal(t, param, shown["param"], got.Text)
	}
}

func TestRemix(t *testing.T) {
	t.Parallel()

	t.Run("MakesAnotherVideoWithTheSameSettings", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		id := d.create(t, `{"prompt": "a paper boat", "model": "sora-2-pro", "seconds": "8", "size": "1280x720"}`)
		d.render(t)
		client := d.official()

		v, err := client.Videos.Remix(t.Context(), id, openai.VideoRemixParams{Prompt: "a paper boat in the rain"})

		require.NoError(t, err)
		require.Equal(t, id, v.RemixedFromVideoID)
		require.Equal(t, "8", string(v.Seconds))
		require.Equal(t, "sora-2-pro", string(v.Model))
		require.JSONEq(t, string(d.Reload(t, jobID(t, id)).Params), string(d.Reload(t, jobID(t, v.ID)).Params))
		got := d.get(t, "/v1/videos/"+v.ID)
		require.Equal(t, "a paper boat in the rain", got.Body["prompt"])
		contentType, body := form(t, "prompt", "again, as a form")
		require.Equal(t, http.StatusOK, d.do(t, http.MethodPost, "/v1/videos/"+id+"/remix", contentType, body).Status)
	})

	t.Run("RequiresACompletedVideo", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		id := d.create(t, `{"prompt": "a paper boat"}`)

		got := d.json(t, "/v1/videos/"+id+"/remix", `{"prompt": "x"}`)

		require.Equal(t, http.StatusBadRequest, got.Status)
		requireError(t, got, "invalid_request_error", "invalid_state", "video_id")
		unknown := d.json(t, "/v1/videos/"+models.VideoID(models.NewJobID())+"/remix", `{"prompt": "x"}`)
		require.Equal(t, http.StatusNotFound, unknown.Status)
	})

	t.Run("ReportsThatTheImageIsGone", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		image := d.UploadInput(t, d.Client, jobstest.Picture(t, color.White))
		id := d.create(t, `{"prompt": "a paper boat", "input_reference": {"file_id": "`+string(image)+`"}}`)
		d.render(t)
		d.Exec(t, "DELETE FROM input_uses")
		d.Exec(t, "DELETE FROM artifacts WHERE id = ?", image)

		got := d.json(t, "/v1/videos/"+id+"/remix", `{"prompt": "x"}`)

		require.Equal(t, http.StatusBadRequest, got.Status, got.Text)
		requireError(t, got, "invalid_request_error", "invalid_state", "video_id")
		require.Contains(t, got.Text, "The reference image of this video no longer exists")
	})
}

func TestStatus(t *testing.T) {
	t.Parallel()

	t.Run("IsOneOfFour", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		waiting := d.create(t, `{"prompt": "x"}`)
		require.Equal(t, "queued", d.get(t, "/v1/videos/"+waiting).Body["status"])
		worker := d.Worker(t, "one")
		_, fence := d.Lease(t, worker)
		require.Equal(t, "in_progress", d.get(t, "/v1/videos/"+waiting).Body["status"])
		_, err := d.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
		require.NoError(t, err)
		require.Equal(t, models.JobQueued, d.Reload(t, jobID(t, waiting)).Status)
		require.Equal(t, "in_progress", d.get(t, "/v1/videos/"+waiting).Body["status"], "it does not go back")
		_, err = d.Canceller.Cancel(t.Context(), d.Client, jobID(t, waiting))
		require.NoError(t, err)
		got := d.get(t, "/v1/videos/"+waiting)
		require.Equal(t, "failed", got.Body["status"])
		require.Equal(t, "cancelled", got.Body["error"].(map[string]any)["code"])
	})

	t.Run("IsRefusedByTheContentPolicy", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		d.Videos.Submitter.Moderator = refusing{}

		got := d.json(t, "/v1/videos", `{"prompt": "x"}`)

		require.Equal(t, http.StatusBadRequest, got.Status)
		require.Equal(t, map[string]any{"error": map[string]any{"code": "moderation_blocked", "type": "invalid_request_error",
			"message": "It shows a weapon.", "param": nil}}, got.Body)
	})

	t.Run("ReportsWhyItFailed", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		for class, code := range map[models.FailureClass]string{
			models.FailContentPolicy: "moderation_blocked", models.FailInvalidInput: "invalid_input",
		} {
			id := d.create(t, `{"prompt": "x"}`)
			worker := d.Worker(t, "one")
			_, fence := d.Lease(t, worker)
			_, err := d.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: class, Message: "the reason"})
			require.NoError(t, err)

			got := d.get(t, "/v1/videos/"+id)

			require.Equal(t, "failed", got.Body["status"])
			require.Equal(t, map[string]any{"code": code, "message": "the reason"}, got.Body["error"])
			require.Nil(t, got.Body["completed_at"])
		}
	})
}

func TestProgress(t *testing.T) {
	t.Parallel()

	t.Run("DoesNotGoBackAfterALoss", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		id := d.create(t, `{"prompt": "x"}`)
		for _, percent := range []float64{70.9, 10} {
			worker := d.Worker(t, "one")
			_, fence := d.Lease(t, worker)
			_, err := d.Attempts.ReportProgress(t.Context(), worker, fence, lease.ProgressReport{
				Progress: models.Progress{Percent: percent, Phase: models.PhaseRendering},
			})
			require.NoError(t, err)

			require.Equal(t, 70.0, d.get(t, "/v1/videos/"+id).Body["progress"])

			_, err = d.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
			require.NoError(t, err)
			require.Equal(t, 70.0, d.get(t, "/v1/videos/"+id).Body["progress"])
		}
		d.render(t)
		require.Equal(t, 100.0, d.get(t, "/v1/videos/"+id).Body["progress"])
	})
}

// refusing refuses all jobs.
type refusing struct{}

func (refusing) Moderate(_ context.Context, all []submit.Content) []error {
	answers := make([]error, len(all))
	for i := range answers {
		answers[i] = apierror.New(apierror.CodeContentPolicy, "It shows a weapon.")
	}
	return answers
}
