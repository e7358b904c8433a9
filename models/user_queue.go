package models

import (
	"context"
	"database/sql"

	"github.com/uptrace/bun"
)

// UserQueue is the waiting jobs of one of an account's users.
type UserQueue struct {
	AccountID AccountID
	UserID    string
}

const countUserQueuesSQL = `
	SELECT found.n FROM unnest($1::uuid[], $2::text[], $3::integer[]) WITH ORDINALITY AS q (account_id, user_id, most, place)
	CROSS JOIN LATERAL (
		SELECT count(*) AS n FROM (
			SELECT FROM jobs j
			WHERE j.account_id = q.account_id AND j.user_id = q.user_id AND j.status IN ('SCHEDULED', 'BLOCKED', 'QUEUED')
			LIMIT q.most) first) found
	ORDER BY q.place`

// CountUserQueues counts, for each of these, up to most[i] jobs that wait. It
// reads the index of what waits, up to most of each user.
func CountUserQueues(ctx context.Context, db bun.IDB, of []UserQueue, most []int) ([]int, error) {
	counts := make([]int, 0, len(of))
	rows, err := prepared(ctx, db, countUserQueuesSQL,
		column(of, func(u UserQueue) *[16]byte { return uuidOf(u.AccountID) }), column(of, func(u UserQueue) string { return u.UserID }), most)
	err = scan(rows, err, func(rows *sql.Rows) error {
		var n int
		err := rows.Scan(&n)
		counts = append(counts, n)
		return err
	})
	return counts, err
}
