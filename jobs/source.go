package jobs

import (
	"context"
	"fmt"
	"slices"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// sourcesOf returns the rows of what a job takes from other jobs. Only values are in them as often
// as they are named.
func sourcesOf(job models.JobID, results []result) (rows []models.JobSource) {
	for _, r := range results {
		i := slices.IndexFunc(rows, func(row models.JobSource) bool { return row.SourceID == r.job })
		if i < 0 {
			i = len(rows)
			rows = append(rows, models.JobSource{JobID: job, SourceID: r.job})
		}
		if row := &rows[i]; r.take.OfOutput() || !slices.Contains(row.Takes, string(r.take)) {
			row.Takes = append(row.Takes, string(r.take))
		}
	}
	return rows
}

// has is what is known of jobs that have ended: the lengths of the values of their outputs, and
// which have thumbnails.
type has struct {
	lengths    map[models.OutputValue]int
	thumbnails []models.JobID
}

// readHas reads what is known of the jobs from which results are taken. They are locked.
func readHas(ctx context.Context, tx bun.Tx, results []result) (h has, err error) {
	var thumbnails []models.JobID
	var values []models.OutputValue
	for _, r := range results {
		if r.take == TakeThumbnail {
			thumbnails = append(thumbnails, r.job)
		}
		if r.take.OfOutput() {
			values = append(values, models.OutputValue{JobID: r.job, Take: string(r.take)})
		}
	}
	if len(thumbnails) > 0 {
		if h.thumbnails, err = models.HasThumbnails(ctx, tx, lo.Uniq(thumbnails)); err != nil {
			return h, fmt.Errorf("look for thumbnails: %w", err)
		}
	}
	h.lengths, err = models.MeasureOutputs(ctx, tx, lo.Uniq(values), nil)
	return h, apierror.Wrap(err, "measure the values of outputs")
}

// check returns why a job cannot take these results of others, as far as those are COMPLETED.
func (h has) check(results []result, sources map[models.JobID]*models.Job) error {
	sum := 0
	for _, r := range results {
		if sources[r.job].Status != models.JobCompleted {
			continue
		}
		switch {
		case r.take == TakeThumbnail && !slices.Contains(h.thumbnails, r.job):
			return apierror.Invalid(r.field, "%s: job %s has no thumbnail, or it is no longer kept: name another.", r.field, r.job)
		case r.take.OfOutput():
			if reason := badValue(r.job, r.take, h.lengths); reason != "" {
				return apierror.Invalid(r.field, "%s: %s.", r.field, reason)
			}
			sum += h.lengths[models.OutputValue{JobID: r.job, Take: string(r.take)}]
		}
	}
	if sum > maxValuesBytes {
		return apierror.Invalid("prompt", "The job cannot start: %s.", tooLong(sum))
	}
	return nil
}
