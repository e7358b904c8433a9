package fakes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/reelay/reelay/internal/provider"
	"github.com/shopspring/decimal"
)

// Films are as long as was asked for, to a tenth of a second, from shortest to longest; usual without a length.
const (
	shortest = 1
	usual    = 4
	longest  = 20
)

// films are the videos that fakes return, each made once.
type films struct{ made sync.Map }

// of returns a video as long as was asked for.
func (f *films) of(asked provider.Asked) ([]byte, error) {
	seconds := decimal.NewFromInt(usual)
	if asked.Seconds != nil {
		seconds = decimal.Min(decimal.Max(*asked.Seconds, decimal.NewFromInt(shortest)), decimal.NewFromInt(longest)).Round(1)
	}
	film, _ := f.made.LoadOrStore(seconds.String(), sync.OnceValues(func() ([]byte, error) { return makeFilm(seconds.String()) }))
	return film.(func() ([]byte, error))()
}

// makeFilm makes a video.
func makeFilm(seconds string) ([]byte, error) {
	folder, err := os.MkdirTemp("", "reelay-fake-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "film.mp4")
	out, err := exec.Command("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=640x360:rate=24", "-t", seconds, "-c:v", "libx264",
		"-preset", "veryfast", "-pix_fmt", "yuv420p", "-movflags", "+faststart", path).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("make the video of the fakes with ffmpeg: %w: %s", err, out)
	}
	return os.ReadFile(path)
}
