package jobs

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/reelay/reelay/models"
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
	// Completed compares how long after its submit a job was predicted to be
	// complete and was, in seconds.
	Completed(tier models.Tier, predicted, took float64)
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
	account *models.Account
	taken   int
}

// entry is a call that asks to be let in, and which of its submissions ask for a
// token.
type entry struct {
	pass
	call   *submitCall
	asking []*submission
	// welcome are those that may come in by what is remembered of their account,
	// but for its rate.
	welcome bool
	err     error
}

// admit judges the jobs that a call is about to submit, in their order, notes why
// those are refused that may not come in, and predicts how long those wait that
// are to start soon. A job whose idempotency key is known may always pass: it is
// there already, or is in conflict with one that is. What passes and is then not
// written has to be given back.
//
// What is remembered of an account is enough to let its jobs in; to refuse one, it
// is read, and so is whether keys are known.
func (s *Submitter) admit(ctx context.Context, call *submitCall) (*pass, error) {
	e := &entry{call: call, pass: pass{Admission: &s.Admission}}
	e.account, _ = s.shares.get(call.account, time.Now())
	e.welcome = e.account != nil && len(e.judge(nil)) == 0
	if !e.welcome || e.rated() {
		if err := s.entries.do(ctx, e, len(call.set), s.admitCalls); err != nil {
			return nil, err
		}
	}
	if e.err != nil {
		return nil, e.err
	}
	call.tier = e.account.Tier
	return &e.pass, nil
}

// rated tells whether the account has a rate to keep.
func (p *pass) rated() bool { return p.Rates != nil && p.account.SubmitsPerMinute < Unlimited }

// admitCalls is admit for many calls.
func (s *Submitter) admitCalls(ctx context.Context, entries []*entry, _ bool) [][]*entry {
	welcome, doubtful := parted(entries, func(e *entry) bool { return e.welcome })
	short := s.Admission.perAccount(welcome, func(some []*entry) bool { return s.Admission.takeAll(ctx, some) })
	if doubtful = append(doubtful, short...); len(doubtful) == 0 {
		return nil
	}
	if err := s.judge(ctx, doubtful); err != nil {
		for _, e := range doubtful {
			e.err = err
		}
	}
	return nil
}

