package capacity

import (
	"context"
	"time"

	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// UseIdentity records that an identity token, by its hash, has registered a worker. It returns
// sql.ErrNoRows if the token was used before. It also deletes some hashes of expired tokens.
func UseIdentity(ctx context.Context, db bun.IDB, hash []byte, expires time.Time) error {
	err := postgres.MustChange(db.NewRaw("INSERT INTO used_identities (hash, expires_at) VALUES (?, ?) ON CONFLICT DO NOTHING", hash,
		expires).Exec(ctx))
	if err != nil {
		return err
	}
	_, err = db.NewRaw(`DELETE FROM used_identities WHERE hash IN (
		SELECT hash FROM used_identities WHERE expires_at < now() - interval '1 minute' ORDER BY expires_at LIMIT 20 FOR UPDATE SKIP LOCKED)`).Exec(ctx)
	return err
}
