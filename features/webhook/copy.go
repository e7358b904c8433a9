package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/webhooks"
)

// tryBucket copies the video of a job into a bucket of its account, and records the result.
func (d *Deliverer) tryBucket(ctx context.Context, c *webhooks.ClaimedDelivery, e *webhooks.Endpoint, event *webhooks.Event,
	job *models.Job) error {
	copying, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	kept := d.keepClaim(copying, cancel, c)
	begin := time.Now()
	err := d.copyJob(copying, c, e, event, job)
	took := time.Since(begin)
	cancel(nil)
	if lost := <-kept; lost != nil || ctx.Err() != nil {
		return errors.Join(lost, ctx.Err())
	}
	if internal, ok := errors.AsType[*ownError](err); ok {
		return internal.error
	}
	answer := Answer{Duration: took}
	if err != nil {
		answer.Error = "The bucket did not take it: " + sentence(err) + "."
	}
	return d.settle(ctx, c, answer)
}

// ownError is a failure on our side of a copy: the bucket is not to blame.
type ownError struct{ error }

// keepClaim extends the claim of c until ctx ends. If it is lost, it cancels ctx. The channel receives the
// reason, or nil.
func (d *Deliverer) keepClaim(ctx context.Context, cancel func(error), c *webhooks.ClaimedDelivery) <-chan error {
	kept := make(chan error, 1)
	go func() {
		ticker := time.NewTicker(d.extendEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				kept <- nil
				return
			case <-ticker.C:
			}
			end, err := webhooks.ExtendClaim(ctx, d.DB, c.ID, c.ClaimedUntil, deliveryClaim)
			if err != nil && ctx.Err() == nil {
				err = fmt.Errorf("extend the claim: %w", err)
				cancel(err)
				kept <- err
				return
			}
			if err == nil {
				c.ClaimedUntil = end
			}
		}
	}()
	return kept
}

// copyJob writes a job's video and thumbnail, and then its description: who sees that has all.
func (d *Deliverer) copyJob(ctx context.Context, c *webhooks.ClaimedDelivery, e *webhooks.Endpoint, event *webhooks.Event,
	job *models.Job) error {
	secrets, err := openSecrets(d.Sealer, e, c.Now)
	if err != nil {
		return &ownError{fmt.Errorf("open the keys of %s: %w", e.ID, err)}
	}
	var keys BucketKeys
	if err := json.Unmarshal(secrets[0], &keys); err != nil {
		return &ownError{fmt.Errorf("read the keys of %s: %w", e.ID, err)}
	}
	bucket, err := d.Buckets.Open(ctx, c.URL, keys)
	if err != nil {
		return err
	}
	defer bucket.Close()
	if job == nil { // a test
		return testBucket(ctx, bucket, string(c.ID))
	}
	folder := string(job.ID) + "/"
	if event.Run > 1 {
		folder += "run-" + strconv.Itoa(event.Run) + "/"
	}
	artifacts, err := models.ListArtifacts(ctx, d.DB, []models.JobID{job.ID}, models.ArtifactFinalVideo, models.ArtifactThumbnail)
	if err != nil {
		return &ownError{fmt.Errorf("list the artifacts of %s: %w", job.ID, err)}
	}
	description := bucketEvent{standardEvent: standardEvent{Type: c.Event, Timestamp: event.CreatedAt.UTC()}, Files: []string{}}
	for _, a := range artifacts {
		name := query.Filename(a)
		if err := d.copyArtifact(ctx, bucket, folder+name, a); err != nil {
			return err
		}
		description.Files = append(description.Files, name)
	}
	if description.Data, err = d.endedJob(ctx, event, job); err != nil {
		return &ownError{fmt.Errorf("describe the job: %w", err)}
	}
	// Links end, and each try would sign others: the description is the same at each.
	description.Data.ResultURL, description.Data.ThumbnailURL, description.Data.PreviewURL = nil, nil, nil
	body, err := json.Marshal(description)
	if err != nil {
		return &ownError{err}
	}
	return bucket.Write(ctx, jobs.UploadOf(folder+"job.json", "application/json", body), bytes.NewReader(body))
}

// bucketEvent is the description of a job in a bucket.
type bucketEvent struct {
	standardEvent
	// Files are the names of the job's other files in the folder.
	Files []string `json:"files"`
}

func (d *Deliverer) copyArtifact(ctx context.Context, bucket Bucket, key string, a *models.Artifact) error {
	object, err := d.Objects.Open(ctx, a.ObjectKey, a.SizeBytes)
	if errors.Is(err, jobs.ErrNoObject) {
		return fmt.Errorf("the %s was deleted before", a.Type)
	}
	if err != nil {
		return &ownError{err}
	}
	defer object.Close()
	from := &source{Reader: object}
	err = bucket.Write(ctx, jobs.Upload{Key: key, ContentType: a.ContentType, SizeBytes: a.SizeBytes, Checksum: a.Checksum}, from)
	if from.err != nil {
		return &ownError{fmt.Errorf("read %s: %w", a.ObjectKey, from.err)}
	}
	return err
}

// source tells failures of our own store from those of the bucket.
type source struct {
	io.Reader
	err error
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && err != io.EOF && !errors.Is(err, context.Canceled) {
		s.err = err
	}
	return n, err
}
