package operate

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/uptrace/bun"
)

// DeadLetters settles, for operators, runs that failed for good.
type DeadLetters struct {
	DB        *bun.DB
	Catalogue *catalogue.Catalogue
	Sealer    *seal.Sealer
	Notifier  *change.Notifier
	Inputs    *inputs.Inputs
	// Estimates says what new runs cost; nil leaves what was estimated.
	Estimates *estimate.Estimator
}

// Edit is what an operator changes for the run that a redrive opens. Nil fields stay as they
// were. A run with any edit starts from scratch.
type Edit struct {
	// Params replaces all params: omitted ones take their defaults.
	Params json.RawMessage
	Prompt *string
}

// Redrive opens a new run of a dead letter's job, in CRITICAL and with all its attempts.
// Redriving it again returns the job and opens no other run. It returns CONFLICT for a letter
// that was settled otherwise.
func (d *DeadLetters) Redrive(ctx context.Context, p jobs.Principal, id models.DeadLetterID, e Edit) (*models.Job, error) {
	letter, err := d.find(ctx, p, id)
	if err != nil {
		return nil, err
	}
	seen, err := models.GetJob(ctx, d.DB, letter.JobID)
	if err != nil {
		return nil, apierror.Wrap(apierror.OrNotFound(err, "dead letter"), "read job %s", letter.JobID)
	}
	edited, err := d.edit(ctx, seen, e)
	if err != nil {
		return nil, err
	}
	var done *change.Change
	err = jobs.InTx(ctx, d.DB, func(ctx context.Context, tx bun.Tx) error {
		job, err := models.LockJob(ctx, tx, seen.ID)
		if err != nil {
			return apierror.OrNotFound(err, "dead letter")
		}
		if done, err = change.New(ctx, tx, job); err != nil {
			return err
		}
		open, err := d.open(ctx, tx, id, models.ResolvedRedriven)
		if err != nil || !open {
			return err
		}
		if err := models.ResolveDeadLetters(ctx, tx, []models.JobID{job.ID}, models.ResolvedRedriven, string(p.KeyID), ""); err != nil {
			return err
		}
		err = p.Audit(ctx, tx, "redriveDeadLetter", string(id), jobs.Payload{"job": job.ID, "run": job.Run, "paramsEdited": e.Params != nil,
			"promptEdited": e.Prompt != nil})
		if err != nil {
			return err
		}
		return reopen(ctx, done, opening{event: models.EventRedriven, by: p.KeyID, lane: models.TierCritical, edit: edited,
			known: d.Catalogue.Current(), estimates: d.Estimates})
	})
	if err != nil {
		return nil, apierror.Wrap(err, "redrive dead letter %s", id)
	}
	d.Notifier.After(ctx, done)
	return done.Job, nil
}

// RedriveRun is Redrive for the dead letter of a job's run.
func (d *DeadLetters) RedriveRun(ctx context.Context, p jobs.Principal, job models.JobID, run int) error {
	letter, err := models.FindDeadLetter(ctx, d.DB, job, run)
	if errors.Is(err, sql.ErrNoRows) {
		return apierror.Conflict("This job has no dead letter: only one that FAILED has.")
	}
	if err != nil {
		return fmt.Errorf("find the dead letter of job %s: %w", job, err)
	}
	_, err = d.Redrive(ctx, p, letter.ID, Edit{})
	return err
}

// Edit validates the changes as a submit would, and seals the prompt.
func (d *DeadLetters) edit(ctx context.Context, job *models.Job, e Edit) (*inputs.Edit, error) {
	if e.Params == nil && e.Prompt == nil {
		return nil, nil
	}
	known := d.Catalogue.Current()
	model, err := known.Model(job.Model)
	if err != nil {
		return nil, err
	}
	edited := &inputs.Edit{Model: model}
	if e.Params != nil {
		if edited.Params, err = model.Params(e.Params); err != nil {
			return nil, err
		}
		if job.DraftSteps > 0 {
			if err := model.CheckDraft(edited.Params, job.DraftSteps); err != nil {
				return nil, err
			}
		}
	}
	if err := d.editReferences(ctx, job, e, edited); err != nil {
		return nil, err
	}
	if e.Prompt == nil {
		return edited, nil
	}
	if err := submit.ValidPrompt(*e.Prompt, model); err != nil {
		return nil, err
	}
	sealed, err := d.Sealer.Seal([]byte(*e.Prompt), []byte(job.ID))
	if err != nil {
		return nil, fmt.Errorf("seal the prompt of job %s: %w", job.ID, err)
	}
	edited.Input = &models.SealedPrompt{JobID: job.ID, Ciphertext: sealed.Ciphertext, WrappedKey: sealed.WrappedKey}
	return edited, nil
}

