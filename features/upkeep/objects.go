package upkeep

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
	"golang.org/x/sync/errgroup"
)

// An object is removed in two steps. First, the transaction that removes its row also records its
// key for deletion (models.DoomArtifacts). No row names the object from then on, since keys are
// never used again. Then DeleteObjects deletes it from the store, and retries until that succeeds.

const (
	// supersededFor is how long a checkpoint stays after the second newer one was committed: a
	// worker may still be reading it.
	supersededFor = 15 * time.Minute
	// failedFor is how long a retry can use the checkpoints of a failed or cancelled job.
	failedFor = day
	// reviewEvery is how long until the next look at an artifact whose expiry is not known
	// yet.
	reviewEvery = 20 * time.Minute
)

// ReviewArtifacts removes expired artifacts: checkpoints except the newest two accepted ones
// of each job, all checkpoints of a COMPLETED job (of a draft once it is no longer kept, with its
// preview), those of a FAILED or CANCELLED job after a
// day, and videos, pictures and logs after their retention. It records on the others when they
// expire.
func (u *Upkeep) ReviewArtifacts(ctx context.Context) (int, error) {
	keep := models.KeepArtifacts{Superseded: supersededFor, Checkpoints: failedFor, Others: u.Keep.Videos, Review: reviewEvery}
	removed := 0
	_, err := u.transactions(ctx, "review artifacts", func(ctx context.Context, tx bun.Tx) (int, error) {
		jobs, err := models.LockJobsToReview(ctx, tx, artifactBatch)
		if err != nil || len(jobs) == 0 {
			return 0, err
		}
		looked, over, err := models.ReviewArtifacts(ctx, tx, jobs, keep, artifactBatch)
		if err != nil {
			return 0, err
		}
		removed += len(over)
		if len(over) > 0 {
			if err := models.WasteDrafts(ctx, tx, jobs); err != nil {
				return 0, fmt.Errorf("count drafts that nobody continued: %w", err)
			}
		}
		return looked, models.DoomArtifacts(ctx, tx, over)
	})
	return removed, err
}

// ReviewInputs removes inputs that no job uses after a day, and the others when the videos of
// the last job that uses them are removed. It records on the others when they expire.
func (u *Upkeep) ReviewInputs(ctx context.Context) (int, error) {
	keep := models.KeepInputs{Unused: inputs.UnusedFor, Used: u.Keep.Videos, Review: reviewEvery}
	removed := 0
	_, err := u.transactions(ctx, "review inputs", func(ctx context.Context, tx bun.Tx) (int, error) {
		ids, err := models.LockInputsToReview(ctx, tx, artifactBatch)
		if err != nil || len(ids) == 0 {
			return 0, err
		}
		over, err := models.ReviewInputs(ctx, tx, ids, keep)
		if err != nil {
			return 0, err
		}
		removed += len(over)
		return len(ids), models.DoomInputs(ctx, tx, over)
	})
	return removed, err
}

// uploadsFor is how long an issued key outlives its attempt. It is longer than any upload link
// lives.
const uploadsFor = day

// ForgetUploads removes keys that were issued to attempts that ended long ago, and keys of
// inputs that no job has used for as long. It also removes the objects of those that never
// became an artifact.
func (u *Upkeep) ForgetUploads(ctx context.Context) (int, error) {
	announced, err := u.transactions(ctx, "forget inputs", func(ctx context.Context, tx bun.Tx) (int, error) {
		return models.DoomInputUploads(ctx, tx, inputs.UnusedFor, rowBatch)
	})
	if err != nil {
		return announced, err
	}
	attempts, err := u.transactions(ctx, "forget uploads", func(ctx context.Context, tx bun.Tx) (int, error) {
		return models.DoomUploads(ctx, tx, uploadsFor, rowBatch)
	})
	return announced + attempts, err
}

const (
	deleteBatch = 200
	// deletesAtOnce is how many deletes run at once. deletePace is the minimum time between
	// the starts of two: a fast store has other requests to serve.
	deletesAtOnce = 8
	deletePace    = 4 * time.Millisecond
)

