package demo

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/progress"
	"github.com/reelay/reelay/cmd/reelay/internal/storyboard"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/stretchr/testify/require"
)

// preempted returns a job's history that passes the demo's check; change breaks it.
func preempted(noticed time.Time, change func(*client.JobHistory)) *client.JobHistory {
	second := "att_2"
	h := &client.JobHistory{
		Job: client.Job{Status: client.JobStatusCompleted, AttemptNo: 2},
		Attempts: []client.Attempt{
			{
				Id: "att_1", AttemptNo: 1, Status: client.AttemptStatusReleased,
				Worker: &client.AttemptWorker{Id: "wrk_1"}, FailureClass: new(client.FailureClassPreempted),
			},
			{
				Id: second, AttemptNo: 2, Status: client.AttemptStatusSucceeded,
				Worker: &client.AttemptWorker{Id: "wrk_2"}, ResumedFromStep: new(40),
			},
		},
		Events: client.JobEvents{Edges: []client.JobEventEdge{
			{Node: client.JobEvent{Seq: 1, Type: client.JobEventTypeStarted, AttemptId: new("att_1"), CreatedAt: noticed.Add(-time.Second)}},
			{Node: client.JobEvent{Seq: 2, Type: client.JobEventTypeStarted, AttemptId: &second, CreatedAt: noticed.Add(1500 * time.Millisecond)}},
		}},
	}
	change(h)
	return h
}

func TestDemoCheck(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		change func(*client.JobHistory)
		wrong  string
	}{
		"AcceptsAJobThatResumedElsewhere": {func(*client.JobHistory) {}, ""},
		"RefusesAFailedJob":               {func(h *client.JobHistory) { h.Status = client.JobStatusFailed }, "FAILED, not COMPLETED"},
		"RefusesASingleAttempt":           {func(h *client.JobHistory) { h.Attempts = h.Attempts[:1] }, "1 attempts"},
		"RefusesALostAttempt": {func(h *client.JobHistory) { h.Attempts[0].Status = client.AttemptStatusLost },
			"LOST, not RELEASED"},
		"RefusesAnotherReason":                {func(h *client.JobHistory) { h.Attempts[0].FailureClass = nil }, "not PREEMPTED"},
		"RefusesTheSameWorker":                {func(h *client.JobHistory) { h.Attempts[1].Worker.Id = "wrk_1" }, "not another worker's"},
		"RefusesAFreshStart":                  {func(h *client.JobHistory) { h.Attempts[1].ResumedFromStep = nil }, "not from a checkpoint"},
		"RefusesAStartFromStepZero":           {func(h *client.JobHistory) { h.Attempts[1].ResumedFromStep = new(0) }, "not from a checkpoint"},
		"RefusesAJobThatWasNotSeenToRunAgain": {func(h *client.JobHistory) { h.Events.Edges = h.Events.Edges[:1] }, "ran again"},
		"RefusesThePreemptionOfAnotherWorker": {func(h *client.JobHistory) { h.Attempts[0].Worker.Id = "wrk_3" },
			"was not the preempted worker's"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			d := &demo{preempted: "wrk_1", noticed: time.Now()}

			err := d.check(preempted(d.noticed, test.change))

			if test.wrong == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.wrong)
		})
	}
}

