package agent

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/reelay/reelay/client"
)

// referenceImage is the parameter that names a job's only input.
const referenceImage = "referenceImage"

// fetchInputs downloads the job's input files and returns their paths by the
// parameters that name them.
func (t *attempt) fetchInputs(ctx context.Context) (map[string]string, error) {
	if len(t.lease.Inputs) == 0 {
		return nil, nil
	}
	image := &t.lease.Inputs[0]
	path := filepath.Join(t.dir, "input-0")
	if err := t.fetch(ctx, image, path); err != nil {
		return nil, fmt.Errorf("fetch the reference image: %w", err)
	}
	return map[string]string{referenceImage: path}, nil
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
