package models

import (
	"context"
	"database/sql"
	_ "embed"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// PassPeriod is a pass, and how long its periods are.
type PassPeriod struct {
	Name  string
	Every time.Duration
}

// PassClaim is the answer to a claim of the current period of a pass.
type PassClaim struct {
	// Mine reports whether the caller got it.
	Mine bool
	// Left is how much of the period is left.
	Left time.Duration
}

//go:embed sql/claim_passes.sql
var claimPassesSQL string

// ClaimPasses claims the current periods of passes, and returns the answers by their names.
//
// Passes with the same interval begin at different times. Otherwise they would all delay the
// requests of the same moment.
func ClaimPasses(ctx context.Context, db bun.IDB, passes []PassPeriod) (map[string]PassClaim, error) {
	arg, err := postgres.RowsArg(lo.Map(passes, func(p PassPeriod, _ int) askedPass {
		return askedPass{p.Name, p.Every.Seconds(), lateness(p).Seconds()}
	}))
	if err != nil {
		return nil, err
	}
	claims := map[string]PassClaim{}
	rows, err := postgres.Run(ctx, db, claimPassesSQL, pgx.NamedArgs{"passes": arg})
	err = postgres.Scan(rows, err, func(rows *sql.Rows) error {
		var name string
		var mine bool
		var seconds float64
		err := rows.Scan(&name, &mine, &seconds)
		claims[name] = PassClaim{mine, time.Duration(seconds * float64(time.Second))}
		return err
	})
	return claims, err
}

// askedPass is a pass in an argument: the length of its periods and their offset, in seconds.
type askedPass struct {
	Name  string  `json:"name"`
	Every float64 `json:"every"`
	Late  float64 `json:"late"`
}

// lateness is the offset of a pass's periods from the clock's own. It is less than a third of
// a period.
func lateness(p PassPeriod) time.Duration {
	h := fnv.New32a()
	h.Write([]byte(p.Name))
	return p.Every / 3 * time.Duration(h.Sum32()>>16) >> 16
}
