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

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
	"golang.org/x/sync/errgroup"
)

// An object is removed in two steps. First the transaction that removes its row
// also dooms it: from then on nothing names it, and nothing ever will, since
// keys are used once. Then DeleteObjects deletes it from the store, for as long
// as that takes.

const (
	// supersededFor is how long a checkpoint stays after the second newer one
	// came: somebody may still be reading it.
	supersededFor = 15 * time.Minute
	// failedFor is how long a retry finds the checkpoints of a job that failed or
	// was cancelled.
	failedFor = day
	// reviewEvery is when to look again at an artifact that has no end yet.
	reviewEvery = 20 * time.Minute
)

// ReviewArtifacts removes what has expired: checkpoints but the newest two of
// each job and those that were rejected, all of a COMPLETED job, those of a
// FAILED or CANCELLED one after a day, and films, pictures and logs after the
// time that they are kept for. It writes on the others when they expire.
func (u *Upkeep) ReviewArtifacts(ctx context.Context) (int, error) {
	keep := models.KeepArtifacts{Superseded: supersededFor, Checkpoints: failedFor, Others: u.Keep.Films, Review: reviewEvery}
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
		return looked, models.DoomArtifacts(ctx, tx, over)
	})
	return removed, err
}

// inputsFor is how long an input waits for a job to use it.
const inputsFor = day

// ReviewInputs removes the inputs that no job uses after a day, and the others
// when the films of the last job go that does. It writes on them when they
// expire.
func (u *Upkeep) ReviewInputs(ctx context.Context) (int, error) {
	keep := models.KeepInputs{Unused: inputsFor, Used: u.Keep.Films, Review: reviewEvery}
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

// uploadsFor is how long issued keys outlive their attempt. No link to upload to
// lives as long.
const uploadsFor = day

// ForgetUploads removes the keys that were issued to attempts that are long
// over, and those of inputs that no job used for as long, and the objects of those
// that never became an artifact.
func (u *Upkeep) ForgetUploads(ctx context.Context) (int, error) {
	inputs, err := u.transactions(ctx, "forget inputs", func(ctx context.Context, tx bun.Tx) (int, error) {
		return models.DoomInputUploads(ctx, tx, inputsFor, rowBatch)
	})
	if err != nil {
		return inputs, err
	}
	attempts, err := u.transactions(ctx, "forget uploads", func(ctx context.Context, tx bun.Tx) (int, error) {
		return models.DoomUploads(ctx, tx, uploadsFor, rowBatch)
	})
	return inputs + attempts, err
}

const (
	deleteBatch = 200
	// deletesAtOnce is how many deletes are under way at the store, and deletePace
	// from when to when one begins: a quick store has others to serve.
	deletesAtOnce = 8
	deletePace    = 4 * time.Millisecond
)

// DeleteObjects deletes doomed objects from the store. What the store refuses is
// tried again, later each time, for ever.
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
		// What is gone is noted even if the time is up.
		if err := models.ForgetDoomedObjects(context.WithoutCancel(ctx), u.DB, gone); err != nil {
			return total, fmt.Errorf("forget deleted objects: %w", err)
		}
		total += len(gone)
		if failed != nil {
			return total, fmt.Errorf("delete %d of %d objects: %w", len(keys)-len(gone), len(keys), failed)
		}
	}
	return total, nil // there may be more: the next pass goes on
}

// deleteAll returns the keys whose objects are gone, and why one is not.
func (u *Upkeep) deleteAll(ctx context.Context, keys []string) (gone []string, failed error) {
	var mu sync.Mutex
	var deletes errgroup.Group
	deletes.SetLimit(deletesAtOnce)
	pace := time.NewTicker(deletePace)
	defer pace.Stop()
	for _, key := range keys {
		select {
		case <-pace.C:
		case <-ctx.Done(): // each fails by itself
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
	// orphanAge is how old an object is, by the store's clock, before the search
	// for orphans minds it.
	orphanAge  = day
	orphanPage = 500
	// orphanClaim is for how long a page is one process's, orphanRest how long
	// the search rests once it was through the bucket.
	orphanClaim = time.Minute
	orphanRest  = 6 * time.Hour
)

// ourFolders are searched for orphans, in the order of their names.
var ourFolders = []string{jobs.ArtifactsFolder, jobs.CheckpointsFolder, jobs.InputsFolder}

// ourKey is what objectKey and inputKey make.
var ourKey = regexp.MustCompile(`^((artifacts|checkpoints)/[0-9a-f]{2}/job_[0-9a-f-]{36}/att_[0-9a-f-]{36}/[a-z_]+-[0-9a-f-]{36}` +
	`|inputs/[0-9a-f]{2}/acc_[0-9a-f-]{36}/art_[0-9a-f-]{36})$`)

// FindOrphans looks at the next page of the bucket and dooms objects of ours
// that no row names, a day after they were stored. It returns how many there
// were. One process searches at a time.
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
	now, err := models.Now(ctx, u.DB)
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

// folderOf is the folder of ours in which the search is.
func folderOf(after string) string {
	for _, folder := range ourFolders {
		if after < folder || strings.HasPrefix(after, folder) {
			return folder
		}
	}
	return ourFolders[0]
}

// nextPage is where the search goes on after a page that began in a folder, and
// how long it rests before.
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
