package submit

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

// Rates enforces each account's rate limit per minute across all processes. It may lose its
// state at any time; in doubt it lets submits pass.
type Rates interface {
	// Take takes one token for each submit from the bucket with this name. The bucket holds
	// perMinute tokens (at least 1) and refills evenly at perMinute tokens a minute. keys are
	// the idempotency keys of the submits; an empty one means none. Take returns the outcome
	// for each submit, and how long it takes until the bucket holds as many tokens as were
	// refused, or is full, if no other call takes any. It does not block.
	Take(ctx context.Context, name string, keys []string, perMinute int) (tokens []Token, wait time.Duration)
	// Give returns the tokens of submits that wrote no job.
	Give(ctx context.Context, name string, keys []string, perMinute int)
}

// Token is the outcome of taking one token.
type Token int

const (
	TokenRefused Token = iota
	TokenTaken
	// TokenPending means that another submit with the same key took a token within the last seconds.
	// Its job exists or is about to. If the job is not written, the token is given back.
	TokenPending
)

// Admission decides which submits are accepted now: by the rate of their account, and by how long
// they would wait. Checks whose field is nil are skipped.
type Admission struct {
	Rates     Rates
	Estimates *estimate.Estimator
	Observer  jobs.Observer
}

// overloadedAfter is the multiple of its tier's wait target above which the expected wait of a job
// makes Reelay refuse it.
const overloadedAfter = 10

// maxRetryOverloaded bounds the retry delay of a submit that was refused because of overload.
const maxRetryOverloaded = 10 * time.Minute

// pass is the admission of a submit call.
type pass struct {
	*Admission
	account *models.Account
}

// entry is a call that asks for admission. asking are its submissions that need a token.
type entry struct {
	pass
	call   *submitCall
	asking []*submission
	// welcome means that the cached account admits the call, so that only its rate remains to be
	// checked.
	welcome bool
	// pending means that another call holds the token of one of the entry's keys.
	pending bool
	err     error
}

// Size is the entry's share of a batch.
func (e *entry) Size() int { return len(e.call.set) }

// While another call holds the token of a submit's key, the key is looked up again with growing
// pauses.
const (
	pendingPauseFirst = 5 * time.Millisecond
	pendingPauseMost  = 200 * time.Millisecond
)

// admit checks the jobs that a call is about to submit, in their order. It sets the error of each
// refused job, and predicts the wait of each job that starts soon. A job whose idempotency key was
// used before always passes: it exists already, or conflicts with one that does. While another
// call, in any process, holds a token for the same key, admit waits for that call's job. The caller
// must give back what was admitted and then not written.
//
// The cached account is enough to admit its jobs. Before a job is refused, the account and the used
// keys are read from PostgreSQL.
func (s *Submitter) admit(ctx context.Context, call *submitCall) (*pass, error) {
	e := &entry{call: call, pass: pass{Admission: &s.Admission}}
	e.account, _ = s.shares.Get(call.account, time.Now())
	e.welcome = e.account != nil && len(e.judge(nil)) == 0
	for pause := pendingPauseFirst; ; pause = min(2*pause, pendingPauseMost) {
		if !e.welcome || e.rated() {
			if err := s.entries.Do(ctx, e, s.admitCalls); err != nil {
				return nil, err
			}
		}
		if e.err != nil {
			return nil, e.err
		}
		if !e.pending {
			call.tier, call.budgeted = e.account.Tier, e.account.Budgeted
			return &e.pass, nil
		}
		e.pending, e.welcome = false, false
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			e.giveBack(ctx, call.tokens())
			return nil, ctx.Err()
		}
	}
}

// rated reports whether the account has a rate limit.
func (p *pass) rated() bool { return p.Rates != nil && p.account.SubmitsPerMinute < jobs.Unlimited }

