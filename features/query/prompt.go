package query

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/models"
)

// Prompt is a job's prompt, or the reason why it cannot be read.
type Prompt struct {
	Text string
	Err  error
}

// Prompts returns the prompts of jobs. It omits jobs without a prompt or with a purged one. An
// unreadable prompt does not affect the others.
func (r *Jobs) Prompts(ctx context.Context, ids []models.JobID) (map[models.JobID]Prompt, error) {
	inputs, err := models.GetJobInputs(ctx, r.db, ids)
	if err != nil {
		return nil, fmt.Errorf("read prompts: %w", err)
	}
	prompts := make(map[models.JobID]Prompt, len(inputs))
	for _, in := range inputs {
		if prompt := r.open(in); !errors.Is(prompt.Err, seal.ErrShredded) {
			prompts[in.JobID] = prompt
		}
	}
	return prompts, nil
}

// LeasedPrompt returns the prompt of a leased job as its worker gets it: with the values of other
// jobs' outputs that it contains.
func (r *Jobs) LeasedPrompt(ctx context.Context, id models.JobID) (Prompt, error) {
	prompts, err := r.Prompts(ctx, []models.JobID{id})
	prompt := prompts[id]
	if err == nil && prompt.Err == nil {
		prompt.Text, err = inputs.FillPrompt(ctx, r.db, id, prompt.Text)
	}
	return prompt, err
}

func (r *Jobs) open(in *models.SealedPrompt) Prompt {
	text, err := r.sealer.Open(seal.Sealed{Ciphertext: in.Ciphertext, WrappedKey: in.WrappedKey}, []byte(in.JobID))
	return Prompt{string(text), apierror.Wrap(err, "open the prompt of job %s", in.JobID)}
}

// CheckKeyset returns an error if this process's keyset is not the one that sealed the newest
// prompt.
func (r *Jobs) CheckKeyset(ctx context.Context) error {
	in, err := models.GetNewestJobInput(ctx, r.db)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the newest prompt: %w", err)
	}
	if err := r.open(in).Err; errors.Is(err, seal.ErrWrongKey) {
		return err
	}
	return nil
}