// DeleteObjects deletes doomed objects from the store. A failed delete is retried for ever,
// after longer and longer waits.
func (u *Upkeep) DeleteObjects(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, upkeepTime)
	defer cancel()
	total := 0
	for ctx.Err() == nil {
		keys, err := models.ClaimDoomedObjects(ctx, u.DB, deleteBatch)
		if err != nil {
			return total, fmt.Errorf("claim doomed objects: %w", err)
		}
		if len(keys) == 0 {
			return total, nil
		}
		gone, failed := u.deleteAll(ctx, keys)
		// Record completed deletes even if the time is up.
		if err := models.ForgetDoomedObjects(context.WithoutCancel(ctx), u.DB, gone); err != nil {
			return total, fmt.Errorf("forget deleted objects: %w", err)
		}
		total += len(gone)
		if failed != nil {
			return total, fmt.Errorf("delete %d of %d objects: %w", len(keys)-len(gone), len(keys), failed)
		}
	}
	return total, nil // there may be more: the next pass continues
}

// deleteAll returns the keys whose objects are deleted, and the error of one that is not.
func (u *Upkeep) deleteAll(ctx context.Context, keys []string) (gone []string, failed error) {
	var mu sync.Mutex
	var deletes errgroup.Group
	deletes.SetLimit(deletesAtOnce)
	pace := time.NewTicker(deletePace)
	defer pace.Stop()
	for _, key := range keys {
		select {
		case <-pace.C:
		case <-ctx.Done(): // each delete fails by itself
		}
		deletes.Go(func() error {
			err := u.Objects.Delete(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				gone = append(gone, key)
			}
			return err
		})
	}
	failed = deletes.Wait()
	return gone, failed
}

const (
	// orphanAge is the minimum age of an orphan, by the store's clock.
	orphanAge  = day
	orphanPage = 500
	// orphanClaim is how long one process owns a page. orphanRest is the pause after the
	// search has covered the whole bucket.
	orphanClaim = time.Minute
	orphanRest  = 6 * time.Hour
)

// OrphansGone is how long after the last row that named an object the object is gone, if the store works: orphanAge after it
// was uploaded with a link that was signed before, once the search comes to it. Buckets that keep versions of deleted objects
// keep them longer.
const OrphansGone = jobs.UploadTTL + orphanAge + orphanRest + 5*time.Hour

// ourFolders are searched for orphans, in this order.
var ourFolders = []string{lease.ArtifactsFolder, lease.CheckpointsFolder, inputs.InputsFolder}

// ourKey matches the keys that objectKey and inputKey make.
var ourKey = regexp.MustCompile(`^((artifacts|checkpoints)/[0-9a-f]{2}/job_[0-9a-f-]{36}/att_[0-9a-f-]{36}/[a-z_]+-[0-9a-f-]{36}` +
	`|inputs/[0-9a-f]{2}/acc_[0-9a-f-]{36}/art_[0-9a-f-]{36})$`)

// FindOrphans examines the next page of the bucket, and dooms objects of ours that are older
// than a day and that no row names. It returns how many it found. Only one process searches at
// a time.
func (u *Upkeep) FindOrphans(ctx context.Context) (int, error) {
	after, err := models.ClaimOrphanSearch(ctx, u.DB, orphanClaim)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("claim the search for orphans: %w", err)
	}
	folder := folderOf(after)
	page, err := u.Objects.List(ctx, max(after, folder), orphanPage)
	if err != nil {
		return 0, fmt.Errorf("search for orphans: %w", err)
	}
	now, err := postgres.Now(ctx, u.DB)
	if err != nil {
		return 0, err
	}
	var old []string
	for _, object := range page {
		if ourKey.MatchString(object.Key) && now.Sub(object.CreatedAt) > orphanAge {
			old = append(old, object.Key)
		}
	}
	orphans := 0
	if len(old) > 0 {
		if orphans, err = models.DoomOrphans(ctx, u.DB, old); err != nil {
			return 0, fmt.Errorf("doom orphans: %w", err)
		}
	}
	if orphans > 0 {
		slog.InfoContext(ctx, "objects that no row names will be deleted", "objects", orphans)
	}
	next, rest := nextPage(folder, page)
	return orphans, apierror.Wrap(models.AdvanceOrphanSearch(ctx, u.DB, after, next, rest), "advance the search for orphans")
}

// folderOf returns the folder of ours that the search is in.
func folderOf(after string) string {
	for _, folder := range ourFolders {
		if after < folder || strings.HasPrefix(after, folder) {
			return folder
		}
	}
	return ourFolders[0]
}

// nextPage returns where the search continues after a page that began in a folder, and the
// pause before that.
func nextPage(folder string, page []jobs.StoredObject) (after string, rest time.Duration) {
	if len(page) > 0 {
		if last := page[len(page)-1].Key; strings.HasPrefix(last, folder) {
			return last, 0
		}
	}
	for _, next := range ourFolders {
		if next > folder {
			return next, 0
		}
	}
	return "", orphanRest
}
