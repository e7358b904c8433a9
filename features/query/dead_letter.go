package query

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/uptrace/bun"
)

// DeadLetters reads the jobs that failed for good. It is for operators.
type DeadLetters struct {
	db *bun.DB
}

// Get returns a dead letter, or NOT_FOUND. Only operators see them.
func (r *DeadLetters) Get(ctx context.Context, p jobs.Principal, id models.DeadLetterID) (*models.DeadLetter, error) {
	if !id.Valid() || !p.May(access.RoleViewer) {
		return nil, apierror.NotFound("dead letter")
	}
	letter, err := models.GetDeadLetter(ctx, r.db, id)
	if err != nil {
		return nil, apierror.Wrap(apierror.OrNotFound(err, "dead letter"), "read dead letter %s", id)
	}
	return letter, nil
}

// OpenOf returns the unresolved dead letter of a job's current run, or nil. Only
// operators see one.
func (r *DeadLetters) OpenOf(ctx context.Context, p jobs.Principal, job *models.Job) (*models.DeadLetter, error) {
	if !p.May(access.RoleOperator) {
		return nil, nil
	}
	letter, err := models.FindDeadLetter(ctx, r.db, job.ID, job.Run)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("find the dead letter of job %s: %w", job.ID, err)
	case letter.Resolution != "":
		return nil, nil
	}
	return letter, nil
}

// ForAudience fills in the audience of a filter that names neither an audience nor a cause:
// the operators'.
func ForAudience(f models.DeadLetterFilter) models.DeadLetterFilter {
	if len(f.Audience) == 0 && f.Fingerprint == "" && f.FailureClass == "" {
		f.Audience = []models.Audience{models.AudienceOperator}
	}
	return f
}

// List lists dead letters, newest first. Unless the filter names an audience or a
// cause, it lists only the operators'.
func (r *DeadLetters) List(ctx context.Context, f models.DeadLetterFilter, of paging.Request) (*paging.Page[*models.DeadLetter], error) {
	f = ForAudience(f)
	all := paging.ListOf("dead", f)
	mark, err := all.Begin(of)
	if err != nil {
		return nil, err
	}
	if err := ValidDeadLetterFilter(f); err != nil {
		return nil, err
	}
	found, err := models.ListDeadLetters(ctx, r.db, f, models.DeadLetterID(mark), of.First+1)
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	return paging.NewPage(all, found, of.First, func(d *models.DeadLetter) string { return string(d.ID) }), nil
}

// Count counts dead letters up to CountLimit. CountLimit+1 means more.
func (r *DeadLetters) Count(ctx context.Context, f models.DeadLetterFilter) (int, error) {
	n, err := models.CountDeadLetters(ctx, r.db, ForAudience(f), CountLimit+1)
	return n, apierror.Wrap(err, "count dead letters")
}

// maxDeadLetterGroups is more causes than anyone reads.
const maxDeadLetterGroups = 500

// Groups counts dead letters by cause, the most frequent first, at most 500. It
// applies only Resolved and Audience of the filter.
func (r *DeadLetters) Groups(ctx context.Context, f models.DeadLetterFilter) ([]*models.DeadLetterGroup, error) {
	groups, err := models.GroupDeadLetters(ctx, r.db, ForAudience(f), maxDeadLetterGroups)
	return groups, apierror.Wrap(err, "group dead letters")
}

// Stats returns figures of an audience's open dead letters. An empty audience means
// the operators.
func (r *DeadLetters) Stats(ctx context.Context, audience []models.Audience) (*models.DeadLetterStats, error) {
	f := ForAudience(models.DeadLetterFilter{Audience: audience})
	stats, err := models.CountOpenDeadLetters(ctx, r.db, f.Audience)
	return stats, apierror.Wrap(err, "count open dead letters")
}

func ValidDeadLetterFilter(f models.DeadLetterFilter) error {
	for _, part := range []struct{ name, text string }{
		{"fingerprint", f.Fingerprint}, {"model", f.Model}, {"provider", f.Provider},
	} {
		if !text.Valid(part.text, 0, submit.MaxUserIDBytes) {
			return apierror.Invalid(part.name, "%s may have %d printable characters.", part.name, submit.MaxUserIDBytes)
		}
	}
	return nil
}
