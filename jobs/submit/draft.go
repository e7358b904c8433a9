package submit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

const (
	// maxTakes is how many takes one call can submit.
	maxTakes = 64
	// seedParam is the parameter that makes another take of the same request.
	seedParam = "seed"
	// maxTakeSeed is above the seeds that Takes chooses. Every model accepts these.
	maxTakeSeed = 1 << 31
)

// Takes submits drafts of one request that differ only in their seeds. With seeds, it submits one
// draft for each. Otherwise it submits count drafts, 1 to 64, with consecutive seeds: from
// params.seed on if the request has one, else from a random one. The drafts have the same TakesID.
// With an idempotency key, a repeated call chooses the same seeds and returns the same jobs. Takes
// returns INVALID_INPUT for a request that is not a draft, for a model without the parameter seed,
// and for equal seeds. Each answer can have the errors of Submit.
func (s *Submitter) Takes(ctx context.Context, p jobs.Principal, in Submission, count int, seeds []int64) ([]Submitted, error) {
	if in.Draft == nil {
		return nil, apierror.Invalid("draft", "Takes are drafts: set draft.steps.")
	}
	if len(seeds) > 0 {
		count = len(seeds)
	}
	if count < 1 || count > maxTakes {
		return nil, apierror.Invalid("count", "One call submits 1 to %d takes; it asks for %d.", maxTakes, count)
	}
	if len(lo.Uniq(seeds)) != len(seeds) {
		return nil, apierror.Invalid("seeds", "Two seeds are equal and would make the same draft: change one.")
	}
	if err := in.validLimits(); err != nil {
		return nil, err
	}
	params, err := s.takeParams(p, &in)
	if err != nil {
		return nil, err
	}
	id, seed := firstTake(p, in.IdempotencyKey)
	if given, ok := params[seedParam]; ok && json.Unmarshal(given, &seed) != nil {
		return nil, apierror.Invalid("params.seed", "params.seed must be an integer.")
	}
	all := make([]Submission, count)
	for i := range all {
		one := in
		one.takes = id
		next := seed + int64(i)
		if len(seeds) > 0 {
			next = seeds[i]
		}
		params[seedParam], _ = json.Marshal(next) // a number
		if one.Params, err = json.Marshal(params); err != nil {
			return nil, err
		}
		if in.IdempotencyKey != nil {
			one.IdempotencyKey = new(fmt.Sprintf("%s#%d", *in.IdempotencyKey, i+1))
		}
		all[i] = one
	}
	return s.SubmitMany(ctx, p, all)
}

// takeParams returns the params of a request of takes. Its model must have a seed.
func (s *Submitter) takeParams(p jobs.Principal, in *Submission) (map[string]json.RawMessage, error) {
	candidates, err := s.Catalogue.Current().For(p.Scope()).Candidates(in.Model)
	if err != nil {
		return nil, err
	}
	for _, c := range candidates {
		if !c.Model.Takes(seedParam) {
			return nil, apierror.Invalid("model", "The model %s has no parameter seed, so all takes would be the same.", c.Model.Name)
		}
	}
	if _, err := candidates[0].Model.Params(in.Params); err != nil {
		return nil, refusedBy(candidates[0].Model, in.Model, err)
	}
	params := map[string]json.RawMessage{}
	if len(in.Params) > 0 {
		err = json.Unmarshal(in.Params, &params) // an object or null: it was checked
	}
	return lo.Ternary(params == nil, map[string]json.RawMessage{}, params), err
}

// firstTake returns the id of takes and the seed of the first one. Without a key both are random;
// with a key they follow from it.
func firstTake(p jobs.Principal, key *string) (id models.TakesID, seed int64) {
	if key == nil {
		return models.NewTakesID(), rand.Int64N(maxTakeSeed - maxTakes)
	}
	sum := sha256.Sum256([]byte(string(p.AccountID) + " takes " + *key))
	seed = int64(binary.BigEndian.Uint64(sum[16:]) % (maxTakeSeed - maxTakes))
	return models.TakesIDOf(uuid.NewHash(sha256.New(), uuid.Nil, sum[:], 8)), seed
}

