package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reelay/reelay/jobs/seal"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// MaxSubmitJobs is how many jobs one call may submit.
const MaxSubmitJobs = 1000

// Submitted is what became of one of many submissions: a job, or why there is
// none.
type Submitted struct {
	Job          *models.Job
	Deduplicated bool
	Refused      *Error
}

// SubmitMany accepts jobs, in one transaction: once it returns, all that were not
// refused are durable. Each answer, in the order of the submissions, is what
// Submit would have answered, one after the other: a submission that is refused
// stops no other, and of two with the same idempotency key the second gets the
// first one's job. It returns INVALID_INPUT for none or too many.
//
// It takes the same few statements for one job as for a thousand, and a few more
// for each that begins from an image, or depends on a job which failed before.
func (s *Submitter) SubmitMany(ctx context.Context, p Principal, all []Submission) ([]Submitted, error) {
	if len(all) < 1 || len(all) > MaxSubmitJobs {
		return nil, invalid("inputs", "1 to %d jobs may be submitted in one call; these are %d.", MaxSubmitJobs, len(all))
	}
	set := s.validateMany(p, all)
	admitted, err := s.admitMany(ctx, set)
	if err != nil {
		return nil, fmt.Errorf("admit %d jobs: %w", len(all), err)
	}
	b, err := s.writeMany(ctx, p, set)
	if err != nil {
		admitted.giveBack(ctx, len(all))
		return nil, wrap(err, "submit %d jobs", len(all))
	}
	admitted.giveBack(ctx, admitted.taken-len(b.changes))
	for _, c := range b.changes {
		admitted.accepted(c.job)
	}
	s.Notifier.submitted(ctx, b.changes)
	return b.answers, nil
}

// submission is one of many: what was asked for, the job as it was validated, and
// its sealed prompt; or why it is refused.
type submission struct {
	in    Submission
	asked models.Job
	input *models.JobInput
	err   error
	// image is what its params name, and badImage why that is refused, unless the
	// key was used before.
	image    reference
	badImage error
}

func (s *Submitter) validateMany(p Principal, all []Submission) []submission {
	set := make([]submission, len(all))
	for i, in := range all {
		one := &set[i]
		job, err := s.validate(&in)
		if one.in, one.err = in, err; err == nil {
			job.AccountID, job.CreatedBy, job.Tier = p.AccountID, p.KeyID, in.Tier
			one.asked = *job
		}
	}
	return set
}

// admitMany refuses those that may not come in now.
func (s *Submitter) admitMany(ctx context.Context, set []submission) (*pass, error) {
	var asking []candidate
	var of []*submission
	for i := range set {
		if one := &set[i]; one.err == nil {
			asking, of = append(asking, candidate{&one.asked, one.in.soon()}), append(of, one)
		}
	}
	admitted, err := s.Admission.admit(ctx, s.DB, asking)
	if err != nil {
		return nil, err
	}
	for i, refused := range admitted.refused {
		of[i].err = refused
	}
	return admitted, nil
}

// writeMany decides on each of a set and writes what passes, in one transaction.
func (s *Submitter) writeMany(ctx context.Context, p Principal, set []submission) (b *submitBatch, err error) {
	if err := s.prepareMany(ctx, p, set); err != nil {
		return nil, err
	}
	err = inTx(ctx, s.DB, func(ctx context.Context, tx bun.Tx) error {
		b = &submitBatch{tx: tx, set: set, answers: make([]Submitted, len(set))}
		if err := b.read(ctx, p.AccountID); err != nil {
			return err
		}
		if err := b.decide(&s.Admission); err != nil {
			return err
		}
		return b.write(ctx, s.Sealer)
	})
	return b, err
}

