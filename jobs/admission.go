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

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

// Rates counts, for all processes together, how much of its rate per minute each
// account has used. It may lose what it knows at any time, and errs on the side
// of letting pass.
type Rates interface {
	// Take asks the bucket of that name, which holds perMinute tokens (at least 1) and
	// fills evenly by as many each minute, for a token for each of some submits, which
	// are given by their idempotency keys; empty is none. It returns what became of
	// each, and after how long the tokens of those that were refused, or a full bucket,
	// will be there if no other call takes them. It waits for nothing.
	Take(ctx context.Context, name string, keys []string, perMinute int) (tokens []Token, wait time.Duration)
	// Give gives back the tokens of submits that wrote no job.
	Give(ctx context.Context, name string, keys []string, perMinute int)
}

// Token is what a submit got that asked for one.
type Token int

const (
	TokenRefused Token = iota
	TokenTaken
	// TokenHeld: another submit of the same key was given one within the last seconds.
	// Its job is there, or about to be; if it comes to nothing, the token is given back.
	TokenHeld
)

// Admission decides which submits come in now: by their account's rate, and by
// how long they would wait. What it does not have it does not ask.
type Admission struct {
	Rates     Rates
	Estimates *estimate.Estimator
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
	// held is whether another call has the token of one of their keys.
	held bool
	err  error
}

// Size is how much of a batch the entry takes.
func (e *entry) Size() int { return len(e.call.set) }

// While another call has the token of a submit's key, the key is looked up again and
// again, after pauses that grow.
const (
	heldPauseFirst = 5 * time.Millisecond
	heldPauseMost  = 200 * time.Millisecond
)

// admit judges the jobs that a call is about to submit, in their order, notes why
// those are refused that may not come in, and predicts how long those wait that
// are to start soon. A job whose idempotency key is known may always pass: it is
// there already, or is in conflict with one that is. While another call, of whichever
// process, has a token for the same key, its job is waited for. What passes and is then
// not written has to be given back.
//
// What is remembered of an account is enough to let its jobs in; to refuse one, it
// is read, and so is whether keys are known.
func (s *Submitter) admit(ctx context.Context, call *submitCall) (*pass, error) {
	e := &entry{call: call, pass: pass{Admission: &s.Admission}}
	e.account, _ = s.shares.Get(call.account, time.Now())
	e.welcome = e.account != nil && len(e.judge(nil)) == 0
	for pause := heldPauseFirst; ; pause = min(2*pause, heldPauseMost) {
		if !e.welcome || e.rated() {
			if err := s.entries.Do(ctx, e, s.admitCalls); err != nil {
				return nil, err
			}
		}
		if e.err != nil {
			return nil, e.err
		}
		if !e.held {
			call.tier = e.account.Tier
			return &e.pass, nil
		}
		e.held, e.welcome = false, false
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			e.giveBack(ctx, call.tokens())
			return nil, ctx.Err()
		}
	}
}

// rated tells whether the account has a rate to keep.
func (p *pass) rated() bool { return p.Rates != nil && p.account.SubmitsPerMinute < Unlimited }

// admitCalls is admit for many calls.
func (s *Submitter) admitCalls(ctx context.Context, entries []*entry) error {
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
	for _, some := range lo.GroupBy(entries, func(e *entry) models.AccountID { return e.call.account }) {
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
		s.shares.Keep(account.ID, account, now)
	}
	used, err := models.FindUsedKeys(ctx, s.DB, keys)
	if err != nil {
		return nil, nil, fmt.Errorf("look up the keys: %w", err)
	}
	known := map[models.JobKey]bool{}
	for _, key := range used {
		known[key] = true
	}
	return lo.KeyBy(accounts, func(a *models.Account) models.AccountID { return a.ID }), known, nil
}

