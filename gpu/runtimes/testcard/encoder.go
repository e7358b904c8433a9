package testcard

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
)

// encoder is an ffmpeg process that reads frames. It stays in the runtime's
// process group, which the agent kills as a whole.
type encoder struct {
	cancel context.CancelFunc
	cmd    *exec.Cmd
	frames io.WriteCloser
	said   bytes.Buffer // its standard error, which holds only errors
}

// startEncoder starts an encoder of an MP4 that depends only on the frames: the
// number of threads is fixed, and neither the host nor the time is written. It
// makes the stills in the same run.
func startEncoder(ctx context.Context, f video, to files) (*encoder, error) {
	args := append(rawInput(f, f.fps), "-filter_complex", "split=3[frames][middle][sample];"+
		"[frames]scale=out_color_matrix=bt709:out_range=tv:flags=bilinear+accurate_rnd+bitexact[video];"+
		"[middle]"+f.thumbnailFilter()+"[thumbnail];[sample]"+f.spritesheetFilter()+"[spritesheet]",
		"-map", "[video]", "-c:v", "libx264", "-preset", "veryfast", "-crf", "20", "-pix_fmt", "yuv420p", "-threads", "2",
		"-g", strconv.Itoa(2*f.fps), "-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709",
		"-fflags", "+bitexact", "-flags:v", "+bitexact", "-map_metadata", "-1", "-movflags", "+faststart",
		"-f", "mp4", to.video)
	args = append(args, still("[thumbnail]", to.thumbnail)...)
	args = append(args, still("[spritesheet]", to.spritesheet)...)
	return startFFmpeg(ctx, args)
}

// startClip starts the encoding of a small clip without stills.
func startClip(ctx context.Context, f video, fps int, path string) (*encoder, error) {
	return startFFmpeg(ctx, append(rawInput(f, fps), "-c:v", "libx264", "-preset", "veryfast", "-crf", "26", "-pix_fmt", "yuv420p",
		"-threads", "1", "-map_metadata", "-1", "-movflags", "+faststart", "-f", "mp4", path))
}

// rawInput are ffmpeg's arguments to read frames from its standard input.
func rawInput(f video, fps int) []string {
	return []string{"-hide_banner", "-loglevel", "error", "-nostdin", "-y",
		"-f", "rawvideo", "-pix_fmt", "rgb24", "-s", fmt.Sprintf("%dx%d", f.width, f.height), "-r", strconv.Itoa(fps), "-i", "pipe:0"}
}

func startFFmpeg(ctx context.Context, args []string) (*encoder, error) {
	ffmpeg, err := findFFmpeg()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	e := &encoder{cancel: cancel}
	e.cmd = exec.CommandContext(ctx, ffmpeg, args...)
	e.cmd.Stderr = &e.said
	e.cmd.WaitDelay = 5 * time.Second
	if e.frames, err = e.cmd.StdinPipe(); err == nil {
		err = e.cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, runtime.Failf(runtime.ModelCrash, "ffmpeg could not be started: %v.", err)
	}
	return e, nil
}

// write encodes a frame. It fails only if ffmpeg has ended; the error says why.
func (e *encoder) write(pixels []byte) error {
	if _, err := e.frames.Write(pixels); err != nil {
		// Prefer ffmpeg's own error to that of the broken pipe.
		return cmp.Or(e.finish(), err)
	}
	return nil
}

// finish waits until the file is complete.
func (e *encoder) finish() error {
	defer e.cancel()
	e.frames.Close()
	err := e.cmd.Wait()
	if err == nil {
		return nil
	}
	said := strings.TrimSpace(e.said.String())
	if len(said) > 1000 {
		said = "…" + strings.ToValidUTF8(said[len(said)-1000:], "")
	}
	return runtime.Failf(runtime.ModelCrash, "ffmpeg ended before the video was encoded (%v): %s", err, said)
}
