package enginetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// create submits a video and returns the answer's object.
func create(t *testing.T, fake *VideosAPI, prompt string) object {
	t.Helper()
	res, err := http.DefaultClient.Do(createRequest(t, fake, prompt))
	require.NoError(t, err)
	return read(t, res)
}

func createRequest(t *testing.T, fake *VideosAPI, prompt string) *http.Request {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	require.NoError(t, errors.Join(form.WriteField("prompt", prompt), form.WriteField("num_inference_steps", "2"), form.Close()))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fake.URL+"/v1/videos", &body)
	require.NoError(t, err)
	req.Header.Set("Content-Type", form.FormDataContentType())
	return req
}

func read(t *testing.T, res *http.Response) object {
	t.Helper()
	defer res.Body.Close()
	var answer object
	require.NoError(t, json.NewDecoder(res.Body).Decode(&answer))
	return answer
}

func get(t *testing.T, url string) (status int, body []byte, err error) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	return res.StatusCode, body, err
}

func TestFaults(t *testing.T) {
	t.Parallel()

	// poll makes one call with a fault.
	poll := func(t *testing.T, fault Fault) (*VideosAPI, string, int, []byte, error) {
		fake := NewVideosAPI(t, VLLMOmni())
		id := create(t, fake, "a boat")["id"].(string)
		fake.Fault("GET /v1/videos/{id}", 1, fault)
		status, body, err := get(t, fake.URL+"/v1/videos/"+id)
		return fake, id, status, body, err
	}

	t.Run("HitOnlyTheCallThatTheyName", func(t *testing.T) {
		t.Parallel()
		fake, id, status, _, err := poll(t, Status(http.StatusInternalServerError, "broken"))
		require.NoError(t, err)
		require.Equal(t, http.StatusInternalServerError, status)

		status, _, err = get(t, fake.URL+"/v1/videos/"+id)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, []string{"POST /v1/videos", "GET /v1/videos/" + id, "GET /v1/videos/" + id}, fake.Calls())
	})

	t.Run("AnswerWhatIsNoJob", func(t *testing.T) {
		t.Parallel()
		_, _, status, body, err := poll(t, HTML)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, string(body), "Sign in")

		_, _, status, body, err = poll(t, ErrorWith200)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, string(body), "overloaded")
	})

	t.Run("CutAnAnswer", func(t *testing.T) {
		t.Parallel()
		_, _, _, body, err := poll(t, Cut)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.NotEmpty(t, body)
	})

	t.Run("HangUntilTheClientLeaves", func(t *testing.T) {
		t.Parallel()
		fake := NewVideosAPI(t, VLLMOmni())
		fake.Fault("POST /v1/videos", 0, Hang)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() {
			_, err := http.DefaultClient.Do(createRequest(t, fake, "a boat").WithContext(ctx))
			failed <- err
		}()
		testrun.Eventually(t, "the call", func() bool { return len(fake.Calls()) == 1 })
		cancel()
		require.ErrorIs(t, testrun.Receive(t, "its end", failed), context.Canceled)
		require.Zero(t, fake.AllRenders())
	})

	t.Run("LoseAnAnswerOrARequest", func(t *testing.T) {
		t.Parallel()
		fake := NewVideosAPI(t, VLLMOmni())
		fake.Fault("POST /v1/videos", 1, LoseAnswer)
		fake.Fault("POST /v1/videos", 2, LoseRequest)
		_, err := http.DefaultClient.Do(createRequest(t, fake, "a boat"))
		require.Error(t, err)
		require.Equal(t, 1, fake.AllRenders(), "it was done")
		_, err = http.DefaultClient.Do(createRequest(t, fake, "a boat"))
		require.Error(t, err)
		require.Len(t, fake.All(), 1, "it never came")
	})

	t.Run("SendAByteAtATime", func(t *testing.T) {
		t.Parallel()
		ticks := make(chan time.Time)
		go func() {
			for range 10_000 {
				select {
				case ticks <- time.Time{}:
				case <-t.Context().Done():
					return
				}
			}
		}()
		_, id, _, body, err := poll(t, Drip(ticks))
		require.NoError(t, err)
		require.Contains(t, string(body), id)
	})

	t.Run("ChangeWhatIsAnswered", func(t *testing.T) {
		t.Parallel()
		_, _, status, body, err := poll(t, Set("id", "another"))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, string(body), `"id":"another"`)
	})

	t.Run("SendJSONWithoutEnd", func(t *testing.T) {
		t.Parallel()
		fake := NewVideosAPI(t, VLLMOmni())
		fake.Fault("GET /v1/models", 0, Endless)
		res, err := http.Get(fake.URL + "/v1/models")
		require.NoError(t, err)
		n, err := io.CopyN(io.Discard, res.Body, 64<<20)
		require.NoError(t, err)
		require.Equal(t, int64(64<<20), n)
		res.Body.Close()
	})
}

