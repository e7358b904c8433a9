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
)

// DeadLetter returns a dead letter, or NOT_FOUND. Only operators see them.
func (r *Reader) DeadLetter(ctx context.Context, p jobs.Principal, id models.DeadLetterID) (*models.DeadLetter, error) {
	if !id.Valid() || !p.May(models.RoleViewer) {
		return nil, apierror.NotFound("dead letter")
	}
	letter, err := models.GetDeadLetter(ctx, r.DB, id)
	if err != nil {
		return nil, apierror.Wrap(apierror.OrNotFound(err, "dead letter"), "read dead letter %s", id)
	}
	return letter, nil
}

// OpenDeadLetter returns the unresolved dead letter of a job's current run, or nil. Only
// operators see one.
func (r *Reader) OpenDeadLetter(ctx context.Context, p jobs.Principal, job *models.Job) (*models.DeadLetter, error) {
	if !p.May(models.RoleOperator) {
		return nil, nil
	}
	letter, err := models.FindDeadLetter(ctx, r.DB, job.ID, job.Run)
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

// DeadLetters lists dead letters, newest first. Unless the filter names an audience or a
// cause, it lists only the operators'.
func (r *Reader) DeadLetters(ctx context.Context, f models.DeadLetterFilter, of paging.Request) (*paging.Page[*models.DeadLetter], error) {
	f = ForAudience(f)
	all := paging.ListOf("dead", f)
	mark, err := all.Begin(of)
	if err != nil {
		return nil, err
	}
	if err := ValidDeadLetterFilter(f); err != nil {
		return nil, err
	}
	found, err := models.ListDeadLetters(ctx, r.DB, f, models.DeadLetterID(mark), of.First+1)
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	return paging.NewPage(all, found, of.First, func(d *models.DeadLetter) string { return string(d.ID) }), nil
}

// CountDeadLetters counts dead letters up to CountLimit. CountLimit+1 means more.
func (r *Reader) CountDeadLetters(ctx context.Context, f models.DeadLetterFilter) (int, error) {
	n, err := models.CountDeadLetters(ctx, r.DB, ForAudience(f), CountLimit+1)
	return n, apierror.Wrap(err, "count dead letters")
}

// maxDeadLetterGroups is more causes than anyone reads.
const maxDeadLetterGroups = 500

// DeadLetterGroups counts dead letters by cause, the most frequent first, at most 500. It
// applies only Resolved and Audience of the filter.
func (r *Reader) DeadLetterGroups(ctx context.Context, f models.DeadLetterFilter) ([]*models.DeadLetterGroup, error) {
	groups, err := models.GroupDeadLetters(ctx, r.DB, ForAudience(f), maxDeadLetterGroups)
	return groups, apierror.Wrap(err, "group dead letters")
}

// DeadLetterStats returns figures of an audience's open dead letters. An empty audience means
// the operators.
func (r *Reader) DeadLetterStats(ctx context.Context, audience []models.Audience) (*models.DeadLetterStats, error) {
	f := ForAudience(models.DeadLetterFilter{Audience: audience})
	stats, err := models.CountOpenDeadLetters(ctx, r.DB, f.Audience)
	return stats, apierror.Wrap(err, "count open dead letters")
}

// JobsByID returns jobs by their ids, in any order.
func (r *Reader) JobsByID(ctx context.Context, ids []models.JobID) ([]*models.Job, error) {
	found, err := models.GetJobs(ctx, r.DB, ids)
	return found, apierror.Wrap(err, "read jobs")
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
