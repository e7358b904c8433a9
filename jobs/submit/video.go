package submit

import (
	"bytes"
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// retryWindow is how long a repeated request of the Videos API is recognised. The official
// clients give up after at most three tries of 10 minutes each, and send a retry within
// seconds after a failure.
const retryWindow = 15 * time.Minute

// RepeatedVideo returns the job that this request made before, or nil. It only avoids storing an
// input that is not needed: Submit decides.
func (s *Submitter) RepeatedVideo(ctx context.Context, p jobs.Principal, key *string, request VideoRequest) (*models.Job, error) {
	if key == nil && request.Retry == 0 {
		return nil, nil
	}
	asked := models.JobKey{Account: p.AccountID}
	if key != nil {
		asked.Key = *key
	}
	var found *models.Job
	err := jobs.InTx(ctx, s.DB, func(ctx context.Context, tx bun.Tx) error {
		if err := postgres.Lock(ctx, tx, request.lock()); err != nil {
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

// lock is the advisory lock of equal requests: the first one and its retries may arrive at
// once, and run one by one.
func (r *VideoRequest) lock() int64 { return int64(binary.BigEndian.Uint64(r.Digest)) }

// videoAsked is a request with its account and idempotency key, if it has one.
type videoAsked struct {
	*VideoRequest
	key models.JobKey
}

// madeBefore returns the jobs that equal requests made before, by digest. The digests are locked. A
// request with an idempotency key is identified by key and digest: the params of its job differ
// each time, since the input file of each request is stored again.
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

// row returns the row of the request with its new job.
func (r *VideoRequest) row(job *models.Job) *models.Video {
	return &models.Video{
		JobID: job.ID, Model: r.Model, Size: r.Size, Seconds: r.Seconds, RemixOf: r.RemixOf,
		Digest: r.Digest, Retries: r.Retry, AwaitsFirst: r.Retry > 0,
	}
}
