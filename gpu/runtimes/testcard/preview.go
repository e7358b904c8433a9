package testcard

import (
	"fmt"
	"image"
	"image/jpeg"
	"os"
	"path/filepath"
	"time"
)

const (
	// previewEvery is the shortest time between two previews. Each takes some 20 ms.
	previewEvery = 3 * time.Second
	// previewShare keeps previews to one part in so many of the time, on a slow machine too.
	previewShare = 50
	// previewSide is the shorter side of a preview, in pixels.
	previewSide = 180
)

// preview sends a small picture of the video's middle as the latents are now, if the last one
// is long enough ago. It changes nothing of the render; without one, the log says why.
func (r *render) preview() {
	began := time.Now()
	if began.Before(r.previewDue) {
		return
	}
	defer func() { r.previewDue = began.Add(max(previewEvery, previewShare*time.Since(began))) }()
	path := filepath.Join(r.job.Workdir, fmt.Sprintf("preview-%06d.jpg", r.state.step))
	if err := r.writePreview(path); err != nil {
		r.job.Log("warn", fmt.Sprintf("no preview at step %d: %v", r.state.step, err))
		return
	}
	r.job.Preview(path, r.state.step)
}

// small returns the video in the size of a preview. Its sides are even, as encoders want them.
func (f video) small() video {
	side := min(f.width, f.height)
	f.width, f.height = f.width*previewSide/side&^1, f.height*previewSide/side&^1
	f.picture = nil // it has the size of the video
	return f
}

func (r *render) writePreview(path string) error {
	small := r.video.small()
	c, err := newCard(small, r.state)
	if err != nil {
		return err
	}
	pixels := c.paint(small.frames / 2)
	picture := image.NewRGBA(image.Rect(0, 0, small.width, small.height))
	for i := range small.width * small.height {
		copy(picture.Pix[4*i:], pixels[3*i:3*i+3])
		picture.Pix[4*i+3] = 255
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := jpeg.Encode(file, picture, nil); err != nil {
		return err
	}
	return file.Close()
}
