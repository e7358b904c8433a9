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

// encoder is an ffmpeg that takes frames. It stays in our process group, so that
// it ends with us when an agent kills that.
type encoder struct {
	cancel context.CancelFunc
	cmd    *exec.Cmd
	frames io.WriteCloser
	said   bytes.Buffer // what it wrote to its standard error: errors alone
}

// startEncoder starts an encoder to an MP4 whose decoded frames depend on the
// frames alone: the number of threads is fixed, and nothing of the host or the
// hour gets in. The stills are made on the way.
func startEncoder(ctx context.Context, f film, to files) (*encoder, error) {
	ffmpeg, err := findFFmpeg()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	e := &encoder{cancel: cancel}
	fps := strconv.Itoa(f.fps)
	args := []string{"-hide_banner", "-loglevel", "error", "-nostdin", "-y",
		"-f", "rawvideo", "-pix_fmt", "rgb24", "-s", fmt.Sprintf("%dx%d", f.width, f.height), "-r", fps, "-i", "pipe:0",
		"-filter_complex", "split=3[frames][middle][sample];" +
			"[frames]scale=out_color_matrix=bt709:out_range=tv:flags=bilinear+accurate_rnd+bitexact[film];" +
			"[middle]" + f.thumbnailFilter() + "[thumbnail];[sample]" + f.spritesheetFilter() + "[spritesheet]",
		"-map", "[film]", "-c:v", "libx264", "-preset", "veryfast", "-crf", "20", "-pix_fmt", "yuv420p", "-threads", "2",
		"-g", strconv.Itoa(2 * f.fps), "-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709",
		"-fflags", "+bitexact", "-flags:v", "+bitexact", "-map_metadata", "-1", "-movflags", "+faststart",
		"-f", "mp4", to.video}
	args = append(args, still("[thumbnail]", to.thumbnail)...)
	args = append(args, still("[spritesheet]", to.spritesheet)...)
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

// write takes a frame. It fails only if ffmpeg has ended, and then says why.
func (e *encoder) write(pixels []byte) error {
	if _, err := e.frames.Write(pixels); err != nil {
		// What ffmpeg said matters, not that the pipe is broken.
		return cmp.Or(e.finish(), err)
	}
	return nil
}

// finish waits until the file is whole.
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
