package postgres

import (
	"context"
	"errors"

	"github.com/uptrace/bun"
)

var errStandby = errors.New("PostgreSQL is a standby, to which nothing can be written until it is promoted")

// IsStandby reports whether [Writable] returned that the server is a standby.
func IsStandby(err error) bool { return errors.Is(err, errStandby) }

// Writable returns an error, for which IsOutage is true, if the server is a standby.
func Writable(ctx context.Context, db bun.IDB) error {
	var standby bool
	if err := db.NewRaw("SELECT pg_is_in_recovery()").Scan(ctx, &standby); err != nil {
		return err
	}
	if standby {
		return errStandby
	}
	return nil
}
