package quality

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/reelay/reelay/gpu/hdr"
)

// End is one of the two ends of a video.
type End string

const (
	FirstFrame End = "FIRST"
	LastFrame  End = "LAST"
)

// tails are from how many seconds before the end of the video a search for the last frame
// begins. The last one is the whole video: a header may be wrong, and a frame may last long.
var tails = []float64{5, 60, 0}

// EndFrame writes the first or last frame of the video at path that decodes, as it is shown, as
// a PNG to a new file: in the size of the video, but with square pixels, and in SDR. It looks at pictures only, however long the sound is. It
// returns ErrNoFrame, wrapped with the reason, if no frame decodes, ErrMissing without ffmpeg,
// or ctx's cause.
func EndFrame(ctx context.Context, path string, end End, to string) error {
	programs, err := findPrograms()
	if err != nil {
		return err
	}
	c, defect, err := probe(ctx, programs.ffprobe, path)
	if err != nil {
		return fmt.Errorf("probe the video: %w", err)
	}
	if defect != nil {
		return fmt.Errorf("%w: %s", ErrNoFrame, defect.Message)
	}
	if end == FirstFrame {
		return c.writeFrame(ctx, programs.ffmpeg, path, 0, 0, to)
	}
	length := c.seconds
	if length == 0 {
		length = c.limit
	}
	for _, tail := range tails {
		from := max(0, length-tail)
		if tail == 0 {
			from = 0
		} else if from == 0 {
			continue
		}
		n, err := countFrames(ctx, programs.ffmpeg, path, from)
		if err != nil {
			return err
		}
		if n > 0 {
			return c.writeFrame(ctx, programs.ffmpeg, path, from, n-1, to)
		}
	}
	return fmt.Errorf("%w: the video has no frame", ErrNoFrame)
}

// pictures returns the arguments that decode the frames from a time on, each once, whatever the
// rate.
func pictures(path string, from float64) []string {
	args := []string{"-v", "error", "-nostdin", "-y", "-threads", "2", "-max_pixels", strconv.Itoa(maxPixels)}
	if from > 0 {
		args = append(args, "-ss", strconv.FormatFloat(from, 'f', 3, 64))
	}
	return append(append(args, input(path)...), "-map", "0:V:0", "-vsync", "passthrough")
}

// countFrames decodes the frames from a time on, and returns their number.
func countFrames(ctx context.Context, ffmpeg, path string, from float64) (int, error) {
	m := &measured{}
	args := append(pictures(path, from), "-enc_time_base", "1/90000", "-f", "framecrc", "pipe:1")
	_, _, err := run(ctx, ffmpeg, args, m.readFrames)
	return len(m.frames), err
}

// maxShape is the longest pixel that is believed.
const maxShape = 16

// shown adds filters to others that make the pixels square and the colours SDR. ffmpeg rotates the
// frames before, and turns the shape of the pixels with them.
func (c container) shown(ctx context.Context, filters string) string {
	if c.shape > 1.0/maxShape && c.shape < maxShape && c.shape != 1 {
		filters += `,scale='max(1,round(iw*max(sar,1)))':'max(1,round(ih/min(sar,1)))',setsar=1`
	}
	if hdr.Kind(c.transfer) != "" {
		if missing, err := hdr.Missing(ctx); err == nil && missing == "" {
			filters += "," + hdr.Filters(c.transfer, c.primaries, c.matrix)
		}
	}
	return filters
}

// writeFrame writes frame n of those from a time on, counted from 0.
func (c container) writeFrame(ctx context.Context, ffmpeg, path string, from float64, n int, to string) error {
	picture, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	args := append(pictures(path, from), "-vf", c.shown(ctx, fmt.Sprintf(`select=eq(n\,%d)`, n)), "-frames:v", "1", "-pix_fmt", "rgb24",
		"-c:v", "png", "-f", "image2pipe", "pipe:1")
	var size int64
	said, _, err := run(ctx, ffmpeg, args, func(r io.Reader) (err error) {
		size, err = io.Copy(picture, r)
		return err
	})
	if closing := picture.Close(); err == nil {
		err = closing
	}
	if err == nil && size == 0 {
		err = fmt.Errorf("%w: %s", ErrNoFrame, said.first())
	}
	if err != nil {
		os.Remove(to)
	}
	return err
}
