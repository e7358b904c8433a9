package submit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/jobs/reference"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
	"github.com/shopspring/decimal"
	"github.com/uptrace/bun"
)

// submitBatch is the work of one transaction, or one statement, on the submissions of several
// calls, in order of arrival. It runs the same few statements for one job as for a thousand, and a
// few more for each job that depends on a failed one.
type submitBatch struct {
	tx    bun.Tx
	calls []*submitCall
	// wait means that a plain write waits for locked accounts.
	wait bool
	// cost returns what a job will cost on own GPUs, or nil.
	cost func(*models.Job) *decimal.Decimal

	// What was read first, unless all calls are plain: the account, of which no other submit
	// runs; the clock; the jobs of used idempotency keys; the jobs of earlier requests of the
	// Videos API, by digest; the parents, and the jobs from which jobs take something, with what
	// they have; and the existing inputs. Rows for which workers wait are not locked: those of the
	// account and of the parents that have not ended.
	accounts map[models.AccountID]*models.Account
	start    change.Change // the clock and the transaction of every change
	used     map[models.JobKey]*models.Job
	repeated map[string]*models.Job
	parents  map[models.JobID]*models.Job
	seen     change.Glimpse
	// unsettled means that some of them have ended since they were read.
	unsettled bool
	have      inputs.Has
	inputs    map[models.ArtifactID]models.AccountID
	users     userQueues
	purse     purse
	// draft is the draft that the only call continues, and continued the job that already continues
	// it; both can be nil. taken is what the draft took from other jobs.
	draft, continued *models.Job
	taken            []models.JobSource

	// What was decided: the answers to each call, and what is to be written.
	answers map[*submitCall][]Submitted
	changes []*change.Change
	// reused are those of the changes that have the result of another job.
	reused []*change.Change
	of     map[*change.Change]accepted
}

// accepted is the source of a new job.
type accepted struct {
	call *submitCall
	*submission
	// failed is a parent that has already failed.
	failed *models.Job
}

// writePlain writes the jobs of plain calls by one statement, without reading first. It leaves the
// calls that need more, and those of accounts that other transactions have locked.
func (s *Submitter) writePlain(ctx context.Context, calls []*submitCall) error {
	return s.writeUnread(ctx, calls, false)
}

// writeWaiting is writePlain for calls of one account. It waits until the account is not locked.
func (s *Submitter) writeWaiting(ctx context.Context, calls []*submitCall) error {
	return s.writeUnread(ctx, calls, true)
}

func (s *Submitter) writeUnread(ctx context.Context, calls []*submitCall, wait bool) error {
	b := &submitBatch{calls: calls, wait: wait, cost: s.Admission.Estimates.CostUSD, used: map[models.JobKey]*models.Job{}, accounts: map[models.AccountID]*models.Account{}}
	for _, call := range calls {
		b.accounts[call.account] = &models.Account{ID: call.account, Tier: call.tier, MaxQueued: math.MaxInt}
	}
	if err := b.decide(); err != nil {
		return err
	}
	if len(b.changes) > 0 {
		if err := jobs.WithRetry(ctx, func() error { return b.writeJobs(ctx, s.DB) }); err != nil {
			return jobs.BatchError(fmt.Errorf("write the jobs: %w", err))
		}
	}
	b.leaveUnwritten()
	b.answer(ctx, s)
	return nil
}

// leaveUnwritten leaves the refused calls, since the cached account may be outdated, and those
// whose job, or the job of the same key, was not written.
func (b *submitBatch) leaveUnwritten() {
	missing, there := lo.FilterReject(b.changes, func(c *change.Change, _ int) bool { return c.Job.CreatedAt.IsZero() })
	b.changes = there
	gone := map[*models.Job]bool{}
	for _, c := range missing {
		gone[c.Job] = true
	}
	var left []*submitCall
	left, b.calls = lo.FilterReject(b.calls, func(call *submitCall, _ int) bool {
		answer := b.answers[call][0]
		return answer.Refused != nil && call.set[0].err == nil || gone[answer.Job]
	})
	for _, call := range left {
		call.left = true
	}
	for _, call := range b.calls {
		call.left = false
	}
}

