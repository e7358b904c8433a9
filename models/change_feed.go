package models

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/uptrace/bun"
)

// Setup is the version and the settings with which a process of a kind started last. It has no
// secrets.
type Setup struct {
	Version  string            `json:"version"`
	Settings map[string]string `json:"settings"`
}

// SwapSetup stores the setup of a kind of process and returns the one before, or nil for the
// first. It locks the kind's row until the transaction ends.
func SwapSetup(ctx context.Context, tx bun.Tx, kind ProcessKind, now Setup) (*Setup, error) {
	data, err := json.Marshal(now)
	if err != nil {
		return nil, err
	}
	var first bool
	err = tx.NewRaw("INSERT INTO process_setups (kind, setup) VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING true", kind,
		json.RawMessage(data)).Scan(ctx, &first)
	if err == nil || !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	var was string
	if err := tx.NewRaw("SELECT setup FROM process_setups WHERE kind = ? FOR UPDATE", kind).Scan(ctx, &was); err != nil {
		return nil, err
	}
	before := new(Setup)
	if err := json.Unmarshal([]byte(was), before); err != nil {
		return nil, err
	}
	_, err = tx.NewRaw("UPDATE process_setups SET setup = ?, at = clock_timestamp() WHERE kind = ?", json.RawMessage(data), kind).Exec(ctx)
	return before, err
}