// perAccount does something for the entries of each account, beside each other,
// and returns those for which it failed.
func (a *Admission) perAccount(entries []*entry, do func([]*entry) bool) (failed []*entry) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, some := range groupedBy(entries, func(e *entry) models.AccountID { return e.call.account }) {
		all.Go(func() {
			if !do(some) {
				mu.Lock()
				failed = append(failed, some...)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return failed
}

func (s *Submitter) judge(ctx context.Context, entries []*entry) error {
	accounts, known, err := s.readEntries(ctx, entries)
	if err != nil {
		return err
	}
	_, there := parted(entries, func(e *entry) bool {
		if e.account = accounts[e.call.account]; e.account == nil {
			e.err = fmt.Errorf("read account %s: %w", e.call.account, sql.ErrNoRows)
		}
		return e.account == nil
	})
	for _, e := range there {
		for one, err := range e.judge(known) {
			e.refuse(one, err)
		}
	}
	s.Admission.perAccount(there, func(some []*entry) bool {
		s.Admission.rate(ctx, some)
		return true
	})
	return nil
}

// readEntries reads the accounts, and which of the idempotency keys were used.
func (s *Submitter) readEntries(ctx context.Context, entries []*entry) (map[models.AccountID]*models.Account, map[models.JobKey]bool, error) {
	var ids []models.AccountID
	var keys []models.JobKey
	for _, e := range entries {
		ids = append(ids, e.call.account)
		for i := range e.call.set {
			if one := &e.call.set[i]; one.err == nil && one.asked.IdempotencyKey != "" {
				keys = append(keys, e.call.key(one))
			}
		}
	}
	slices.Sort(ids)
	now := time.Now()
	accounts, err := models.ReadShares(ctx, s.DB, slices.Compact(ids))
	if err != nil {
		return nil, nil, fmt.Errorf("read the accounts: %w", err)
	}
	for _, account := range accounts {
		s.shares.keep(account.ID, account, now)
	}
	used, err := models.FindUsedKeys(ctx, s.DB, keys)
	if err != nil {
		return nil, nil, fmt.Errorf("look up the keys: %w", err)
	}
	known := map[models.JobKey]bool{}
	for _, key := range used {
		known[key] = true
	}
	return keyedBy(accounts, func(a *models.Account) models.AccountID { return a.ID }), known, nil
}

// judge finds which of an entry's submissions ask for a token, and returns why the
// others are refused: they come at a time of overload. One whose key is known to
// have been used is neither.
func (e *entry) judge(known map[models.JobKey]bool) (refused map[*submission]error) {
	e.asking = nil
	for i := range e.call.set {
		one := &e.call.set[i]
		if one.err != nil || known[e.call.key(one)] {
			continue
		}
		err := e.overloaded(candidate{&one.asked, one.in.soon()})
		if err == nil {
			e.asking = append(e.asking, one)
			continue
		}
		if refused == nil {
			refused = map[*submission]error{}
		}
		refused[one] = err
	}
	return refused
}

func (e *entry) refuse(one *submission, err error) {
	one.err = err
	e.note(err, tierOf(&one.asked, e.account))
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
	seen.Tier = tierOf(c.job, p.account)
	seen.Lane = seen.Tier
	known := p.Estimates.expect(&seen, p.account)
	c.job.PredictedWaitSeconds, c.job.PredictedSeconds = known.waitSeconds, known.seconds
	target := Policies[seen.Tier].WaitTarget
	if target <= 0 || known.waitSeconds == nil {
		return nil
	}
	most := overloadedAfter * target
	expected := time.Duration(known.system * float64(time.Second))
	if expected <= most {
		return nil
	}
	return Later(CodeOverloaded, min(expected-most, maxRetryOverloaded),
		"A job of the tier %s would wait for %s now, and more than %s is too long to promise anything: nothing was accepted.",
		seen.Tier, expected.Round(time.Second), most)
}

// takeAll takes a token for each of an account's jobs that ask for one, or none.
func (a *Admission) takeAll(ctx context.Context, entries []*entry) bool {
	account, asking := entries[0].account, askingOf(entries)
	if asking == 0 || !entries[0].rated() {
		return true
	}
	if account.SubmitsPerMinute == 0 {
		return false
	}
	taken, _ := a.Rates.Take(ctx, entries[0].bucket(), asking, account.SubmitsPerMinute)
	if taken < asking {
		a.Rates.Give(ctx, entries[0].bucket(), taken, account.SubmitsPerMinute)
		return false
	}
	for _, e := range entries {
		e.taken = len(e.asking)
	}
	return true
}

func askingOf(entries []*entry) (asking int) {
	for _, e := range entries {
		asking += len(e.asking)
	}
	return asking
}

// rate takes a token for each of an account's jobs that ask for one, and refuses
// those that get none.
func (a *Admission) rate(ctx context.Context, entries []*entry) {
	account, asking := entries[0].account, askingOf(entries)
	if asking == 0 || !entries[0].rated() {
		return
	}
	refused, taken := Later(CodeRateLimited, time.Minute, "This account may submit no jobs: its submitsPerMinute is 0."), 0
	if account.SubmitsPerMinute > 0 {
		var wait time.Duration
		taken, wait = a.Rates.Take(ctx, entries[0].bucket(), asking, account.SubmitsPerMinute)
		refused = Later(CodeRateLimited, wait, "This account may submit %s a minute, and has.", countOf(account.SubmitsPerMinute, "job"))
	}
	for _, e := range entries {
		e.taken = min(taken, len(e.asking))
		taken -= e.taken
		for _, one := range e.asking[e.taken:] {
			e.refuse(one, refused)
		}
	}
}

func (p *pass) bucket() string { return string(p.account.ID) }

// accepted tells the outlook of a job that was written.
func (p *pass) accepted(job *models.Job) {
	if p.account != nil && job.Status == models.JobQueued {
		p.Estimates.submitted(job, p.account)
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
