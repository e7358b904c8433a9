package submit

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/batch"
	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/internal/recent"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/internal/tracing"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Submitter accepts jobs.
type Submitter struct {
	DB        *bun.DB
	Catalogue *catalogue.Catalogue
	Sealer    *seal.Sealer
	Notifier  *change.Notifier
	Inputs    *inputs.Inputs
	// Outbound decides which URLs may be called back.
	Outbound  outbound.Policy
	Admission Admission
	// Moderator decides whether the content of a job is allowed; nil allows all.
	Moderator Moderator
	// UserShare is the part of an account's queue that the jobs of one user may take, in percent; 0
	// and 100 mean no limit.
	UserShare int

	prices priceSteps
	// shares caches the accounts that admission checks.
	shares  recent.Map[models.AccountID, *models.Account]
	entries batch.Group[*entry]
	// plainWrites batches the calls that one statement can write, and waits for no locked
	// account. waitingWrites batches those of locked accounts, and writes all other calls: both by
	// account, since they wait for its row.
	plainWrites           batch.Group[*submitCall]
	waitingWrites, writes batch.Keyed[models.AccountID, *submitCall]
}

// MaxSubmitJobs is how many jobs one call may submit.
const MaxSubmitJobs = 1000

// Submit accepts a job: once it returns, the job is durable. If the idempotency key was used
// before with the same request, Submit returns the first job, and true; with another request
// it returns IDEMPOTENCY_CONFLICT. Other errors are INVALID_INPUT, FORBIDDEN (a tier above the
// account's), RATE_LIMITED, QUOTA_EXCEEDED, OVERLOADED, and, for an image in params, NOT_FOUND
// and CHECKSUM_MISMATCH, and CONTENT_POLICY and UNAVAILABLE by the Moderator; none of them leaves a job
// behind. A repeated key never returns RATE_LIMITED, QUOTA_EXCEEDED, OVERLOADED or CONTENT_POLICY.
//
// If ctx ends first, it is unknown whether the job exists.
func (s *Submitter) Submit(ctx context.Context, p jobs.Principal, in Submission) (job *models.Job, deduplicated bool, err error) {
	answers, err := s.submit(ctx, p, []Submission{in}, nil)
	if err != nil {
		return nil, false, err
	}
	if refused := answers[0].Refused; refused != nil {
		return nil, false, refused
	}
	return answers[0].Job, answers[0].Deduplicated, nil
}

// Submitted is the result of one of many submissions: a job, or the error.
type Submitted struct {
	Job          *models.Job
	Deduplicated bool
	Refused      *apierror.Error
}

// SubmitMany accepts jobs in one transaction: once it returns, all accepted jobs are durable.
// The answers, in the order of the submissions, are what Submit would return for one after the
// other: a refused submission does not affect the others, and the second of two with the same
// idempotency key gets the first one's job. SubmitMany returns INVALID_INPUT for no
// submissions or too many.
func (s *Submitter) SubmitMany(ctx context.Context, p jobs.Principal, all []Submission) ([]Submitted, error) {
	if len(all) < 1 || len(all) > MaxSubmitJobs {
		return nil, apierror.Invalid("inputs", "1 to %d jobs may be submitted in one call; these are %d.", MaxSubmitJobs, len(all))
	}
	return s.submit(ctx, p, all, nil)
}

// submit is the only way to submit. It shares its queries and writes with concurrent calls. If
// graph is not nil, the jobs are those of a workflow.
func (s *Submitter) submit(ctx context.Context, p jobs.Principal, all []Submission, graph *Graph) ([]Submitted, error) {
	if err := p.RequireChange(); err != nil {
		return nil, err
	}
	ctx, end := tracing.Start(ctx, "submit", tracing.Int("reelay.jobs", len(all)))
	call := s.newCall(p, all, graph)
	if parent := tracing.Parent(ctx); parent != "" {
		for i := range call.set {
			call.set[i].asked.Traceparent = parent
		}
	}
	err := s.accept(ctx, call)
	end(err)
	s.Admission.observe(ctx, call, err)
	return call.answers, err
}

// accept admits and writes the jobs of a call, and sets its answers.
func (s *Submitter) accept(ctx context.Context, call *submitCall) error {
	if err := call.graph.invalid(call); err != nil {
		return err
	}
	admitted, err := s.admit(ctx, call)
	if err != nil {
		return apierror.Wrap(err, "admit %s", text.Count(len(call.set), "job"))
	}
	if err = s.prepare(ctx, call); err == nil {
		err = s.moderate(ctx, call)
	}
	if err == nil {
		err = s.write(ctx, call)
	}
	if err != nil {
		if ctx.Err() == nil { // else the jobs may still be written
			admitted.giveBack(ctx, call.tokens())
		}
		return apierror.Wrap(err, "submit %s", text.Count(len(call.set), "job"))
	}
	admitted.giveBack(ctx, call.tokens())
	for _, job := range call.written {
		admitted.accepted(job)
	}
	return nil
}

// setTier fills in the tier and what depends on it, and compares it with the account's.
func setTier(job *models.Job, account *models.Account) error {
	job.Tier = cmp.Or(job.Tier, account.Tier)
	job.Lane = job.Tier
	job.MaxAttempts = cmp.Or(job.MaxAttempts, jobs.Policies[job.Tier].MaxAttempts)
	if job.Tier.Above(account.Tier) {
		return apierror.Forbidden("The tier %s is above this account's, which is %s.", job.Tier, account.Tier)
	}
	return nil
}

var errKeyOfAnother = apierror.New(apierror.CodeIdempotencyConflict,
	"This idempotency key was used for another request: use a new key, or repeat that request exactly.").In("idempotencyKey")

// parents reads the jobs that a new one depends on, or returns NOT_FOUND. They are not locked: those
// that have not ended are locked last, see [change.Glimpse].
func (s *Submitter) parents(ctx context.Context, db bun.IDB, job *models.Job, ids []models.JobID) ([]*models.Job, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := models.GetJobs(ctx, db, ids)
	if err != nil {
		return nil, fmt.Errorf("read what the job depends on: %w", err)
	}
	if len(found) != len(ids) || slices.ContainsFunc(found, func(parent *models.Job) bool { return parent.AccountID != job.AccountID }) {
		return nil, apierror.NotFound("job to depend on").In("dependsOn")
	}
	return found, nil
}
