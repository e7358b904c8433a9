package console

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/reelay/reelay/web/console/address"
	"github.com/stretchr/testify/require"
)

// beatMessage is what a stream sends while nothing changes.
const beatMessage = "event: beat\nbeat\n"

// stream is messages without the beats.
func (b *browser) stream(t *testing.T, path, lastEventID string) <-chan string {
	t.Helper()
	messages, events := b.messages(t, path, lastEventID), make(chan string)
	go func() {
		defer close(events)
		for message := range messages {
			if message == beatMessage {
				continue
			}
			select {
			case events <- message:
			case <-t.Context().Done():
				return
			}
		}
	}()
	return events
}

// messages opens a stream and returns the data of its events. It is closed when
// the stream ends.
func (b *browser) messages(t *testing.T, path, lastEventID string) <-chan string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+path, nil)
	require.NoError(t, err)
	req.Header.Set("Last-Event-ID", lastEventID)
	res, err := b.client.Do(req)
	require.NoError(t, err)
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	events := make(chan string)
	go func() {
		defer close(events)
		defer res.Body.Close()
		var event strings.Builder
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if lines.Text() != "" {
				event.WriteString(strings.TrimPrefix(lines.Text(), "data: ") + "\n")
				continue
			}
			select {
			case events <- event.String():
			case <-t.Context().Done():
				return
			}
			event.Reset()
		}
	}()
	return events
}

// resumed is a job that one worker handed back after a checkpoint at 40 %, and
// that another goes on with.
func (b *browser) resumed(t *testing.T) (job *models.Job, worker jobs.Principal, fence lease.Fence) {
	t.Helper()
	job = b.Submit(t)
	first, second := b.Worker(t, "first"), b.Worker(t, "second")
	_, held := b.Lease(t, first)
	checkpoint := b.Upload(t, first, held, models.ArtifactCheckpoint, []byte("state"))
	_, err := b.Attempts.CommitCheckpoint(t.Context(), first, held, jobs.Checkpoint{Object: checkpoint, Step: 4, Percent: 40})
	require.NoError(t, err)
	_, err = b.Attempts.Release(t.Context(), first, held, models.FailPreempted)
	require.NoError(t, err)
	granted, fence := b.Lease(t, second)
	_, err = b.Attempts.ReportProgress(t.Context(), second, fence, lease.ProgressReport{
		Progress: models.Progress{Percent: 41, Phase: models.PhaseRendering, Message: "drawing"}, ResumedFrom: granted.Checkpoints[0].ID,
	})
	require.NoError(t, err)
	return job, second, fence
}

func (b *browser) complete(t *testing.T, worker jobs.Principal, fence lease.Fence) {
	t.Helper()
	video := b.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
	_, err := b.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
	require.NoError(t, err)
}

