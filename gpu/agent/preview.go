package agent

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/pause"
)

const (
	// previewEvery is the shortest time between two uploads of previews. An attempt's uploads
	// are limited.
	previewEvery = 3 * time.Second
	// maxPreview is how large a preview may be, in bytes.
	maxPreview = 4 << 20
)

// previewer uploads previews in the background, one at a time and at most one per previewEvery.
// It keeps only the newest of those that arrive meanwhile, and drops one that cannot be
// uploaded. One goroutine calls put, and calls done after each receive from sent.
type previewer struct {
	*uploader
	ctx  context.Context
	sent chan struct{}
	busy bool
	next *runtime.Preview
}

func newPreviewer(ctx context.Context, u *uploader) *previewer {
	return &previewer{uploader: u, ctx: ctx, sent: make(chan struct{}, 1)}
}

func (v *previewer) put(p *runtime.Preview) {
	if v.busy {
		if v.next != nil {
			os.Remove(v.next.Path)
		}
		v.next = p
		return
	}
	v.busy = true
	go func() {
		if err := v.send(v.ctx, p); err != nil && v.ctx.Err() == nil {
			v.log.Warn("a preview was dropped", "error", err)
		}
		_ = pause.For(v.ctx, previewEvery)
		v.sent <- struct{}{}
	}()
}

// done starts the upload of the preview that arrived meanwhile.
func (v *previewer) done() {
	v.busy = false
	if next := v.next; next != nil {
		v.next = nil
		v.put(next)
	}
}

// wait returns when no upload is in progress. The previewer's context must have ended.
func (v *previewer) wait() {
	if v.busy {
		<-v.sent
	}
}

// send uploads a preview and commits it as the job's newest. It tries for at most
// callTimeout.
func (v *previewer) send(ctx context.Context, p *runtime.Preview) error {
	defer os.Remove(p.Path)
	kind := contentType(p.Path)
	info, err := os.Lstat(p.Path)
	switch {
	case err != nil:
		return err
	case !strings.HasPrefix(kind, "image/") || !info.Mode().IsRegular() || info.Size() == 0 || info.Size() > maxPreview:
		return runtime.Failf(runtime.ModelCrash, "the preview %s has %d bytes: it must be a .jpg, .png or .webp of 1 byte to %d",
			filepath.Base(p.Path), info.Size(), maxPreview)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return v.publish(ctx, output{kind: client.ArtifactTypePreview, path: p.Path, contentType: kind})
}
