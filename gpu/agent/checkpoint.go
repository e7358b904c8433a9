package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/tracing"
)

// checkpointNote is stored with a checkpoint for the next worker.
type checkpointNote struct {
	Step    int             `json:"step"`
	Percent float64         `json:"percent"`
	Info    json.RawMessage `json:"info,omitempty"`
	// Encoding is "zstd" if the object is compressed; Size is how many bytes it decompresses to.
	Encoding string `json:"encoding,omitempty"`
	Size     int64  `json:"size,omitempty"`
}

// restorable is a checkpoint downloaded to the work directory.
type restorable struct {
	artifact client.Artifact
	note     checkpointNote
	path     string
}

// fetchCheckpoints downloads the checkpoints that the lease offers, newest first. It
// rejects those that are damaged or missing.
func (t *attempt) fetchCheckpoints(ctx context.Context) ([]restorable, error) {
	var fetched []restorable
	for i, artifact := range t.lease.Checkpoints {
		r := restorable{artifact: artifact, path: filepath.Join(t.dir, fmt.Sprintf("resume-%d", i))}
		if artifact.Metadata != nil {
			// Without a readable note only the percentage is unknown.
			_ = json.Unmarshal(*artifact.Metadata, &r.note)
		}
		t.progress.resuming(r.note.Percent)
		if r.note.Encoding != "" && r.note.Encoding != encodingZstd {
			// A newer agent can read it: it is not bad.
			t.log.Warn("a checkpoint is in an encoding that this agent does not know", "checkpoint", artifact.Id, "encoding", r.note.Encoding)
			continue
		}
		err := t.fetch(ctx, &artifact, r.path)
		if err == nil && r.note.Encoding == encodingZstd {
			err = decompress(r.path, r.note.Size)
		}
		code := client.ErrorCode(err)
		if code == client.CodeChecksumMismatch || code == client.CodeNotFound || errors.Is(err, errBadPack) {
			t.log.Warn("a checkpoint is damaged or missing", "checkpoint", artifact.Id, "error", err)
			if err := t.rejectCheckpoint(ctx, artifact.Id, err.Error()); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		fetched = append(fetched, r)
	}
	return fetched, nil
}

func (t *attempt) rejectCheckpoint(ctx context.Context, artifactID, reason string) error {
	return t.fenced(ctx, func(ctx context.Context) (*client.HeartbeatPayload, error) {
		return t.api.RejectCheckpoint(ctx, t.fence, artifactID, reason)
	})
}

// saver uploads checkpoints in the background, one at a time. While one is being
// saved it keeps only the newest of those that follow. One goroutine owns it: it
// calls put, and calls done with what it receives from saved.
type saver struct {
	attempt *attempt
	ctx     context.Context
	saved   chan error
	// busy reports whether a checkpoint is being saved; next is the one after it.
	busy bool
	next *taken
	// failed is the error of the last save.
	failed error
	// saving is when the runtime wrote the checkpoint that is being saved, savedAt that of the
	// newest one that was saved, or when the render began.
	saving, savedAt time.Time
}

// taken is a checkpoint that the runtime has written, and how long writing it took, or 0 if it was
// not asked for.
type taken struct {
	*runtime.Checkpoint
	cost time.Duration
	at   time.Time
}

func newSaver(ctx context.Context, t *attempt) *saver {
	return &saver{attempt: t, ctx: ctx, saved: make(chan error, 1), savedAt: time.Now()}
}

func (s *saver) put(c *taken) {
	if !s.busy {
		s.busy, s.saving = true, c.at
		go func() { s.saved <- s.attempt.save(s.ctx, c) }()
		return
	}
	if s.next != nil {
		os.Remove(s.next.Path)
	}
	s.next = c
}

// done handles the outcome of a save and starts the next one.
func (s *saver) done(err error) {
	s.busy, s.failed = false, err
	if err == nil {
		s.savedAt = s.saving
	}
	if err != nil && s.ctx.Err() == nil {
		s.attempt.log.Warn("a checkpoint was not saved", "error", err)
	}
	if next := s.next; next != nil {
		s.next = nil
		s.put(next)
	}
}

// wait returns when no save is in progress. The saver's context must have ended.
func (s *saver) wait() {
	if s.busy {
		<-s.saved
	}
}

// save uploads a checkpoint and commits it as the job's newest.
func (t *attempt) save(ctx context.Context, c *taken) (err error) {
	ctx, end := tracing.Start(ctx, "checkpoint", tracing.Int("reelay.step", c.Step))
	defer func() { end(err) }()
	ctx = client.WithTraceparent(ctx, tracing.Parent(ctx))
	defer os.Remove(c.Path)
	if err := regular(c.Path); err != nil {
		return err
	}
	note := checkpointNote{Step: c.Step, Percent: c.Percent, Info: c.Info}
	path := t.pack(c.Path, &note)
	defer os.Remove(path)
	out := output{kind: client.ArtifactTypeCheckpoint, path: path, contentType: contentType(path)}
	if out.metadata, err = json.Marshal(note); err != nil {
		return err
	}
	began := time.Now()
	object, err := t.upload(ctx, out)
	if err != nil {
		return err
	}
	t.worker.packer.uploaded(object.SizeBytes, time.Since(began))
	err = t.fenced(ctx, func(ctx context.Context) (*client.HeartbeatPayload, error) {
		return t.api.CommitCheckpoint(ctx, client.CommitCheckpointInput{
			AttemptId: t.fence.AttemptID, FencingToken: t.fence.FencingToken,
			Object: *object, Step: c.Step, Percent: c.Percent, DurationSeconds: client.Optional(c.cost.Seconds()),
		})
	})
	if err != nil {
		return fmt.Errorf("commit the checkpoint at step %d: %w", c.Step, err)
	}
	t.log.Info("checkpoint saved", "step", c.Step, "percent", c.Percent, "bytes", object.SizeBytes, "uncompressed",
		max(note.Size, object.SizeBytes))
	return nil
}

// pack compresses a checkpoint if that pays, and returns the path of what is to be uploaded.
func (t *attempt) pack(path string, note *checkpointNote) string {
	wanted, err := t.worker.packer.wants(t.lease.Job.Model, path)
	if err == nil && wanted {
		var packed string
		if packed, note.Size, err = compress(path); packed != "" {
			note.Encoding = encodingZstd
			return packed
		}
		note.Size = 0
	}
	if err != nil {
		t.log.Warn("a checkpoint is uploaded uncompressed", "error", err)
	}
	return path
}

// find returns the checkpoint with this path.
func find(checkpoints []restorable, path string) (restorable, error) {
	for _, r := range checkpoints {
		if r.path == path {
			return r, nil
		}
	}
	return restorable{}, errors.New("the runtime named a checkpoint that it was not given")
}
