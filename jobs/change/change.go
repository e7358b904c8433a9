package change

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Change is what one transaction does to one locked job: moves along edges of the state
// machine, and the events that record them. SaveAll writes both, updates the accounts'
// counters, and puts messages about queued jobs into the outbox.
type Change struct {
	Tx     bun.Tx
	Now    time.Time // PostgreSQL's clock, read after the locks were taken
	Job    *models.Job
	Before models.Job // as it was when locked
	From   models.JobStatus
	Was    jobs.ReadyJob // its place in the queue, if from is QUEUED
	Events []*models.JobEvent
	// dead is set when the run failed for good.
	dead *models.DeadLetter
	// others are the changes of jobs that depended on this one.
	others []*Change
	// Due means that control processes have something to do once this is committed: further jobs to
	// settle, webhooks to send, or images to fetch.
	Due bool
	// Thumbnail means that the job got a thumbnail.
	Thumbnail bool
	// NeverPaused means that the job's queue is known not to have been closed while it waited.
	NeverPaused bool
	// Bounded means that the account must have room in its queue for the job.
	Bounded bool

	// Ready is set by save if the job is queued now.
	Ready *jobs.ReadyJob
	// left is set by save if the job left the queue that it was in.
	left *jobs.ReadyJob
	// NotifyWorker is the worker to notify at once, or empty.
	NotifyWorker models.WorkerID
	// Ending is the end of the job's attempt, and checkpoint a new checkpoint, for the observer.
	Ending     *jobs.AttemptEnd
	Checkpoint *jobs.Checkpoint
	// flow is set by save if the account reached its running limit or fell below it.
	flow *models.FlowState
}

// New begins the change of a job that is locked in tx. It reads PostgreSQL's clock.
func New(ctx context.Context, tx bun.Tx, job *models.Job) (*Change, error) {
	now, err := postgres.Now(ctx, tx)
	if err != nil {
		return nil, err
	}
	return At(tx, now, job), nil
}

// At is New for a transaction that has read the clock.
func At(tx bun.Tx, now time.Time, job *models.Job) *Change {
	return &Change{Tx: tx, Now: now, Job: job, Before: *job, From: job.Status, Was: *ReadyOf(job, 0)}
}

// Note adds an event. Its attempt is the one that holds the job now.
func (c *Change) Note(t models.JobEventType, p jobs.Payload) {
	if p == nil {
		p = jobs.Payload{}
	}
	data, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("event %s: %v", t, err)) // payloads are made of plain values only
	}
	c.Job.EventSeq++
	c.Events = append(c.Events, &models.JobEvent{
		JobID: c.Job.ID, Seq: c.Job.EventSeq, Run: c.Job.Run, AttemptID: c.Job.CurrentAttemptID,
		Type: t, Payload: data, CreatedAt: c.Now,
	})
}

// Move takes the job along one edge of the state machine.
func (c *Change) Move(to models.JobStatus) error {
	if !CanMove(c.Job.Status, to) {
		return apierror.Conflict("This job is %s: it cannot become %s.", c.Job.Status, to)
	}
	c.Job.Delay(to, c.Now)
	c.Job.QueuedSeconds = c.Job.Waited(c.Now)
	if !to.Live() {
		c.Job.LeasedSeconds = c.Job.Ran(c.Now)
	}
	c.Job.Status = to
	return nil
}

// Started makes the move of a worker's first sign of work.
func (c *Change) Started() error {
	if c.Job.Status != models.JobAssigned {
		return nil
	}
	if err := c.Move(models.JobRunning); err != nil {
		return err
	}
	if c.Job.StartedAt.IsZero() {
		c.Job.StartedAt = c.Now
	}
	c.Job.Progress.Phase, c.Job.Progress.UpdatedAt = models.PhaseStarting, c.Now
	c.Note(models.EventStarted, nil)
	return nil
}

