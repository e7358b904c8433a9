package submit

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/jobs/reference"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

// submitCall is the submissions of one call, and their results.
type submitCall struct {
	account models.AccountID
	by      jobs.Principal
	// tier is the account's tier, from the cache.
	tier models.Tier
	// budgeted means that the account has budgets, by the cache.
	budgeted bool
	set      []submission
	// graph is the workflow whose jobs these are, or nil.
	graph *Graph
	// left means that one statement was not enough, although the call is plain.
	left bool

	answers []Submitted
	written []*models.Job
}

// submission is one submission of a call: the request, the validated job, and its sealed
// prompt; or the error.
type submission struct {
	in    Submission
	asked models.Job
	input *models.SealedPrompt
	err   error
	// files are the files that its params name, values the parts of other jobs' outputs in its
	// texts, and stored both as far as they need no fetch. badInput is why one of them is refused,
	// unless the key was used before.
	files    []catalogue.Input
	values   []inputs.Result
	stored   inputs.Stored
	badInput error
	// dependsOn are the jobs that it depends on: those of the request, and those from which it
	// takes something.
	dependsOn []models.JobID
	// inherits is the number of its files that come from the draft that it continues.
	inherits int
	// token means that it has taken a token of the account's rate limit.
	token bool
	// like is an earlier submission of the call that needs a token for the same key.
	like *submission
}

// submissionBytes is how many bytes of prompts, params and metadata count as one job in the
// size of a batch.
const submissionBytes = 4 << 10

func (s *Submitter) newCall(p jobs.Principal, all []Submission, graph *Graph) *submitCall {
	call := &submitCall{account: p.AccountID, by: p, set: make([]submission, len(all)), graph: graph}
	known := s.Catalogue.Current()
	allowed := known.For(p.Scope())
	for i, in := range all {
		one := &call.set[i]
		var job *models.Job
		var err error
		if in.node != nil && in.node.Continues != "" {
			job, err = in.continuation(allowed, call, &s.prices, s.Outbound)
			one.stored.Results = []inputs.Result{{Job: in.node.Continues, Field: "continues", Take: reference.TakePick}}
		} else {
			job, err = in.validate(allowed, s.Outbound, &s.prices)
		}
		if err == nil {
			one.values, err = inputs.ValuesIn(in.Prompt, job.Params)
		}
		if err == nil && job.Approval() {
			err = in.validApproval(job, one.values)
		}
		if one.in, one.err = in, err; err == nil {
			job.AccountID, job.CreatedBy, job.Tier = p.AccountID, p.KeyID, in.Tier
			one.asked = *job
			one.files = known.At(job.Model, job.ModelVersion).Inputs(job.Params)
			one.dependsOn = in.DependsOn
			if in.node != nil {
				one.dependsOn = lo.Union(one.dependsOn, in.node.Parents)
			}
			if sources := inputs.SourceJobs(one.files, one.values); len(sources) > 0 {
				one.dependsOn = lo.Union(one.dependsOn, sources)
			}
		}
	}
	return call
}

// Size is the call's share of a batch.
func (c *submitCall) Size() int {
	size := 0
	for i := range c.set {
		one := &c.set[i]
		size += 1 + (len(one.in.Prompt)+len(one.asked.Params)+len(one.asked.Metadata))/submissionBytes
	}
	return size
}

// video is the call's request of the Videos API, or nil. Such a call submits one job.
func (c *submitCall) video() *VideoRequest { return c.set[0].in.Video }

// key is the idempotency key of one of the call's submissions.
func (c *submitCall) key(one *submission) models.JobKey {
	return models.JobKey{Account: c.account, Key: one.asked.IdempotencyKey}
}

// tokens returns the submissions that hold a token and were not written.
func (c *submitCall) tokens() (unused []*submission) {
	written := lo.KeyBy(c.written, func(job *models.Job) models.JobID { return job.ID })
	for i := range c.set {
		if one := &c.set[i]; one.token && written[one.asked.ID] == nil {
			unused = append(unused, one)
		}
	}
	return unused
}

