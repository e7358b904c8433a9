package change

import (
	"context"
	"fmt"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/reference"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// OutputsIn returns the values of outputs in rows, once each.
func OutputsIn(rows []models.JobSource) (values []models.OutputValue) {
	for _, row := range rows {
		for _, take := range row.Takes {
			if reference.Take(take).OfOutput() {
				values = append(values, models.OutputValue{JobID: row.SourceID, Take: take})
			}
		}
	}
	return lo.Uniq(values)
}

// unfit returns why jobs can never start although what they wait for has ended: something that
// they take from one of the jobs in over does not exist, or the values in their texts are too
// long. The reasons are ends of sentences. The jobs in over end, COMPLETED or not, by changes of
// this transaction, which may not be written yet.
func unfit(ctx context.Context, tx bun.Tx, children []models.JobID, over []*Change) (reasons map[models.JobID]string, err error) {
	rows, err := models.ListSources(ctx, tx, children)
	if err != nil || len(rows) == 0 {
		return nil, apierror.Wrap(err, "read what jobs take from others")
	}
	ended := lo.KeyBy(over, func(c *Change) models.JobID { return c.Job.ID })
	outputs := map[models.JobID]string{}
	for id, c := range ended {
		if c.Job.Status == models.JobCompleted {
			outputs[id] = string(c.Job.Output)
		}
	}
	lengths, err := models.MeasureOutputs(ctx, tx, OutputsIn(rows), outputs)
	if err != nil {
		return nil, fmt.Errorf("measure the values of outputs: %w", err)
	}
	reasons = map[models.JobID]string{}
	totals := map[models.JobID]int{}
	for _, row := range rows {
		reason := missing(row, ended[row.SourceID], lengths)
		if totals[row.JobID] += lengthOf(row, lengths); reason == "" && totals[row.JobID] > MaxValuesBytes {
			reason = TooLong(totals[row.JobID])
		}
		if reason != "" && reasons[row.JobID] == "" {
			reasons[row.JobID] = reason
		}
	}
	return reasons, nil
}

// missing returns what of a row its source does not have, which is over; "" if it has all, or
// if over is nil.
func missing(row models.JobSource, over *Change, lengths map[models.OutputValue]int) string {
	if over == nil {
		return ""
	}
	for _, one := range row.Takes {
		take := reference.Take(one)
		switch {
		case over.Job.Status != models.JobCompleted:
			return fmt.Sprintf("it takes the %s of job %s, which is %s", take.Noun(), row.SourceID, over.Job.Status)
		case take.OfVideo() && over.Job.ResultID == "", take == reference.TakeThumbnail && !over.Thumbnail:
			return fmt.Sprintf("it takes the %s of job %s, which has none", take.Noun(), row.SourceID)
		case take.OfOutput():
			if reason := BadValue(row.SourceID, take, lengths); reason != "" {
				return reason
			}
		}
	}
	return ""
}

// BadValue returns why a value of the output of a COMPLETED job cannot be used, or "".
func BadValue(source models.JobID, take reference.Take, lengths map[models.OutputValue]int) string {
	length, exists := lengths[models.OutputValue{JobID: source, Take: string(take)}]
	switch _, path, deep := strings.Cut(string(take), "."); {
	case !exists && deep:
		return fmt.Sprintf("the output of job %s has no value at %s", source, path)
	case !exists:
		return fmt.Sprintf("job %s has no output", source)
	case length > maxValueBytes:
		return fmt.Sprintf("the value %s of job %s has %s, and a text may contain one of %s", take, source, text.Count(length, "byte"),
			text.Count(maxValueBytes, "byte"))
	}
	return ""
}

// lengthOf adds up the known values of a row.
func lengthOf(row models.JobSource, lengths map[models.OutputValue]int) (sum int) {
	for _, take := range row.Takes {
		sum += lengths[models.OutputValue{JobID: row.SourceID, Take: take}]
	}
	return sum
}

// TooLong says that values of this many bytes together are too long for the texts of a job.
func TooLong(sum int) string {
	return fmt.Sprintf("the values of other jobs in its texts have %s together, and may have %s", text.Count(sum, "byte"),
		text.Count(MaxValuesBytes, "byte"))
}

// maxValueBytes bounds one such value, and MaxValuesBytes all of a job.
const maxValueBytes = 16 << 10

// MaxValuesBytes bounds the values of other jobs in the texts of one job, all together.
const MaxValuesBytes = 64 << 10
