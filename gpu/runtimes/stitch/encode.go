package stitch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/reelay/reelay/internal/program"
)

// encode runs ffmpeg and reports its progress.
func encode(ctx context.Context, j *job, p *plan, report func(program.Report)) error {
	args := []string{"-hide_banner", "-loglevel", "error", "-nostdin", "-y", "-progress", "pipe:1"}
	for _, c := range j.clips {
		args = append(append(args, guarded...), "-i", c.path)
	}
	if j.music != "" {
		args = append(append(append(args, guarded...), "-stream_loop", "-1"), "-i", j.music)
	}
	args = append(args, "-filter_complex", p.graph(), "-map", "[video]")
	if p.sound {
		args = append(args, "-map", "[sound]", "-c:a", "aac", "-b:a", "160k", "-ar", fmt.Sprint(soundRate))
	}
	args = append(args, "-c:v", "libx264", "-preset", "veryfast", "-crf", "20", "-pix_fmt", "yuv420p",
		"-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709", "-color_range", "tv", "-r", rational(p.fps),
		"-t", seconds(p.seconds()), "-map_metadata", "-1", "-movflags", "+faststart", "-f", "mp4", j.video)
	command := exec.CommandContext(ctx, "ffmpeg", args...)
	dieWithParent(command)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if errors.Is(err, exec.ErrNotFound) {
		return errMissing
	}
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		micros, found := strings.CutPrefix(lines.Text(), "out_time_us=")
		if done := number(micros) / 1e6; found && done > 0 {
			percent := min(100*done/p.seconds(), 99)
			report(program.Report{Percent: &percent, Phase: "ENCODING", Message: fmt.Sprintf("joining, %.1f of %.1f s", done, p.seconds())})
		}
	}
	if err := command.Wait(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("ffmpeg ended before the video was joined (%w): %s", err, lastLine(said.String()))
	}
	return nil
}

// still writes the thumbnail: one frame of the video.
func still(ctx context.Context, video string, at float64, path string) error {
	command := exec.CommandContext(ctx, "ffmpeg", "-hide_banner", "-loglevel", "error", "-nostdin", "-y",
		"-ss", seconds(at), "-i", video, "-frames:v", "1", "-vf", "scale=640:-2", path)
	dieWithParent(command)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("ffmpeg made no thumbnail (%w): %s", err, lastLine(string(out)))
	}
	return nil
}
