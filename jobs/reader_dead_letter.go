package jobs

import (
	"context"
	"fmt"

	"github.com/reelay/reelay/models"
)

// DeadLetter returns a dead letter, or NOT_FOUND. Only operators see them.
func (r *Reader) DeadLetter(ctx context.Context, p Principal, id models.DeadLetterID) (*models.DeadLetter, error) {
	if !id.Valid() || !p.May(models.RoleOperator) {
		return nil, notFound("dead letter")
	}
	letter, err := models.GetDeadLetter(ctx, r.DB, id)
	if err != nil {
		return nil, wrap(orNotFound(err, "dead letter"), "read dead letter %s", id)
	}
	return letter, nil
}

// forAudience fills in whose dead letters a filter is of, if it does not say: the
// operators', unless it names a cause.
func forAudience(f models.DeadLetterFilter) models.DeadLetterFilter {
	if len(f.Audience) == 0 && f.Fingerprint == "" && f.FailureClass == "" {
		f.Audience = []models.Audience{models.AudienceOperator}
	}
	return f
}

// DeadLetters lists dead letters, newest first: the operators' only, unless the filter
// names an audience or a cause.
func (r *Reader) DeadLetters(ctx context.Context, f models.DeadLetterFilter, of PageOf) (*Page[*models.DeadLetter], error) {
	f = forAudience(f)
	all := listOf("dead", f)
	mark, err := all.begin(of)
	if err != nil {
		return nil, err
	}
	if err := validDeadLetterFilter(f); err != nil {
		return nil, err
	}
	found, err := models.ListDeadLetters(ctx, r.DB, f, models.DeadLetterID(mark), of.First+1)
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	return page(all, found, of.First, func(d *models.DeadLetter) string { return string(d.ID) }), nil
}

// CountDeadLetters counts up to CountLimit dead letters; one more means more.
func (r *Reader) CountDeadLetters(ctx context.Context, f models.DeadLetterFilter) (int, error) {
	n, err := models.CountDeadLetters(ctx, r.DB, forAudience(f), CountLimit+1)
	return n, wrap(err, "count dead letters")
}

// maxDeadLetterGroups is more causes than anybody looks at.
const maxDeadLetterGroups = 500

// DeadLetterGroups counts dead letters by their cause, the most frequent first,
// at most 500. Of the filter only Resolved and Audience narrow them.
func (r *Reader) DeadLetterGroups(ctx context.Context, f models.DeadLetterFilter) ([]*models.DeadLetterGroup, error) {
	groups, err := models.GroupDeadLetters(ctx, r.DB, forAudience(f), maxDeadLetterGroups)
	return groups, wrap(err, "group dead letters")
}

// DeadLetterStats returns the open dead letters of an audience in figures; none is the
// operators.
func (r *Reader) DeadLetterStats(ctx context.Context, audience []models.Audience) (*models.DeadLetterStats, error) {
	f := forAudience(models.DeadLetterFilter{Audience: audience})
	stats, err := models.CountOpenDeadLetters(ctx, r.DB, f.Audience)
	return stats, wrap(err, "count open dead letters")
}

// JobsByID returns jobs by their ids, in no order.
func (r *Reader) JobsByID(ctx context.Context, ids []models.JobID) ([]*models.Job, error) {
	found, err := models.GetJobs(ctx, r.DB, ids)
	return found, wrap(err, "read jobs")
}

func validDeadLetterFilter(f models.DeadLetterFilter) error {
	for _, part := range []struct{ name, text string }{
		{"fingerprint", f.Fingerprint}, {"model", f.Model}, {"provider", f.Provider},
	} {
		if !validText(part.text, 0, maxUserIDBytes) {
			return invalid(part.name, "%s may have %d printable characters.", part.name, maxUserIDBytes)
		}
	}
	return nil
}
