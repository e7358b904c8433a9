package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// task submits a job by its model and parameters alone, and waits for its end.
func task(t *testing.T, c *client.Client, model, params string) *client.Job {
	t.Helper()
	raw := json.RawMessage(params)
	done, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: model, Params: &raw})
	require.NoError(t, err)
	return until(t, c, done.Job.Id, func(job *client.Job) bool { return completed(job) || job.Status == client.JobStatusFailed })
}

// inference is the program reelay-inference, which counts what it gets.
const inference = `#!/usr/bin/env python3
import json, sys
job = json.load(open(sys.argv[1]))
print(json.dumps({"percent": 50, "message": "counting"}), flush=True)
print("the labels are", job["params"]["input"]["labels"], file=sys.stderr)
video = open(job["inputs"]["files.0"], "rb").read()
result = {"labels": len(job["params"]["input"]["labels"]), "video": video[4:8] == b"ftyp"}
json.dump(result, open(job["outputs"]["output"], "w"))
`

// transcribe stands in for the program reelay-transcribe, which needs weights.
const transcribe = `#!/usr/bin/env python3
import json, sys
job = json.load(open(sys.argv[1]))
heard = "the sea is calm" if open(job["inputs"]["file"], "rb").read()[4:8] == b"ftyp" else ""
print("heard:", heard, file=sys.stderr)
json.dump({"text": heard, "language": "en", "durationSeconds": 1, "segments": []}, open(job["outputs"]["output"], "w"))
`