func TestFilmDemo(t *testing.T) {
	t.Parallel()

	film := func(status client.JobStatus) *client.WorkflowDetail {
		return &client.WorkflowDetail{Jobs: []client.WorkflowNode{
			{Key: "shots.fog", Job: client.WorkflowNodeJob{Status: client.JobStatusCompleted}},
			{Key: "film", Job: client.WorkflowNodeJob{Status: status}},
		}}
	}
	lost := func(change func(*client.JobHistory)) func(*client.JobHistory) {
		return func(h *client.JobHistory) {
			h.Attempts[0].Status, h.Attempts[0].FailureClass = client.AttemptStatusLost, new(client.FailureClassWorkerLost)
			change(h)
		}
	}
	tests := map[string]struct {
		film   client.JobStatus
		change func(*client.JobHistory)
		wrong  string
	}{
		"AcceptsAShotThatRanElsewhere": {client.JobStatusCompleted, lost(func(*client.JobHistory) {}), ""},
		"AcceptsAShotThatBeganAgain": {client.JobStatusCompleted,
			lost(func(h *client.JobHistory) { h.Attempts[1].ResumedFromStep = nil }), ""},
		"RefusesAFilmThatDidNotComplete": {client.JobStatusFailed, lost(func(*client.JobHistory) {}), "film is FAILED, not COMPLETED"},
		"RefusesASingleAttempt": {client.JobStatusCompleted, lost(func(h *client.JobHistory) { h.Attempts = h.Attempts[:1] }),
			"shots.fog has 1 attempts"},
		"RefusesAnAttemptThatWasHandedBack": {client.JobStatusCompleted, func(*client.JobHistory) {}, "RELEASED, not LOST"},
		"RefusesTheSameWorker": {client.JobStatusCompleted,
			lost(func(h *client.JobHistory) { h.Attempts[1].Worker.Id = "wrk_1" }), "not another worker's"},
		"RefusesTheEndOfAnotherWorker": {client.JobStatusCompleted,
			lost(func(h *client.JobHistory) { h.Attempts[0].Worker.Id = "wrk_3" }), "was not the killed worker's"},
		"RefusesAShotThatWasNotSeenToRunAgain": {client.JobStatusCompleted,
			lost(func(h *client.JobHistory) { h.Events.Edges = h.Events.Edges[:1] }), "ran again"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			d := &filmDemo{demo: demo{preempted: "wrk_1", noticed: time.Now()}, shot: "shots.fog"}

			err := d.check(film(test.film), preempted(d.noticed, test.change))

			if test.wrong == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.wrong)
		})
	}
	t.Run("HasAStoryboardThatCompiles", func(t *testing.T) {
		t.Parallel()

		film, err := storyboard.Read("demo_film.yaml", demoFilm)
		require.NoError(t, err)
		in, err := film.Compile(storyboard.Options{})

		require.NoError(t, err)
		require.Len(t, in.Jobs, 5)
	})
}

func TestDemoVideo(t *testing.T) {
	t.Parallel()

	t.Run("RefusesOtherModels", func(t *testing.T) {
		t.Parallel()

		_, err := (&demoOptions{model: "wan"}).video()

		require.ErrorContains(t, err, `--model is "wan": the demo renders with testcard or tiny-ltx`)
	})
	t.Run("SaysWhatToInstallForTinyLTX", func(t *testing.T) {
		t.Parallel()
		video, err := (&demoOptions{model: "tiny-ltx", python: "false"}).video()
		require.NoError(t, err)

		_, err = video.prepare(t.Context(), progress.NewDisplay(io.Discard), t.TempDir())

		require.ErrorContains(t, err, "pip install ./gpu/runtimes/python ./gpu/runtimes/diffusers")
	})
	t.Run("WritesAnEntryThatTheCatalogueAccepts", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		video, err := (&demoOptions{model: "tiny-ltx", python: "true"}).video()
		require.NoError(t, err)

		env, err := video.prepare(t.Context(), progress.NewDisplay(io.Discard), folder)
		require.NoError(t, err)

		models := strings.TrimPrefix(env[0], "REELAY_MODELS=")
		source, err := catalogue.ReadFolder(os.DirFS(models))
		require.NoError(t, err)
		known, err := catalogue.Load(source)
		require.NoError(t, err)
		tiny, err := known.Model("tiny-ltx")
		require.NoError(t, err)
		require.Contains(t, string(tiny.Settings), filepath.Join(folder, "tiny-ltx"))
	})
}

func TestDemoSince(t *testing.T) {
	t.Parallel()

	d := &demo{noticed: time.Now()}

	require.InDelta(t, 1.5, d.since(preempted(d.noticed, func(*client.JobHistory) {}), client.JobEventTypeStarted), 0.001)
}

func TestVideoCheck(t *testing.T) {
	t.Parallel()

	parsed, err := parseProbe([]byte(`{"streams":[{"codec_name":"h264","width":854,"height":480,"nb_read_frames":"144"}],"format":{"duration":"6.000000"}}`))

	require.NoError(t, err)
	require.NoError(t, parsed.check(6, 24))
	require.ErrorContains(t, parsed.check(6, 25), "144 frames, not 150")
	require.ErrorContains(t, (&probed{"mpeg4", 1, 1, 144, 6}).check(6, 24), "not h264")
	require.ErrorContains(t, (&probed{"h264", 1, 1, 144, 5}).check(6, 24), "lasts 5.00 s")
	_, err = parseProbe([]byte(`{"streams":[],"format":{}}`))
	require.ErrorContains(t, err, "no video stream")
}