// Completing makes the move of the start of the upload.
func (c *Change) Completing() error {
	if err := c.Started(); err != nil {
		return err
	}
	if c.Job.Status != models.JobRunning {
		return nil
	}
	c.Job.Progress.Enter(models.PhaseUploading, "uploading", c.Now)
	return c.Move(models.JobCompleting)
}

// Queued puts the job into its lane; a requeued job keeps its place.
func (c *Change) Queued(requeued bool) error {
	if err := c.Move(models.JobQueued); err != nil {
		return err
	}
	c.Job.Requeued, c.Job.QueuedAt, c.Job.RunAt = requeued, c.Now, time.Time{}
	c.Job.CurrentAttemptID = ""
	c.Job.Needs = c.Job.Needs.Also(c.Job.Spent())
	return nil
}

// Cancelled ends the job for good.
func (c *Change) Cancelled() error {
	if err := c.Move(models.JobCancelled); err != nil {
		return err
	}
	c.Job.CancelStoppedAt = c.Now
	c.Note(models.EventCancelled, c.CancelNote())
	c.Over()
	return nil
}

// CancelNote returns what the events of a cancel say: who asked for it, and why.
func (c *Change) CancelNote() jobs.Payload {
	note := jobs.Payload{"by": c.Job.CancelBy}
	if c.Job.CancelReason != "" {
		note["reason"] = c.Job.CancelReason
	}
	return note
}

// Failed ends the job's run, with a dead letter.
func (c *Change) Failed(class models.FailureClass, reason string) error {
	if err := c.Move(models.JobFailed); err != nil {
		return err
	}
	c.Job.FailureClass, c.Job.FailureReason = class, reason
	c.dead = &models.DeadLetter{
		ID: models.NewDeadLetterID(), JobID: c.Job.ID, Run: c.Job.Run, Model: c.Job.Model,
		FailureClass: class, Reason: reason, Fingerprint: fingerprint(class, c.Job.Model, reason), CreatedAt: c.Now,
	}
	c.Note(models.EventDeadLettered, jobs.Payload{"deadLetter": c.dead.ID, "fingerprint": c.dead.Fingerprint})
	c.Note(models.EventFailed, jobs.Payload{"class": class, "reason": reason})
	c.Over()
	return nil
}

// Over notes when the run ended, and clears what it no longer has: its attempt and its handle.
func (c *Change) Over() {
	c.Job.CompletedAt, c.Job.CurrentAttemptID, c.Job.Handle = c.Now, "", ""
	c.Job.Progress.Enter(models.PhaseDone, "", c.Now)
}

// ended reports whether the change ends the job's run.
func (c *Change) ended() bool { return c.Job.Status.Terminal() && !c.From.Terminal() }

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
	to := c.Job.Status
	count.Accounts = addToAccount(count.Accounts, models.AccountCount{
		ID: c.Job.AccountID, Bounded: c.Bounded,
		Queued:  lo.Ternary(to.Waiting(), 1, 0) - lo.Ternary(c.From.Waiting(), 1, 0),
		Running: lo.Ternary(to.Live(), 1, 0) - lo.Ternary(c.From.Live(), 1, 0),
	})
	if !c.leaves() {
		return
	}
	left := models.LineCount{AccountID: c.Job.AccountID, Line: c.Was.Line, Jobs: 1}
	if to.Live() {
		left.GPUSeconds += c.Job.EstimatedGPUSeconds
	}
	count.Left = addToLine(count.Left, left)
}

