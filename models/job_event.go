package models

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// JobEventType is the kind of an event.
type JobEventType string

const (
	EventQueued          JobEventType = "QUEUED"
	EventScheduled       JobEventType = "SCHEDULED"
	EventBlocked         JobEventType = "BLOCKED"
	EventLeased          JobEventType = "LEASED"
	EventStarted         JobEventType = "STARTED"
	EventProgress        JobEventType = "PROGRESS"
	EventCheckpointed    JobEventType = "CHECKPOINTED"
	EventLoaded          JobEventType = "LOADED"
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
	// EventModelChanged says that another model renders the job from now on.
	EventModelChanged JobEventType = "MODEL_CHANGED"
	// EventApprovalRequested says that an approval waits for an answer.
	EventApprovalRequested JobEventType = "APPROVAL_REQUESTED"
)

// JobEvent is one entry of a job's history. Seq grows by one per event of a job, without gaps.
type JobEvent struct {
	bun.BaseModel `bun:"table:job_events,alias:e"`

	JobID     JobID           `bun:"job_id,pk" json:"job_id"`
	Seq       int             `bun:"seq,pk" json:"seq"`
	Run       int             `bun:"run" json:"run"`
	AttemptID AttemptID       `bun:"attempt_id" json:"attempt_id"`
	Type      JobEventType    `bun:"type" json:"type"`
	Payload   json.RawMessage `bun:"payload,type:jsonb" json:"payload"`
	CreatedAt time.Time       `bun:"created_at" json:"created_at"`
}

// ListJobEvents returns a job's events after afterSeq, oldest first.
func ListJobEvents(ctx context.Context, db bun.IDB, job JobID, afterSeq, limit int) ([]*JobEvent, error) {
	var events []*JobEvent
	err := db.NewSelect().Model(&events).Where("e.job_id = ? AND e.seq > ?", job, afterSeq).
		Order("e.seq").Limit(int64(limit)).Scan(ctx)
	return events, err
}

// HasEvent reports whether an attempt at a job has an event of a type.
func HasEvent(ctx context.Context, db bun.IDB, job JobID, attempt AttemptID, t JobEventType) (bool, error) {
	return db.NewSelect().Model((*JobEvent)(nil)).
		Where("e.job_id = ? AND e.attempt_id = ? AND e.type = ?", job, attempt, t).Exists(ctx)
}

// ListEventsOfJobs is ListJobEvents for many jobs, with up to limit events of each.
func ListEventsOfJobs(ctx context.Context, db bun.IDB, jobs []JobID, afterSeq, limit int) ([]*JobEvent, error) {
	var events []*JobEvent
	err := db.NewRaw(`
		SELECT e.* FROM unnest(?::uuid[]) AS j (id)
		CROSS JOIN LATERAL (SELECT * FROM job_events WHERE job_id = j.id AND seq > ? ORDER BY seq LIMIT ?) e
		ORDER BY e.job_id, e.seq`, postgres.UUIDArray(jobs), afterSeq, limit).Scan(ctx, &events)
	return events, err
}

// JobHead is the position of a job's newest event.
type JobHead struct {
	ID       JobID     `bun:"id"`
	EventSeq int       `bun:"event_seq"` // of the newest event
	Status   JobStatus `bun:"status"`
}

// ListJobHeads returns the newest positions of jobs by job. Unknown ids are left out.
func ListJobHeads(ctx context.Context, db bun.IDB, jobs []JobID) (map[JobID]JobHead, error) {
	var heads []JobHead
	err := postgres.Read(ctx, db, `
		SELECT j.* FROM unnest((SELECT @jobs::uuid[])) AS asked (id)
		CROSS JOIN LATERAL (SELECT id, event_seq, status FROM jobs WHERE id = asked.id LIMIT 1) j`,
		pgx.NamedArgs{"jobs": postgres.Column(jobs, postgres.UUID)}, &heads)
	return lo.KeyBy(heads, func(h JobHead) JobID { return h.ID }), err
}

// ListEventsAfter returns, by job, up to limit events of each job after its EventSeq, oldest
// first.
func ListEventsAfter(ctx context.Context, db bun.IDB, from []JobHead, limit int) (map[JobID][]*JobEvent, error) {
	var events []*JobEvent
	err := postgres.Read(ctx, db, `
		SELECT e.* FROM unnest((SELECT @jobs::uuid[]), (SELECT @seqs::integer[])) AS j (id, seq)
		CROSS JOIN LATERAL (
			SELECT job_id, seq, run, attempt_id, type, payload, created_at
			FROM job_events WHERE job_id = j.id AND seq > j.seq ORDER BY seq LIMIT @most) e
		ORDER BY e.job_id, e.seq`,
		pgx.NamedArgs{
			"jobs": postgres.Column(from, func(f JobHead) *[16]byte { return postgres.UUID(f.ID) }),
			"seqs": postgres.Column(from, func(f JobHead) int { return f.EventSeq }), "most": limit,
		}, &events)
	found := make(map[JobID][]*JobEvent, len(from))
	for _, e := range events {
		found[e.JobID] = append(found[e.JobID], e)
	}
	return found, err
}

// MakeEventPartitions creates the partitions of the coming months.
func MakeEventPartitions(ctx context.Context, db bun.IDB) error {
	_, err := db.NewRaw("SELECT make_job_event_partitions(3)").Exec(ctx)
	return err
}
