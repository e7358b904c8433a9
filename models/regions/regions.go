// Package regions has the rows that say which region is the primary, and what PostgreSQL says of its part in a replication.
package regions

import (
	"context"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Promotion made a region the primary. The one with the highest epoch is in force.
type Promotion struct {
	Epoch  int64     `bun:"epoch"`
	Region string    `bun:"region"`
	At     time.Time `bun:"at"`
	// Learned is true if another region told of it: this database was overtaken, and lacks what the other has.
	Learned bool `bun:"learned"`
	// By is who made it, such as root@db2; "" for the first one, and for one that was learned.
	By string `bun:"promoted_by"`
	// NewestAt is when the newest transaction was committed that came from the region before, and HeardAt when its PostgreSQL was last
	// heard; nil if that is not known, or if nothing was taken over.
	NewestAt *time.Time `bun:"newest_at"`
	HeardAt  *time.Time `bun:"heard_at"`
	// Installation is the id that all copies of the database share.
	Installation string `bun:"installation"`
}

// Takeover is what is recorded of a promotion, see [Promotion].
type Takeover struct {
	By                string
	NewestAt, HeardAt *time.Time
}

// Newest returns the promotion in force. Its epoch is 0 if there was none, also on a schema that does not know them yet.
func Newest(ctx context.Context, db bun.IDB) (p Promotion, err error) {
	err = db.NewRaw(`
		SELECT i.id::text AS installation, coalesce(p.epoch, 0) AS epoch, coalesce(p.region, '') AS region, coalesce(p.at, 'epoch') AS at,
			coalesce(p.learned, false) AS learned
		FROM installation i LEFT JOIN (SELECT * FROM region_promotions ORDER BY epoch DESC LIMIT 1) p ON true`).Scan(ctx, &p)
	if models.IsUndefinedTable(err) {
		return Promotion{}, nil
	}
	return p, err
}

// List returns the newest promotions, the newest first. There are none on a schema that does not know them yet.
func List(ctx context.Context, db bun.IDB, limit int) (all []Promotion, err error) {
	err = db.NewRaw("SELECT epoch, region, at, learned, promoted_by, newest_at, heard_at FROM region_promotions ORDER BY epoch DESC LIMIT ?", limit).Scan(ctx, &all)
	if models.IsUndefinedTable(err) {
		return nil, nil
	}
	return all, err
}

// Promote makes a region the primary, if the newest epoch is still after. It returns false if it is not.
func Promote(ctx context.Context, db *bun.DB, after int64, region string, t Takeover) (made bool, err error) {
	made, err = insert(ctx, db, `
		INSERT INTO region_promotions (epoch, region, promoted_by, newest_at, heard_at)
		SELECT ?0 + 1, ?1, ?2, ?3, ?4 WHERE coalesce((SELECT max(epoch) FROM region_promotions), 0) = ?0
		ON CONFLICT DO NOTHING`, after, region, t.By, t.NewestAt, t.HeardAt)
	if models.IsUndefinedTable(err) {
		return false, nil
	}
	return made, err
}

// Learn notes a promotion that another region told of.
func Learn(ctx context.Context, db *bun.DB, epoch int64, region string) error {
	_, err := insert(ctx, db, "INSERT INTO region_promotions (epoch, region, learned) VALUES (?, ?, true) ON CONFLICT DO NOTHING", epoch, region)
	return err
}

// insert writes a promotion, and returns false if there was one. It waits for no standby: the database may be a copy that
// names standbys which do not follow it.
func insert(ctx context.Context, db *bun.DB, statement string, args ...any) (made bool, err error) {
	err = db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewRaw("SET LOCAL synchronous_commit = local").Exec(ctx); err != nil {
			return err
		}
		done, err := tx.NewRaw(statement, args...).Exec(ctx)
		if err != nil {
			return err
		}
		rows, err := done.RowsAffected()
		made = rows == 1
		return err
	})
	return made, err
}

