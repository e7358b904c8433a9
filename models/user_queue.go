package models

import (
	"context"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

// UserQueue is the waiting jobs of one of an account's users.
type UserQueue struct {
	AccountID AccountID
	UserID    string
}

// CountUserQueues counts the waiting jobs of each of these, up to most[i]. It reads at most
// that many entries of the index of waiting jobs.
func CountUserQueues(ctx context.Context, db bun.IDB, of []UserQueue, most []int) ([]int, error) {
	var counts []int
	err := db.NewRaw(`
		SELECT found.n FROM unnest(?::uuid[], ?::text[], ?::integer[]) WITH ORDINALITY AS q (account_id, user_id, most, place)
		CROSS JOIN LATERAL (
			SELECT count(*) AS n FROM (
				SELECT FROM jobs j
				WHERE j.account_id = q.account_id AND j.user_id = q.user_id AND j.status IN ('SCHEDULED', 'BLOCKED', 'QUEUED')
				LIMIT q.most) first) found
		ORDER BY q.place`,
		uuidArray(column(of, func(u UserQueue) AccountID { return u.AccountID })),
		textArray(column(of, func(u UserQueue) string { return u.UserID })), pgdialect.Array(most)).Scan(ctx, &counts)
	return counts, err
}