// writeRead reads what the calls of one account refer to, and writes their jobs in the same
// transaction.
func (s *Submitter) writeRead(ctx context.Context, calls []*submitCall) error {
	var b *submitBatch
	err := jobs.InTx(ctx, s.DB, func(ctx context.Context, tx bun.Tx) error {
		b = &submitBatch{tx: tx, calls: calls, cost: s.Admission.Estimates.CostUSD, start: change.Change{Tx: tx}, users: userQueues{share: s.UserShare}}
		return b.run(ctx, s)
	})
	if err != nil {
		return jobs.BatchError(err)
	}
	b.answer(ctx, s)
	if b.unsettled || len(b.reused) > 0 { // the Settler does it, too, but a moment later
		settler := change.Settler{DB: s.DB, Notifier: s.Notifier}
		ended := lo.Map(b.reused, func(c *change.Change, _ int) models.JobID { return c.Job.ID })
		_, err := settler.Part(ctx, slices.AppendSeq(ended, maps.Keys(b.seen)))
		s.Notifier.Log(ctx, err)
	}
	return nil
}

func (b *submitBatch) run(ctx context.Context, s *Submitter) error {
	if err := b.lock(ctx); err != nil {
		return fmt.Errorf("lock the accounts and what the jobs refer to: %w", err)
	}
	if err := b.read(ctx); err != nil {
		return err
	}
	if graph := b.calls[0].graph; graph != nil {
		if known, err := graph.find(ctx, b.tx); known || err != nil {
			return err
		}
	}
	if err := b.decide(); err != nil {
		return err
	}
	if graph := b.calls[0].graph; graph != nil {
		if err := graph.refusal(b.answers[b.calls[0]]); err != nil {
			return err
		}
	}
	return b.write(ctx, s.Sealer)
}

// lock excludes other submits of the account, reads the account, and locks what the calls refer to,
// in the one lock order: a request of the Videos API, jobs, inputs.
func (b *submitBatch) lock(ctx context.Context) error {
	if video := b.calls[0].video(); video != nil { // it is the only call
		if err := postgres.Lock(ctx, b.tx, video.lock()); err != nil {
			return err
		}
	}
	if err := models.LockSubmits(ctx, b.tx, b.calls[0].account); err != nil {
		return err
	}
	if err := b.lockDraft(ctx); err != nil {
		return err
	}
	if err := b.lockReferences(ctx); err != nil {
		return err
	}
	account, now, err := models.ReadAccount(ctx, b.tx, b.calls[0].account)
	b.start.Now = now
	if err == nil && !account.ClosedAt.IsZero() {
		return apierror.ErrAccountClosed
	}
	b.accounts = map[models.AccountID]*models.Account{account.ID: account}
	return err
}

// lockReferences reads the jobs that the calls' jobs depend on or take something from. It locks
// those that have ended, and the inputs that they name.
func (b *submitBatch) lockReferences(ctx context.Context) error {
	var on []models.JobID
	var results []inputs.Result
	var files []models.ArtifactID
	for _, one := range b.open() {
		on = append(on, one.dependsOn...)
		for _, r := range one.stored.Results {
			on = append(on, r.Job)
		}
		results = append(results, one.stored.Results...)
		for _, u := range one.stored.Uploads {
			files = append(files, u.ID)
		}
	}
	for _, row := range b.taken {
		on = append(on, row.SourceID)
		for _, take := range row.Takes {
			results = append(results, inputs.Result{Job: row.SourceID, Take: reference.Take(take)})
		}
	}
	own := b.calls[0].graph.own(b.calls[0])
	on = slices.DeleteFunc(on, func(id models.JobID) bool { return own[id] != nil })
	if len(on) > 0 {
		b.seen = change.Glimpse{}
		found, err := b.seen.Read(ctx, b.tx, on)
		if err != nil {
			return fmt.Errorf("read what the jobs depend on: %w", err)
		}
		b.parents = lo.KeyBy(found, func(j *models.Job) models.JobID { return j.ID })
		if b.have, err = inputs.ReadHas(ctx, b.tx, results); err != nil {
			return err
		}
	}
	b.parents = lo.Assign(own, b.parents)
	if len(files) > 0 {
		found, err := models.LockInputs(ctx, b.tx, lo.Uniq(files))
		if err != nil {
			return fmt.Errorf("lock the inputs: %w", err)
		}
		b.inputs = lo.SliceToMap(found, func(a *models.Artifact) (models.ArtifactID, models.AccountID) { return a.ID, a.AccountID })
	}
	return nil
}

