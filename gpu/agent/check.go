package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/quality"
	"github.com/reelay/reelay/gpu/runtime"
)

// check refuses a defective video before it is uploaded, if the job's model asks for
// that. Its error is one of the reasons to stop or a *runtime.Failure. After a defect
// the runtime is killed: its model or its GPU may be the cause.
func (t *attempt) check(result *runtime.Result) error {
	if !t.checks() {
		return nil
	}
	t.progress.phase(client.PhaseUploading, "checking the video")
	ctx, stop := until(t.rendering, t.worker.going.over, errRelease)
	defer stop()
	err := t.judge(ctx, result.Video)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		t.worker.runtimes.Settle(err)
	}
	return err
}

// checks reports whether the video must be checked: the model makes videos, and neither
// its entry in the catalogue nor this agent's configuration leaves out the check.
func (t *attempt) checks() bool {
	model := t.lease.Model
	if t.draftSteps() > 0 || model == nil || model.Produces != client.ModelProductVideo || t.worker.config.UncheckedVideos {
		return false
	}
	return t.wanted().Check
}

// qualitySettings are the settings of a model's entry for the check of its videos.
type qualitySettings struct {
	Check, AllowDark, AllowStill bool
	quality.Thresholds
}

// wanted returns the settings of the job's model.
func (t *attempt) wanted() qualitySettings {
	settings := qualitySettings{Check: true}
	if model := t.lease.Model; model != nil && model.Quality != nil {
		_ = json.Unmarshal(*model.Quality, &settings) // settings that do not fit keep their defaults
	}
	return settings
}

// judge returns a *runtime.Failure of class DEFECTIVE_RESULT if the video is not what the
// params of its job ask for. It publishes the frames that show the defect.
func (t *attempt) judge(ctx context.Context, video string) error {
	if video == "" {
		return runtime.Failf(runtime.DefectiveResult, "UNDECODABLE: The runtime delivered no video.")
	}
	expect, settings := asked(t.lease.Job.Params), t.wanted()
	expect.AllowDark = expect.AllowDark || settings.AllowDark
	expect.AllowStill = expect.AllowStill || settings.AllowStill
	expect.Thresholds = settings.Thresholds
	report, err := quality.Check(ctx, video, expect)
	switch {
	case errors.Is(err, quality.ErrMissing):
		return runtime.Failf(runtime.ModelCrash, "%s; or start the agent with --quality-gate=off", err)
	case errors.Is(err, quality.ErrTooSlow):
		return runtime.Failf(runtime.Timeout, "%s", err)
	case err != nil:
		return runtime.Failf(runtime.Transient, "the video could not be checked: %s", err)
	case report.Defect == nil:
		return nil
	}
	says := fmt.Sprintf("%s: %s", report.Defect.Code, report.Defect.Message)
	if at := report.Evidence; len(at) == 2 {
		says += fmt.Sprintf(" Compare the frames at %.2f s and %.2f s.", at[0], at[1])
		t.publishEvidence(ctx, video, report)
	}
	return runtime.Failf(runtime.DefectiveResult, "%s", says)
}

// evidenceNote is stored with a frame that shows a defect.
type evidenceNote struct {
	Defect quality.Code `json:"defect"`
	// At is the time of the frame in the video, in seconds.
	At float64 `json:"at"`
}

// publishEvidence publishes the frames that show a defect. If a frame cannot be published, it only
// logs that.
func (t *attempt) publishEvidence(ctx context.Context, video string, report *quality.Report) {
	ctx, cancel := context.WithTimeout(ctx, evidenceTime)
	defer cancel()
	frame := filepath.Join(t.dir, "evidence.jpg")
	for _, at := range report.Evidence {
		err := quality.Frame(ctx, video, at, frame)
		if err == nil {
			err = t.publishFrame(ctx, frame, evidenceNote{report.Defect.Code, at})
		}
		if err != nil {
			t.log.Warn("a frame that shows the defect was not published", "at", at, "error", err)
		}
	}
}

func (t *attempt) publishFrame(ctx context.Context, path string, note evidenceNote) error {
	metadata, err := json.Marshal(note)
	if err != nil {
		return err
	}
	return t.publish(ctx, output{kind: client.ArtifactTypeEvidence, path: path, contentType: contentType(path), metadata: metadata})
}

// evidenceTime bounds how long the frames of a defect hold up the report of the failure.
const evidenceTime = 30 * time.Second

// asked reads from a job's params what its video must be. Models choose their own
// params: one that is missing or of another type asks for nothing.
func asked(params json.RawMessage) quality.Expect {
	var given map[string]any
	_ = json.Unmarshal(params, &given)
	number := func(name string) float64 { n, _ := given[name].(float64); return n }
	set := func(name string) bool { b, _ := given[name].(bool); return b }
	text := func(name string) string { s, _ := given[name].(string); return s }

	e := quality.Expect{
		DurationSeconds: number("durationSeconds"), FPS: number("fps"),
		Width: int(number("width")), Height: int(number("height")),
		Audio: set("audio"), AllowDark: set("allowDark"), AllowStill: set("allowStill"),
	}
	if w, h, ok := strings.Cut(text("size"), "x"); ok && e.Width == 0 && e.Height == 0 {
		e.Width, _ = strconv.Atoi(w)
		e.Height, _ = strconv.Atoi(h)
	}
	if e.Width == 0 && e.Height == 0 {
		e.ShortSide = shortSide(text("resolution"))
	}
	return e
}

// shortSide returns the pixels of a resolution such as 720p or 4k, or 0.
func shortSide(resolution string) int {
	if strings.EqualFold(resolution, "4k") {
		return 2160
	}
	n, _ := strconv.Atoi(strings.TrimSuffix(resolution, "p"))
	return n
}
