package quality

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// Frames writes the frames of the video at the given times, in seconds, as JPEG files
// of at most 640 pixels in width into dir. It returns their paths, in order. A frame
// that does not decode is left out.
func Frames(ctx context.Context, path string, times []float64, dir string) ([]string, error) {
	programs, err := findPrograms()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, leastTime, ErrTooSlow)
	defer cancel()
	var made []string
	for i, at := range times {
		to := filepath.Join(dir, fmt.Sprintf("evidence-%d.jpg", i+1))
		// A millisecond earlier, because times are rounded.
		args := append([]string{"-v", "error", "-nostdin", "-y", "-noautorotate", "-threads", "2",
			"-ss", strconv.FormatFloat(max(0, at-0.001), 'f', 3, 64), "-max_pixels", strconv.Itoa(maxPixels)}, input(path)...)
		args = append(args, "-map", "0:V:0", "-frames:v", "1", "-vf", "scale='min(640,iw)':-2", "-q:v", "4", "-f", "mjpeg", "pipe:1")
		picture, err := os.Create(to)
		if err != nil {
			return made, err
		}
		_, _, err = run(ctx, programs.ffmpeg, args, func(r io.Reader) error {
			_, err := io.Copy(picture, io.LimitReader(r, 8<<20))
			return err
		})
		size, _ := picture.Seek(0, io.SeekCurrent)
		if closed := picture.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return made, err
		}
		if size == 0 {
			os.Remove(to)
			continue
		}
		made = append(made, to)
	}
	return made, nil
}
