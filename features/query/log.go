package query

import (
	"context"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// LiveLog is what a worker has sent of the output of an attempt's runtime.
type LiveLog struct {
	// Text begins after the number of bytes that the reader asked for, or later if those are no
	// longer kept.
	Text string
	// End is the number of bytes that were sent. Pass it to read what follows.
	End int64
}

// LiveLog returns what the worker of an attempt has sent of its log after a number of bytes, or
// NOT_FOUND. It is empty if the worker has sent nothing, and about a day after the attempt ended.
func (r *Jobs) LiveLog(ctx context.Context, p jobs.Principal, attempt models.AttemptID, after int64) (*LiveLog, error) {
	if _, err := r.Attempt(ctx, p, attempt); err != nil {
		return nil, err
	}
	log := &LiveLog{End: max(after, 0)}
	parts, err := models.ListLog(ctx, r.db, attempt, log.End)
	if err != nil {
		return nil, apierror.Wrap(err, "read the log of attempt %s", attempt)
	}
	var text strings.Builder
	for _, part := range parts {
		known := min(max(log.End-part.Position, 0), int64(len(part.Text)))
		text.WriteString(part.Text[known:])
		log.End = max(log.End, part.Position+int64(len(part.Text)))
	}
	log.Text = strings.ToValidUTF8(text.String(), "�")
	return log, nil
}
