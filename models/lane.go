package models

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"time"

	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Line is one of a lane's two queues of accounts: for jobs of the lane's own tier, and for
// promoted jobs.
type Line struct {
	Lane     Tier `bun:"lane" json:"lane"`
	Promoted bool `bun:"promoted" json:"promoted"`
}

// Place is an account's position in a line.
type Place struct {
	Line
	VirtualTime float64 `bun:"virtual_time"`
}

// EnterLane adds n queued jobs of the account to a line, and returns the account's virtual
// time there. An account without queued jobs there starts at the lane's virtual time: the
// least of its active accounts, or else the greatest that was ever reached.
func EnterLane(ctx context.Context, tx bun.Tx, id AccountID, line Line, n int) (float64, error) {
	var virtualTime float64
	err := tx.NewRaw(`
		INSERT INTO account_lanes AS l (account_id, lane, promoted, queued, virtual_time, capped)
		VALUES (?0, ?1, ?2, ?3, lane_time(?1, ?2), (SELECT running >= max_running FROM accounts WHERE id = ?0))
		ON CONFLICT (account_id, lane, promoted) DO UPDATE SET
			queued = l.queued + ?3,
			virtual_time = CASE WHEN l.queued > 0 THEN l.virtual_time
				ELSE greatest(l.virtual_time, excluded.virtual_time) END
		RETURNING virtual_time`, id, line.Lane, line.Promoted, n).Scan(ctx, &virtualTime)
	return virtualTime, err
}

// FlowState is an account with its places in the lines, as the ready index mirrors them.
type FlowState struct {
	AccountID AccountID
	Version   int64
	// Capped accounts are removed from all lines, although their jobs wait.
	Capped bool
	Places []Place
}

// ListFlowStates returns the standings of accounts that have queued jobs: of the given
// accounts, or of all if ids is nil.
func ListFlowStates(ctx context.Context, db bun.IDB, ids []AccountID) ([]FlowState, error) {
	var rows []struct {
		AccountID AccountID `bun:"account_id"`
		Version   int64     `bun:"version"`
		Capped    bool      `bun:"capped"`
		Place
	}
	q := db.NewSelect().ColumnExpr("l.account_id, a.version, l.capped, l.lane, l.promoted, l.virtual_time").
		TableExpr("account_lanes AS l").Join("JOIN accounts AS a ON a.id = l.account_id").
		Where("l.queued > 0").Order("l.account_id")
	if ids != nil {
		q = q.Where("l.account_id IN (?)", bun.List(ids))
	}
	err := q.Scan(ctx, &rows)
	var found []FlowState
	for _, row := range rows {
		if len(found) == 0 || found[len(found)-1].AccountID != row.AccountID {
			found = append(found, FlowState{AccountID: row.AccountID, Version: row.Version, Capped: row.Capped})
		}
		last := &found[len(found)-1]
		last.Places = append(last.Places, row.Place)
	}
	return found, err
}

// PromotedEvery is the number of starts in a lane of which one goes to a promoted job while
// both kinds wait. The allowed shares are at most 10 % and at least 5 %.
const PromotedEvery = 10

// LaneState is the state that decides how a lane's queues are read.
type LaneState struct {
	Lane Tier `bun:"lane"`
	// SincePromoted counts the starts of the lane's own jobs since its last promoted one, up
	// to PromotedEvery - 1.
	SincePromoted int `bun:"since_promoted"`
	// Paused is also set while all leases are halted.
	Paused bool `bun:"paused"`
	// PausedModels are the models that are paused separately.
	PausedModels []string `bun:"paused_models,array"`
	// Needs are those of its queued jobs, without "".
	Needs []Needs `bun:"needs,array"`
	// ClosedUntil is when a queue of the lane was closed last, a time to come if one is, and zero
	// if none was. Jobs that were queued later have waited all the time.
	ClosedUntil time.Time `bun:"closed_until,nullzero"`
}

// ReadLanes returns the state of all lanes, in no particular order. It walks the index
// jobs_needs from one need of a lane to the next.
func ReadLanes(ctx context.Context, db bun.IDB) (states []LaneState, err error) {
	err = postgres.Read(ctx, db, `
		SELECT l.lane, l.since_promoted, coalesce(bool_or(p.model = ''), false) AS paused,
			coalesce(array_agg(p.model) FILTER (WHERE p.model <> ''), '{}') AS paused_models,
			ARRAY(
				WITH RECURSIVE found AS (
					SELECT '' AS needs
					UNION ALL
					SELECT (
						SELECT j.needs FROM jobs j WHERE j.status = 'QUEUED' AND j.needs <> '' AND j.lane = l.lane AND j.needs > found.needs
						ORDER BY j.needs LIMIT 1)
					FROM found WHERE found.needs IS NOT NULL)
				SELECT needs FROM found WHERE needs <> '') AS needs,
			(SELECT CASE WHEN max(ended_at) > clock_timestamp() THEN clock_timestamp() + interval '1 day' ELSE max(ended_at) END
				FROM queue_closures c WHERE c.lane = l.lane) AS closed_until
		FROM lanes l LEFT JOIN closed_queues p ON p.lane = l.lane
		GROUP BY l.lane`, nil, &states)
	return states, err
}

