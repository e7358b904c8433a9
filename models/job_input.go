package models

import (
	"context"

	"github.com/uptrace/bun"
)

// SealedPrompt is a job's prompt, from one run on, encrypted under a key of its own. Without
// WrappedKey nobody can read it.
type SealedPrompt struct {
	bun.BaseModel `bun:"table:job_inputs,alias:ji"`

	JobID      JobID  `bun:"job_id,pk" json:"job_id"`
	Run        int    `bun:"run,pk" json:"run"`
	Ciphertext []byte `bun:"ciphertext" json:"ciphertext"`
	WrappedKey []byte `bun:"wrapped_key" json:"wrapped_key"`
}

// InsertJobInput writes a job's prompt.
func InsertJobInput(ctx context.Context, tx bun.Tx, in *SealedPrompt) error {
	_, err := tx.NewInsert().Model(in).Exec(ctx)
	return err
}

// GetNewestJobInput returns the newest prompt that can still be read, or sql.ErrNoRows.
func GetNewestJobInput(ctx context.Context, db bun.IDB) (*SealedPrompt, error) {
	in := new(SealedPrompt)
	err := db.NewSelect().Model(in).Where("ji.wrapped_key IS NOT NULL").Order("ji.job_id DESC", "ji.run DESC").Limit(1).Scan(ctx)
	return in, err
}

// GetJobInputs returns the newest prompt of each of these jobs, in no particular order.
func GetJobInputs(ctx context.Context, db bun.IDB, ids []JobID) ([]*SealedPrompt, error) {
	var inputs []*SealedPrompt
	err := db.NewSelect().Model(&inputs).DistinctOn("ji.job_id").Where("ji.job_id IN (?)", bun.List(ids)).
		Order("ji.job_id", "ji.run DESC").Scan(ctx)
	return inputs, err
}
