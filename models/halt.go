package models

import (
	"context"
	"time"

	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// HaltTarget is what an operator can halt.
type HaltTarget string

// The values of HaltTarget.
const (
	HaltSchedules HaltTarget = "SCHEDULES" // no slot of a schedule fires
	HaltLeases    HaltTarget = "LEASES"    // no worker gets a job
)

// HaltTargets lists all that can be halted.
var HaltTargets = []HaltTarget{HaltSchedules, HaltLeases}

// Halt says what is halted, by whom, since when and why.
type Halt struct {
	What HaltTarget `bun:"what"`
	// By is the name of the key, or the address of the member, that halted it.
	By     string    `bun:"by"`
	Since  time.Time `bun:"since"`
	Reason string    `bun:"reason"`
}

// ListHalts returns what is halted, schedules first.
func ListHalts(ctx context.Context, db bun.IDB) (halts []Halt, err error) {
	err = db.NewRaw(`
		SELECT h.what, coalesce(k.name, h.halted_by) AS by, h.since, h.reason
		FROM halts h LEFT JOIN api_keys k ON 'key_' || k.id = h.halted_by ORDER BY h.what DESC`).Scan(ctx, &halts)
	return halts, err
}

// InsertHalts halts targets. One that is halted already keeps who halted it, when and why.
func InsertHalts(ctx context.Context, db bun.IDB, what []HaltTarget, by, reason string) error {
	_, err := db.NewRaw(`INSERT INTO halts (what, halted_by, reason) SELECT what, ?, ? FROM unnest(?::text[]) what ON CONFLICT DO NOTHING`,
		by, reason, postgres.TextArray(what)).Exec(ctx)
	return err
}

// DeleteHalts lifts the halts of targets.
func DeleteHalts(ctx context.Context, db bun.IDB, what []HaltTarget) error {
	_, err := db.NewRaw("DELETE FROM halts WHERE what = ANY (?::text[])", postgres.TextArray(what)).Exec(ctx)
	return err
}

// SchedulesRunSQL is true while schedules are not halted.
const SchedulesRunSQL = "NOT EXISTS (SELECT FROM halts WHERE what = 'SCHEDULES')"
