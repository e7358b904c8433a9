package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/quality"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/pause"
	"golang.org/x/sync/errgroup"
)

// downloads is how many input files of a job are downloaded at once.
const downloads = 4

// extensions are those of input files, by content type. Programs such as FFmpeg look at them.
var extensions = map[string]string{
	"image/jpeg": ".jpg", "image/png": ".png", "image/webp": ".webp",
	"video/mp4": ".mp4", "video/webm": ".webm", "video/quicktime": ".mov", "video/x-matroska": ".mkv",
	"audio/mpeg": ".mp3", "audio/mp4": ".m4a", "audio/wav": ".wav", "audio/x-wav": ".wav", "audio/flac": ".flac", "audio/ogg": ".ogg",
}

// fetchInputs downloads the job's input files and returns their paths by the names that its
// params give them: for a frame of a video, that of its picture. A file with several names is
// downloaded once.
func (t *attempt) fetchInputs(ctx context.Context) (map[string]string, error) {
	paths := map[string]string{} // by artifact
	named := map[string]string{}
	names := t.lease.InputNames[:min(len(t.lease.InputNames), len(t.lease.Inputs))]
	group, fetching := errgroup.WithContext(ctx)
	group.SetLimit(downloads)
	for i, name := range names {
		input := &t.lease.Inputs[i]
		path, known := paths[input.Id]
		if !known {
			// Not named after the parameter, whose name is the customer's.
			path = filepath.Join(t.dir, fmt.Sprintf("input-%d%s", i, extensions[input.ContentType]))
			paths[input.Id] = path
			group.Go(func() error {
				if err := t.fetch(fetching, input, path); err != nil {
					return fmt.Errorf("fetch the input %s: %w", name, err)
				}
				return nil
			})
		}
		named[name] = path
	}
	if err := group.Wait(); err != nil || len(named) == 0 {
		return nil, err
	}
	for i, frame := range t.lease.InputFrames[:min(len(t.lease.InputFrames), len(names))] {
		if frame == nil {
			continue
		}
		picture, err := endFrame(ctx, named[names[i]], *frame, names[i])
		if err != nil {
			return nil, err
		}
		named[names[i]] = picture
	}
	return named, nil
}

// endFrame makes a picture of a frame of a video, once, and returns its path. A video without one
// is the fault of the job, a missing ffmpeg that of this machine: another one may have it.
func endFrame(ctx context.Context, video string, frame client.InputFrame, name string) (string, error) {
	picture := fmt.Sprintf("%s.%s.png", video, strings.ToLower(string(frame)))
	if _, err := os.Stat(picture); err == nil {
		return picture, nil
	}
	err := quality.EndFrame(ctx, video, quality.End(frame), picture)
	switch {
	case errors.Is(err, quality.ErrNoFrame):
		return "", runtime.Failf(runtime.InvalidInput, "The video of the input %s cannot be decoded: %s. Name another video.", name, err)
	case errors.Is(err, quality.ErrMissing):
		return "", runtime.Failf(runtime.Transient, "This host cannot take a frame out of the input %s: %s.", name, err)
	case err != nil:
		return "", fmt.Errorf("take a frame out of the input %s: %w", name, err)
	}
	return picture, nil
}

// fetch downloads one artifact. It retries for as long as the store is unreachable.
func (t *attempt) fetch(ctx context.Context, a *client.Artifact, path string) error {
	for failures := 1; ; failures++ {
		err := t.api.Download(ctx, a, path, nil)
		if err == nil || ctx.Err() != nil || !theirFault(err) {
			return err
		}
		if err := pause.For(ctx, delay(err, failures)); err != nil {
			return err
		}
	}
}
