package inputs

import (
	"context"
	"fmt"
	"slices"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/reference"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// SourcesOf returns the rows of what a job takes from other jobs. Only values are in them as often
// as they are named.
func SourcesOf(job models.JobID, results []Result) (rows []models.JobSource) {
	for _, r := range results {
		i := slices.IndexFunc(rows, func(row models.JobSource) bool { return row.SourceID == r.Job })
		if i < 0 {
			i = len(rows)
			rows = append(rows, models.JobSource{JobID: job, SourceID: r.Job})
		}
		if row := &rows[i]; r.Take.OfOutput() || !slices.Contains(row.Takes, string(r.Take)) {
			row.Takes = append(row.Takes, string(r.Take))
		}
	}
	return rows
}

// Has is what is known of jobs that have ended: the lengths of the values of their outputs, and
// which have thumbnails.
type Has struct {
	Lengths    map[models.OutputValue]int
	thumbnails []models.JobID
}

// ReadHas reads what is known of the jobs from which results are taken. They are locked.
func ReadHas(ctx context.Context, tx bun.Tx, results []Result) (h Has, err error) {
	var thumbnails []models.JobID
	var values []models.OutputValue
	for _, r := range results {
		if r.Take == reference.TakeThumbnail {
			thumbnails = append(thumbnails, r.Job)
		}
		if r.Take.OfOutput() {
			values = append(values, models.OutputValue{JobID: r.Job, Take: string(r.Take)})
		}
	}
	if len(thumbnails) > 0 {
		if h.thumbnails, err = models.HasThumbnails(ctx, tx, lo.Uniq(thumbnails)); err != nil {
			return h, fmt.Errorf("look for thumbnails: %w", err)
		}
	}
	h.Lengths, err = models.MeasureOutputs(ctx, tx, lo.Uniq(values), nil)
	return h, apierror.Wrap(err, "measure the values of outputs")
}

// Check returns why a job cannot take these results of others, as far as those are COMPLETED.
func (h Has) Check(results []Result, sources map[models.JobID]*models.Job) error {
	sum := 0
	for _, r := range results {
		if sources[r.Job].Status != models.JobCompleted {
			continue
		}
		switch {
		case r.Take == reference.TakeThumbnail && !slices.Contains(h.thumbnails, r.Job):
			return apierror.Invalid(r.Field, "%s: job %s has no thumbnail, or it is no longer kept: name another.", r.Field, r.Job)
		case r.Take.OfOutput():
			if reason := change.BadValue(r.Job, r.Take, h.Lengths); reason != "" {
				return apierror.Invalid(r.Field, "%s: %s.", r.Field, reason)
			}
			sum += h.Lengths[models.OutputValue{JobID: r.Job, Take: string(r.Take)}]
		}
	}
	if sum > change.MaxValuesBytes {
		return apierror.Invalid("prompt", "The job cannot start: %s.", change.TooLong(sum))
	}
	return nil
}
