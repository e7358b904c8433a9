package agent

import (
	"context"
	"path/filepath"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
)

// draftSteps is the step after which the job ends, or 0 if it is no draft.
func (t *attempt) draftSteps() int {
	if t.lease.DraftSteps == nil {
		return 0
	}
	return *t.lease.DraftSteps
}

// determinism is what the runtime does with a checkpoint that other software made.
func (t *attempt) determinism() string {
	if t.lease.Model != nil && t.lease.Model.Determinism == client.DeterminismStrict {
		return runtime.Strict
	}
	return runtime.BestEffort
}

// endDraft waits until the draft's checkpoint is committed. The result must have a preview and
// no video.
func (w *watch) endDraft(ctx context.Context, result *runtime.Result) (*runtime.Result, error) {
	if result.Preview == "" || result.Video != "" {
		return nil, runtime.Failf(runtime.ModelCrash,
			"the runtime ended a draft with the video %q and the preview %q: it must have a preview only",
			filepath.Base(result.Video), filepath.Base(result.Preview))
	}
	w.progress.phase(client.PhaseUploading, "uploading the checkpoint")
	for w.saver.busy {
		select {
		case err := <-w.saver.saved:
			w.saver.done(err)
		case <-w.worker.going.over:
			return nil, errRelease
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if w.saver.failed != nil {
		return nil, runtime.Failf(runtime.Transient, "the checkpoint of the draft could not be saved: %s", w.saver.failed)
	}
	return result, nil
}