func TestTasks(t *testing.T) {
	t.Parallel()

	t.Run("StitchWaitsForItsClipsAndJoinsThem", func(t *testing.T) {
		t.Parallel()
		c := common(t).client(t)
		first, second := submit(t, c, "a calm sea", 1, 0), submit(t, c, "a storm", 1, 0)

		job := task(t, c, "video.stitch", `{"clips": ["`+first+`", "`+second+`"], "crossfadeSeconds": 0.5}`)

		require.Equal(t, client.JobStatusCompleted, job.Status, job)
		require.Equal(t, "video.stitch", job.Type)
		require.NotNil(t, job.Result)
		path := filepath.Join(t.TempDir(), "video.mp4")
		require.NoError(t, c.Download(t.Context(), job.Result, path, nil))
		out, err := exec.Command("ffprobe", "-v", "error", "-count_frames", "-show_entries", "stream=nb_read_frames", "-of", "csv=p=0",
			path).Output()
		require.NoError(t, err)
		require.Equal(t, "18", strings.Trim(string(out), ",\n"), "two clips of 12 frames less a cross-fade of 6")
	})

	t.Run("ThumbnailEndsWithAPicture", func(t *testing.T) {
		t.Parallel()
		c := common(t).client(t)

		job := task(t, c, "video.thumbnail", `{"video": "`+submit(t, c, "a lighthouse", 1, 0)+`", "width": 100}`)

		require.Equal(t, client.JobStatusCompleted, job.Status, job)
		history, err := c.JobHistory(t.Context(), job.Id)
		require.NoError(t, err)
		var kinds []client.ArtifactType
		for _, a := range history.Artifacts {
			kinds = append(kinds, a.Type)
		}
		require.Contains(t, kinds, client.ArtifactTypeThumbnail)
	})

	t.Run("InferenceRunsTheProgramOnThePath", func(t *testing.T) {
		t.Parallel()
		c := common(t).client(t)

		job := task(t, c, "inference.run", `{"input": {"labels": ["cat", "dog"]}, "files": ["`+submit(t, c, "a cat", 1, 0)+`"]}`)

		require.Equal(t, client.JobStatusCompleted, job.Status, job)
		require.JSONEq(t, `{"labels": 2, "video": true}`, string(*job.Output))
	})

	t.Run("HTTPCallReachesAServerButNotReelay", func(t *testing.T) {
		t.Parallel()
		s := common(t)
		c := s.client(t)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(r.Header.Get("Idempotency-Key")))
		}))
		t.Cleanup(server.Close)

		job := task(t, c, "http.call", `{"url": "`+server.URL+`/"}`)

		require.Equal(t, client.JobStatusCompleted, job.Status, job)
		require.NotNil(t, job.Output)
		var output struct{ Body string }
		require.NoError(t, json.Unmarshal(*job.Output, &output))
		require.Equal(t, job.Id, output.Body)
		params := json.RawMessage(`{"url": "` + s.keys.Endpoint + `/readyz"}`)
		_, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: "http.call", Params: &params})
		require.ErrorContains(t, err, "leads to Reelay itself")
	})

	t.Run("AVideoStartsFromTheLastFrameOfAnother", func(t *testing.T) {
		t.Parallel()
		c := common(t).client(t)
		first := submit(t, c, "a calm sea", 1, 0)

		thumbnail := task(t, c, "video.thumbnail", `{"video": "`+first+`", "width": 100}`)
		for _, picture := range []string{first + ".lastFrame", thumbnail.Id + ".thumbnail"} {
			params := json.RawMessage(`{"durationSeconds": 1, "pace": 0, "referenceImage": "` + picture + `"}`)
			next, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: "testcard", Prompt: new("the sea at night"), Params: &params})
			require.NoError(t, err)
			until(t, c, next.Job.Id, completed)
		}
	})

	t.Run("TheOutputOfATaskIsAPartOfTheNextOne", func(t *testing.T) {
		t.Parallel()
		c := common(t).client(t)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_, _ = w.Write([]byte(r.URL.Path + string(body)))
		}))
		t.Cleanup(server.Close)
		params := json.RawMessage(`{"url": "` + server.URL + `/fox", "method": "POST", "body": "!"}`)
		first, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: "http.call", Params: &params})
		require.NoError(t, err)

		job := task(t, c, "http.call", `{"url": "`+server.URL+`/{{`+first.Job.Id+`.output.status}}", "method": "POST", "body": {"said": "{{`+
			first.Job.Id+`.output.body}}"}}`)

		require.Equal(t, client.JobStatusCompleted, job.Status, job)
		var output struct{ Body string }
		require.NoError(t, json.Unmarshal(*job.Output, &output))
		require.Equal(t, `/200{"said":"/fox!"}`, output.Body)
	})

	t.Run("InAWorkflowEachWorksOnWhatTheOneBeforeMade", func(t *testing.T) {
		t.Parallel()
		s := common(t)
		c := s.client(t)
		calls := make(chan string, 10)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			calls <- r.URL.Path + " " + string(body)
			_, _ = w.Write([]byte("stored as 42"))
		}))
		t.Cleanup(server.Close)
		node := func(key, model, params string) client.WorkflowJobInput {
			raw := json.RawMessage(params)
			return client.WorkflowJobInput{Key: key, Job: client.SubmitJobInput{Model: model, Params: &raw}}
		}
		film := node("film", "testcard", `{"durationSeconds": 1, "pace": 0}`)
		film.Job.Prompt = new("a calm sea")

		w, err := c.SubmitWorkflow(t.Context(), client.SubmitWorkflowInput{Name: "notes", Output: new("report"), Jobs: []client.WorkflowJobInput{
			film,
			node("words", "audio.transcribe", `{"file": "{{film.video}}"}`),
			node("count", "inference.run",
				`{"input": {"labels": ["{{words.output.text}}", "{{words.output.language}}"]}, "files": ["{{film.video}}"]}`),
			node("call", "http.call", `{"url": "`+server.URL+
				`/{{count.output.labels}}", "method": "POST", "body": {"said": "{{words.output.text}}"}}`),
			node("report", "inference.run", `{"input": {"labels": ["{{call.output.body}}"]}, "files": ["{{film.video}}"]}`),
		}})
		require.NoError(t, err)
		shown, err := c.WorkflowDetail(t.Context(), w.Id)
		require.NoError(t, err)
		until(t, c, shown.Output.Job.Id, func(job *client.Job) bool { return job.Status.Terminal() })

		shown, err = c.WorkflowDetail(t.Context(), w.Id)
		require.NoError(t, err)
		require.Equal(t, client.WorkflowStatusCompleted, shown.Status, shown.Jobs)
		require.Equal(t, `/2 {"said":"the sea is calm"}`, testrun.Receive(t, "the call", calls))
		for node, says := range map[int]string{1: "heard: the sea is calm", 2: "the labels are ['the sea is calm', 'en']",
			4: "the labels are ['stored as 42']"} {
			log, errs, status := s.command(t, "logs", shown.Jobs[node].Job.Id)
			require.Zero(t, status, errs)
			require.Contains(t, log, says)
		}
	})

	t.Run("ASchedulesCallsAreOnePerSlot", func(t *testing.T) {
		t.Parallel()
		c := common(t).client(t)
		calls := make(chan string, 100)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls <- r.Header.Get("Idempotency-Key")
			_, _ = w.Write([]byte("called"))
		}))
		t.Cleanup(server.Close)
		params := json.RawMessage(`{"url": "` + server.URL + `/", "method": "POST"}`)

		made, err := c.ApplySchedule(t.Context(), client.ScheduleInput{
			Name: "calls", EverySeconds: new(1), CatchUp: new(client.CatchUpAll), Job: &client.SubmitJobInput{Model: "http.call", Params: &params},
		})
		require.NoError(t, err)
		seen := map[string]bool{}
		for range 3 {
			key := testrun.Receive(t, "a call", calls)
			require.False(t, seen[key], "a second call of %s", key)
			seen[key] = true
		}
		var fired []string
		testrun.Eventually(t, "the slots name their jobs", func() bool {
			shown, err := c.Schedule(t.Context(), made.Id, 100, 1)
			require.NoError(t, err)
			fired = nil
			for _, slot := range shown.Slots {
				if slot.Job != nil && seen[slot.Job.Id] {
					fired = append(fired, slot.Job.Id)
				}
			}
			return len(fired) == len(seen)
		})
		require.NoError(t, c.DeleteSchedule(t.Context(), made.Id))

		for _, id := range fired {
			job := until(t, c, id, completed)
			var output struct {
				Status int
				Body   string
			}
			require.NoError(t, json.Unmarshal(*job.Output, &output))
			require.Equal(t, http.StatusOK, output.Status)
			require.Equal(t, "called", output.Body)
			history, err := c.JobHistory(t.Context(), id)
			require.NoError(t, err)
			require.Len(t, history.Attempts, 1)
		}
	})

	t.Run("ADamagedFileFailsTheJob", func(t *testing.T) {
		t.Parallel()
		c := common(t).client(t)
		path := filepath.Join(t.TempDir(), "clip.mp4")
		require.NoError(t, os.WriteFile(path, append([]byte("\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom"), make([]byte, 5000)...), 0o600))
		file, err := os.Open(path)
		require.NoError(t, err)
		defer file.Close()
		uploaded, err := c.UploadInput(t.Context(), "video/mp4", file)
		require.NoError(t, err)

		job := task(t, c, "video.thumbnail", `{"video": "`+uploaded+`"}`)

		require.Equal(t, client.JobStatusFailed, job.Status)
		require.Equal(t, client.FailureClassInvalidInput, *job.FailureClass)
		require.Contains(t, *job.FailureReason, "The video cannot be read")
	})
}
