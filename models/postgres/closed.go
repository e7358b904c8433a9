package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// IsClosedAccount reports whether a row was refused because its account is being deleted: see refuse_closed in the
// migrations.
func IsClosedAccount(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "RL001"
}
