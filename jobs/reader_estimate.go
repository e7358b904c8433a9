package jobs

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/reelay/reelay/models"
)

// JobEstimate is a best guess for a job that is not over. What is nil or zero is
// not known.
type JobEstimate struct {
	// WaitSeconds is until a worker starts the job; nil once one has.
	WaitSeconds *float64
	// CompletionAt is when it is done, to the second.
	CompletionAt time.Time
}

// countOwn bounds how many jobs are counted between two of one account that are
// asked for.
const countOwn = 10_000

// EstimateJobs guesses for each of these jobs when it starts and is done. Those
// that are over, or of which nothing can be said, are not in the answer. It takes
// the same few statements for one job as for many, and none if nothing is known.
func (r *Reader) EstimateJobs(ctx context.Context, rows []*models.Job) (map[models.JobID]JobEstimate, error) {
	found := map[models.JobID]JobEstimate{}
	accounts := map[models.AccountID]*models.Account{}
	var queued []models.JobID
	for _, job := range rows {
		if !job.Status.Terminal() {
			accounts[job.AccountID] = nil
		}
		if job.Status == models.JobQueued {
			queued = append(queued, job.ID)
		}
	}
	if len(accounts) == 0 || !r.Estimates.knows() {
		return found, nil
	}
	now, err := models.Now(ctx, r.DB)
	if err != nil {
		return nil, fmt.Errorf("estimate jobs: %w", err)
	}
	known, err := models.GetAccounts(ctx, r.DB, slices.Collect(maps.Keys(accounts)))
	if err != nil {
		return nil, fmt.Errorf("estimate jobs: %w", err)
	}
	accounts = keyedBy(known, func(a *models.Account) models.AccountID { return a.ID })
	ahead := map[models.JobID]models.OwnAhead{}
	if len(queued) > 0 {
		counted, err := models.CountOwnAhead(ctx, r.DB, queued, countOwn)
		if err != nil {
			return nil, fmt.Errorf("count what is ahead: %w", err)
		}
		ahead = keyedBy(counted, func(a models.OwnAhead) models.JobID { return a.JobID })
	}
	r.Estimates.look(func(o *outlook) {
		for _, job := range rows {
			if account := accounts[job.AccountID]; account != nil {
				if e, ok := o.job(job, account, ahead[job.ID].Count, now); ok {
					found[job.ID] = e
				}
			}
		}
	})
	return found, nil
}

// job guesses for a job, if anything can be said.
func (o *outlook) job(job *models.Job, account *models.Account, ownAhead int, now time.Time) (JobEstimate, bool) {
	q := newQuery(job, account)
	// What was started since the outlook was made is still in the queue there.
	q.ownAhead = ownAhead + max(0, account.Running-o.held[account.ID])
	in := func(seconds float64) time.Time {
		return now.Add(time.Duration(seconds * float64(time.Second))).Round(time.Second)
	}
	if job.Status.Terminal() || job.Status == models.JobBlocked {
		return JobEstimate{}, false
	}
	if job.Status.Live() {
		var e JobEstimate
		var classes []*class
		for _, c := range o.classes {
			if c.serves(q.Queue) {
				classes = append(classes, c)
			}
		}
		if total := o.renderSeconds(classes, q.load); total > 0 && !job.Progress.UpdatedAt.IsZero() {
			silent := max(now.Sub(job.Progress.UpdatedAt).Seconds(), 0)
			e.CompletionAt = in(remaining(total, silent, 0, job.Progress.Percent, silent))
		}
		return e, true
	}
	guess, _ := o.estimate(q)
	if guess.WaitSeconds == nil {
		return JobEstimate{}, false
	}
	wait := rounded(*guess.WaitSeconds + max(job.RunAt.Sub(now).Seconds(), 0)*float64(b2i(job.Status == models.JobScheduled)))
	return JobEstimate{WaitSeconds: &wait, CompletionAt: in(wait + *guess.RenderSeconds)}, true
}

// knows tells whether there is anything to estimate from.
func (e *Estimator) knows() (known bool) {
	e.look(func(*outlook) { known = true })
	return known
}

// Estimate guesses for a job that the caller would submit now; the wait of a job
// with RunAt includes the time until then. It returns what Submit would for input
// that is not valid, a tier that is above the account's, or jobs to depend on that
// are not the account's.
func (s *Submitter) Estimate(ctx context.Context, p Principal, in Submission) (*Estimate, error) {
	job, err := s.validate(&in)
	if err != nil {
		return nil, err
	}
	found, err := models.GetAccounts(ctx, s.DB, []models.AccountID{p.AccountID})
	if err == nil && len(found) == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return nil, wrap(err, "read the account")
	}
	account := found[0]
	job.AccountID, job.Tier = p.AccountID, in.Tier
	if err := setTier(job, account); err != nil {
		return nil, err
	}
	if _, err := s.parents(ctx, s.DB, job, in.DependsOn); err != nil {
		return nil, err
	}
	now, err := models.Now(ctx, s.DB)
	if err != nil {
		return nil, fmt.Errorf("read the clock: %w", err)
	}
	if err := (&change{job: job, now: now}).beginTimes(in); err != nil {
		return nil, err
	}
	guess, _ := s.Admission.Estimates.submit(job, account)
	guess.Position = max(guess.Position, 1)
	if ahead := job.RunAt.Sub(now).Seconds(); ahead > 0 && guess.WaitSeconds != nil {
		guess.WaitSeconds, guess.WaitSecondsP90 = new(rounded(*guess.WaitSeconds+ahead)), new(rounded(*guess.WaitSecondsP90+ahead))
	}
	return &guess, nil
}

// QueueWaits tells how long jobs waited that were started lately, by lane and
// model; those of a lane whole are under no model.
func (r *Reader) QueueWaits(ctx context.Context) ([]models.QueueWait, error) {
	waits, err := models.ListQueueWaits(ctx, r.DB)
	return waits, wrap(err, "read how long jobs waited")
}
