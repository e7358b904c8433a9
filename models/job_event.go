package models

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/uptrace/bun"
)

// JobEventType is what happened to a job.
type JobEventType string

const (
	EventQueued          JobEventType = "QUEUED"
	EventScheduled       JobEventType = "SCHEDULED"
	EventBlocked         JobEventType = "BLOCKED"
	EventLeased          JobEventType = "LEASED"
	EventStarted         JobEventType = "STARTED"
	EventProgress        JobEventType = "PROGRESS"
	EventCheckpointed    JobEventType = "CHECKPOINTED"
	EventResumed         JobEventType = "RESUMED"
	EventCancelRequested JobEventType = "CANCEL_REQUESTED"
	EventReleased        JobEventType = "RELEASED"
	EventLost            JobEventType = "LOST"
	EventRequeued        JobEventType = "REQUEUED"
	EventRetryScheduled  JobEventType = "RETRY_SCHEDULED"
	EventCompleted       JobEventType = "COMPLETED"
	EventFailed          JobEventType = "FAILED"
	EventCancelled       JobEventType = "CANCELLED"
	EventDeadLettered    JobEventType = "DEAD_LETTERED"
	EventRedriven        JobEventType = "REDRIVEN"
)

// JobEvent is one entry of a job's history. Seq grows by one per job without a
// gap.
type JobEvent struct {
	bun.BaseModel `bun:"table:job_events,alias:e"`

	JobID     JobID           `bun:"job_id,pk"`
	Seq       int             `bun:"seq,pk"`
	Run       int             `bun:"run"`
	AttemptID AttemptID       `bun:"attempt_id"`
	Type      JobEventType    `bun:"type"`
	Payload   json.RawMessage `bun:"payload,type:jsonb"`
	CreatedAt time.Time       `bun:"created_at"`
}

// ListJobEvents returns a job's events after afterSeq, oldest first.
func ListJobEvents(ctx context.Context, db bun.IDB, job JobID, afterSeq, limit int) ([]*JobEvent, error) {
	var events []*JobEvent
	err := db.NewSelect().Model(&events).Where("e.job_id = ? AND e.seq > ?", job, afterSeq).
		Order("e.seq").Limit(int64(limit)).Scan(ctx)
	return events, err
}

// ListEventsOfJobs is ListJobEvents for many jobs: of each up to limit events.
func ListEventsOfJobs(ctx context.Context, db bun.IDB, jobs []JobID, afterSeq, limit int) ([]*JobEvent, error) {
	var events []*JobEvent
	err := db.NewRaw(`
		SELECT e.* FROM unnest(?::uuid[]) AS j (id)
		CROSS JOIN LATERAL (SELECT * FROM job_events WHERE job_id = j.id AND seq > ? ORDER BY seq LIMIT ?) e
		ORDER BY e.job_id, e.seq`, uuidArray(jobs), afterSeq, limit).Scan(ctx, &events)
	return events, err
}

// JobHead is how far a job's events are.
type JobHead struct {
	ID       JobID
	EventSeq int // of the newest event
	Status   JobStatus
}

// ListJobHeads returns how far the events of some jobs are, by job; of one that
// is not there nothing.
func ListJobHeads(ctx context.Context, db bun.IDB, jobs []JobID) (map[JobID]JobHead, error) {
	rows, err := prepared(ctx, db, "SELECT id, event_seq, status FROM jobs WHERE id = ANY ($1::uuid[])", column(jobs, uuidOf))
	heads := make(map[JobID]JobHead, len(jobs))
	err = scan(rows, err, func(rows *sql.Rows) error {
		var head JobHead
		err := rows.Scan(&head.ID, &head.EventSeq, &head.Status)
		heads[head.ID] = head
		return err
	})
	return heads, err
}

const listEventsAfterSQL = `
	SELECT %s FROM unnest($1::uuid[], $2::int[]) AS j (id, seq)
	CROSS JOIN LATERAL (SELECT * FROM job_events WHERE job_id = j.id AND seq > j.seq ORDER BY seq LIMIT $3) e
	ORDER BY e.job_id, e.seq`

// ListEventsAfter returns of each job up to limit events after its EventSeq,
// oldest first, by job.
func ListEventsAfter(ctx context.Context, db bun.IDB, from []JobHead, limit int) (map[JobID][]*JobEvent, error) {
	events, err := readRows[JobEvent](ctx, db, fmt.Sprintf(listEventsAfterSQL, columnsSQL(tableOf[JobEvent](db))),
		column(from, func(f JobHead) *[16]byte { return uuidOf(f.ID) }), column(from, func(f JobHead) int { return f.EventSeq }), limit)
	found := make(map[JobID][]*JobEvent, len(from))
	for _, e := range events {
		found[e.JobID] = append(found[e.JobID], e)
	}
	return found, err
}

// MakeEventPartitions makes the partitions of the months to come.
func MakeEventPartitions(ctx context.Context, db bun.IDB) error {
	_, err := db.NewRaw("SELECT make_job_event_partitions(3)").Exec(ctx)
	return err
}
