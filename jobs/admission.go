package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Rates counts, for all processes together, how much of its rate per minute each
// account has used. It may lose what it knows at any time, and errs on the side
// of letting pass.
type Rates interface {
	// Take takes up to n tokens (at least 1) from the bucket of that name, which
	// holds perMinute (at least 1) and fills evenly by as many each minute. It
	// returns how many it took, and after how long the rest, or a full bucket if
	// the rest is more, will be there if nobody else takes them. It waits for
	// nobody.
	Take(ctx context.Context, name string, n, perMinute int) (taken int, wait time.Duration)
	// Give gives n tokens back that were taken and not used.
	Give(ctx context.Context, name string, n, perMinute int)
}

// Meter is told what operators measure of admission and estimates.
type Meter interface {
	// Refused counts a submit that was refused with RATE_LIMITED,
	// QUOTA_EXCEEDED or OVERLOADED.
	Refused(code Code, tier models.Tier)
	// Waited compares how long a job was predicted to wait and did, in seconds.
	Waited(tier models.Tier, predicted, waited float64)
}

// Admission decides which submits come in now: by their account's rate, and by
// how long they would wait. What it does not have it does not ask.
type Admission struct {
	Rates     Rates
	Estimates *Estimator
	Meter     Meter
}

// overloadedAfter is how many times its wait target a tier's job may be expected
// to wait.
const overloadedAfter = 10

// maxRetryOverloaded bounds after how long an overloaded submit is asked back.
const maxRetryOverloaded = 10 * time.Minute

// pass is what a submit, or a list of them, was let in with.
type pass struct {
	*Admission
	account *models.Admission
	// refused is why each of the jobs may not come in, or nil.
	refused []error
	taken   int
}

// admit judges jobs that one account is about to submit, in their order, and
// predicts how long those wait that are to start soon. A job whose idempotency key is known may always
// pass: it is there already, or is in conflict with one that is. What passes and
// is then not written has to be given back.
func (a *Admission) admit(ctx context.Context, db bun.IDB, all []candidate) (*pass, error) {
	p := &pass{Admission: a, refused: make([]error, len(all))}
	if a.Rates == nil && a.Estimates == nil || len(all) == 0 {
		return p, nil
	}
	var keys []string
	for _, c := range all {
		if c.job.IdempotencyKey != "" {
			keys = append(keys, c.job.IdempotencyKey)
		}
	}
	var err error
	if p.account, err = models.ReadAdmission(ctx, db, all[0].job.AccountID, keys); err != nil {
		return nil, fmt.Errorf("read the account: %w", err)
	}
	var asking []int
	for i, c := range all {
		if slices.Contains(p.account.Known, c.job.IdempotencyKey) {
			continue
		}
		if p.refused[i] = p.overloaded(c); p.refused[i] == nil {
			asking = append(asking, i)
		}
	}
	p.rate(ctx, asking)
	for i, refused := range p.refused {
		a.note(refused, tierOf(all[i].job, &p.account.Account))
	}
	return p, nil
}

// candidate is a job that is about to be submitted, and whether it is to start
// soon.
type candidate struct {
	job  *models.Job
	soon bool
}

// overloaded predicts a job's wait, and refuses it if that is far beyond what its
// tier promises. A job that is not queued at once is not judged.
func (p *pass) overloaded(c candidate) error {
	if !c.soon {
		return nil
	}
	seen := *c.job
	seen.Tier = tierOf(c.job, &p.account.Account)
	seen.Lane = seen.Tier
	found, system := p.Estimates.submit(&seen, &p.account.Account)
	c.job.PredictedWaitSeconds = found.WaitSeconds
	target := Policies[seen.Tier].WaitTarget
	if target <= 0 || found.WaitSeconds == nil {
		return nil
	}
	most := overloadedAfter * target
	expected := time.Duration(system * float64(time.Second))
	if expected <= most {
		return nil
	}
	return Later(CodeOverloaded, min(expected-most, maxRetryOverloaded),
		"A job of the tier %s would wait for %s now, and more than %s is too long to promise anything: nothing was accepted.",
		seen.Tier, expected.Round(time.Second), most)
}

// rate takes a token for each of the jobs that ask for one, and refuses those
// that get none.
func (p *pass) rate(ctx context.Context, asking []int) {
	perMinute := p.account.SubmitsPerMinute
	if p.Rates == nil || len(asking) == 0 || perMinute >= Unlimited {
		return
	}
	if perMinute == 0 {
		for _, i := range asking {
			p.refused[i] = Later(CodeRateLimited, time.Minute, "This account may submit no jobs: its submitsPerMinute is 0.")
		}
		return
	}
	taken, wait := p.Rates.Take(ctx, p.bucket(), len(asking), perMinute)
	p.taken = taken
	for _, i := range asking[taken:] {
		p.refused[i] = Later(CodeRateLimited, wait, "This account may submit %s a minute, and has.", countOf(perMinute, "job"))
	}
}

func (p *pass) bucket() string { return string(p.account.ID) }

// accepted tells the outlook of a job that was written.
func (p *pass) accepted(job *models.Job) {
	if p.account != nil && job.Status == models.JobQueued {
		p.Estimates.submitted(job, &p.account.Account)
	}
}

// giveBack returns the tokens of n jobs that passed and were not written.
func (p *pass) giveBack(ctx context.Context, n int) {
	if n = min(n, p.taken); n > 0 {
		p.taken -= n
		p.Rates.Give(ctx, p.bucket(), n, p.account.SubmitsPerMinute)
	}
}

// note counts a refusal.
func (a *Admission) note(err error, tier models.Tier) {
	var refused *Error
	if a.Meter == nil || !errors.As(err, &refused) {
		return
	}
	switch refused.Code {
	case CodeRateLimited, CodeQuotaExceeded, CodeOverloaded:
		a.Meter.Refused(refused.Code, tier)
	}
}

// tierOf is the tier that a job will be of.
func tierOf(job *models.Job, account *models.Account) models.Tier {
	return cmp.Or(job.Tier, account.Tier)
}
