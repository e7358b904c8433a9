package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/tracing"
)

// end reports the outcome of the attempt, if this worker still holds the job. It
// returns the next lease if the answer carries one.
func (t *attempt) end(result *runtime.Result, err error) *grant {
	var next *grant
	if err == nil {
		err = t.own(result)
	}
	if err == nil {
		err = t.storable(result.Output)
	}
	if err == nil {
		err = t.check(result)
	}
	if err == nil {
		next, err = t.complete(result)
	}
	switch {
	case err == nil:
		t.log.Info("job completed")
		if engine := t.worker.config.Engine; engine != nil {
			ctx, stop := context.WithTimeout(context.WithoutCancel(t.owned), farewellTimeout)
			engine.Completed(ctx, t.adopted)
			stop()
		}
	case t.owned.Err() != nil:
		t.log.Warn("job given up", "reason", context.Cause(t.owned))
	case errors.Is(err, errCancelled), errors.Is(err, errRelease), errors.Is(err, errGaveWay):
		t.release(err)
	default:
		next = t.failOrRelease(describe(err))
	}
	return next
}

// failOrRelease reports a failure. A job that this worker cannot do at the moment goes back
// instead: it is not at fault, so the attempt must not count.
func (t *attempt) failOrRelease(failure *runtime.Failure) *grant {
	engine := t.worker.config.Engine
	if engine == nil || failure.Lacks == "" && !failure.Unready {
		return t.fail(failure)
	}
	engine.Unfit(t.owned, t.lease.Job.Model, failure)
	t.release(failure)
	return nil
}

// own refuses a result with a path that is not a file of the runtime: the file of a link may lie
// outside the job's folder, and reading a pipe may never end.
func (t *attempt) own(result *runtime.Result) error {
	for _, path := range []string{result.Video, result.Thumbnail, result.Spritesheet, result.Preview} {
		if path == "" {
			continue
		}
		if err := regular(path); err != nil {
			t.worker.runtimes.Settle(err)
			return err
		}
	}
	return nil
}

// storable refuses an output that the API cannot store. Every host would deliver the same, so
// the class is the one that is tried on only one more.
func (t *attempt) storable(output json.RawMessage) error {
	err := runtime.CheckJSON(output, runtime.MaxOutput)
	if err == nil {
		return nil
	}
	return t.badOutput("the runtime's output " + err.Error() + ": change what the runtime puts into its result")
}

func (t *attempt) badOutput(why string) error {
	err := runtime.Failf(runtime.DefectiveResult, "BAD_OUTPUT: %s.", strings.TrimSuffix(why, "."))
	t.worker.runtimes.Settle(err)
	return err
}

// lastCall returns the context for the call that ends the attempt. That call is
// retried for as long as this worker holds the job and the machine exists.
func (t *attempt) lastCall() (context.Context, func()) {
	if !closed(t.ending) {
		close(t.ending)
	}
	return until(t.owned, t.worker.going.gone, errRelease)
}

// complete publishes the result. It returns errCancelled if the job was cancelled
// first.
func (t *attempt) complete(result *runtime.Result) (*grant, error) {
	what := "uploading the video"
	if t.draftSteps() > 0 {
		what = "uploading the preview"
	}
	t.progress.phase(client.PhaseUploading, what)
	publishing, stop := until(t.rendering, t.worker.going.over, errRelease)
	defer stop()
	for tries := 1; ; tries++ {
		in, err := t.uploadResult(publishing, result)
		if err != nil {
			return nil, orCause(publishing, err)
		}
		if t.rendering.Err() != nil {
			return nil, context.Cause(t.rendering)
		}
		ctx, stop := t.lastCall()
		ctx, end := tracing.Start(ctx, "complete")
		ctx = client.WithTraceparent(ctx, tracing.Parent(ctx))
		var answer *client.EndPayload
		asked := time.Now()
		err = t.fenced(ctx, func(ctx context.Context) (_ *client.HeartbeatPayload, err error) {
			asked = time.Now()
			answer, err = t.api.CompleteJob(ctx, *in)
			return nil, err
		})
		end(err)
		stop()
		switch {
		case err == nil:
			return t.next(answer, asked), nil
		case client.ErrorCode(err) == client.CodeConflict:
			return nil, errCancelled
		case client.ErrorCode(err) == client.CodeChecksumMismatch && tries < uploadTries:
			// An object was damaged in transit: upload it again.
			continue
		case client.ErrorCode(err) == client.CodeInvalidInput, client.ErrorCode(err) == client.CodeParseFailed:
			return nil, t.badOutput("the control plane refuses the runtime's result: " + err.Error())
		case gone(err):
			t.disown(errLost)
		}
		return nil, err
	}
}

