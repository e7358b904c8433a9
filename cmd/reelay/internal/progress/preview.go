package progress

import (
	"context"
	"errors"
	"fmt"
	"image"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/picture"
	"golang.org/x/image/draw"
)

const (
	// previewEvery is how often a watch looks for a newer preview. Agents upload at most one
	// each 3 s.
	previewEvery = 3 * time.Second
	// previewTime bounds reading one preview, which holds up the display.
	previewTime = 5 * time.Second
	// previewCells and previewRows are the maximum columns and rows of a preview.
	previewCells, previewRows = 64, 20
)

// WithPreviews returns a function that shows a job's progress, and on a terminal that can
// show pictures also its newest preview.
func (d *Display) WithPreviews(ctx context.Context, c *client.Client) func(*client.Job) error {
	if !d.Pictures {
		return d.Job
	}
	var due time.Time
	var shown string
	return func(job *client.Job) error {
		if job.Progress.Phase == client.PhaseRendering && time.Now().After(due) {
			// A preview that cannot be read does not end the watch.
			if rows, id, err := newestPreview(ctx, c, job.Id, shown, d.Width()-1); err == nil && rows != nil {
				d.Show(rows)
				shown = id
			}
			due = time.Now().Add(previewEvery)
		}
		return d.Job(job)
	}
}

// newestPreview returns the rows of a job's newest preview, or nil if there is none that is
// newer than the one shown.
func newestPreview(ctx context.Context, c *client.Client, job, shown string, width int) (rows []string, id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, previewTime)
	defer cancel()
	all, err := c.Previews(ctx, job)
	if err != nil || len(all) == 0 {
		return nil, "", err
	}
	newest := slices.MaxFunc(all, func(a, b client.Artifact) int { return a.CreatedAt.Compare(b.CreatedAt) })
	if newest.Id == shown {
		return nil, "", nil
	}
	img, err := FetchPicture(ctx, c, &newest)
	if err != nil {
		return nil, "", err
	}
	return Cells(img, min(width, previewCells), previewRows), newest.Id, nil
}

// FetchPicture downloads an image, or a frame of a clip.
func FetchPicture(ctx context.Context, c *client.Client, artifact *client.Artifact) (image.Image, error) {
	if artifact.SizeBytes > picture.MaxBytes {
		return nil, fmt.Errorf("the preview has %d bytes; at most %d are read", artifact.SizeBytes, picture.MaxBytes)
	}
	folder, err := os.MkdirTemp("", "reelay-preview-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "preview")
	if err := c.Download(ctx, artifact, file, nil); err != nil {
		return nil, err
	}
	read := os.ReadFile
	if strings.HasPrefix(artifact.ContentType, "video/") {
		read = func(file string) ([]byte, error) { return frameOf(ctx, file) }
	}
	data, err := read(file)
	if err != nil {
		return nil, err
	}
	img, _, err := picture.Decode(ctx, data)
	return img, err
}

// frameOf returns a frame of a clip as a PNG.
func frameOf(ctx context.Context, file string) ([]byte, error) {
	program, err := exec.LookPath("ffmpeg")
	if err != nil {
		return nil, errors.New("ffmpeg, which reads clips, is missing: install it (apt install ffmpeg, brew install ffmpeg)")
	}
	out, err := exec.CommandContext(ctx, program, "-v", "error", "-nostdin", "-protocol_whitelist", "file,pipe", "-i", "file:"+file,
		"-vf", "thumbnail=24,scale='min(640,iw)':-2", "-frames:v", "1", "-f", "image2pipe", "-c:v", "png", "pipe:1").Output()
	if err != nil {
		return nil, fmt.Errorf("ffmpeg cannot read the clip: %w", err)
	}
	return out, nil
}

// Cells draws an image with characters, at most columns wide and rows high. Each character is
// two pixels, one above the other: the colour of the text and that of the background.
func Cells(img image.Image, columns, rows int) []string {
	w, h := img.Bounds().Dx(), img.Bounds().Dy()
	scale := min(float64(columns)/float64(w), float64(2*rows)/float64(h))
	columns, rows = max(1, int(float64(w)*scale)), max(1, int(float64(h)*scale/2))
	small := image.NewRGBA(image.Rect(0, 0, columns, 2*rows))
	draw.ApproxBiLinear.Scale(small, small.Bounds(), img, img.Bounds(), draw.Src, nil)
	lines := make([]string, 0, rows)
	for y := range rows {
		var line strings.Builder
		for x := range columns {
			top, bottom := small.RGBAAt(x, 2*y), small.RGBAAt(x, 2*y+1)
			fmt.Fprintf(&line, "\x1b[38;2;%d;%d;%dm\x1b[48;2;%d;%d;%dm▀", top.R, top.G, top.B, bottom.R, bottom.G, bottom.B)
		}
		lines = append(lines, line.String()+plain)
	}
	return lines
}
