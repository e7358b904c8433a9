package jobs

import (
	"bytes"
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// VideoRequest is what a Submission by the Videos API has beside the job.
type VideoRequest struct {
	// Model, Size and Seconds are as the client named them, and are shown so.
	Model, Size, Seconds string
	// RemixOf is the job that it is a remix of.
	RemixOf models.JobID
	// Digest (32 bytes) is the same for the same request of the same caller.
	Digest []byte
	// Retry is which retry of his the sender says that it is; 0 is none.
	Retry int
	// Age is for how long the request has been here.
	Age time.Duration
}

// retryWindow is for how long a repeated request of the Videos API is known: the
// official clients give up after 10 minutes for each of three tries at most, and
// send a second one within seconds of a first that failed.
const retryWindow = 15 * time.Minute

// RepeatedVideo returns the job that this request has made before, or nil. It is a
// courtesy, so that no input is stored in vain: Submit is what decides.
func (s *Submitter) RepeatedVideo(ctx context.Context, p Principal, key *string, request VideoRequest) (*models.Job, error) {
	if key == nil && request.Retry == 0 {
		return nil, nil
	}
	asked := models.JobKey{Account: p.AccountID}
	if key != nil {
		asked.Key = *key
	}
	var found *models.Job
	err := InTx(ctx, s.DB, func(ctx context.Context, tx bun.Tx) error {
		if err := models.Lock(ctx, tx, request.lock()); err != nil {
			return err
		}
		used := map[models.JobKey]*models.Job{}
		if asked.Key != "" {
			before, err := models.FindJobsByKeys(ctx, tx, []models.JobKey{asked})
			if err != nil {
				return err
			}
			for _, job := range before {
				used[asked] = job
			}
		}
		before, err := madeBefore(ctx, tx, []videoAsked{{&request, asked}}, used)
		found = before[string(request.Digest)]
		return err
	})
	return found, apierror.Wrap(err, "look for a repeated request")
}

// lock is the advisory lock of equal requests: the first one and its retries may
// be here at the same time, and go one by one.
func (r *VideoRequest) lock() int64 { return int64(binary.BigEndian.Uint64(r.Digest)) }

// videoAsked is a request with its account and idempotency key, if it has one.
type videoAsked struct {
	*VideoRequest
	key models.JobKey
}

// madeBefore returns the jobs that equal requests made before, by their digests,
// which are locked. One with an idempotency key is known by that and its digest:
// by what was asked for it could not be, since each request's input file is stored
// anew.
func madeBefore(ctx context.Context, tx bun.Tx, asked []videoAsked, used map[models.JobKey]*models.Job) (map[string]*models.Job, error) {
	var retried, overtaken []models.VideoClaim
	digests := map[models.JobID][]byte{}
	var keyed []models.JobID
	for _, a := range asked {
		claim := models.VideoClaim{Digest: a.Digest, Retry: a.Retry, Age: a.Age}
		switch first := used[a.key]; {
		case a.key.Key != "" && first != nil:
			keyed, digests[first.ID] = append(keyed, first.ID), a.Digest
		case a.key.Key != "":
		case a.Retry > 0:
			retried = append(retried, claim)
		default:
			overtaken = append(overtaken, claim)
		}
	}
	again, err := models.ClaimRetriedVideos(ctx, tx, retried, retryWindow)
	if err != nil {
		return nil, err
	}
	late, err := models.ClaimOvertakenVideos(ctx, tx, overtaken, retryWindow)
	if err != nil {
		return nil, err
	}
	kept, err := models.GetVideos(ctx, tx, keyed)
	if err != nil {
		return nil, err
	}
	ids := map[models.JobID]string{}
	for _, claimed := range append(again, late...) {
		ids[claimed.JobID] = string(claimed.Digest)
	}
	for _, video := range kept {
		if bytes.Equal(video.Digest, digests[video.JobID]) {
			ids[video.JobID] = string(video.Digest)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := models.GetJobs(ctx, tx, slices.Collect(maps.Keys(ids)))
	return lo.KeyBy(found, func(j *models.Job) string { return ids[j.ID] }), err
}

// row is what is kept of the request with its new job.
func (r *VideoRequest) row(job *models.Job) *models.Video {
	return &models.Video{
		JobID: job.ID, Model: r.Model, Size: r.Size, Seconds: r.Seconds, RemixOf: r.RemixOf,
		Digest: r.Digest, Retries: r.Retry, AwaitsFirst: r.Retry > 0,
	}
}
