package postgres_test

import (
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// thing is a row of a table that the tests make.
type thing struct {
	bun.BaseModel `bun:"table:things,alias:th"`

	ID    int      `bun:"id"`
	Names []string `bun:"names,array"`
}

func TestRead(t *testing.T) {
	t.Parallel()

	db, done, err := postgres.Open(t.Context(), modelstest.DSN(t), 1)
	require.NoError(t, err)
	t.Cleanup(done)
	_, err = db.ExecContext(t.Context(), "CREATE TABLE things AS SELECT 1 AS id, ARRAY['a', 'b'] AS names")
	require.NoError(t, err)
	query := postgres.SelectOf[thing]("WHERE th.id = @id")

	found, err := postgres.ReadRow[thing](t.Context(), db, query, pgx.NamedArgs{"id": 1})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, found.Names)

	_, err = postgres.ReadRow[thing](t.Context(), db, query, pgx.NamedArgs{"id": 2})
	require.ErrorIs(t, err, sql.ErrNoRows)

	_, err = postgres.ReadRow[thing](t.Context(), db, query+" AND th.id <> @other", pgx.NamedArgs{"id": 1})
	require.ErrorContains(t, err, "argument 2 of a statement is missing")

	// A migration adds a column while the statement is prepared.
	_, err = db.ExecContext(t.Context(), "ALTER TABLE things ADD COLUMN size integer")
	require.NoError(t, err)
	found, err = postgres.ReadRow[thing](t.Context(), db, query, pgx.NamedArgs{"id": 1})
	require.NoError(t, err)
	require.Equal(t, 1, found.ID)
}