// read reads what the submissions refer to.
func (b *submitBatch) read(ctx context.Context) error {
	var keys []models.JobKey
	var videos []videoAsked
	for call, one := range b.open() {
		if one.asked.IdempotencyKey != "" {
			keys = append(keys, call.key(one))
		}
		if one.in.Video != nil {
			videos = append(videos, videoAsked{one.in.Video, call.key(one)})
		}
	}
	before, err := models.FindJobsByKeys(ctx, b.tx, keys)
	if err != nil {
		return fmt.Errorf("look up the keys: %w", err)
	}
	b.used = lo.KeyBy(before, func(j *models.Job) models.JobKey { return models.JobKey{Account: j.AccountID, Key: j.IdempotencyKey} })
	if b.repeated, err = madeBefore(ctx, b.tx, videos, b.used); err != nil {
		return fmt.Errorf("look for repeated requests: %w", err)
	}
	if err := b.readPurse(ctx); err != nil {
		return err
	}
	return b.readUsers(ctx)
}

// readPurse reads the budgets of an account that has any.
func (b *submitBatch) readPurse(ctx context.Context) (err error) {
	account := b.calls[0].account
	if !b.accounts[account].Budgeted {
		return nil
	}
	var users []string
	for _, one := range b.open() {
		users = append(users, one.asked.UserID)
	}
	b.purse, err = readPurse(ctx, b.tx, account, users)
	b.purse.now = b.start.Now
	return err
}

// open iterates over the submissions that are not refused yet.
func (b *submitBatch) open() func(yield func(*submitCall, *submission) bool) {
	return func(yield func(*submitCall, *submission) bool) {
		for _, call := range b.calls {
			for i := range call.set {
				if call.set[i].err == nil && !yield(call, &call.set[i]) {
					return
				}
			}
		}
	}
}

// decide accepts or refuses each submission, in their order.
func (b *submitBatch) decide() error {
	b.answers, b.of = map[*submitCall][]Submitted{}, map[*change.Change]accepted{}
	for _, call := range b.calls {
		answers := make([]Submitted, len(call.set))
		for i := range call.set {
			one, answer := &call.set[i], &answers[i]
			err := one.err
			if err == nil {
				err = b.one(call, one, answer)
			}
			if answer.Refused = Refusal(err); err != nil && answer.Refused == nil {
				return err
			}
		}
		b.answers[call] = answers
	}
	return nil
}

