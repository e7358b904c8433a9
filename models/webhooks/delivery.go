package webhooks

import (
	"context"
	"encoding/json"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// EventTest is the type of the event that tests an endpoint.
const EventTest = "webhook.test"

// EventApproval is the type of the event that a node of a workflow waits for an answer.
const EventApproval = "workflow.approval_requested"

// EventBudget is the type of the event that a part of a budget was reached.
const EventBudget = "budget.reached"

// Event is the end of a run of a job or a workflow, with its row as it stood then, or a
// test or a budget, which have neither.
type Event struct {
	bun.BaseModel `bun:"table:webhook_events,alias:wv"`

	ID         models.WebhookEventID `bun:"id,pk"`
	AccountID  models.AccountID      `bun:"account_id"`
	JobID      models.JobID          `bun:"job_id,nullzero"`
	WorkflowID models.WorkflowID     `bun:"workflow_id,nullzero"`
	// ApprovalID is the job of the node that waits for an answer, if the event is that.
	ApprovalID models.JobID `bun:"approval_id,nullzero"`
	Run        int          `bun:"run"`
	Type       string       `bun:"type"`
	// Budget is the data of the event that a part of a budget was reached.
	Budget    json.RawMessage `bun:"budget,type:jsonb,nullzero"`
	CreatedAt time.Time       `bun:"created_at"`
}

// DeliveryState is the state of a delivery.
type DeliveryState string

const (
	DeliveryPending   DeliveryState = "PENDING"
	DeliveryDelivered DeliveryState = "DELIVERED"
	DeliveryGivenUp   DeliveryState = "GIVEN_UP"
)

// Delivery is an event on its way to one endpoint.
type Delivery struct {
	bun.BaseModel `bun:"table:webhook_deliveries,alias:wd"`

	ID         models.WebhookDeliveryID `bun:"id,pk"`
	EventID    models.WebhookEventID    `bun:"event_id"`
	EndpointID models.WebhookEndpointID `bun:"endpoint_id"`
	AccountID  models.AccountID         `bun:"account_id"`
	// JobID is, for a test or a workflow, an id that no job has.
	JobID models.JobID `bun:"job_id"`
	Run   int          `bun:"run"`
	// Event is the event's name in the receiver's format.
	Event string        `bun:"event"`
	URL   string        `bun:"url"`
	State DeliveryState `bun:"state"`
	// Once is set if a person sent it, or sent it again: there is one try.
	Once           bool      `bun:"once"`
	Tries          int       `bun:"tries"`
	NextAttemptAt  time.Time `bun:"next_attempt_at,nullzero"`
	ClaimedUntil   time.Time `bun:"claimed_until,nullzero"`
	FirstTryAt     time.Time `bun:"first_try_at,nullzero"`
	LastStatusCode *int      `bun:"last_status_code"`
	LastError      string    `bun:"last_error,nullzero"`
	CreatedAt      time.Time `bun:"created_at,nullzero,default:clock_timestamp()"`
	DeliveredAt    time.Time `bun:"delivered_at,nullzero"`
}

// Delivered reports whether the endpoint has accepted the event.
func (d *Delivery) Delivered() bool { return !d.DeliveredAt.IsZero() }

// Try is one try of a delivery.
type Try struct {
	bun.BaseModel `bun:"table:webhook_tries,alias:wt"`

	DeliveryID models.WebhookDeliveryID `bun:"delivery_id,pk"`
	TryNo      int                      `bun:"try_no,pk"`
	At         time.Time                `bun:"at"`
	// StatusCode is the status of the response, or nil if there was none.
	StatusCode *int   `bun:"status_code"`
	Error      string `bun:"error,nullzero"`
	DurationMS int    `bun:"duration_ms"`
}

// InsertEvents writes events, each with its job's or workflow's row as it is now. Events of
// jobs and of workflows do not mix.
func InsertEvents(ctx context.Context, tx bun.Tx, events []*Event) error {
	if _, err := tx.NewInsert().Model(&events).Exec(ctx); err != nil {
		return err
	}
	ids := make([]models.WebhookEventID, len(events))
	for i, e := range events {
		ids[i] = e.ID
	}
	// The copy omits the digest, from which the prompt could be guessed.
	_, err := tx.NewRaw(`
		UPDATE webhook_events wv SET job = to_jsonb(j) - 'request_digest' FROM jobs j
		WHERE wv.id = ANY (?::uuid[]) AND j.id = wv.job_id`, postgres.UUIDArray(ids)).Exec(ctx)
	if err != nil || events[0].WorkflowID == "" {
		return err
	}
	_, err = tx.NewRaw(`
		UPDATE webhook_events wv SET job = to_jsonb(w) - 'request_digest' FROM workflows w
		WHERE wv.id = ANY (?::uuid[]) AND w.id = wv.workflow_id`, postgres.UUIDArray(ids)).Exec(ctx)
	return err
}

// InsertDeliveries writes deliveries that are due immediately.
func InsertDeliveries(ctx context.Context, tx bun.Tx, deliveries []*Delivery) error {
	_, err := tx.NewInsert().Model(&deliveries).
		Column("id", "event_id", "endpoint_id", "account_id", "job_id", "run", "event", "url", "once").Exec(ctx)
	return err
}

// HasPendingTest reports whether a test of an endpoint is still pending.
func HasPendingTest(ctx context.Context, db bun.IDB, endpoint models.WebhookEndpointID) (bool, error) {
	return db.NewSelect().Model((*Delivery)(nil)).
		Where("wd.endpoint_id = ? AND wd.state = 'PENDING' AND wd.event = ?", endpoint, EventTest).Exists(ctx)
}

// ClaimedDelivery is a delivery that the caller has claimed for a try.
type ClaimedDelivery struct {
	Delivery `bun:",extend"`
	// Now is the time of the claim.
	Now time.Time `bun:"now"`
}

// Bounds limits how many tries can be in progress at once.
type Bounds struct {
	// PerEndpoint is the limit for an endpoint that works, PerAccount for all endpoints of an
	// account.
	PerEndpoint, PerAccount int
	// Failing is the limit for an endpoint whose last try failed.
	Failing int
}

// ClaimDeliveries claims due deliveries for ttl. After ttl other callers can claim them. The
// first delivery of each account comes before the second of any. A delivery waits while one of
// an earlier run of its job to the same endpoint is pending.
//
// A loose scan of the index of pending deliveries finds the endpoints: it jumps from one to
// the next, so that the backlog of a slow endpoint costs nothing.
func ClaimDeliveries(ctx context.Context, db bun.IDB, b Bounds, limit int, ttl time.Duration) ([]*ClaimedDelivery, error) {
	var claimed []*ClaimedDelivery
	err := db.NewRaw(`
		WITH RECURSIVE pending AS (
			(SELECT endpoint_id FROM webhook_deliveries WHERE state = 'PENDING' ORDER BY endpoint_id LIMIT 1)
			UNION ALL
			SELECT (SELECT d.endpoint_id FROM webhook_deliveries d
				WHERE d.state = 'PENDING' AND d.endpoint_id > p.endpoint_id ORDER BY d.endpoint_id LIMIT 1)
			FROM pending p WHERE p.endpoint_id IS NOT NULL),
		busy AS MATERIALIZED (
			SELECT endpoint_id, account_id FROM webhook_deliveries WHERE claimed_until > (SELECT clock_timestamp())),
		endpoints AS (
			SELECT e.id, e.account_id,
				CASE WHEN e.failing_since IS NULL THEN ?0 ELSE ?1 END - (SELECT count(*) FROM busy b WHERE b.endpoint_id = e.id) AS free
			FROM pending p JOIN webhook_endpoints e ON e.id = p.endpoint_id),
		due AS (
			SELECT d.id, row_number() OVER (PARTITION BY e.account_id ORDER BY d.next_attempt_at, d.id)
				+ (SELECT count(*) FROM busy b WHERE b.account_id = e.account_id) AS turn
			FROM endpoints e
			CROSS JOIN LATERAL (
				SELECT d.id, d.next_attempt_at FROM webhook_deliveries d
				WHERE d.state = 'PENDING' AND d.endpoint_id = e.id AND d.next_attempt_at <= (SELECT clock_timestamp())
					AND NOT EXISTS (
						SELECT FROM webhook_deliveries o
						WHERE o.job_id = d.job_id AND o.endpoint_id = d.endpoint_id AND o.run < d.run AND o.state = 'PENDING')
				ORDER BY d.next_attempt_at, d.id LIMIT greatest(e.free, 0)) d),
		mine AS (
			SELECT d.id FROM due JOIN webhook_deliveries d ON d.id = due.id
			WHERE due.turn <= ?2 AND d.state = 'PENDING' AND d.next_attempt_at <= (SELECT clock_timestamp())
			ORDER BY due.turn, d.next_attempt_at LIMIT ?3 FOR UPDATE OF d SKIP LOCKED)
		UPDATE webhook_deliveries d SET
			claimed_until = clock_timestamp() + make_interval(secs => ?4), next_attempt_at = clock_timestamp() + make_interval(secs => ?4)
		FROM mine WHERE d.id = mine.id
		RETURNING d.*, clock_timestamp() AS now`, b.PerEndpoint, b.Failing, b.PerAccount, limit, ttl.Seconds()).Scan(ctx, &claimed)
	return claimed, err
}

// ExtendClaim lengthens a claim that has not changed to ttl from now, and returns its end. It returns
// sql.ErrNoRows if the claim is another's by now.
func ExtendClaim(ctx context.Context, db bun.IDB, id models.WebhookDeliveryID, claim time.Time, ttl time.Duration) (end time.Time,
	err error) {
	err = db.NewRaw(`
		UPDATE webhook_deliveries SET
			claimed_until = clock_timestamp() + make_interval(secs => ?2), next_attempt_at = clock_timestamp() + make_interval(secs => ?2)
		WHERE id = ?0 AND state = 'PENDING' AND claimed_until = ?1 RETURNING claimed_until`, id, claim, ttl.Seconds()).Scan(ctx, &end)
	return end, err
}

// GetEventWorkflow returns the workflow of an event as it stood when the event was written, or
// sql.ErrNoRows.
func GetEventWorkflow(ctx context.Context, db bun.IDB, id models.WebhookEventID) (*models.Workflow, error) {
	w := new(models.Workflow)
	return w, db.NewRaw("SELECT w.* FROM webhook_events wv, jsonb_populate_record(NULL::workflows, wv.job) w WHERE wv.id = ? AND wv.job IS NOT NULL", id).
		Scan(ctx, w)
}

// GetEventJob returns an event and its job's row as it stood when the event was written. The
// job of a test or a workflow is nil. It returns sql.ErrNoRows if the event or the stored job was deleted.
func GetEventJob(ctx context.Context, db bun.IDB, id models.WebhookEventID) (*Event, *models.Job, error) {
	event, job := new(Event), new(models.Job)
	if err := db.NewSelect().Model(event).Where("wv.id = ?", id).Scan(ctx); err != nil {
		return nil, nil, err
	}
	if event.JobID == "" {
		return event, nil, nil
	}
	err := db.NewRaw("SELECT j.* FROM webhook_events wv, jsonb_populate_record(NULL::jobs, wv.job) j WHERE wv.id = ? AND wv.job IS NOT NULL",
		id).
		Scan(ctx, job)
	return event, job, err
}

// GetDelivery returns a delivery, or sql.ErrNoRows.
func GetDelivery(ctx context.Context, db bun.IDB, id models.WebhookDeliveryID) (*Delivery, error) {
	d := new(Delivery)
	err := db.NewSelect().Model(d).Where("wd.id = ?", id).Scan(ctx)
	return d, err
}

// LockDelivery is GetDelivery, and locks the row until the transaction ends.
func LockDelivery(ctx context.Context, tx bun.Tx, id models.WebhookDeliveryID) (*Delivery, error) {
	d := new(Delivery)
	err := tx.NewSelect().Model(d).Where("wd.id = ?", id).For("NO KEY UPDATE").Scan(ctx)
	return d, err
}

// InsertTry writes a try.
func InsertTry(ctx context.Context, tx bun.Tx, try *Try) error {
	_, err := tx.NewInsert().Model(try).Exec(ctx)
	return err
}

// UpdateDelivery writes the state of a locked delivery. A pending one is due after
// wait.
func UpdateDelivery(ctx context.Context, tx bun.Tx, d *Delivery, wait time.Duration) error {
	return tx.NewRaw(`
		UPDATE webhook_deliveries SET state = ?1, once = ?2, tries = ?3, claimed_until = ?4,
			next_attempt_at = CASE WHEN ?1 = 'PENDING' THEN coalesce(?4, clock_timestamp() + make_interval(secs => ?5)) END,
			first_try_at = ?6, last_status_code = ?7, last_error = ?8, delivered_at = ?9
		WHERE id = ?0 RETURNING *`,
		d.ID, d.State, d.Once, d.Tries, postgres.NullTime(d.ClaimedUntil), wait.Seconds(), postgres.NullTime(d.FirstTryAt),
		d.LastStatusCode, postgres.Nullable(d.LastError), postgres.NullTime(d.DeliveredAt)).Scan(ctx, d)
}

// GiveUpDeliveries ends up to limit pending deliveries of an endpoint that nobody has claimed,
// and returns their number. A delivery that succeeded before stays delivered.
func GiveUpDeliveries(ctx context.Context, tx bun.Tx, endpoint models.WebhookEndpointID, why string, limit int) (int, error) {
	return postgres.Affected(tx.NewRaw(`
		WITH stopped AS (
			SELECT id FROM webhook_deliveries
			WHERE endpoint_id = ? AND state = 'PENDING' AND (claimed_until IS NULL OR claimed_until <= (SELECT clock_timestamp()))
			ORDER BY next_attempt_at LIMIT ? FOR UPDATE SKIP LOCKED)
		UPDATE webhook_deliveries d SET
			state = CASE WHEN delivered_at IS NULL THEN 'GIVEN_UP' ELSE 'DELIVERED' END,
			once = false, claimed_until = NULL, next_attempt_at = NULL, last_error = ?
		FROM stopped WHERE d.id = stopped.id`, endpoint, limit, why).Exec(ctx))
}

// DeliveryFilter narrows a list of deliveries. Empty fields do not narrow it.
type DeliveryFilter struct {
	AccountID  models.AccountID
	JobID      models.JobID
	EndpointID models.WebhookEndpointID
	// FailedOnly selects deliveries that were tried and not delivered.
	FailedOnly bool
}

// ListDeliveries returns deliveries older than after, or from the newest if it is
// empty, newest first.
func ListDeliveries(ctx context.Context, db bun.IDB, f DeliveryFilter, after models.WebhookDeliveryID,
	limit int) ([]*Delivery, error) {
	var found []*Delivery
	q := db.NewSelect().Model(&found).Order("wd.id DESC").Limit(int64(limit))
	if f.AccountID != "" {
		q = q.Where("wd.account_id = ?", f.AccountID)
	}
	if f.JobID != "" {
		q = q.Where("wd.job_id = ?", f.JobID)
	}
	if f.EndpointID != "" {
		q = q.Where("wd.endpoint_id = ?", f.EndpointID)
	}
	if f.FailedOnly {
		q = q.Where("wd.delivered_at IS NULL AND wd.last_error IS NOT NULL")
	}
	if after != "" {
		q = q.Where("wd.id < ?", after)
	}
	err := q.Scan(ctx)
	return found, err
}

// ListTries returns the tries of deliveries, oldest first.
func ListTries(ctx context.Context, db bun.IDB, ids []models.WebhookDeliveryID) ([]*Try, error) {
	var found []*Try
	err := db.NewSelect().Model(&found).Where("wt.delivery_id IN (?)", bun.List(ids)).Order("wt.delivery_id", "wt.try_no").Scan(ctx)
	return found, err
}

// DeleteOld deletes up to limit events that are older than age and have no pending
// delivery, with their deliveries. It returns the number of deleted events.
func DeleteOld(ctx context.Context, tx bun.Tx, age time.Duration, limit int) (int, error) {
	return postgres.Affected(tx.NewRaw(`
		DELETE FROM webhook_events WHERE id IN (
			SELECT v.id FROM webhook_events v
			WHERE v.created_at < (SELECT clock_timestamp()) - make_interval(secs => ?)
				AND NOT EXISTS (SELECT FROM webhook_deliveries d WHERE d.event_id = v.id AND d.state = 'PENDING')
			ORDER BY v.created_at LIMIT ? FOR UPDATE SKIP LOCKED)`, age.Seconds(), limit).Exec(ctx))
}
