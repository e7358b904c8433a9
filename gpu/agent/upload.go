package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/pause"
)

// uploadTries is how many times the store may refuse one object.
const uploadTries = 5

// uploader uploads the files of an attempt.
type uploader struct {
	*attemptLease
	dir     string          // of the attempt's files
	over    <-chan struct{} // closed when no time is left
	logKept sync.Once
}

// output is a file to upload.
type output struct {
	kind        client.ArtifactType
	path        string
	contentType string
	metadata    json.RawMessage
}

func contentType(path string) string {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".mp4":
		return "video/mp4"
	case ".webm":
		return "video/webm"
	case ".jpg", ".jpeg":
		return "image/jpeg"
	case ".png":
		return "image/png"
	case ".webp":
		return "image/webp"
	case ".zst":
		return zstdType
	case ".txt", ".log":
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// regular returns a *runtime.Failure unless the path that a runtime reported is a file: no link,
// folder or pipe.
func regular(path string) error {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return runtime.Failf(runtime.ModelCrash, "The runtime reported the file %s, which cannot be read: %s.", filepath.Base(path),
			errors.Unwrap(err))
	case !info.Mode().IsRegular():
		return runtime.Failf(runtime.ModelCrash, "The runtime reported %s, which is a link, a folder or a pipe: it must be a file.",
			filepath.Base(path))
	}
	return nil
}

// upload sends a file to the object store, under a key that the control plane
// chooses. A target is valid for one try; each retry requests another. While the
// store or the control plane is unreachable, upload retries until ctx ends and then
// returns its cause.
func (u *uploader) upload(ctx context.Context, o output) (*client.UploadedObject, error) {
	file, err := os.Open(o.path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	sum, size, err := client.Checksum(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Base(o.path), err)
	}
	object := &client.UploadedObject{SizeBytes: size, Checksum: sum, ContentType: o.contentType}
	if o.metadata != nil {
		object.Metadata = &o.metadata
	}
	for refused, unreachable := 0, 0; ; {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return nil, fmt.Errorf("read %s: %w", filepath.Base(o.path), err)
		}
		err := u.uploadOnce(ctx, o, object, file)
		switch {
		case err == nil:
			return object, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case theirFault(err):
			unreachable++
		default:
			// The link has expired, or was used by a try whose answer was lost.
			if refused++; refused >= uploadTries {
				return nil, fmt.Errorf("upload the %s: %w", strings.ToLower(string(o.kind)), err)
			}
		}
		if err := pause.For(ctx, delay(err, refused+unreachable)); err != nil {
			return nil, err
		}
	}
}

func (u *uploader) uploadOnce(ctx context.Context, o output, object *client.UploadedObject, file *os.File) error {
	target, err := u.requestUpload(ctx, o, object)
	if err != nil {
		return err
	}
	object.ObjectKey = target.ObjectKey
	return u.api.Upload(ctx, target, file, object.SizeBytes)
}

func (u *uploader) requestUpload(ctx context.Context, o output, object *client.UploadedObject) (*client.UploadTarget, error) {
	var target *client.UploadTarget
	err := u.fenced(ctx, func(ctx context.Context) (_ *client.HeartbeatPayload, err error) {
		target, err = u.api.RequestUpload(ctx, client.RequestUploadInput{
			AttemptId: u.fence.AttemptID, FencingToken: u.fence.FencingToken,
			Type: o.kind, ContentType: o.contentType, SizeBytes: object.SizeBytes, Checksum: object.Checksum,
		})
		return nil, err
	})
	return target, err
}

// uploadLog uploads the runtime's log. It tries for at most callTimeout.
func (u *uploader) uploadLog(ctx context.Context, text string) *client.UploadedObject {
	if text == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	path := filepath.Join(u.dir, "runtime.log")
	err := os.WriteFile(path, []byte(text), 0o600)
	var object *client.UploadedObject
	if err == nil {
		object, err = u.upload(ctx, output{kind: client.ArtifactTypeLog, path: path, contentType: contentType(path)})
	}
	if err != nil && !errors.Is(err, errLost) {
		u.log.Warn("the runtime's log could not be saved", "error", err)
	}
	return object
}

// logLimit is how long the release of a job waits for its log to be saved.
const logLimit = time.Second

// keepLog commits the log of an attempt whose final call does not carry one, once
// and if there is time.
func (u *uploader) keepLog(text string) { u.logKept.Do(func() { u.commitLog(text) }) }

func (u *uploader) commitLog(text string) {
	ctx, cancel := context.WithTimeout(u.owned, logLimit)
	defer cancel()
	ctx, stop := until(ctx, u.over, errRelease)
	defer stop()
	log := u.uploadLog(ctx, text)
	if log == nil {
		return
	}
	err := u.fenced(ctx, func(ctx context.Context) (*client.HeartbeatPayload, error) {
		return u.api.CommitArtifact(ctx, u.fence, client.ArtifactTypeLog, *log)
	})
	if err != nil {
		u.log.Warn("the runtime's log could not be saved", "error", err)
	}
}

// publish uploads a file and commits it as an artifact of the running job.
func (u *uploader) publish(ctx context.Context, o output) error {
	object, err := u.upload(ctx, o)
	if err != nil {
		return err
	}
	return u.fenced(ctx, func(ctx context.Context) (*client.HeartbeatPayload, error) {
		return u.api.CommitArtifact(ctx, u.fence, o.kind, *object)
	})
}