// editReferences finds and checks what the job names once it is edited: files and values.
func (d *DeadLetters) editReferences(ctx context.Context, job *models.Job, e Edit, edited *inputs.Edit) (err error) {
	var prompt string
	if e.Prompt != nil {
		prompt = *e.Prompt
	} else if prompt, err = submit.OpenPrompt(ctx, d.DB, d.Sealer, job.ID); err != nil && !errors.Is(err, seal.ErrShredded) {
		return err // a deleted job is refused later
	}
	params := edited.Params
	if params == nil {
		params = job.Params
	}
	if edited.Values, err = inputs.ValuesIn(prompt, params); err != nil {
		return err
	}
	var files []catalogue.Input
	if e.Params != nil {
		files = edited.Model.Inputs(params)
	}
	x, err := d.Inputs.Examine(ctx, job.AccountID, d.Catalogue.Current(), files, edited.Values, nil)
	if err == nil {
		_, err = x.Check(ctx, files, edited.Values)
	}
	return err
}

// open reports whether a dead letter is still unsettled. It returns false if it is settled as
// wanted, and CONFLICT if it is settled otherwise. The caller holds the lock on its job.
func (d *DeadLetters) open(ctx context.Context, tx bun.Tx, id models.DeadLetterID, wanted models.Resolution) (bool, error) {
	letter, err := models.GetDeadLetter(ctx, tx, id)
	if err != nil {
		return false, apierror.OrNotFound(err, "dead letter")
	}
	switch letter.Resolution {
	case "":
		return true, nil
	case wanted:
		return false, nil
	}
	how := map[models.Resolution]string{
		models.ResolvedRedriven:  "redriven",
		models.ResolvedRetried:   "retried by the job's owner",
		models.ResolvedDiscarded: "discarded",
		models.ResolvedDeleted:   "deleted with its job",
	}[letter.Resolution]
	return false, apierror.Conflict("This dead letter was %s already.", how)
}

// maxNoteRunes bounds the note of a discarded dead letter.
const maxNoteRunes = 1_000

// Discard settles a dead letter without another run. Discarding it again returns it unchanged.
// It returns CONFLICT for a dead letter that was settled otherwise.
func (d *DeadLetters) Discard(ctx context.Context, p jobs.Principal, id models.DeadLetterID, note string) (*models.DeadLetter, error) {
	if !text.Valid(note, 0, maxNoteRunes) {
		return nil, apierror.Invalid("note", "note may have %d printable characters.", maxNoteRunes)
	}
	seen, err := d.find(ctx, p, id)
	if err != nil {
		return nil, err
	}
	var letter *models.DeadLetter
	err = jobs.InTx(ctx, d.DB, func(ctx context.Context, tx bun.Tx) error {
		if _, err := models.LockJob(ctx, tx, seen.JobID); err != nil {
			return apierror.OrNotFound(err, "dead letter")
		}
		open, err := d.open(ctx, tx, id, models.ResolvedDiscarded)
		if err != nil {
			return err
		}
		if open {
			if err := models.ResolveDeadLetters(ctx, tx, []models.JobID{seen.JobID}, models.ResolvedDiscarded, string(p.KeyID), note); err != nil {
				return err
			}
			if err := p.Audit(ctx, tx, "discardDeadLetter", string(id), jobs.Payload{"job": seen.JobID}); err != nil {
				return err
			}
		}
		letter, err = models.GetDeadLetter(ctx, tx, id)
		return err
	})
	if err != nil {
		return nil, apierror.Wrap(err, "discard dead letter %s", id)
	}
	return letter, nil
}

// find returns a dead letter to an operator. It returns FORBIDDEN for other callers, and
// NOT_FOUND.
func (d *DeadLetters) find(ctx context.Context, p jobs.Principal, id models.DeadLetterID) (*models.DeadLetter, error) {
	if !p.May(access.RoleOperator) {
		return nil, apierror.Forbidden("Dead letters are for operators: this key's role is %s.", p.Role)
	}
	if !id.Valid() {
		return nil, apierror.NotFound("dead letter")
	}
	letter, err := models.GetDeadLetter(ctx, d.DB, id)
	if err != nil {
		return nil, apierror.Wrap(apierror.OrNotFound(err, "dead letter"), "read dead letter %s", id)
	}
	return letter, nil
}