// write accepts or refuses each submission that is not refused yet, and writes the accepted ones:
// by one statement if nothing must be read first, otherwise by a transaction that reads first. In
// both cases, calls that arrive together share it. If others have locked the account, the statement
// runs again and waits for it.
func (s *Submitter) write(ctx context.Context, call *submitCall) error {
	// equal requests, in any process, run one by one: no batch waits for them
	if call.graph != nil || call.video() != nil || call.set[0].in.continues != "" {
		return s.writeRead(ctx, []*submitCall{call})
	}
	if s.plain(call) {
		if err := s.plainWrites.Do(ctx, call, s.writePlain); err != nil || !call.left {
			return err
		}
		// Most often a lease or an end holds the account for a moment.
		if err := s.waitingWrites.Do(ctx, call.account, call, s.writeWaiting); err != nil || !call.left {
			return err
		}
	}
	return s.writes.Do(ctx, call.account, call, s.writeRead)
}

// plain reports whether a call is one job without references or conditions, limited only by its
// account's queue, not by a budget.
func (s *Submitter) plain(call *submitCall) bool {
	if len(call.set) != 1 || call.budgeted {
		return false
	}
	one := &call.set[0]
	in := &one.in
	return len(in.DependsOn) == 0 && len(one.files) == 0 && len(one.values) == 0 && in.CallbackURL == "" && in.RunAt == nil &&
		in.ExpiresAt == nil && in.FinishBy == nil && in.MaxPreemptions == nil && !in.Reuse &&
		(in.UserID == "" || !limitsUsers(s.UserShare))
}

// prepare checks inputs, seals prompts, and reckons what the jobs cost. That takes time, so it runs before the account is
// locked.
func (s *Submitter) prepare(ctx context.Context, call *submitCall) (err error) {
	var files []catalogue.Input
	var values []inputs.Result
	for i := range call.set {
		files, values = append(files, call.set[i].files...), append(values, call.set[i].values...)
	}
	var x *inputs.Examination
	if len(files) > 0 || len(values) > 0 {
		if x, err = s.Inputs.Examine(ctx, call.account, s.Catalogue.Current(), files, values, call.graph.own(call)); err != nil {
			return err
		}
	}
	if call.budgeted {
		if err := s.Admission.Estimates.Fresh(ctx, pricesFresh); err != nil {
			return fmt.Errorf("read what jobs cost: %w", err)
		}
	}
	for i := range call.set {
		one := &call.set[i]
		if Refusal(one.err) != nil {
			continue
		}
		if one.err != nil {
			return one.err
		}
		if len(one.files) > 0 || len(one.values) > 0 {
			one.stored, one.badInput = x.Check(ctx, one.files, one.values)
			if one.badInput != nil && Refusal(one.badInput) == nil {
				return one.badInput
			}
			x.CompleteDigest(&one.asked)
		}
		if one.input, err = s.seal(&one.asked, one.in.Prompt); err != nil {
			return err
		}
		will := one.asked
		will.Tier = cmp.Or(will.Tier, call.tier)
		will.Lane = will.Tier
		if one.asked.EstimatedUSD, err = s.Admission.Estimates.JobUSD(ctx, &will); err != nil {
			return err
		}
	}
	return nil
}

// seal encrypts a job's prompt, if it has one.
func (s *Submitter) seal(job *models.Job, prompt string) (*models.SealedPrompt, error) {
	if prompt == "" {
		return nil, nil
	}
	sealed, err := s.Sealer.Seal([]byte(prompt), []byte(job.ID))
	if err != nil {
		return nil, err
	}
	return &models.SealedPrompt{JobID: job.ID, Run: job.Run, Ciphertext: sealed.Ciphertext, WrappedKey: sealed.WrappedKey}, nil
}

// Refusal returns an error that the caller caused, or nil for any other.
func Refusal(err error) *apierror.Error {
	var refused *apierror.Error
	errors.As(err, &refused)
	return refused
}
