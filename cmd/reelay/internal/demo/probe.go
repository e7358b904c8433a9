package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"strconv"
	"strings"

	"github.com/reelay/reelay/cmd/reelay/internal/output"
)

// probed is what ffprobe reports about a file.
type probed struct {
	Codec         string
	Width, Height int
	Frames        int
	Seconds       float64
}

func findProbe() (string, error) {
	path, err := exec.LookPath("ffprobe")
	if err != nil {
		return "", errors.New("ffprobe, which checks the video, is missing: install FFmpeg (apt install ffmpeg, brew install ffmpeg)")
	}
	return path, nil
}

// probe decodes a video and returns its properties.
func probe(ctx context.Context, path string) (*probed, error) {
	program, err := findProbe()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, "-v", "error", "-count_frames", "-select_streams", "v:0",
		"-show_entries", "stream=codec_name,width,height,nb_read_frames:format=duration", "-of", "json", "file:"+path)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil || problems.Len() > 0 {
		return nil, fmt.Errorf("ffprobe cannot decode %s: %s", path, output.Clean(strings.TrimSpace(problems.String())))
	}
	return parseProbe(out)
}

func parseProbe(out []byte) (*probed, error) {
	var answer struct {
		Streams []struct {
			Codec  string `json:"codec_name"`
			Width  int    `json:"width"`
			Height int    `json:"height"`
			Frames string `json:"nb_read_frames"`
		} `json:"streams"`
		Format struct {
			Duration string `json:"duration"`
		} `json:"format"`
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return nil, fmt.Errorf("read the output of ffprobe: %w", err)
	}
	if len(answer.Streams) == 0 {
		return nil, errors.New("the file has no video stream")
	}
	s := answer.Streams[0]
	frames, err := strconv.Atoi(s.Frames)
	if err != nil {
		return nil, fmt.Errorf("ffprobe reports %q frames", s.Frames)
	}
	seconds, err := strconv.ParseFloat(answer.Format.Duration, 64)
	if err != nil {
		return nil, fmt.Errorf("ffprobe reports a duration of %q", answer.Format.Duration)
	}
	return &probed{s.Codec, s.Width, s.Height, frames, seconds}, nil
}

// check returns every difference from what was requested.
func (f *probed) check(seconds float64, fps int) error {
	var wrong []error
	if f.Codec != "h264" {
		wrong = append(wrong, fmt.Errorf("the video codec is %s, not h264", f.Codec))
	}
	if want := int(math.Round(seconds * float64(fps))); f.Frames != want {
		wrong = append(wrong, fmt.Errorf("the video has %d frames, not %d", f.Frames, want))
	}
	if math.Abs(f.Seconds-seconds) > 1/float64(fps)+0.01 {
		wrong = append(wrong, fmt.Errorf("the video lasts %.2f s, not %.2f s", f.Seconds, seconds))
	}
	return errors.Join(wrong...)
}
