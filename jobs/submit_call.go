package jobs

import (
	"context"
	"errors"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

// submitCall is the submissions of one call, and what became of them.
type submitCall struct {
	account models.AccountID
	// tier is the account's, as it was remembered.
	tier models.Tier
	set  []submission
	// read tells that PostgreSQL has to be read to decide on it, however plain it is.
	read bool

	answers []Submitted
	written []*models.Job
}

// submission is one of a call's: what was asked for, the job as it was validated,
// and its sealed prompt; or why it is refused.
type submission struct {
	in    Submission
	asked models.Job
	input *models.JobInput
	err   error
	// image is what its params name, and badImage why that is refused, unless the
	// key was used before.
	image    reference
	badImage error
	// token is whether it has taken one of the account's rate.
	token bool
	// like is one before it in the call that asks for a token under the same key.
	like *submission
}

// submissionBytes is how many bytes of prompts, params and metadata weigh as much
// in a batch as a job does.
const submissionBytes = 4 << 10

func (s *Submitter) newCall(p Principal, all []Submission) *submitCall {
	call := &submitCall{account: p.AccountID, set: make([]submission, len(all))}
	for i, in := range all {
		one := &call.set[i]
		job, err := s.validate(&in)
		if one.in, one.err = in, err; err == nil {
			job.AccountID, job.CreatedBy, job.Tier = p.AccountID, p.KeyID, in.Tier
			one.asked = *job
		}
	}
	return call
}

// Size is how much of a batch it takes.
func (c *submitCall) Size() int {
	size := 0
	for i := range c.set {
		one := &c.set[i]
		size += 1 + (len(one.in.Prompt)+len(one.asked.Params)+len(one.asked.Metadata))/submissionBytes
	}
	return size
}

// video is the request of the Videos API that the call is of, or nil. It submits one job.
func (c *submitCall) video() *VideoRequest { return c.set[0].in.Video }

// key is the idempotency key of one of the call's submissions.
func (c *submitCall) key(one *submission) models.JobKey {
	return models.JobKey{Account: c.account, Key: one.asked.IdempotencyKey}
}

// tokens are its submissions that hold a token and were not written.
func (c *submitCall) tokens() (unused []*submission) {
	written := lo.KeyBy(c.written, func(job *models.Job) models.JobID { return job.ID })
	for i := range c.set {
		if one := &c.set[i]; one.token && written[one.asked.ID] == nil {
			unused = append(unused, one)
		}
	}
	return unused
}

// write decides on each of a call's submissions that was not refused yet, and
// writes what passes.
func (s *Submitter) write(ctx context.Context, call *submitCall) error {
	if err := s.prepare(ctx, call); err != nil {
		return err
	}
	if call.video() != nil { // its equals, here or elsewhere, go one by one: no batch waits for them
		return s.writeRead(ctx, []*submitCall{call})
	}
	if s.plain(call) {
		if err := s.plainWrites.Do(ctx, call.account, call, s.writePlain); err != nil || !call.read {
			return err
		}
	}
	return s.writes.Do(ctx, call.account, call, s.writeRead)
}

// plain tells whether a call is one job that refers to nothing, waits for nothing
// but a worker, and has to fit into its account's queue only.
func (s *Submitter) plain(call *submitCall) bool {
	if len(call.set) != 1 {
		return false
	}
	one := &call.set[0]
	in := &one.in
	return len(in.DependsOn) == 0 && one.image == "" && in.CallbackURL == "" && in.RunAt == nil && in.ExpiresAt == nil &&
		(in.UserID == "" || !limitsUsers(s.UserShare))
}

// prepare looks at images and seals prompts, which takes time: not while the
// account is locked.
func (s *Submitter) prepare(ctx context.Context, call *submitCall) (err error) {
	images := map[reference]error{}
	for i := range call.set {
		one := &call.set[i]
		if refusal(one.err) != nil {
			continue
		}
		if one.err != nil {
			return one.err
		}
		one.image = readReference(one.asked.Params)
		if _, checked := images[one.image]; !checked {
			images[one.image] = s.Inputs.check(ctx, call.account, one.asked.Params)
		}
		if one.badImage = images[one.image]; one.badImage != nil && refusal(one.badImage) == nil {
			return one.badImage
		}
		if one.input, err = s.seal(&one.asked, one.in.Prompt); err != nil {
			return err
		}
	}
	return nil
}

// seal encrypts a job's prompt, if it has one.
func (s *Submitter) seal(job *models.Job, prompt string) (*models.JobInput, error) {
	if prompt == "" {
		return nil, nil
	}
	sealed, err := s.Sealer.Seal([]byte(prompt), []byte(job.ID))
	if err != nil {
		return nil, err
	}
	return &models.JobInput{JobID: job.ID, Run: job.Run, Ciphertext: sealed.Ciphertext, WrappedKey: sealed.WrappedKey}, nil
}

// refusal is an error as the caller's; nil if it is ours, or none.
func refusal(err error) *apierror.Error {
	var refused *apierror.Error
	errors.As(err, &refused)
	return refused
}