// admitCalls is admit for many calls.
func (s *Submitter) admitCalls(ctx context.Context, entries []*entry) error {
	welcome, doubtful := lo.FilterReject(entries, func(e *entry, _ int) bool { return e.welcome })
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

// perAccount calls do for the entries of each account, concurrently, and returns the entries for
// which do failed.
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
	_, there := lo.FilterReject(entries, func(e *entry, _ int) bool {
		if e.account = accounts[e.call.account]; e.account == nil {
			e.err = fmt.Errorf("read account %s: %w", e.call.account, sql.ErrNoRows)
		} else if !e.account.ClosedAt.IsZero() {
			e.err = apierror.ErrAccountClosed
		}
		return e.err != nil
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
func (s *Submitter) readEntries(ctx context.Context, entries []*entry) (map[models.AccountID]*models.Account, map[models.JobKey]bool,
	error) {
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
	known, err := s.usedKeys(ctx, keys)
	if err != nil {
		return nil, nil, fmt.Errorf("look up the keys: %w", err)
	}
	return lo.KeyBy(accounts, func(a *models.Account) models.AccountID { return a.ID }), known, nil
}

// judge collects in asking the entry's submissions that need a token, and returns those that are
// refused because of overload, with the errors. A submission is neither if its key was used before,
// if it already has a token, or if an earlier one in the call has the same key.
func (e *entry) judge(known map[models.JobKey]bool) (refused map[*submission]error) {
	e.asking = nil
	first := map[string]*submission{}
	for i := range e.call.set {
		one := &e.call.set[i]
		key := one.asked.IdempotencyKey
		if one.err != nil || known[e.call.key(one)] {
			continue
		}
		if e.call.graph != nil && i > 0 { // a workflow takes the token of its first job
			break
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

// candidate is a job about to be submitted. soon means that it should start soon.
type candidate struct {
	job  *models.Job
	soon bool
}

// overloaded predicts the wait of a job, and refuses the job if that is far above its tier's
// target. It does not check a job that is not queued at once.
func (p *pass) overloaded(c candidate) error {
	if !c.soon {
		return nil
	}
	seen := *c.job
	seen.Tier = tierOf(c.job, p.account)
	seen.Lane = seen.Tier
	known := p.Estimates.Expect(&seen, p.account)
	c.job.PredictedWaitSeconds, c.job.PredictedSeconds = known.WaitSeconds, known.Seconds
	target := jobs.Policies[seen.Tier].WaitTarget
	if target <= 0 || known.WaitSeconds == nil {
		return nil
	}
	most := overloadedAfter * target
	expected := time.Duration(known.System * float64(time.Second))
	if expected <= most {
		return nil
	}
	return apierror.Later(apierror.CodeOverloaded, min(expected-most, maxRetryOverloaded),
		"A job of tier %s would wait %s now; above %s no jobs of this tier are accepted. Nothing was accepted.",
		seen.Tier, text.Duration(expected), text.Setting(most))
}

// takeAll takes a token for each of an account's submissions that need one, or none at all. It
// reports whether it succeeded.
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

// rate takes a token for each of an account's submissions that need one. It refuses those that
// get none, unless another call holds a token for their key.
func (a *Admission) rate(ctx context.Context, entries []*entry) {
	asking := askingOf(entries)
	if len(asking) == 0 || !entries[0].rated() {
		return
	}
	perMinute := entries[0].account.SubmitsPerMinute
	tokens, refused := make([]Token, len(asking)), apierror.Later(apierror.CodeRateLimited, time.Minute,
		"This account may submit no jobs: its submitsPerMinute is 0.")
	if perMinute > 0 {
		var wait time.Duration
		tokens, wait = entries[0].take(ctx, asking)
		refused = apierror.Later(apierror.CodeRateLimited, wait, "This account has reached its limit of %s a minute.",
			text.Count(perMinute, "job"))
	}
	for _, e := range entries {
		for i, one := range e.asking {
			switch tokens[i] {
			case TokenTaken:
				one.token = true
			case TokenPending:
				e.pending = true
			case TokenRefused:
				e.refuse(one, refused)
			}
		}
		tokens = tokens[len(e.asking):]
		for i := range e.call.set { // a repeated key is refused with its first submission
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

// accepted adds a job that was written to the forecast.
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

// limits lists the error codes of refusals by a limit, which are reported where they occur.
var limits = []apierror.Code{apierror.CodeRateLimited, apierror.CodeQuotaExceeded, apierror.CodeBudgetExceeded, apierror.CodeOverloaded}

// note reports a refusal by a limit.
func (a *Admission) note(err error, tier models.Tier) {
	if refused := Refusal(err); a.Observer != nil && refused != nil && slices.Contains(limits, refused.Code) {
		a.Observer.Refused(refused.Code, tier)
	}
}

// observe reports the other refusals of a call: bad requests, and Reelay's own failures. It does
// not report a caller that went away.
func (a *Admission) observe(ctx context.Context, call *submitCall, err error) {
	if a.Observer == nil || err != nil && ctx.Err() != nil {
		return
	}
	for i := range call.set {
		one := &call.set[i]
		switch refused := Refusal(cmp.Or(one.err, err)); {
		case refused != nil && !slices.Contains(limits, refused.Code):
			a.Observer.Refused(refused.Code, cmp.Or(one.asked.Tier, call.tier))
		case refused == nil && err != nil:
			a.Observer.Refused(apierror.CodeInternal, cmp.Or(one.asked.Tier, call.tier))
		}
	}
}

// tierOf returns the tier that a job will have.
func tierOf(job *models.Job, account *models.Account) models.Tier {
	return cmp.Or(job.Tier, account.Tier)
}