func TestLife(t *testing.T) {
	t.Parallel()

	t.Run("AKillLosesJobsAndKeepsFilms", func(t *testing.T) {
		t.Parallel()
		fake := NewComfyUI(t)
		submitPrompt(t, fake, "done", `"steps": 1`)
		fake.Step()
		submitPrompt(t, fake, "lost", `"steps": 5`)
		fake.Kill()
		_, _, err := get(t, fake.URL+"/queue")
		require.Error(t, err)
		fake.Restart()

		_, body, err := get(t, fake.URL+"/history")
		require.NoError(t, err)
		require.JSONEq(t, `{}`, string(body))
		require.True(t, fake.Idle())
		_, film, err := get(t, fake.URL+"/view?filename=done_00001_.mp4&subfolder=reelay&type=output")
		require.NoError(t, err)
		require.Equal(t, "done", FilmID(t, film))
		require.Equal(t, 1, fake.Renders("lost"))
	})

	t.Run("FilmsCanBeAnothersOrAbsent", func(t *testing.T) {
		t.Parallel()
		fake := NewVideosAPI(t, SGLang())
		fake.Run(time.Millisecond)
		fake.Films(func(string, []byte) []byte { return Film(t, "another", small) })
		_, film := content(t, fake, create(t, fake, "a boat")["id"].(string))
		require.Equal(t, "another", FilmID(t, film))
		fake.Films(func(string, []byte) []byte { return []byte{} })
		status, film := content(t, fake, create(t, fake, "a boat")["id"].(string))
		require.Equal(t, http.StatusOK, status)
		require.Empty(t, film)
		fake.Films(func(string, []byte) []byte { return nil })
		status, _ = content(t, fake, create(t, fake, "a boat")["id"].(string))
		require.Equal(t, http.StatusNotFound, status)
	})

	t.Run("AStalledEngineStartsNothing", func(t *testing.T) {
		t.Parallel()
		fake := NewVideosAPI(t, VLLMOmni())
		fake.Stall(true)
		id := create(t, fake, "a boat")["id"].(string)
		fake.Step()
		require.Equal(t, "queued", fake.All()[0].Status)
		fake.Stall(false)
		require.Equal(t, 1, fake.Renders(id))
	})

	t.Run("AnEngineCanIgnoreACancel", func(t *testing.T) {
		t.Parallel()
		fake := NewComfyUI(t)
		fake.IgnoreCancels()
		submitPrompt(t, fake, "running", `"steps": 5`)
		res, err := http.Post(fake.URL+"/interrupt", "application/json", strings.NewReader(`{"prompt_id": "running"}`))
		require.NoError(t, err)
		res.Body.Close()
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.False(t, fake.Idle())
	})

	t.Run("EnginesDifferInNodesAndModels", func(t *testing.T) {
		t.Parallel()
		fake := NewComfyUI(t)
		fake.Offers("SlowFrames", "model", "new.safetensors")
		require.Contains(t, submitPrompt(t, fake, "old", `"steps": 1, "model": "small.safetensors"`), "value_not_in_list")
		require.NotContains(t, submitPrompt(t, fake, "new", `"steps": 1, "model": "new.safetensors"`), "value_not_in_list")
		fake.Lacks("SlowFrames")
		require.Contains(t, submitPrompt(t, fake, "none", `"steps": 1`), "node SlowFrames does not exist")
	})
}

// content waits for the end of a video and fetches its film.
func content(t *testing.T, fake *VideosAPI, id string) (status int, film []byte) {
	t.Helper()
	testrun.Eventually(t, "the video", func() bool { return fake.Idle() })
	status, film, err := get(t, fake.URL+"/v1/videos/"+id+"/content")
	require.NoError(t, err)
	return status, film
}

// submitPrompt submits a graph whose file has the prompt's name, and returns the answer.
func submitPrompt(t *testing.T, fake *ComfyUI, id, inputs string) string {
	t.Helper()
	body := `{"prompt_id": "` + id + `", "prompt": {
		"1": {"class_type": "SlowFrames", "inputs": {"frames": 8, "step_seconds": 0, "seed": 1, "fail_at": -1, ` + inputs + `}},
		"2": {"class_type": "CreateVideo", "inputs": {"images": ["1", 0], "fps": 8}},
		"3": {"class_type": "SaveVideo", "inputs": {
			"video": ["2", 0], "filename_prefix": "reelay/` + id + `", "format": "auto", "codec": "auto"}}}}`
	res, err := http.Post(fake.URL+"/prompt", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(text)
}
