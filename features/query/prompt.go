package query

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/models"
)

// Prompt is a job's prompt, or the reason why it cannot be read.
type Prompt struct {
	Text string
	Err  error
}

// Prompts returns the prompts of the jobs. It omits jobs without a prompt or with a purged one. An
// unreadable prompt does not affect the others.
func (e Edges) Prompts(ctx context.Context) (map[models.JobID]Prompt, error) {
	if len(e.rows) == 0 {
		return nil, nil
	}
	return e.jobs.prompts(ctx, e.ids())
}

func (r *Jobs) prompts(ctx context.Context, ids []models.JobID) (map[models.JobID]Prompt, error) {
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

// LeasedPrompt returns the prompt of a job that the worker p was just leased, as it gets it: with the
// values of other jobs' outputs that it contains. It is NOT_FOUND for callers that are no workers.
func (r *Jobs) LeasedPrompt(ctx context.Context, p jobs.Principal, id models.JobID) (Prompt, error) {
	if p.WorkerID == "" {
		return Prompt{}, apierror.NotFound("job")
	}
	prompts, err := r.prompts(ctx, []models.JobID{id})
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
