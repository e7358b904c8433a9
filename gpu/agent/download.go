package agent

import (
	"context"
	"fmt"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/reelay/reelay/client"
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
// params give them. A file with several names is downloaded once.
func (t *attempt) fetchInputs(ctx context.Context) (map[string]string, error) {
	paths := map[string]string{} // by artifact
	named := map[string]string{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(downloads)
	for i, name := range t.lease.InputNames[:min(len(t.lease.InputNames), len(t.lease.Inputs))] {
		input := &t.lease.Inputs[i]
		path, known := paths[input.Id]
		if !known {
			// Not named after the parameter, whose name is the customer's.
			path = filepath.Join(t.dir, fmt.Sprintf("input-%d%s", i, extensions[input.ContentType]))
			paths[input.Id] = path
			group.Go(func() error {
				if err := t.fetch(ctx, input, path); err != nil {
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
	return named, nil
}

// fetch downloads one artifact. It retries for as long as the store is unreachable.
func (t *attempt) fetch(ctx context.Context, a *client.Artifact, path string) error {
	for failures := 1; ; failures++ {
		err := t.agent.api.Download(ctx, a, path, nil)
		if err == nil || ctx.Err() != nil || !theirFault(err) {
			return err
		}
		if err := pause(ctx, delay(err, failures)); err != nil {
			return err
		}
	}
}
