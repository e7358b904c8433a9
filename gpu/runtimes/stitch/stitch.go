// Package stitch is the program of the model video.stitch: it joins clips to one video with
// ffmpeg. Clips may differ in size, frame rate and sound; cuts or cross-fades separate them, and
// music can be mixed into their sound. The runtime command runs it.
package stitch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"

	"github.com/reelay/reelay/gpu/hdr"
	"github.com/reelay/reelay/internal/program"
)

// params are the parameters of a job, with the defaults of the model's schema.
type params struct {
	CrossfadeSeconds float64 `json:"crossfadeSeconds"`
	Transition       string  `json:"transition"`
	// Width, Height and FPS are those of the first clip if they are 0.
	Width       int     `json:"width"`
	Height      int     `json:"height"`
	FPS         float64 `json:"fps"`
	Muted       bool    `json:"muted"`
	MusicVolume float64 `json:"musicVolume"`
}

// job is what a run of the program does.
type job struct {
	params
	clips            []clip
	music            string // "" for none
	video, thumbnail string
}

const (
	maxClips   = 50
	maxSeconds = 2 * 60 * 60 // of the whole video
)

// Main does the job in the file and writes its reports to out, one JSON object in each line.
func Main(ctx context.Context, path string, out io.Writer) error {
	runtime.LockOSThread() // the kernel ends ffmpeg with the thread that started it
	defer runtime.UnlockOSThread()
	report := json.NewEncoder(out)
	err := run(ctx, path, func(r program.Report) { _ = report.Encode(r) })
	if refused := (refusal("")); errors.As(err, &refused) {
		_ = report.Encode(program.Report{Error: &program.ReportedError{Class: "INVALID_INPUT", Message: err.Error()}})
	}
	return err
}

// refusal is an error that the job's owner can correct.
type refusal string

func (r refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

func run(ctx context.Context, path string, report func(program.Report)) error {
	j, err := read(path)
	if err != nil {
		return err
	}
	report(program.Report{Phase: "RENDERING", Message: fmt.Sprintf("reading %d clips", len(j.clips))})
	for i := range j.clips {
		if j.clips[i], err = probe(ctx, j.clips[i].path); err != nil {
			return unusable(ctx, fmt.Sprintf("Clip %d", i+1), err)
		}
	}
	if err := j.convertible(ctx); err != nil {
		return err
	}
	if j.music != "" {
		if err := probeSound(ctx, j.music); err != nil {
			return unusable(ctx, "The music", err)
		}
	}
	p, err := newPlan(j)
	if err != nil {
		return err
	}
	if err := encode(ctx, j, p, report); err != nil {
		return err
	}
	return still(ctx, j.video, p.seconds()/2, j.thumbnail)
}

// convertible refuses HDR clips that this machine's ffmpeg cannot convert.
func (j *job) convertible(ctx context.Context) error {
	i := slices.IndexFunc(j.clips, func(c clip) bool { return hdr.Kind(c.look.transfer) != "" })
	if i < 0 {
		return nil
	}
	missing, err := hdr.Missing(ctx)
	if err != nil || missing == "" {
		return err
	}
	return refuse("Clip %d is HDR (%s), and the ffmpeg of this worker cannot convert it to SDR: it lacks the filter %s. Convert the clip to SDR first.",
		i+1, hdr.Kind(j.clips[i].look.transfer), missing)
}

// unusable refuses an input, unless it could not be read at all.
func unusable(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil || errors.Is(err, errMissing) {
		return err
	}
	return refuse("%s cannot be used: %v.", what, err)
}

// read reads the job from the file that the runtime command wrote.
func read(path string) (*job, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var given struct {
		Params  params            `json:"params"`
		Inputs  map[string]string `json:"inputs"`
		Outputs map[string]string `json:"outputs"`
	}
	given.Params.MusicVolume = 0.3
	if err := json.Unmarshal(data, &given); err != nil {
		return nil, refuse("The job cannot be read: %v.", err)
	}
	j := &job{
		params: given.Params, music: given.Inputs["music"],
		video: given.Outputs["video"], thumbnail: given.Outputs["thumbnail"],
	}
	for i := 0; given.Inputs["clips."+strconv.Itoa(i)] != ""; i++ {
		j.clips = append(j.clips, clip{path: given.Inputs["clips."+strconv.Itoa(i)]})
	}
	if len(j.clips) == 0 || len(j.clips) > maxClips {
		return nil, refuse("A video is joined from 1 to %d clips, and params.clips names %d.", maxClips, len(j.clips))
	}
	if j.video == "" || j.thumbnail == "" {
		return nil, errors.New("the model's settings must have the outputs video and thumbnail")
	}
	return j, nil
}