// prepareMany looks at images and seals prompts, which takes time: not while the
// account is locked.
func (s *Submitter) prepareMany(ctx context.Context, p Principal, set []submission) (err error) {
	images := map[reference]error{}
	for i := range set {
		one := &set[i]
		if refusal(one.err) != nil {
			continue
		}
		if one.err != nil {
			return one.err
		}
		one.image = readReference(one.asked.Params)
		if _, checked := images[one.image]; !checked {
			images[one.image] = s.Inputs.check(ctx, p.AccountID, one.asked.Params)
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

// refusal is an error as the caller's; nil if it is ours, or none.
func refusal(err error) *Error {
	var refused *Error
	errors.As(err, &refused)
	return refused
}

// submitBatch is what one transaction makes of many submissions of one account.
type submitBatch struct {
	tx      bun.Tx
	set     []submission
	answers []Submitted

	// What is known before: the account, whose row is locked, so that no other
	// submit of it is under way; the clock; the jobs of the keys that were used
	// before; and those that others depend on.
	account *models.Account
	start   change // the clock and the transaction of every change
	used    map[string]*models.Job
	parents map[models.JobID]*models.Job

	// What is to be written.
	changes []*change
	inputs  []*models.JobInput
	edges   []models.JobDependency
	failed  map[*change]*models.Job // by a parent that failed before
}

func (b *submitBatch) read(ctx context.Context, account models.AccountID) (err error) {
	if b.account, err = models.LockAccount(ctx, b.tx, account); err != nil {
		return fmt.Errorf("lock the account: %w", err)
	}
	b.start.tx = b.tx
	if b.start.now, err = models.Now(ctx, b.tx); err != nil {
		return err
	}
	var keys []string
	var on []models.JobID
	for i := range b.set {
		if one := &b.set[i]; one.err == nil {
			on = append(on, one.in.DependsOn...)
			if one.asked.IdempotencyKey != "" {
				keys = append(keys, one.asked.IdempotencyKey)
			}
		}
	}
	before, err := models.FindJobsByKeys(ctx, b.tx, account, keys)
	if err != nil {
		return fmt.Errorf("look up the keys: %w", err)
	}
	b.used = keyedBy(before, func(j *models.Job) string { return j.IdempotencyKey })
	if len(on) == 0 {
		return nil
	}
	slices.Sort(on)
	found, err := models.GetJobs(ctx, b.tx, slices.Compact(on))
	if err != nil {
		return fmt.Errorf("read what the jobs depend on: %w", err)
	}
	b.parents = keyedBy(found, func(j *models.Job) models.JobID { return j.ID })
	return nil
}

// decide gives each submission its verdict, in their order.
func (b *submitBatch) decide(admission *Admission) error {
	b.failed = map[*change]*models.Job{}
	for i := range b.set {
		one, answer := &b.set[i], &b.answers[i]
		err := one.err
		if err == nil {
			err = b.one(one, answer)
			admission.note(err, tierOf(&one.asked, b.account))
		}
		if answer.Refused = refusal(err); err != nil && answer.Refused == nil {
			return err
		}
	}
	return nil
}

func (b *submitBatch) one(one *submission, answer *Submitted) error {
	job := new(one.asked)
	refused := setTier(job, b.account)
	if job.IdempotencyKey != "" {
		var err error
		if job.RequestDigest, err = requestDigests(job, &one.asked, one.in); err != nil {
			return err
		}
		if first := b.used[job.IdempotencyKey]; first != nil {
			if !sameRequest(first.RequestDigest, job.RequestDigest) {
				return errKeyOfAnother
			}
			answer.Job, answer.Deduplicated = first, true
			return nil
		}
	}
	if refused = cmp.Or(refused, one.badImage); refused != nil {
		return refused
	}
	parents, err := b.parentsOf(one)
	if err != nil {
		return err
	}
	waits := reckonDependencies(parents)
	waits.fetch = one.image.remote()
	c := &change{tx: b.start.tx, now: b.start.now, job: job}
	if err := c.begin(one.in, waits); err != nil {
		return err
	}
	if job.Status != models.JobQueued {
		job.PredictedWaitSeconds = nil // it was for a job that is queued at once
	}
	// A job that fails with its parent leaves its place at once.
	if b.account.Queued+len(b.changes)-len(b.failed) >= b.account.MaxQueued {
		return errQueueFull
	}
	b.take(c, one, waits.failed)
	answer.Job = job
	return nil
}

func (b *submitBatch) parentsOf(one *submission) ([]*models.Job, error) {
	var parents []*models.Job
	for _, id := range one.in.DependsOn {
		parent := b.parents[id]
		if parent == nil || parent.AccountID != b.account.ID {
			return nil, notFound("job to depend on")
		}
		parents = append(parents, parent)
	}
	return parents, nil
}

// take puts an accepted job among what is to be written.
func (b *submitBatch) take(c *change, one *submission, failed *models.Job) {
	b.changes = append(b.changes, c)
	if c.job.IdempotencyKey != "" {
		b.used[c.job.IdempotencyKey] = c.job
	}
	if one.input != nil {
		b.inputs = append(b.inputs, one.input)
	}
	for _, id := range one.in.DependsOn {
		b.edges = append(b.edges, models.JobDependency{JobID: c.job.ID, DependsOn: id})
	}
	if failed != nil {
		b.failed[c] = failed
	}
}

// write writes what was accepted.
func (b *submitBatch) write(ctx context.Context, sealer *seal.Sealer) error {
	if len(b.changes) == 0 {
		return nil
	}
	var rows []*models.Job
	var events []*models.JobEvent
	for _, c := range b.changes {
		rows, events = append(rows, c.job), append(events, c.events...)
	}
	if err := inBatches(rows, func(some []*models.Job) error { return models.InsertJobs(ctx, b.tx, some) }); err != nil {
		return fmt.Errorf("write the jobs: %w", err)
	}
	if err := inBatches(b.inputs, func(some []*models.JobInput) error { return models.InsertJobInputs(ctx, b.tx, some) }); err != nil {
		return fmt.Errorf("write the prompts: %w", err)
	}
	for _, job := range rows {
		if _, err := useInput(ctx, b.tx, job); err != nil { // it was there a moment ago
			return err
		}
	}
	if slices.ContainsFunc(rows, func(j *models.Job) bool { return j.CallbackURL != "" }) {
		if err := ensureCallbackEndpoint(ctx, b.tx, sealer, b.account.ID); err != nil {
			return fmt.Errorf("write the callback's endpoint: %w", err)
		}
	}
	if err := inBatches(b.edges, func(some []models.JobDependency) error { return models.InsertDependencies(ctx, b.tx, some) }); err != nil {
		return fmt.Errorf("write what the jobs depend on: %w", err)
	}
	if err := inBatches(events, func(some []*models.JobEvent) error { return models.InsertJobEvents(ctx, b.tx, some) }); err != nil {
		return fmt.Errorf("write the events: %w", err)
	}
	if _, err := models.AddToAccount(ctx, b.tx, b.account.ID, len(rows), 0); err != nil {
		return fmt.Errorf("count on the account: %w", err)
	}
	if err := enterLanes(ctx, b.tx, b.account.ID, b.changes); err != nil {
		return err
	}
	for _, c := range b.changes {
		if err := c.failWithParent(ctx, b.failed[c]); err != nil {
			return fmt.Errorf("fail job %s with its parent: %w", c.job.ID, err)
		}
	}
	return nil
}

// submitted tells of new jobs once they are committed: of all at once.
func (n *Notifier) submitted(ctx context.Context, changes []*change) {
	if len(changes) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notifyTimeout)
	defer cancel()
	var ready []ReadyJob
	for _, c := range changes {
		if c.ready != nil {
			ready = append(ready, *c.ready)
		}
	}
	if len(ready) > 0 {
		n.log(ctx, n.Index.Add(ctx, ready...))
	}
	for _, job := range ready {
		n.Waiters.Wake(job.Queue)
	}
	news := []string{topicChanges}
	for _, c := range changes {
		news = append(news, string(c.job.ID))
	}
	n.News.Publish(ctx, news...)
}
