package testcard

import (
	"context"
	"path/filepath"

	"github.com/reelay/reelay/gpu/runtime"
)

// draftFPS is the highest frame rate of a draft's clip.
const draftFPS = 12

// draft ends a draft: it writes a checkpoint, and a small clip of the video as the latents are
// now.
func (r *render) draft(ctx context.Context) (runtime.Result, error) {
	r.checkpoint()
	path := filepath.Join(r.job.Workdir, "draft.mp4")
	small := r.video.small()
	card, err := newCard(small, r.state)
	if err != nil {
		return runtime.Result{}, err
	}
	every := max(1, small.fps/draftFPS)
	encoder, err := startClip(ctx, small, small.fps/every, path)
	if err != nil {
		return runtime.Result{}, err
	}
	for frame := 0; frame < small.frames; frame += every {
		if err := encoder.write(card.paint(frame)); err != nil {
			return runtime.Result{}, err
		}
	}
	return runtime.Result{Preview: path}, encoder.finish()
}
