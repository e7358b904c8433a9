package quality

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
)

// ErrNoFrame means that a video has no frame that decodes, or none at a time.
var ErrNoFrame = errors.New("no frame decodes")

// Frame writes the frame of the video at a time, in seconds, as a JPEG of at most 640 pixels in
// width to a new file. It returns ErrNoFrame, and leaves no file, if that frame does not decode.
func Frame(ctx context.Context, path string, at float64, to string) error {
	programs, err := findPrograms()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, leastTime, ErrTooSlow)
	defer cancel()
	// A millisecond earlier, because times are rounded.
	args := append([]string{"-v", "error", "-nostdin", "-y", "-noautorotate", "-threads", "2",
		"-ss", strconv.FormatFloat(max(0, at-0.001), 'f', 3, 64), "-max_pixels", strconv.Itoa(maxPixels)}, input(path)...)
	args = append(args, "-map", "0:V:0", "-frames:v", "1", "-vf", "scale='min(640,iw)':-2", "-q:v", "4", "-f", "mjpeg", "pipe:1")
	picture, err := os.Create(to)
	if err != nil {
		return err
	}
	_, _, err = run(ctx, programs.ffmpeg, args, func(r io.Reader) error {
		_, err := io.Copy(picture, io.LimitReader(r, 8<<20))
		return err
	})
	size, _ := picture.Seek(0, io.SeekCurrent)
	err = errors.Join(err, picture.Close())
	if err == nil && size == 0 {
		err = ErrNoFrame
	}
	if err != nil {
		os.Remove(to)
	}
	return err
}