func (b *submitBatch) one(call *submitCall, one *submission, answer *Submitted) (err error) {
	if one.in.Video != nil {
		if answer.Job = b.repeated[string(one.in.Video.Digest)]; answer.Job != nil {
			answer.Deduplicated = true
			return nil
		}
	}
	job, account := new(one.asked), b.accounts[call.account]
	if answer.Job, err = b.beginWithDraft(job, account); answer.Job != nil || err != nil {
		answer.Deduplicated = err == nil
		return err
	}
	refused := setTier(job, account)
	if job.IdempotencyKey != "" {
		if job.RequestDigest, err = requestDigests(job, &one.asked, one.in); err != nil {
			return err
		}
		if first := b.used[call.key(one)]; first != nil {
			if !sameRequest(first.RequestDigest, job.RequestDigest) {
				return errKeyOfAnother
			}
			answer.Job, answer.Deduplicated = first, true
			return nil
		}
	}
	if refused = cmp.Or(refused, one.badInput, b.inputGone(call, one)); refused != nil {
		return refused
	}
	parents, err := b.parentsOf(call, one)
	if err != nil {
		return err
	}
	waits := change.ReckonDependencies(parents)
	if waits.Failed != nil && one.in.node != nil {
		return apierror.Invalid("dependsOn", "Job %s, on which it depends, is %s: retry that job first, or let the node CONTINUE.",
			waits.Failed.ID, waits.Failed.Status)
	}
	waits.Fetch, waits.Approval = len(inputs.Remotes(one.files)) > 0, job.Approval()
	c := &change.Change{Tx: b.start.Tx, Now: b.start.Now, Job: job}
	in := one.in
	in.DependsOn = one.dependsOn
	if err := beginJob(c, in, waits); err != nil {
		return err
	}
	if job.Status != models.JobQueued {
		job.PredictedWaitSeconds, job.PredictedSeconds = nil, nil // they were for a job that is queued at once
	}
	if account.Queued >= account.MaxQueued {
		return call.graph.tooLarge(account, len(call.set))
	}
	if err := b.users.enter(job, waits.Failed == nil); err != nil {
		return err
	}
	if job.Continues != "" { // only now it is known what it renders
		job.EstimatedUSD = b.cost(job)
	}
	if waits.Failed == nil { // a job that fails with its parent leaves its place at once, and costs nothing
		if err := b.purse.enter(job); err != nil {
			return err
		}
		account.Queued++
	}
	if job.IdempotencyKey != "" {
		b.used[call.key(one)] = job
	}
	b.changes = append(b.changes, c)
	b.of[c] = accepted{call, one, waits.Failed}
	answer.Job = job
	return nil
}

// ErrQueueFull is the error for a job for which the account's queue has no room.
var ErrQueueFull = apierror.Later(apierror.CodeQuotaExceeded, 10*time.Second,
	"This account has reached its limit of waiting jobs: wait for some to start, or cancel some.")

// inputGone returns the error for an input, or a part of another job, that does not exist or is
// not the account's.
func (b *submitBatch) inputGone(call *submitCall, one *submission) error {
	for _, u := range one.stored.Uploads {
		if b.inputs[u.ID] != call.account {
			return inputs.NoInput(u.Field)
		}
	}
	for _, r := range one.stored.Results {
		source := b.parents[r.Job]
		if source == nil || source.AccountID != call.account {
			return inputs.NoInput(r.Field)
		}
		if err := r.Check(source); err != nil {
			return err
		}
	}
	return b.have.Check(one.stored.Results, b.parents)
}

func (b *submitBatch) parentsOf(call *submitCall, one *submission) ([]change.Parent, error) {
	var parents []change.Parent
	for _, id := range one.dependsOn {
		job := b.parents[id]
		if job == nil || job.AccountID != call.account {
			return nil, apierror.NotFound("job to depend on").In("dependsOn")
		}
		parents = append(parents, change.Parent{Job: job, OnFailure: one.policy()})
	}
	return parents, nil
}

// answer sets the answers of the calls, and publishes the jobs, after the commit.
func (b *submitBatch) answer(ctx context.Context, s *Submitter) {
	for _, call := range b.calls {
		call.answers = b.answers[call]
		for i, answer := range call.answers {
			if answer.Refused != nil && call.set[i].err == nil {
				s.Admission.note(answer.Refused, tierOf(&call.set[i].asked, b.accounts[call.account]))
			}
		}
	}
	for _, c := range b.changes {
		call := b.of[c].call
		call.written = append(call.written, c.Job)
	}
	publishSubmitted(ctx, s.Notifier, b.changes)
	s.Notifier.After(ctx, b.reused...)
}