func TestJobShow(t *testing.T) {
	t.Parallel()

	t.Run("MarksWhereTheJobWasResumed", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job, _, _ := b.resumed(t)

		got := b.get(t, "/jobs/"+string(job.ID))

		require.Regexp(t, `class="mark strong"[^>]* x1="40.00"[^>]*><title>Attempt 2 resumed here, at 40 %</title>`, got.Body)
		require.Contains(t, got.Body, "preempted")
		require.Contains(t, got.Body, "a lighthouse in the fog")
		require.Contains(t, got.Body, `hx-sse:connect="/jobs/`+string(job.ID)+`/live?after=`)
		require.NotContains(t, got.Body, "<video")
	})

	t.Run("SaysWhoPausedItsLane", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job := b.Submit(t)
		_, err := b.Operator.PauseQueue(t.Context(), b.Admin, job.Lane, "", "maintenance of <storage>")
		require.NoError(t, err)

		said := `(?s)<a href="/queues/enterprise">The enterprise lane is paused</a>\s+by test ADMIN since <time data-at="moment"[^>]*>[^<]*</time>: maintenance of &lt;storage&gt;\.`
		require.Regexp(t, said, b.get(t, "/jobs/"+string(job.ID)).Body)
		require.Regexp(t, said, b.get(t, "/queues/enterprise").Body, "the same as in the queue")
		_, err = b.Operator.Halt(t.Context(), b.Admin, []models.HaltTarget{models.HaltLeases}, "migration")
		require.NoError(t, err)
		require.Regexp(t, `(?s)The starts of all jobs are halted\s+by test ADMIN since <time[^>]*>[^<]*</time>: migration\.`,
			b.get(t, "/jobs/"+string(job.ID)).Body)
	})

	t.Run("OffersItsEvents", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job, _, _ := b.resumed(t)
		path := "/jobs/" + string(job.ID)

		page, file := b.get(t, path).Body, b.get(t, path+"/events.json")

		require.Contains(t, page, `href="`+path+`/events.json" download`)
		require.Regexp(t, `(?s)<tr id="event-\d+" class="kind-checkpoint">.*?checkpointed`, page)
		require.Contains(t, page, `<option value="checkpoint">Checkpoints</option>`)
		require.Equal(t, `attachment; filename="`+string(job.ID)+`-events.json"`, file.Header.Get("Content-Disposition"))
		var events []models.JobEvent
		require.NoError(t, json.Unmarshal([]byte(file.Body), &events))
		require.Len(t, events, b.Reload(t, job.ID).EventSeq)
		require.Equal(t, 1, events[0].Seq)
		require.Equal(t, http.StatusNotFound, b.get(t, "/jobs/job_01a1fd6a-4f1f-7949-a125-f137b7957b73/events.json").Status)
	})

	t.Run("PlaysTheVideo", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job, worker, fence := b.resumed(t)
		require.Equal(t, http.StatusConflict, b.get(t, "/jobs/"+string(job.ID)+"/video").Status)
		b.complete(t, worker, fence)

		got := b.get(t, "/jobs/"+string(job.ID))
		require.Contains(t, got.Body, `src="/jobs/`+string(job.ID)+`/video"`)
		require.NotContains(t, got.Body, "hx-sse", "a page on which nothing will happen opens no stream")
		link := b.get(t, "/jobs/"+string(job.ID)+"/video")

		require.Equal(t, http.StatusFound, link.Status)
		res, err := http.Get(b.Base + link.Header.Get("Location"))
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.Equal(t, "video/mp4", res.Header.Get("Content-Type"))
	})

	t.Run("ShowsWhatTheClientNotedOnTheJob", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job, _, err := b.Submitter.Submit(t.Context(), b.Client, submit.Submission{
			Prompt: "noted", Model: "testcard", UserID: "customer-4711", IdempotencyKey: new("order-7"),
			Metadata: json.RawMessage(`{"campaign": "<autumn>"}`),
		})
		require.NoError(t, err)

		got := b.get(t, "/jobs/"+string(job.ID)).Body

		for name, value := range map[string]string{"User id": "customer-4711", "Idempotency key": "order-7", "campaign": "&lt;autumn&gt;"} {
			require.Regexp(t, "<dt>"+name+`</dt><dd>\s*`+value, got)
		}
		require.NotContains(t, b.get(t, "/jobs/"+string(b.Submit(t).ID)).Body, "Metadata")
	})

	t.Run("ListsTheInputs", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		clip := b.UploadMedia(t, b.Client, "video/mp4", []byte("\x00\x00\x00\x20ftypisom\x00\x00\x02\x00"))
		source := b.Submit(t)
		params, err := json.Marshal(map[string]any{"clips": []any{clip, source.ID}})
		require.NoError(t, err)
		job, _, err := b.Submitter.Submit(t.Context(), b.Client, submit.Submission{Model: "video.stitch", Params: params})
		require.NoError(t, err)

		got := b.get(t, "/jobs/"+string(job.ID)).Body

		require.Contains(t, got, `<a href="/artifacts/`+string(clip)+`">clips.0</a>`)
		require.Regexp(t, `<span>clips\.1</span>\s*<a class="inline" href="/jobs/`+string(source.ID), got)
		require.Equal(t, http.StatusFound, b.get(t, "/artifacts/"+string(clip)).Status)
		require.NotContains(t, b.get(t, "/jobs/"+string(source.ID)).Body, "Inputs")
	})

	t.Run("TellsTheArtifactsOfAttemptsApart", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job, worker, fence := b.resumed(t)
		require.Regexp(t, `checkpoint</a> <span class="quiet">40 %</span> <span class="quiet">attempt 1</span>`,
			b.get(t, "/jobs/"+string(job.ID)).Body)

		b.complete(t, worker, fence)

		require.Regexp(t, `final video</a> <span class="quiet">attempt 2</span>`, b.get(t, "/jobs/"+string(job.ID)).Body)
	})

	t.Run("PagesThroughEvents", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job, _, _ := b.resumed(t)

		got := b.get(t, "/jobs/"+string(job.ID)+"?events=2")

		require.Contains(t, got.Body, `id="event-2"`)
		require.NotContains(t, got.Body, `id="event-3"`)
		require.NotContains(t, got.Body, "hx-sse")
	})
}

func TestJobLive(t *testing.T) {
	t.Parallel()

	t.Run("SendsOnlyChangesAndEndsWithTheJob", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job, worker, fence := b.resumed(t)
		events := b.stream(t, "/jobs/"+string(job.ID)+"/live?after=1", "2")
		first := <-events
		require.Contains(t, first, "drawing")
		require.Contains(t, first, `id="event-3"`)
		require.NotContains(t, first, `id="event-2"`, "the browser has seen it")
		require.NotContains(t, first, "<video")

		b.complete(t, worker, fence)

		var last, end string
		for event := range events {
			last, end = end, event
			require.NotContains(t, event, `id="event-3"`, "an event is told once")
		}
		require.Contains(t, last, "<video")
		require.Equal(t, "event: end\nend\n", end)
	})

	t.Run("RefusesUnknownJobs", func(t *testing.T) {
		t.Parallel()

		got := operator(t).get(t, "/jobs/"+string(models.NewJobID())+"/live")

		require.Equal(t, http.StatusNotFound, got.Status)
	})
}