// judge finds which of an entry's submissions ask for a token, and returns why the
// others are refused: they come at a time of overload. One whose key is known to
// have been used is neither, nor one that has a token, or has the key of one before it
// in the call.
func (e *entry) judge(known map[models.JobKey]bool) (refused map[*submission]error) {
	e.asking = nil
	first := map[string]*submission{}
	for i := range e.call.set {
		one := &e.call.set[i]
		key := one.asked.IdempotencyKey
		if one.err != nil || known[e.call.key(one)] {
			continue
		}
		if one.like = first[key]; key != "" && one.like != nil {
			continue
		}
		if one.token {
			first[key] = one
			continue
		}
		err := e.overloaded(candidate{&one.asked, one.in.soon()})
		if err == nil {
			e.asking = append(e.asking, one)
			first[key] = one
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
	known := p.Estimates.Expect(&seen, p.account)
	c.job.PredictedWaitSeconds, c.job.PredictedSeconds = known.WaitSeconds, known.Seconds
	target := Policies[seen.Tier].WaitTarget
	if target <= 0 || known.WaitSeconds == nil {
		return nil
	}
	most := overloadedAfter * target
	expected := time.Duration(known.System * float64(time.Second))
	if expected <= most {
		return nil
	}
	return apierror.Later(apierror.CodeOverloaded, min(expected-most, maxRetryOverloaded),
		"A job of the tier %s would wait for %s now, and more than %s is too long to promise anything: nothing was accepted.",
		seen.Tier, expected.Round(time.Second), most)
}

// takeAll takes a token for each of an account's jobs that ask for one, or none.
func (a *Admission) takeAll(ctx context.Context, entries []*entry) bool {
	asking := askingOf(entries)
	if len(asking) == 0 || !entries[0].rated() {
		return true
	}
	if entries[0].account.SubmitsPerMinute == 0 {
		return false
	}
	tokens, _ := entries[0].take(ctx, asking)
	for i, one := range asking {
		one.token = tokens[i] == TokenTaken
	}
	if slices.ContainsFunc(tokens, func(t Token) bool { return t != TokenTaken }) {
		entries[0].giveBack(ctx, asking)
		return false
	}
	return true
}

func askingOf(entries []*entry) (asking []*submission) {
	for _, e := range entries {
		asking = append(asking, e.asking...)
	}
	return asking
}

// rate takes a token for each of an account's jobs that ask for one, and refuses
// those that get none, unless another call has one for their key.
func (a *Admission) rate(ctx context.Context, entries []*entry) {
	asking := askingOf(entries)
	if len(asking) == 0 || !entries[0].rated() {
		return
	}
	perMinute := entries[0].account.SubmitsPerMinute
	tokens, refused := make([]Token, len(asking)), apierror.Later(apierror.CodeRateLimited, time.Minute, "This account may submit no jobs: its submitsPerMinute is 0.")
	if perMinute > 0 {
		var wait time.Duration
		tokens, wait = entries[0].take(ctx, asking)
		refused = apierror.Later(apierror.CodeRateLimited, wait, "This account may submit %s a minute, and has.", text.Count(perMinute, "job"))
	}
	for _, e := range entries {
		for i, one := range e.asking {
			switch tokens[i] {
			case TokenTaken:
				one.token = true
			case TokenHeld:
				e.held = true
			case TokenRefused:
				e.refuse(one, refused)
			}
		}
		tokens = tokens[len(e.asking):]
		for i := range e.call.set { // those of the same key share the fate of its first
			if one := &e.call.set[i]; one.err == nil && one.like != nil && one.like.err != nil {
				e.refuse(one, one.like.err)
			}
		}
	}
}

// take asks for a token for each of the submissions.
func (p *pass) take(ctx context.Context, asking []*submission) ([]Token, time.Duration) {
	return p.Rates.Take(ctx, p.bucket(), keysOf(asking), p.account.SubmitsPerMinute)
}

func keysOf(some []*submission) []string {
	keys := make([]string, len(some))
	for i, one := range some {
		keys[i] = one.asked.IdempotencyKey
	}
	return keys
}

func (p *pass) bucket() string { return string(p.account.ID) }

// accepted tells the outlook of a job that was written.
func (p *pass) accepted(job *models.Job) {
	if p.account != nil && job.Status == models.JobQueued {
		p.Estimates.Submitted(job, p.account)
	}
}

// giveBack returns the tokens of submissions that were not written.
func (p *pass) giveBack(ctx context.Context, unused []*submission) {
	unused = slices.DeleteFunc(slices.Clone(unused), func(one *submission) bool { return !one.token })
	if len(unused) == 0 {
		return
	}
	for _, one := range unused {
		one.token = false
	}
	p.Rates.Give(ctx, p.bucket(), keysOf(unused), p.account.SubmitsPerMinute)
}

// note counts a refusal.
func (a *Admission) note(err error, tier models.Tier) {
	var refused *apierror.Error
	if a.Meter == nil || !errors.As(err, &refused) {
		return
	}
	switch refused.Code {
	case apierror.CodeRateLimited, apierror.CodeQuotaExceeded, apierror.CodeOverloaded:
		a.Meter.Refused(refused.Code, tier)
	}
}

// tierOf is the tier that a job will be of.
func tierOf(job *models.Job, account *models.Account) models.Tier {
	return cmp.Or(job.Tier, account.Tier)
}
