package models

import (
	"context"
	"time"

	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// LogChunk is a part of the output of an attempt's runtime that its worker sent while it ran.
type LogChunk struct {
	// Position is the number of bytes that were sent before.
	Position int64  `bun:"position"`
	Text     string `bun:"text"`
}

// AppendLog stores a part of the output of a live attempt, and removes those that end
// at least keep bytes before it, and those that begin after it: so an attempt has keep bytes and one part
// at most, whatever positions its worker sends. A part with the position of an earlier one replaces that one.
// AppendLog reports false if the attempt has ended, or if any part was stored within the pause.
//
// The lock keeps the attempt from ending at the same time, so that the deletion of its job, which
// must have ended, leaves no part behind.
func AppendLog(ctx context.Context, db bun.IDB, attempt AttemptID, part LogChunk, keep int, pause time.Duration) (bool, error) {
	n, err := postgres.Affected(db.NewRaw(`
		WITH live AS (
			SELECT a.id FROM job_attempts a
			WHERE a.id = ?0 AND a.ended_at IS NULL AND NOT EXISTS (
				SELECT FROM attempt_logs l WHERE l.attempt_id = a.id AND l.created_at > clock_timestamp() - make_interval(secs => ?4))
			FOR SHARE),
		old AS (
			DELETE FROM attempt_logs l USING live
			WHERE l.attempt_id = live.id AND (l.position + octet_length(l.text) <= ?1 - ?3 OR l.position > ?1))
		INSERT INTO attempt_logs (attempt_id, position, text)
		SELECT live.id, ?1, ?2 FROM live
		ON CONFLICT (attempt_id, position) DO UPDATE SET text = EXCLUDED.text, created_at = EXCLUDED.created_at
			WHERE attempt_logs.created_at <= clock_timestamp() - make_interval(secs => ?4)`,
		attempt, part.Position, part.Text, keep, pause.Seconds()).Exec(ctx))
	return n > 0, err
}

// ListLog returns what an attempt's worker has sent after a number of bytes, oldest first. The
// first part may begin before that number.
func ListLog(ctx context.Context, db bun.IDB, attempt AttemptID, after int64) (parts []LogChunk, err error) {
	err = db.NewRaw(`
		SELECT position, text FROM attempt_logs
		WHERE attempt_id = ? AND position + octet_length(text) > ?
		ORDER BY position`, attempt, after).Scan(ctx, &parts)
	return parts, err
}

// DeleteOldLogs deletes up to limit parts that are older than spare, if the attempt's log is
// stored, or older than age. It returns their number.
func DeleteOldLogs(ctx context.Context, tx bun.Tx, spare, age time.Duration, limit int) (int, error) {
	return postgres.Affected(tx.NewRaw(`
		DELETE FROM attempt_logs WHERE (attempt_id, position) IN (
			SELECT l.attempt_id, l.position FROM attempt_logs l JOIN job_attempts a ON a.id = l.attempt_id
			WHERE l.created_at < (SELECT clock_timestamp()) - make_interval(secs => ?0)
				AND (a.log_id IS NOT NULL OR l.created_at < (SELECT clock_timestamp()) - make_interval(secs => ?1))
			ORDER BY l.created_at LIMIT ?2 FOR UPDATE OF l SKIP LOCKED)`, spare.Seconds(), age.Seconds(), limit).Exec(ctx))
}
