package jobs

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Change is what one transaction does to one locked job: moves along edges of the state
// machine, and the events that record them. saveAll writes both, updates the accounts'
// counters, and puts messages about queued jobs into the outbox.
type Change struct {
	tx     bun.Tx
	now    time.Time // PostgreSQL's clock, read after the locks were taken
	job    *models.Job
	before models.Job // as it was when locked
	from   models.JobStatus
	was    ReadyJob // its place in the queue, if from is QUEUED
	events []*models.JobEvent
	// dead is set when the run failed for good.
	dead *models.DeadLetter
	// others are the changes of jobs that depended on this one, and unsettled means that the
	// Settler has to change further ones.
	others    []*Change
	unsettled bool
	// thumbnail means that the job got a thumbnail.
	thumbnail bool
	// neverPaused means that the job's queue is known not to have been closed while it waited.
	neverPaused bool
	// bounded means that the account must have room in its queue for the job.
	bounded bool

	// ready is set by save if the job is queued now.
	ready *ReadyJob
	// left is set by save if the job left the queue that it was in.
	left *ReadyJob
	// tell is the worker to notify at once, or empty.
	tell models.WorkerID
	// ending is the end of the job's attempt, and checkpoint a new checkpoint, for the observer.
	ending     *AttemptEnd
	checkpoint *Checkpoint
	// standing is set by save if the account reached its running limit or fell below it.
	standing *models.Standing
}

func newChange(ctx context.Context, tx bun.Tx, job *models.Job) (*Change, error) {
	now, err := models.Now(ctx, tx)
	if err != nil {
		return nil, err
	}
	return changeAt(tx, now, job), nil
}

func changeAt(tx bun.Tx, now time.Time, job *models.Job) *Change {
	return &Change{tx: tx, now: now, job: job, before: *job, from: job.Status, was: *readyJob(job, 0)}
}

// note adds an event. Its attempt is the one that holds the job now.
func (c *Change) note(t models.JobEventType, p Payload) {
	if p == nil {
		p = Payload{}
	}
	data, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("event %s: %v", t, err)) // payloads are made of plain values only
	}
	c.job.EventSeq++
	c.events = append(c.events, &models.JobEvent{
		JobID: c.job.ID, Seq: c.job.EventSeq, Run: c.job.Run, AttemptID: c.job.CurrentAttemptID,
		Type: t, Payload: data, CreatedAt: c.now,
	})
}

// move takes the job along one edge of the state machine.
func (c *Change) move(to models.JobStatus) error {
	if !CanMove(c.job.Status, to) {
		return apierror.Conflict("This job is %s: it cannot become %s.", c.job.Status, to)
	}
	c.job.Delay(to, c.now)
	c.job.QueuedSeconds = c.job.Waited(c.now)
	if !to.Live() {
		c.job.LeasedSeconds = c.job.Ran(c.now)
	}
	c.job.Status = to
	return nil
}

// started makes the move of a worker's first sign of work.
func (c *Change) started() error {
	if c.job.Status != models.JobAssigned {
		return nil
	}
	if err := c.move(models.JobRunning); err != nil {
		return err
	}
	if c.job.StartedAt.IsZero() {
		c.job.StartedAt = c.now
	}
	c.job.Progress.Phase, c.job.Progress.UpdatedAt = models.PhaseStarting, c.now
	c.note(models.EventStarted, nil)
	return nil
}

// completing makes the move of the start of the upload.
func (c *Change) completing() error {
	if err := c.started(); err != nil {
		return err
	}
	if c.job.Status != models.JobRunning {
		return nil
	}
	c.job.Progress.Enter(models.PhaseUploading, "uploading", c.now)
	return c.move(models.JobCompleting)
}

// queued puts the job into its lane; a requeued job keeps its place.
func (c *Change) queued(requeued bool) error {
	if err := c.move(models.JobQueued); err != nil {
		return err
	}
	c.job.Requeued, c.job.QueuedAt, c.job.RunAt = requeued, c.now, time.Time{}
	c.job.CurrentAttemptID = ""
	c.job.Needs = c.job.Needs.Also(c.job.Spent())
	return nil
}

