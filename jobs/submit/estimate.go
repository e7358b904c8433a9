package submit

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
)

// Estimate returns a forecast for a job that the caller would submit now. The wait of a job with
// RunAt includes the time until then. Estimate returns Submit's errors for invalid input, for a
// tier above the account's, and for dependencies of other accounts.
func (s *Submitter) Estimate(ctx context.Context, p jobs.Principal, in Submission) (*estimate.Estimate, error) {
	job, err := in.validate(s.Catalogue.Current(), s.Outbound, &s.prices)
	if err != nil {
		return nil, err
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
	guess, _ := s.Admission.Estimates.Submit(job, account)
	guess.Position = max(guess.Position, 1)
	if ahead := job.RunAt.Sub(now).Seconds(); ahead > 0 && guess.WaitSeconds != nil {
		guess.WaitSeconds, guess.WaitSecondsP90 = new(estimate.Rounded(*guess.WaitSeconds+ahead)),
			new(estimate.Rounded(*guess.WaitSecondsP90+ahead))
	}
	return &guess, nil
}
