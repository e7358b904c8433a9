package enginetest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/reelay/reelay/internal/testrun"
)

// Shape is what a film looks like.
type Shape struct {
	Width, Height, FPS, Frames int
}

// small is the shape of a film of which the request says nothing.
var small = Shape{Width: 64, Height: 36, FPS: 8, Frames: 8}

// mark stands in a film's comment where the id of its job goes.
var mark = strings.Repeat("#", 128)

var films = struct {
	mu   sync.Mutex
	made map[Shape]func() ([]byte, error)
}{made: map[Shape]func() ([]byte, error){}}

// Film returns a real MP4 that says in its comment which job it is of. FFmpeg runs once per shape.
func Film(t testing.TB, id string, shape Shape) []byte {
	if len(id) > len(mark) {
		t.Errorf("the id %s is longer than a film's comment", id)
		id = id[:len(mark)]
	}
	films.mu.Lock()
	encode, ok := films.made[shape]
	if !ok {
		encode = sync.OnceValues(func() ([]byte, error) { return encodeFilm(t, shape) })
		films.made[shape] = encode
	}
	films.mu.Unlock()
	film, err := encode()
	if err != nil {
		t.Error(err)
	}
	return bytes.Replace(film, []byte(mark), []byte(id+strings.Repeat(" ", len(mark)-len(id))), 1)
}

// FilmID returns the id of the job that a film is of.
func FilmID(t testing.TB, film []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "film.mp4")
	if err := os.WriteFile(path, film, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := testrun.Command(t, "ffprobe", "-v", "error", "-show_entries", "format_tags=comment", "-of", "csv=p=0", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func encodeFilm(t testing.TB, s Shape) ([]byte, error) {
	dir, err := os.MkdirTemp("", "film")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "film.mp4")
	picture := fmt.Sprintf("testsrc2=size=%dx%d:rate=%d", s.Width, s.Height, s.FPS)
	out, err := testrun.Command(t, "ffmpeg", "-v", "error", "-f", "lavfi", "-i", picture, "-frames:v", fmt.Sprint(s.Frames),
		"-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-metadata", "comment="+mark, path).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("making a film: %w: %s", err, out)
	}
	return os.ReadFile(path)
}