// counted copies the updated counters into changes.
func counted(changes []*Change, count models.Count) {
	for _, a := range count.Accounts {
		first := slices.IndexFunc(changes, func(c *Change) bool { return c.Job.AccountID == a.ID })
		changes[first].flow = FlowState(a.ID, a.Counted)
	}
	for _, c := range changes {
		if c.leaves() {
			c.left = &c.Was
			i := slices.IndexFunc(count.Left, func(l models.LineCount) bool { return l.AccountID == c.Job.AccountID && l.Line == c.Was.Line })
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
	return c.From == models.JobQueued && (c.Job.Status != models.JobQueued || c.Job.Queue() != c.Was.Queue)
}

// enters reports whether the job enters a queue that it was not in.
func (c *Change) enters() bool {
	return c.Job.Status == models.JobQueued && (c.From != models.JobQueued || c.leaves())
}

// FlowState returns the flow state of an account that reached its running limit or fell below it,
// and nil for any other. The Notifier reads the account's places in its lines after the
// commit.
func FlowState(id models.AccountID, counted models.Counted) *models.FlowState {
	if counted.Capped == counted.WasCapped {
		return nil
	}
	return &models.FlowState{AccountID: id, Version: counted.Version, Capped: counted.Capped}
}

// MaxReady bounds the jobs of one message.
const MaxReady = 200

// ReadyMessages returns the outbox messages that say that jobs of one transaction are queued.
// Each message has a cost, so a few messages carry many jobs.
func ReadyMessages(queued []*models.Job) []*models.OutboxMessage {
	lanes := map[models.Tier][]*models.Job{}
	for _, job := range queued {
		lanes[job.Lane] = append(lanes[job.Lane], job)
	}
	var messages []*models.OutboxMessage
	for lane, jobs := range lanes {
		for some := range slices.Chunk(jobs, MaxReady) {
			ready := JobReady{JobID: some[0].ID, Version: some[0].EventSeq, Lane: lane}
			for _, other := range some[1:] {
				ready.Others = append(ready.Others, other.ID)
			}
			messages = append(messages, &models.OutboxMessage{Kind: models.OutboxJobReady, Payload: ready.Payload()})
		}
	}
	return messages
}

// ReadyOf returns a job's place in its queue, at the virtual time of its line.
func ReadyOf(job *models.Job, virtualTime float64) *jobs.ReadyJob {
	return &jobs.ReadyJob{
		Queue: job.Queue(), ID: job.ID, Account: job.AccountID, PreferredRegion: job.Region,
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

// Count is the number of jobs in the message.
func (r JobReady) Count() int { return 1 + len(r.Others) }

// Payload encodes the message for the outbox.
func (r JobReady) Payload() json.RawMessage {
	message, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("ready message: %v", err)) // it is made of plain values only
	}
	return message
}

// Do locks a job and calls act to change it. It returns sql.ErrNoRows if the job does
// not exist.
func Do(ctx context.Context, db *bun.DB, id models.JobID, act func(context.Context, bun.Tx, *Change) error) error {
	return DoLocked(ctx, db, id, models.LockJob, act)
}

// DoLocked is Do with a lock of the caller's choice. It saves nothing by itself.
func DoLocked(
	ctx context.Context, db *bun.DB, id models.JobID, lock func(context.Context, bun.Tx, models.JobID) (*models.Job, error),
	act func(context.Context, bun.Tx, *Change) error,
) error {
	return jobs.InTx(ctx, db, func(ctx context.Context, tx bun.Tx) error {
		job, err := lock(ctx, tx, id)
		if err != nil {
			return err
		}
		c, err := New(ctx, tx, job)
		if err != nil {
			return err
		}
		return act(ctx, tx, c)
	})
}

// DoDue is Do for a periodic pass: it saves the change. It returns nil if act
// noted no event, the job no longer exists, or another transaction has locked it: the pass goes on
// with the jobs of others, and the next one looks again.
func DoDue(ctx context.Context, db *bun.DB, id models.JobID, act func(*Change) error) (done *Change, err error) {
	err = DoLocked(ctx, db, id, models.LockFreeJob, func(ctx context.Context, _ bun.Tx, c *Change) error {
		done = nil
		if err := act(c); err != nil || len(c.Events) == 0 {
			return err
		}
		done = c
		return c.Save(ctx)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return done, nil
}