// Continue submits a job that starts from a draft's checkpoint and makes its video, with the
// draft's prompt, params and version of the model. A draft is continued once. Repeating the call
// returns the first job, and true. Continue returns NOT_FOUND for a job that the caller may not
// see, CONFLICT for a job that is not a COMPLETED draft, was deleted, or is no longer kept, and
// the errors of Submit.
func (s *Submitter) Continue(ctx context.Context, p jobs.Principal, id models.JobID) (job *models.Job, deduplicated bool, err error) {
	draft, err := jobs.JobToChange(ctx, s.DB, p, id)
	if err != nil {
		return nil, false, err
	}
	before, err := models.FindContinuations(ctx, s.DB, []models.JobID{id})
	if err != nil {
		return nil, false, fmt.Errorf("look for the continuation of job %s: %w", id, err)
	}
	if len(before) > 0 {
		return before[0], true, apierror.Wrap(postgres.AwaitStandby(ctx, s.DB), "wait for the standby")
	}
	now, err := postgres.Now(ctx, s.DB)
	if err != nil {
		return nil, false, fmt.Errorf("read the clock: %w", err)
	}
	if err := Continuable(draft, now); err != nil {
		return nil, false, err
	}
	call, err := s.continuation(ctx, p, draft)
	if err != nil {
		return nil, false, err
	}
	if err := s.accept(ctx, call); err != nil {
		return nil, false, err
	}
	answer := call.answers[0]
	if answer.Refused != nil {
		return nil, false, answer.Refused
	}
	return answer.Job, answer.Deduplicated, nil
}

// continuation returns the call that submits the continuation of a draft.
func (s *Submitter) continuation(ctx context.Context, p jobs.Principal, draft *models.Job) (*submitCall, error) {
	model := s.Catalogue.Current().Find(draft.Model, draft.ModelVersion)
	if model == nil {
		return nil, apierror.Conflict("Version %d of the model %s no longer exists, and another version cannot continue this draft: submit a new job.",
			draft.ModelVersion, draft.Model)
	}
	prompt, err := s.promptOf(ctx, draft)
	if err != nil {
		return nil, err
	}
	job := continued(draft, model)
	job.ID, job.CreatedBy = models.NewJobID(), p.KeyID
	one := submission{asked: job, inherits: len(model.Inputs(draft.Params)), in: Submission{Prompt: prompt, CallbackURL: draft.CallbackURL,
		continues: draft.ID}}
	return &submitCall{account: draft.AccountID, by: p, set: []submission{one}}, nil
}

// continued returns the request of a draft as the request of the job that continues it.
func continued(draft *models.Job, model *catalogue.Model) models.Job {
	job := models.Job{
		AccountID: draft.AccountID, Run: 1, Continues: draft.ID,
		Type: draft.Type, Model: draft.Model, ModelVersion: draft.ModelVersion, Alias: draft.Alias, Params: draft.Params,
		Tier: draft.Tier, Priority: draft.Priority, MaxAttempts: draft.MaxAttempts, TimeoutSeconds: draft.TimeoutSeconds,
		Region: draft.Region, RequireRegion: draft.RequireRegion, RetryPolicy: draft.RetryPolicy, AtMostOnce: draft.AtMostOnce,
		MaxPreemptions: draft.MaxPreemptions, MaxPricePerHour: draft.MaxPricePerHour,
		UserID: draft.UserID, Metadata: draft.Metadata, CallbackURL: draft.CallbackURL,
		EstimatedGPUSeconds: remaining(model, draft), TimeClass: model.TimeClass(draft.Params),
	}
	job.Needs = draft.Needs.Also(job.Spent())
	return job
}

