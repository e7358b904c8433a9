package submit

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/shopspring/decimal"
)

// Estimate returns a forecast for a job that the caller would submit now. The wait of a job with
// RunAt includes the time until then. Estimate returns Submit's errors for invalid input, for a
// tier above the account's, and for dependencies of other accounts.
func (s *Submitter) Estimate(ctx context.Context, p jobs.Principal, in Submission) (*estimate.Estimate, error) {
	job, err := in.validate(s.Catalogue.Current().For(p.Scope()), s.Outbound, &s.prices)
	if err != nil {
		return nil, err
	}
	if job.Approval() { // it has no worker, and a person decides how long it waits
		return nil, apierror.Invalid("model", "%s has no forecast: it waits for an answer, and takes no GPU seconds.",
			models.TypeApproval)
	}
	found, err := models.GetAccounts(ctx, s.DB, []models.AccountID{p.AccountID})
	if err == nil && len(found) == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return nil, apierror.Wrap(err, "read the account")
	}
	account := found[0]
	job.AccountID, job.Tier = p.AccountID, in.Tier
	if err := setTier(job, account); err != nil {
		return nil, err
	}
	if _, err := s.parents(ctx, s.DB, job, in.DependsOn); err != nil {
		return nil, err
	}
	now, err := postgres.Now(ctx, s.DB)
	if err != nil {
		return nil, fmt.Errorf("read the clock: %w", err)
	}
	if err := beginTimes(&change.Change{Job: job, Now: now}, in); err != nil {
		return nil, err
	}
	if job.RunAt.IsZero() && len(in.DependsOn) == 0 {
		if from, err := s.reusable(ctx, p, job, now); err != nil || from != nil {
			return &estimate.Estimate{WaitSeconds: new(0.0), WaitSecondsP90: new(0.0), RenderSeconds: new(0.0), CostUSD: new(decimal.Zero), ReusedFrom: from}, err
		}
	}
	guess, _ := s.Admission.Estimates.Submit(job, account)
	guess.Position = max(guess.Position, 1)
	job.Lane = job.Tier
	if guess.CostUSD, err = s.Admission.Estimates.JobUSD(ctx, job); err != nil {
		return nil, apierror.Wrap(err, "estimate the cost")
	}
	if ahead := job.RunAt.Sub(now).Seconds(); ahead > 0 && guess.WaitSeconds != nil {
		guess.WaitSeconds, guess.WaitSecondsP90 = new(estimate.Rounded(*guess.WaitSeconds+ahead)),
			new(estimate.Rounded(*guess.WaitSecondsP90+ahead))
	}
	return &guess, nil
}

// reusable returns the job whose result a job would have if it were submitted now, or nil. It does not
// look at images at URLs and the results of other jobs.
func (s *Submitter) reusable(ctx context.Context, p jobs.Principal, job *models.Job, now time.Time) (*models.JobID, error) {
	if !job.Reuse {
		return nil, nil
	}
	if len(job.ReuseRefs) > 0 {
		known := s.Catalogue.Current()
		x, err := s.Inputs.Examine(ctx, p.AccountID, known, known.At(job.Model, job.ModelVersion).Inputs(job.Params), nil, nil)
		if err != nil {
			return nil, err
		}
		if x.CompleteDigest(job); len(job.ReuseRefs) > 0 {
			return nil, nil
		}
	}
	found, err := change.FindReusable(ctx, s.DB, []*models.Job{job}, now)
	if err != nil {
		return nil, err
	}
	if source, ok := found[job.ID]; ok {
		return &source.ID, nil
	}
	return nil, nil
}
