package models

import (
	"context"

	"github.com/uptrace/bun"
)

// Admission is what a submit is judged by.
type Admission struct {
	Account
	// Known are those of the keys that have a job already.
	Known []string `bun:"known,array"`
}

// ReadAdmission returns an account, and which of these idempotency keys it has
// used.
func ReadAdmission(ctx context.Context, db bun.IDB, id AccountID, keys []string) (*Admission, error) {
	a := new(Admission)
	err := db.NewRaw(`
		SELECT ac.*, ARRAY(SELECT idempotency_key FROM jobs WHERE account_id = ac.id AND idempotency_key = ANY (?::text[])) AS known
		FROM accounts ac WHERE ac.id = ?`, textArray(keys), id).Scan(ctx, a)
	return a, err
}
