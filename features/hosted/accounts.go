package hosted

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/provider"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

const (
	// window is the time in which calls are counted: a minute, and how much longer one call can be on its way
	// than another.
	window = 62 * time.Second
	// pollShare is the share of the calls of a minute that polls may use, so that a submit or a cancel
	// seldom waits for them.
	pollShare = 0.8
	// minTurn and maxTurn bound one wait: it costs a question, and things can change meanwhile.
	minTurn = 100 * time.Millisecond
	maxTurn = 30 * time.Second
	// failuresToOpen is how many calls in a row may fail before the circuit opens, for openFor at first and twice
	// as long each time, up to openMost.
	failuresToOpen = 5
	openFor        = 15 * time.Second
	openMost       = 5 * time.Minute
	// keyPause is how long nobody calls after the provider refused the key, or said that the account has no money.
	keyPause = time.Minute
	// tryFor is how long others wait for the one call that tries a circuit.
	tryFor = 15 * time.Second
	// usualPause is how long calls wait after a 429 without Retry-After, and maxPause what Retry-After may say.
	usualPause = 10 * time.Second
	maxPause   = time.Hour
)

// Accounts decides when providers are called.
type Accounts struct{ DB *bun.DB }

// Use is what a call is for.
type Use string

// The uses of calls. Submits and cancels go before polls.
const (
	UseSubmit Use = "SUBMIT"
	UsePoll   Use = "POLL"
)

// Turn says when a call may be made.
type Turn struct {
	// WaitSeconds is how long to wait before asking again; 0 means that the call may be made now, and is counted.
	WaitSeconds float64
	// Reason is why it must wait.
	Reason string
	// Tell asks for a report also of a call that succeeds.
	Tell bool
}

// Call is a call that an agent wants to make.
type Call struct {
	// Pool is the name of the pool.
	Pool string
	Use  Use
}

// Enter asks whether a call may be made at the provider of a pool. The caller needs an enrolment key.
func (a *Accounts) Enter(ctx context.Context, p jobs.Principal, call Call) (*Turn, error) {
	pool, use := call.Pool, call.Use
	if use != UseSubmit && use != UsePoll {
		return nil, apierror.Invalid("use", "use must be SUBMIT or POLL.")
	}
	var turn *Turn
	err := a.inAccount(ctx, p, pool, func(_ context.Context, _ bun.Tx, now time.Time, account *capacity.ProviderAccount) error {
		turn = enter(now, account, use)
		return nil
	})
	return turn, apierror.Wrap(err, "enter the provider of %s", pool)
}

// enter decides about a call, and counts it if it may be made.
func enter(now time.Time, a *capacity.ProviderAccount, use Use) *Turn {
	trouble := a.Failures > 0 || !a.OpenSince.IsZero() || !a.PausedUntil.IsZero()
	wait := func(until time.Time, format string, args ...any) *Turn {
		return &Turn{WaitSeconds: min(max(until.Sub(now), minTurn), maxTurn).Seconds(), Reason: fmt.Sprintf(format, args...), Tell: trouble}
	}
	a.Calls = slices.DeleteFunc(a.Calls, func(at time.Time) bool { return now.Sub(at) >= window })
	may := a.PerMinute
	if use == UsePoll {
		may = max(int(float64(may)*pollShare), 1)
	}
	switch {
	case a.PausedUntil.After(now):
		return wait(a.PausedUntil, "The provider asked to wait: %s", a.Reason)
	case a.OpenUntil.After(now):
		return wait(a.OpenUntil, "The circuit is open: %s", a.Reason)
	case len(a.Calls) >= may:
		return wait(a.Calls[len(a.Calls)-may].Add(window), "The account may make %d calls in a minute.", a.PerMinute)
	}
	if !a.OpenSince.IsZero() {
		a.OpenUntil = now.Add(tryFor) // this call tries; the others wait for it
	}
	a.Calls = append(a.Calls, now)
	return &Turn{Tell: trouble}
}

// Outcome is how a call ended.
type Outcome struct {
	// Pool is the name of the pool.
	Pool string
	// Means is what the error means, a provider.Meaning, or "" for a success.
	Means string
	// Status, Code and Text are the provider's own.
	Status     int
	Code, Text string
	// Known is false for errors of which no rule says what they mean.
	Known bool
	// RetryAfterSeconds is how long the provider asks to wait, or 0.
	RetryAfterSeconds float64
}

const (
	maxCode = 100 // bytes
	maxText = 500
)