// Server is PostgreSQL's part in a replication.
type Server struct {
	// Now is its clock.
	Now time.Time `bun:"now"`
	// Standby is true if it follows another server, so that nothing can be written to it.
	Standby bool `bun:"standby"`
	// LastCommit is when the newest transaction that it replayed was committed; nil if it has replayed none since its start.
	LastCommit *time.Time `bun:"last_commit"`
	// HeardAt is when the primary was last heard, by the clock of a standby; nil if the role may not see it.
	HeardAt *time.Time `bun:"heard_at"`
	// Unapplied is how many bytes of WAL it has received and not replayed yet.
	Unapplied int64 `bun:"unapplied"`
	// Receiving is true while the primary sends to it.
	Receiving bool `bun:"receiving"`
	// Paused is true if an administrator has paused the replay.
	Paused bool `bun:"paused"`
	// MayPromote is true if the role may call pg_promote.
	MayPromote bool `bun:"may_promote"`
	// MayList is true if it is a standby, and the role may list the files of its log: pg_monitor may.
	MayList bool `bun:"may_list"`
	// Standbys are those that follow it.
	Standbys []Standby `bun:"standbys,type:jsonb"`
	// Synchronous is synchronous_standby_names.
	Synchronous string `bun:"synchronous"`
	// CommitsWait is false if the role's commits wait for no standby whatever Synchronous is: synchronous_commit is off or local.
	CommitsWait bool `bun:"commits_wait"`
	// Database and Role are those of the connection, the role as it is written in SQL.
	Database string `bun:"database"`
	Role     string `bun:"role"`
}

// Standby is a server that follows another one.
type Standby struct {
	// Name is its application_name.
	Name string `json:"name"`
	// State is sync or quorum if commits wait for it, potential if they may, and async if they do not; "" if the role may not see
	// it, and then the others are unknown, too.
	State string `json:"state"`
	// LagSeconds is by how much its replay was late when it reported last; nil if nothing was written since.
	LagSeconds *float64 `json:"lagSeconds"`
	// BehindBytes is how much of the log it has not replayed yet.
	BehindBytes *int64 `json:"behindBytes"`
}

// ReadServer reads what PostgreSQL says of itself.
func ReadServer(ctx context.Context, db bun.IDB) (s Server, err error) {
	err = db.NewRaw(`
		SELECT clock_timestamp() AS now, standby, pg_last_xact_replay_timestamp() AS last_commit,
			coalesce(CASE WHEN standby THEN greatest(pg_wal_lsn_diff(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()), 0) END, 0)::bigint
				AS unapplied,
			EXISTS (SELECT FROM pg_stat_wal_receiver) AS receiving, CASE WHEN standby THEN pg_is_wal_replay_paused() ELSE false END AS paused,
			has_function_privilege('pg_promote(boolean, integer)', 'EXECUTE') AS may_promote,
			(SELECT coalesce(jsonb_agg(jsonb_build_object('name', application_name, 'state', coalesce(sync_state, ''),
				'lagSeconds', extract(epoch FROM replay_lag),
				'behindBytes', CASE WHEN NOT standby THEN greatest(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn), 0)::bigint END)
				ORDER BY application_name, pid), '[]') FROM pg_stat_replication) AS standbys,
			current_setting('synchronous_standby_names') AS synchronous,
			current_setting('synchronous_commit') NOT IN ('off', 'local') AS commits_wait,
			(SELECT last_msg_receipt_time FROM pg_stat_wal_receiver WHERE status = 'streaming') AS heard_at,
			CASE WHEN standby THEN has_function_privilege('pg_ls_waldir()', 'EXECUTE') ELSE false END AS may_list,
			current_database() AS database, quote_ident(current_user) AS role
		FROM (SELECT pg_is_in_recovery() AS standby) r`).Scan(ctx, &s)
	if err != nil || s.HeardAt != nil || !s.MayList {
		return s, err
	}
	return s, db.NewRaw(heardSQL).Scan(ctx, &s.HeardAt)
}

// heardSQL is when a standby last got a part of the log. PostgreSQL forgets when it heard the primary as soon as the connection is
// gone. But the file of the log in which the received ends was last written then: those after it may have been made since.
const heardSQL = `
	SELECT max(modification) FROM pg_ls_waldir(), (
		SELECT (greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0'::pg_lsn)::bigint - 1 AS at,
			pg_size_bytes(current_setting('wal_segment_size')) AS segment) ends
	WHERE length(name) = 24
		AND substr(name, 9) = lpad(upper(to_hex(at / segment / (4294967296 / segment))), 8, '0') || lpad(upper(to_hex(at / segment % (4294967296 / segment))), 8, '0')`

// EndRecovery makes a standby a server that can be written to, and waits for that. It returns false if that took longer
// than a minute.
func EndRecovery(ctx context.Context, db bun.IDB) (done bool, err error) {
	err = db.NewRaw("SELECT pg_promote(true, 60)").Scan(ctx, &done)
	return done, err
}