// uploadResult uploads all files that the runtime made.
func (t *attempt) uploadResult(ctx context.Context, result *runtime.Result) (_ *client.CompleteJobInput, err error) {
	ctx, end := tracing.Start(ctx, "upload result")
	defer func() { end(err) }()
	in := &client.CompleteJobInput{AttemptId: t.fence.AttemptID, FencingToken: t.fence.FencingToken, LeaseNext: new(t.wantsNext())}
	preview := result.Preview
	if t.draftSteps() == 0 {
		preview = "" // a video needs none
	}
	for _, file := range []struct {
		kind client.ArtifactType
		path string
		to   **client.UploadedObject
	}{
		{client.ArtifactTypeFinalVideo, result.Video, &in.Video},
		{client.ArtifactTypeThumbnail, result.Thumbnail, &in.Thumbnail},
		{client.ArtifactTypeSpritesheet, result.Spritesheet, &in.Spritesheet},
		{client.ArtifactTypePreview, preview, &in.Preview},
	} {
		if file.path == "" {
			continue
		}
		object, err := t.upload(ctx, output{kind: file.kind, path: file.path, contentType: contentType(file.path)})
		if err != nil {
			return nil, err
		}
		*file.to = object
	}
	if len(result.Output) > 0 {
		in.Result = &result.Output
	}
	in.Log = t.uploadLog(ctx, t.worker.lastWords())
	return in, nil
}

// fail reports why the attempt failed.
func (t *attempt) fail(failure *runtime.Failure) *grant {
	words := t.worker.wordsOf(failure)
	t.log.Warn("attempt failed", "class", failure.Class, "reason", words.sentence)
	log := t.uploadLog(t.owned, words.log)
	ctx, stop := t.lastCall()
	defer stop()
	var answer *client.EndPayload
	asked := time.Now()
	err := t.fenced(ctx, func(ctx context.Context) (_ *client.HeartbeatPayload, err error) {
		asked = time.Now()
		answer, err = t.api.FailJob(ctx, client.FailJobInput{
			AttemptId: t.fence.AttemptID, FencingToken: t.fence.FencingToken,
			Class: client.FailureClass(failure.Class), Message: words.sentence, ErrorDetail: client.Optional(words.detail),
			RetryAfterSeconds: client.Optional(failure.RetryAfterSeconds), Log: log, LeaseNext: new(t.wantsNext()),
		})
		return nil, err
	})
	if err != nil {
		t.log.Warn("the failure could not be reported", "error", err)
		return nil
	}
	return t.next(answer, asked)
}

// release returns the job to the control plane, which requeues it, or cancels it if
// it was asked to.
func (t *attempt) release(why error) {
	class := client.FailureClassPreempted
	if errors.Is(why, errGaveWay) {
		class = client.FailureClassYielded
	}
	t.keepLog(t.worker.lastWords())
	t.worker.going.awaitNotice()
	ctx, stop := t.lastCall()
	defer stop()
	err := t.fenced(ctx, func(ctx context.Context) (*client.HeartbeatPayload, error) {
		_, err := t.api.ReleaseJob(ctx, t.fence, class)
		return nil, err
	})
	// LEASE_LOST means that a cancel or another end came first.
	if err != nil && client.ErrorCode(err) != client.CodeLeaseLost {
		t.log.Warn("the job could not be released", "error", err)
		return
	}
	t.log.Info("job released", "reason", why)
}

// wantsNext reports whether the answer may carry another lease. An engine is first asked whether it
// is ready for one.
func (t *attempt) wantsNext() bool {
	return !closed(t.worker.going.draining) && t.worker.config.Engine == nil
}

func (t *attempt) next(answer *client.EndPayload, asked time.Time) *grant {
	if answer.Next == nil {
		return nil
	}
	return &grant{answer.Next, asked}
}