func TestJobCancel(t *testing.T) {
	t.Parallel()

	t.Run("EndsAWaitingJob", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job := b.Submit(t)

		got := b.post(t, "/jobs/"+string(job.ID)+"/cancel", nil)

		require.Equal(t, "/jobs/"+string(job.ID), got.Header.Get("Location"))
		require.Equal(t, models.JobCancelled, b.Reload(t, job.ID).Status)
		require.NotContains(t, b.get(t, "/jobs/"+string(job.ID)).Body, "Cancel job")
	})

	t.Run("SaysThatItIsTooLate", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job, worker, fence := b.resumed(t)
		b.complete(t, worker, fence)

		got := b.post(t, "/jobs/"+string(job.ID)+"/cancel", nil)

		require.Equal(t, http.StatusConflict, got.Status)
		require.Contains(t, got.Body, "too late")
	})
}

func TestJobWebhooks(t *testing.T) {
	t.Parallel()

	t.Run("ShowsEachTry", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		nobody := httptest.NewServer(nil)
		nobody.Close()
		_, _, err := b.Webhooks.CreateEndpoint(t.Context(), b.Client, nobody.URL+"/hook?<script>", webhooks.FormatStandard, nil)
		require.NoError(t, err)
		job, err := b.Canceller.Cancel(t.Context(), b.Client, b.Submit(t).ID)
		require.NoError(t, err)
		_, err = b.Deliverer.Pass(t.Context())
		require.NoError(t, err)

		page := b.get(t, "/jobs/"+string(job.ID)).Body

		require.Contains(t, page, "job.cancelled")
		require.Contains(t, page, nobody.URL+"/hook")
		require.NotContains(t, page, "hook?<script>")
		require.Contains(t, page, "retrying")
		require.Regexp(t, `</time>\s+<span class="quiet">\d+ ms</span> <span>The call failed: this machine gave no HTTP answer.</span>`, page)
		require.Contains(t, page, `/live?after=`, "the page follows a webhook on its way")
	})

	t.Run("FoldsTriesWithOneOutcome", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		nobody := httptest.NewServer(nil)
		nobody.Close()
		_, _, err := b.Webhooks.CreateEndpoint(t.Context(), b.Client, nobody.URL, webhooks.FormatStandard, nil)
		require.NoError(t, err)
		job, err := b.Canceller.Cancel(t.Context(), b.Client, b.Submit(t).ID)
		require.NoError(t, err)
		for range 2 {
			_, err = b.Deliverer.Pass(t.Context())
			require.NoError(t, err)
			b.Exec(t, "UPDATE webhook_deliveries SET next_attempt_at = clock_timestamp()")
		}
		b.Exec(t, `INSERT INTO webhook_tries (delivery_id, try_no, at, duration_ms, status_code) SELECT delivery_id, 3, at, 5, 503 FROM webhook_tries WHERE try_no = 1`)
		b.Exec(t, "UPDATE webhook_tries SET at = '2020-01-31T12:00:00Z'::timestamptz + try_no * interval '1 second'")

		page := b.page(t, string(address.Job(job.ID)))

		require.Equal(t, 1, strings.Count(page, "The call failed: this machine gave no HTTP answer."))
		require.Regexp(t, `(?s)>31 Jan 2020 12:00:01 UTC</time>.*2 times, last\s+<time data-at="full"[^>]*>31 Jan 2020 12:00:02 UTC</time>.*>31 Jan 2020 12:00:03 UTC</time>.*status 503\.`, page)
	})

	t.Run("FollowsThemPastTheJobsEnd", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		taking := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		t.Cleanup(taking.Close)
		_, _, err := b.Webhooks.CreateEndpoint(t.Context(), b.Client, taking.URL, webhooks.FormatStandard, nil)
		require.NoError(t, err)
		job := b.Submit(t)
		events := b.stream(t, "/jobs/"+string(job.ID)+"/live?after=1", "")
		require.NotContains(t, <-events, `id="webhooks"`)

		_, err = b.Canceller.Cancel(t.Context(), b.Client, job.ID)
		require.NoError(t, err)
		ended := <-events
		require.Contains(t, ended, `id="webhooks"`)
		require.Contains(t, ended, "is-pending")
		_, err = b.Deliverer.Pass(t.Context())
		require.NoError(t, err)

		require.Contains(t, <-events, "The endpoint responded with status 200.")
		require.Equal(t, "event: end\nend\n", <-events)
	})
}

// TestEvidence checks that the job page shows the frames of a refused video at its attempt.
func TestEvidence(t *testing.T) {
	t.Parallel()
	b := operator(t)
	b.Submit(t)
	worker := b.Worker(t, "one")
	granted, fence := b.Lease(t, worker)
	object := b.Upload(t, worker, fence, models.ArtifactEvidence, []byte("a frame"))
	_, err := b.Attempts.CommitArtifact(t.Context(), worker, fence, models.ArtifactEvidence, object)
	require.NoError(t, err)
	_, err = b.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailDefectiveResult, Message: "BLACK: It is black."})
	require.NoError(t, err)

	body := b.get(t, "/jobs/"+string(granted.Job.ID)).Body

	require.Contains(t, body, `<img class="evidence" src="/artifacts/art_`)
	require.Empty(t, b.Reload(t, granted.Job.ID).PreviewID, "it is no preview")
}