// cancelled ends the job for good.
func (c *Change) cancelled() error {
	if err := c.move(models.JobCancelled); err != nil {
		return err
	}
	c.job.CancelStoppedAt = c.now
	c.note(models.EventCancelled, Payload{"by": c.job.CancelBy})
	c.over()
	return nil
}

// failed ends the job's run, with a dead letter.
func (c *Change) failed(class models.FailureClass, reason string) error {
	if err := c.move(models.JobFailed); err != nil {
		return err
	}
	c.job.FailureClass, c.job.FailureReason = class, reason
	c.dead = &models.DeadLetter{
		ID: models.NewDeadLetterID(), JobID: c.job.ID, Run: c.job.Run, Model: c.job.Model,
		FailureClass: class, Reason: reason, Fingerprint: fingerprint(class, c.job.Model, reason), CreatedAt: c.now,
	}
	c.note(models.EventDeadLettered, Payload{"deadLetter": c.dead.ID, "fingerprint": c.dead.Fingerprint})
	c.note(models.EventFailed, Payload{"class": class, "reason": reason})
	c.over()
	return nil
}

func (c *Change) over() {
	c.job.CompletedAt, c.job.CurrentAttemptID, c.job.Handle = c.now, "", ""
	c.job.Progress.Enter(models.PhaseDone, "", c.now)
}

// ended reports whether the change ends the job's run.
func (c *Change) ended() bool { return c.job.Status.Terminal() && !c.from.Terminal() }

// countersOf returns the effect of changes on the counters of accounts and of the lines that
// jobs leave.
func countersOf(changes []*Change) models.Count {
	var count models.Count
	for _, c := range changes {
		c.countOn(&count)
		for _, other := range c.others {
			other.countOn(&count)
		}
	}
	count.Accounts = slices.DeleteFunc(count.Accounts, func(a models.AccountCount) bool { return a.Queued == 0 && a.Running == 0 })
	return count
}

// countOn adds the effect of the change to count.
func (c *Change) countOn(count *models.Count) {
	to := c.job.Status
	count.Accounts = addToAccount(count.Accounts, models.AccountCount{
		ID: c.job.AccountID, Bounded: c.bounded,
		Queued:  lo.Ternary(to.Waiting(), 1, 0) - lo.Ternary(c.from.Waiting(), 1, 0),
		Running: lo.Ternary(to.Live(), 1, 0) - lo.Ternary(c.from.Live(), 1, 0),
	})
	if !c.leaves() {
		return
	}
	left := models.LineCount{AccountID: c.job.AccountID, Line: c.was.Line, Jobs: 1}
	if to.Live() {
		left.GPUSeconds += c.job.EstimatedGPUSeconds
	}
	count.Left = addToLine(count.Left, left)
}

// counted copies the updated counters into changes.
func counted(changes []*Change, count models.Count) {
	for _, a := range count.Accounts {
		first := slices.IndexFunc(changes, func(c *Change) bool { return c.job.AccountID == a.ID })
		changes[first].standing = Standing(a.ID, a.Counted)
	}
	for _, c := range changes {
		if c.leaves() {
			c.left = &c.was
			i := slices.IndexFunc(count.Left, func(l models.LineCount) bool { return l.AccountID == c.job.AccountID && l.Line == c.was.Line })
			c.left.VirtualTime = count.Left[i].VirtualTime
		}
	}
}

func addToAccount(all []models.AccountCount, more models.AccountCount) []models.AccountCount {
	i := slices.IndexFunc(all, func(a models.AccountCount) bool { return a.ID == more.ID })
	if i < 0 {
		return append(all, more)
	}
	all[i].Queued, all[i].Running, all[i].Bounded = all[i].Queued+more.Queued, all[i].Running+more.Running, all[i].Bounded || more.Bounded
	return all
}

func addToLine(all []models.LineCount, more models.LineCount) []models.LineCount {
	i := slices.IndexFunc(all, func(l models.LineCount) bool { return l.AccountID == more.AccountID && l.Line == more.Line })
	if i < 0 {
		return append(all, more)
	}
	all[i].Jobs, all[i].GPUSeconds = all[i].Jobs+more.Jobs, all[i].GPUSeconds+more.GPUSeconds
	return all
}