// ClosedQueue is a queue whose jobs do not start: an operator paused it, or halted all leases.
type ClosedQueue struct {
	Lane Tier `bun:"lane"`
	// Model is "" for all models of the lane.
	Model string `bun:"model"`
	// Halted means that it is closed by a halt of all leases.
	Halted bool `bun:"halted"`
}

// ListClosedQueues returns the queues whose jobs do not start, in no particular order.
func ListClosedQueues(ctx context.Context, db bun.IDB) (closed []ClosedQueue, err error) {
	err = db.NewRaw("SELECT lane, model, halted FROM closed_queues").Scan(ctx, &closed)
	return closed, err
}

// ErrTurn means that the lane's turn changed after it was read.
var ErrTurn = errors.New("it is another job's turn now")

// Starts counts the jobs of a line that start. Turn is the lane's turn as it was read before
// the jobs were chosen.
type Starts struct {
	Line
	Jobs int
	Turn bool
}

// Counted reports whether the starts change the lane's turn count. A lane where a promoted job
// is next, but none starts, is not written.
func (s Starts) Counted() bool { return s.Jobs > 0 && (s.Promoted || !s.Turn) }

// QueuePause is the last pause or resumption of a queue.
type QueuePause struct {
	bun.BaseModel `bun:"table:queue_pauses,alias:qp"`

	Lane Tier `bun:"lane,pk"`
	// Model is "" for all models of the lane.
	Model     string    `bun:"model,pk"`
	Paused    bool      `bun:"paused"`
	ChangedBy string    `bun:"changed_by"`
	ChangedAt time.Time `bun:"changed_at,nullzero,default:clock_timestamp()"`
	Reason    string    `bun:"reason,nullzero"`
}

// SetQueuePause pauses or resumes a queue. If the queue already is in that state, the row
// keeps who changed it, when and why.
func SetQueuePause(ctx context.Context, db bun.IDB, p *QueuePause) error {
	_, err := db.NewInsert().Model(p).
		On("CONFLICT (lane, model) DO UPDATE").
		Set("paused = excluded.paused, changed_by = excluded.changed_by, changed_at = excluded.changed_at, reason = excluded.reason").
		Where("qp.paused <> excluded.paused").
		Exec(ctx)
	return err
}

// Pause says why workers get no jobs of a queue.
type Pause struct {
	Lane Tier `bun:"lane" json:"lane"`
	// Model is "" if the whole lane is paused.
	Model string `bun:"model" json:"model"`
	// By is the name of the key that paused it.
	By     string    `bun:"by" json:"by"`
	At     time.Time `bun:"at" json:"at"`
	Reason string    `bun:"reason" json:"reason"`
}

// PausesSQL selects rows of Pause. A changed_by that is not the id of a key is shown
// unchanged.
const PausesSQL = `
	SELECT p.lane, p.model, coalesce(k.name, p.changed_by) AS by, p.changed_at AS at, coalesce(p.reason, '') AS reason
	FROM queue_pauses p LEFT JOIN api_keys k ON 'key_' || k.id = p.changed_by
	WHERE p.paused`

// ListPauses returns the paused queues in the order of the lanes. The pause of a whole lane
// comes before those of its models.
func ListPauses(ctx context.Context, db bun.IDB) ([]Pause, error) {
	var pauses []Pause
	err := db.NewRaw(PausesSQL+" ORDER BY array_position(?::text[], p.lane), p.model", postgres.TextArray(Tiers)).Scan(ctx, &pauses)
	return pauses, err
}

// Tier is the service class that a customer buys. A lane is the queue of one tier.
type Tier string

// The tiers, highest first.
const (
	TierCritical   Tier = "CRITICAL"
	TierEnterprise Tier = "ENTERPRISE"
	TierPro        Tier = "PRO"
	TierFree       Tier = "FREE"
	TierBatch      Tier = "BATCH"
)

// Tiers lists all tiers, highest first. This is the strict order of the lanes.
var Tiers = []Tier{TierCritical, TierEnterprise, TierPro, TierFree, TierBatch}

// Above reports whether t is a higher tier than u.
func (t Tier) Above(u Tier) bool { return slices.Index(Tiers, t) < slices.Index(Tiers, u) }

// Queue is the unit that a worker reads or skips as a whole: the queued jobs of one line,
// model and GPU class that require the same region, or none, and have the same needs.
type Queue struct {
	Line
	Model   string `bun:"model" json:"model"`
	GPURank int    `bun:"gpu_rank" json:"gpu_rank"`
	// Region is the region that its jobs must run in, or "".
	Region string `bun:"region" json:"region"`
	Needs  Needs  `bun:"needs" json:"needs"`
}

// Queue returns the queue that the job is in while it is queued.
func (j *Job) Queue() Queue {
	q := Queue{Line: j.Line(), Model: j.Model, GPURank: j.GPURank, Needs: j.Needs}
	if j.RequireRegion {
		q.Region = j.Region
	}
	return q
}

// Line returns the job's line. A job that was redriven to CRITICAL counts as one of the lane's
// own.
func (j *Job) Line() Line {
	return Line{Lane: j.Lane, Promoted: j.Lane != j.Tier && j.Lane != TierCritical}
}
