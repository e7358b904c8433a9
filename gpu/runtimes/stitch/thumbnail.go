package stitch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strconv"

	"github.com/reelay/reelay/gpu/hdr"
)

// Thumbnail is the program of the model video.thumbnail: it writes the picture of a video at a moment
// in seconds, at most so many pixels wide, with square pixels and the colours of SDR. What ffmpeg says
// goes to said, and its error is returned.
func Thumbnail(ctx context.Context, video, at, width, to string, said io.Writer) error {
	runtime.LockOSThread() // the kernel ends ffmpeg with the thread that started it
	defer runtime.UnlockOSThread()
	if _, err := strconv.ParseFloat(at, 64); err != nil {
		return fmt.Errorf("the moment must be a number of seconds, not %q", at)
	}
	if n, err := strconv.Atoi(width); err != nil || n < 1 {
		return fmt.Errorf("the width must be a number of pixels, not %q", width)
	}
	// Pixels need not be square.
	filters := "scale='max(2,round(iw*max(sar,1)/2)*2)':'max(2,round(ih/min(sar,1)/2)*2)',setsar=1,scale='min(" + width + ",iw)':-2"
	// A file that cannot be read is left to ffmpeg, which says why.
	if found, err := inspect(ctx, video); err == nil {
		filters += toSDR(ctx, found)
	}
	args := append([]string{"-hide_banner", "-loglevel", "error", "-nostdin"}, guarded...)
	command := exec.CommandContext(ctx, "ffmpeg", append(args, "-ss", at, "-i", video, "-frames:v", "1", "-vf", filters, to)...)
	dieWithParent(command)
	command.Stdout, command.Stderr = said, said
	err := command.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return errMissing
	}
	return err
}

// toSDR returns the filters that convert the picture of a file to SDR, after others; "" if it is SDR, or
// if this ffmpeg cannot convert it: a picture that looks grey is better than none.
func toSDR(ctx context.Context, file *media) string {
	for _, s := range file.Streams {
		if s.Type != "video" || s.Disposition.Picture != 0 {
			continue
		}
		if hdr.Kind(s.Transfer) == "" {
			return ""
		}
		if missing, err := hdr.Missing(ctx); err != nil || missing != "" {
			return ""
		}
		return "," + hdr.Filters(s.Transfer, s.Primaries, s.Matrix)
	}
	return ""
}