// leaves reports whether the job leaves the queue that it was in.
func (c *Change) leaves() bool {
	return c.from == models.JobQueued && (c.job.Status != models.JobQueued || c.job.Queue() != c.was.Queue)
}

// enters reports whether the job enters a queue that it was not in.
func (c *Change) enters() bool {
	return c.job.Status == models.JobQueued && (c.from != models.JobQueued || c.leaves())
}

// Standing returns the standing of an account that reached its running limit or fell below it,
// and nil for any other. The Notifier reads the account's places in its lines after the
// commit.
func Standing(id models.AccountID, counted models.Counted) *models.Standing {
	if counted.Capped == counted.WasCapped {
		return nil
	}
	return &models.Standing{AccountID: id, Version: counted.Version, Capped: counted.Capped}
}

// maxReady bounds the jobs of one message.
const maxReady = 200

// readyMessages returns the outbox messages that say that jobs of one transaction are queued.
// Each message has a cost, so a few messages carry many jobs.
func readyMessages(queued []*models.Job) []*models.OutboxMessage {
	lanes := map[models.Tier][]*models.Job{}
	for _, job := range queued {
		lanes[job.Lane] = append(lanes[job.Lane], job)
	}
	var messages []*models.OutboxMessage
	for lane, jobs := range lanes {
		for some := range slices.Chunk(jobs, maxReady) {
			ready := JobReady{JobID: some[0].ID, Version: some[0].EventSeq, Lane: lane}
			for _, other := range some[1:] {
				ready.Others = append(ready.Others, other.ID)
			}
			messages = append(messages, &models.OutboxMessage{Kind: models.OutboxJobReady, Payload: ready.payload()})
		}
	}
	return messages
}

func readyJob(job *models.Job, virtualTime float64) *ReadyJob {
	return &ReadyJob{
		Queue: job.Queue(), ID: job.ID, Account: job.AccountID, Wish: job.Region,
		Order: job.CurrentOrder(), VirtualTime: virtualTime,
	}
}

// JobReady is the outbox message that a job, and others of its lane, are queued. Version is
// the job's event counter at that time. It is a hint only: the receiver reads the rows.
type JobReady struct {
	JobID   models.JobID   `json:"jobId"`
	Version int            `json:"version"`
	Lane    models.Tier    `json:"lane"`
	Others  []models.JobID `json:"others,omitempty"`
}

// count is the number of jobs in the message.
func (r JobReady) count() int { return 1 + len(r.Others) }

func (r JobReady) payload() json.RawMessage {
	message, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("ready message: %v", err)) // it is made of plain values only
	}
	return message
}

// changeJob locks a job and calls act to change it. It returns sql.ErrNoRows if the job does
// not exist.
func changeJob(ctx context.Context, db *bun.DB, id models.JobID, act func(context.Context, bun.Tx, *Change) error) error {
	return changeLocked(ctx, db, id, models.LockJob, act)
}

func changeLocked(
	ctx context.Context, db *bun.DB, id models.JobID, lock func(context.Context, bun.Tx, models.JobID) (*models.Job, error),
	act func(context.Context, bun.Tx, *Change) error,
) error {
	return InTx(ctx, db, func(ctx context.Context, tx bun.Tx) error {
		job, err := lock(ctx, tx, id)
		if err != nil {
			return err
		}
		c, err := newChange(ctx, tx, job)
		if err != nil {
			return err
		}
		return act(ctx, tx, c)
	})
}

// changeDueJob is changeJob for a periodic pass: it saves the change. It returns nil if act
// noted no event, the job no longer exists, or another transaction has locked it: the pass goes on
// with the jobs of others, and the next one looks again.
func changeDueJob(ctx context.Context, db *bun.DB, id models.JobID, act func(*Change) error) (done *Change, err error) {
	err = changeLocked(ctx, db, id, models.LockFreeJob, func(ctx context.Context, _ bun.Tx, c *Change) error {
		done = nil
		if err := act(c); err != nil || len(c.events) == 0 {
			return err
		}
		done = c
		return c.save(ctx)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return done, nil
}