// promptOf returns the prompt of a draft, or "" if it has none.
func (s *Submitter) promptOf(ctx context.Context, draft *models.Job) (string, error) {
	prompt, err := OpenPrompt(ctx, s.DB, s.Sealer, draft.ID)
	if errors.Is(err, seal.ErrShredded) {
		return "", errDraftDeleted
	}
	return prompt, err
}

// OpenPrompt returns the newest prompt of a job, or "" if it has none. It returns
// seal.ErrShredded if the job was deleted.
func OpenPrompt(ctx context.Context, db bun.IDB, sealer *seal.Sealer, job models.JobID) (string, error) {
	found, err := models.GetJobInputs(ctx, db, []models.JobID{job})
	if err != nil || len(found) == 0 {
		return "", apierror.Wrap(err, "read the prompt of job %s", job)
	}
	prompt, err := sealer.Open(seal.Sealed{Ciphertext: found[0].Ciphertext, WrappedKey: found[0].WrappedKey}, []byte(job))
	return string(prompt), apierror.Wrap(err, "open the prompt of job %s", job)
}

var errDraftDeleted = apierror.Conflict("This draft was deleted: submit a new one.")

// Continuable returns CONFLICT unless a job can be continued at a time: it must be a COMPLETED
// draft that is still kept and that no job continues.
func Continuable(draft *models.Job, now time.Time) error {
	switch {
	case draft.DraftSteps == 0:
		return apierror.Conflict("This job is not a draft: only a job that was submitted with draft can be continued.")
	case !draft.DeletedAt.IsZero():
		return errDraftDeleted
	case draft.Status != models.JobCompleted:
		return apierror.Conflict("This draft is %s: it can be continued once it is COMPLETED.", draft.Status)
	case !draft.KeptUntil.After(now) || draft.LatestCheckpointID == "":
		return apierror.Conflict("This draft was kept until %s, and its checkpoint was deleted: submit a new job with the same seed.",
			text.Moment(draft.KeptUntil.UTC(), now))
	}
	return nil
}

// lockDraft locks the draft that a call continues, and reads the job that continues it already.
func (b *submitBatch) lockDraft(ctx context.Context) error {
	id := b.calls[0].set[0].in.continues
	if id == "" {
		return nil
	}
	var err error
	if b.draft, err = models.LockJob(ctx, b.tx, id); err != nil {
		return apierror.OrNotFound(err, "job")
	}
	found, err := models.FindContinuations(ctx, b.tx, []models.JobID{id})
	if err != nil {
		return err
	}
	if len(found) > 0 {
		b.continued = found[0]
	}
	b.taken, err = models.ListSources(ctx, b.tx, []models.JobID{id})
	return err
}

// beginWithDraft makes job start from the locked draft's newest checkpoint. If a job already
// continues the draft, it returns that job instead.
func (b *submitBatch) beginWithDraft(job *models.Job, account *models.Account) (continued *models.Job, err error) {
	if b.draft == nil || b.continued != nil {
		return b.continued, nil
	}
	if err := Continuable(b.draft, b.start.Now); err != nil {
		return nil, err
	}
	job.LatestCheckpointID = b.draft.LatestCheckpointID
	if job.Tier.Above(account.Tier) { // the account was changed since
		job.Tier = account.Tier
	}
	return nil, nil
}

// moveDraftFiles moves the draft's checkpoints and inputs to the job that continues it.
func (b *submitBatch) moveDraftFiles(ctx context.Context) error {
	if b.draft == nil {
		return nil
	}
	for _, c := range b.changes {
		if err := models.MoveDraftFiles(ctx, b.tx, b.draft.ID, c.Job.ID); err != nil {
			return err
		}
		if err := b.calls[0].by.AuditJob(ctx, b.tx, "continueJob", b.draft); err != nil {
			return err
		}
		if err := inherited(ctx, b.tx, c.Job, b.of[c].inherits, b.taken); err != nil {
			return err
		}
	}
	return nil
}
