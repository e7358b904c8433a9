package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Change is what one transaction does to one locked job: moves along edges of
// the state machine and the events that tell of them. saveAll writes both, keeps
// the accounts' counters, and puts news of queued jobs into the outbox.
type Change struct {
	tx     bun.Tx
	now    time.Time // PostgreSQL's clock, after the locks were had
	job    *models.Job
	before models.Job // when it was locked
	from   models.JobStatus
	was    ReadyJob // where it stood, if from is QUEUED
	events []*models.JobEvent
	// dead is set when the run failed for good.
	dead *models.DeadLetter
	// others are the changes of jobs that waited for this one.
	others []*Change
	// bounded tells that the account must have room in its queue for the job.
	bounded bool

	// ready is set by save if the job is queued now.
	ready *ReadyJob
	// left is set by save if the job was queued and is no longer, or elsewhere.
	left *ReadyJob
	// tell is the worker that has to hear of it at once, if there is one.
	tell models.WorkerID
	// standing is set by save if the account came to its cap or left it.
	standing *models.Standing
}

// Payload is the data of an event.
type Payload map[string]any

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

// note adds an event. Its attempt is the one that holds the job at this moment.
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
	c.job.QueuedSeconds = c.job.Waited(c.now)
	if !to.Live() {
		c.job.LeasedSeconds = c.job.Ran(c.now)
	}
	c.job.Status = to
	return nil
}

// started is the edge that a worker's first sign takes.
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

// completing is the edge that the beginning of the upload takes.
func (c *Change) completing() error {
	if err := c.started(); err != nil {
		return err
	}
	if c.job.Status != models.JobRunning {
		return nil
	}
	c.job.Progress.Phase = models.PhaseUploading
	return c.move(models.JobCompleting)
}

// queued puts the job into its lane; requeued ones keep their place.
func (c *Change) queued(requeued bool) error {
	if err := c.move(models.JobQueued); err != nil {
		return err
	}
	c.job.Requeued, c.job.QueuedAt, c.job.RunAt = requeued, c.now, time.Time{}
	c.job.CurrentAttemptID = ""
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
	c.job.CompletedAt, c.job.CurrentAttemptID = c.now, ""
	c.job.Progress.Phase, c.job.Progress.ETASeconds, c.job.Progress.UpdatedAt = models.PhaseDone, nil, c.now
}

// save writes the job, and what its end means for those that wait for it.
func (c *Change) save(ctx context.Context) error {
	return saveAll(ctx, c.tx, []*Change{c}, models.Writes{})
}

// saveAll is save for many changes of one transaction, with what else it writes: it
// takes the same few statements for one as for a hundred, and a few more for each that
// enters a lane, failed for good, or is awaited by others. Accounts are locked last: by
// the statement that counts on them, after the jobs that wait for these are written.
func saveAll(ctx context.Context, tx bun.Tx, changes []*Change, w models.Writes) error {
	for _, c := range changes {
		w.Jobs, w.Events = append(w.Jobs, models.Changed[models.Job]{Was: &c.before, Is: c.job}), append(w.Events, c.events...)
	}
	if err := settleAll(ctx, tx, changes); err != nil {
		return err
	}
	w.Count = countersOf(changes)
	if err := w.Write(ctx, tx); err != nil {
		return fmt.Errorf("write the jobs, their events and the counters: %w", err)
	}
	counted(changes, w.Count)
	for _, c := range changes {
		if c.dead != nil {
			if err := models.InsertDeadLetter(ctx, tx, c.dead); err != nil {
				return fmt.Errorf("write the dead letter: %w", err)
			}
		}
	}
	if err := enterLanes(ctx, tx, changes); err != nil {
		return err
	}
	return announceAll(ctx, tx, changes)
}

// ended tells whether the change is the end of the job's run.
func (c *Change) ended() bool { return c.job.Status.Terminal() && !c.from.Terminal() }

// announceAll writes webhooks' events of the ends among changes, and of the jobs that
// failed with them.
func announceAll(ctx context.Context, tx bun.Tx, changes []*Change) error {
	var over []*models.Job
	for _, c := range changes {
		for _, one := range append([]*Change{c}, c.others...) {
			if one.ended() {
				over = append(over, one.job)
			}
		}
	}
	return announce(ctx, tx, over, changes[0].now)
}

// countersOf is what changes do to the counters of accounts, and of the lines that jobs
// leave.
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

// countOn adds to the counters what the change does to them.
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

// counted notes in changes what became of the counters.
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

// leaves tells whether the job was queued and is no longer, or elsewhere.
func (c *Change) leaves() bool {
	return c.from == models.JobQueued && (c.job.Status != models.JobQueued || c.job.Queue() != c.was.Queue)
}

// enters tells whether the job is queued now, or elsewhere than it was.
func (c *Change) enters() bool {
	return c.job.Status == models.JobQueued && (c.from != models.JobQueued || c.leaves())
}

// Standing is what became of an account that came to its cap or left it, and nil for
// one that did not. Who tells of it reads its places, once it is committed.
func Standing(id models.AccountID, counted models.Counted) *models.Standing {
	if counted.Capped == counted.WasCapped {
		return nil
	}
	return &models.Standing{AccountID: id, Version: counted.Version, Capped: counted.Capped}
}

// maxReady bounds the jobs of one message.
const maxReady = 200

// readyMessages tell that jobs of one transaction are queued: few messages of many
// jobs, since each is carried by itself.
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

// JobReady is the outbox's message that a job is queued, and others of its lane
// with it. Version is the job's event counter then: a hint only, the reader looks
// at the rows.
type JobReady struct {
	JobID   models.JobID   `json:"jobId"`
	Version int            `json:"version"`
	Lane    models.Tier    `json:"lane"`
	Others  []models.JobID `json:"others,omitempty"`
}

// count is of how many jobs it tells.
func (r JobReady) count() int { return 1 + len(r.Others) }

func (r JobReady) payload() json.RawMessage {
	message, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("ready message: %v", err)) // it is made of plain values only
	}
	return message
}