// Tell records how a call ended. The caller needs an enrolment key.
func (a *Accounts) Tell(ctx context.Context, p jobs.Principal, o Outcome) error {
	if o.Means != "" && !slices.ContainsFunc(provider.Meanings, func(m provider.Explained) bool { return string(m.Meaning) == o.Means }) {
		return apierror.Invalid("means", "There is no meaning %.40q of an error.", o.Means)
	}
	if o.Status < 0 || o.Status > 999 {
		return apierror.Invalid("status", "status must be an HTTP status, or 0 if there was no answer.")
	}
	if !(o.RetryAfterSeconds >= 0 && o.RetryAfterSeconds <= maxPause.Seconds()) {
		return apierror.Invalid("retryAfterSeconds", "retryAfterSeconds must be from 0 to %.0f.", maxPause.Seconds())
	}
	o.Code, o.Text = text.Clip(text.Printable(o.Code), maxCode), text.Clip(text.Printable(o.Text), maxText)
	err := a.inAccount(ctx, p, o.Pool, func(ctx context.Context, tx bun.Tx, now time.Time, account *capacity.ProviderAccount) error {
		tell(now, account, o)
		if o.Means == "" {
			return nil
		}
		return capacity.CountProviderError(ctx, tx, &capacity.ProviderError{
			PoolID: account.PoolID, Status: o.Status, Code: o.Code, Means: o.Means, Known: o.Known, Text: o.Text,
		})
	})
	return apierror.Wrap(err, "record what the provider of %s answered", o.Pool)
}

// tell changes the account as the outcome of a call demands.
func tell(now time.Time, a *capacity.ProviderAccount, o Outcome) {
	open := func(wait time.Duration) {
		if a.OpenSince.IsZero() {
			a.OpenSince = now
		}
		a.OpenUntil, a.Reason = now.Add(wait), reason(o)
	}
	switch provider.Meaning(o.Means) {
	case provider.Limited: // it answers: it only has too much to do
		a.PausedUntil = later(a.PausedUntil, now.Add(cmp.Or(jobs.Seconds(o.RetryAfterSeconds), usualPause)))
		a.Failures, a.OpenSince, a.OpenUntil, a.Reason = 0, time.Time{}, time.Time{}, reason(o)
	case provider.KeyRefused, provider.NoCredit:
		a.Failures++
		open(keyPause)
	case provider.Passing:
		if a.Failures++; a.Failures >= failuresToOpen || !a.OpenSince.IsZero() {
			open(min(openFor<<min(max(a.Failures-failuresToOpen, 0), 5), openMost))
		}
	default: // a success, or an error that is the job's own
		a.Failures, a.OpenSince, a.OpenUntil = 0, time.Time{}, time.Time{}
		if !a.PausedUntil.After(now) {
			a.PausedUntil, a.Reason = time.Time{}, ""
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// reason is a sentence about an error.
func reason(o Outcome) string {
	said := o.Text
	if o.Code != "" {
		said = o.Code + ": " + said
	}
	if o.Status == 0 {
		return text.Clip("it does not answer: "+said, maxText)
	}
	return text.Clip(fmt.Sprintf("status %d, %s", o.Status, said), maxText)
}

// Reset closes the circuit of a pool's provider and ends its pause, for an operator who knows that the cause is gone.
func (a *Accounts) Reset(ctx context.Context, p jobs.Principal, id models.PoolID) error {
	if err := p.RequireOperator(); err != nil {
		return err
	}
	err := jobs.InTx(ctx, a.DB, func(ctx context.Context, tx bun.Tx) error {
		account, err := capacity.LockProviderAccount(ctx, tx, id)
		if errors.Is(err, sql.ErrNoRows) {
			return apierror.Invalid("poolId", "This pool is of no hosted provider.")
		}
		if err != nil {
			return err
		}
		reason := account.Reason
		account.Failures, account.OpenSince, account.OpenUntil, account.PausedUntil, account.Reason = 0, time.Time{}, time.Time{}, time.Time{}, ""
		if err := capacity.UpdateProviderAccount(ctx, tx, account); err != nil {
			return err
		}
		return p.Audit(ctx, tx, "resetProvider", string(id), jobs.Payload{"reason": reason})
	})
	return apierror.Wrap(err, "reset the provider of the pool %s", id)
}

var poolName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)

// inAccount runs a change of the account of a pool of that name.
func (a *Accounts) inAccount(ctx context.Context, p jobs.Principal, pool string,
	do func(context.Context, bun.Tx, time.Time, *capacity.ProviderAccount) error) error {
	if err := p.RequireEnrolmentKey(); err != nil {
		return err
	}
	if !poolName.MatchString(pool) {
		return apierror.Invalid("pool", "pool must be the name of a pool: 1 to 40 lower-case letters, digits and hyphens.")
	}
	return jobs.InTx(ctx, a.DB, func(ctx context.Context, tx bun.Tx) error {
		id, err := capacity.FindPoolID(ctx, tx, pool)
		if err != nil {
			return apierror.OrNotFound(err, "pool")
		}
		account, err := capacity.LockProviderAccount(ctx, tx, id)
		if errors.Is(err, sql.ErrNoRows) {
			return apierror.Invalid("pool", "The pool %s is of no hosted provider.", pool)
		}
		if err != nil {
			return err
		}
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		if err := do(ctx, tx, now, account); err != nil {
			return err
		}
		return capacity.UpdateProviderAccount(ctx, tx, account)
	})
}
