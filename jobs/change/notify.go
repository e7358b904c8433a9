package change

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Notifier tells waiting calls and other processes what a commit changed. It only makes the
// usual path fast: whatever it loses is recovered from PostgreSQL.
type Notifier struct {
	DB            *bun.DB
	Index         jobs.ReadyIndex
	Notifications jobs.Notifications
	Waiters       *jobs.Waiters
	// Observer, if not nil, learns of each change.
	Observer jobs.Observer
	// Aside runs what submitters need not wait for. If nil, it runs in a goroutine.
	Aside func(tell func())
}

// NotifyTimeout bounds what a slow Redis can cost the caller.
const NotifyTimeout = 200 * time.Millisecond

// After reports changes once they are committed: to the observer, the ready index and
// the subscribers. It does not wait until the subscribers are notified.
func (n *Notifier) After(ctx context.Context, changes ...*Change) {
	var all []*Change
	var standings []models.FlowState
	for _, c := range changes {
		if c != nil {
			all = append(append(all, c), c.others...)
		}
	}
	for _, c := range all {
		c.observe(n.Observer)
		c.trace()
		if c.flow != nil {
			standings = append(standings, *c.flow)
		}
	}
	n.read(ctx, standings)
	n.index(ctx, all, standings)
	var news []string
	for _, c := range all {
		news = append(news, c.topics()...)
	}
	n.Publish(ctx, news)
}

// observe reports a committed change to the observer, if there is one.
func (c *Change) observe(by jobs.Observer) {
	if by == nil {
		return
	}
	by.Changed(&c.Before, c.Job)
	if c.Checkpoint != nil {
		by.Checkpointed(c.Job, c.Checkpoint.DurationSeconds)
	}
	if c.Ending != nil {
		by.Ended(*c.Ending)
	}
}

// Publish publishes notifications in the background.
func (n *Notifier) Publish(ctx context.Context, news []string) {
	if len(news) == 0 {
		return
	}
	slices.Sort(news)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), NotifyTimeout)
	go func() {
		defer cancel()
		n.Notifications.Publish(ctx, slices.Compact(news)...)
	}()
}

// index updates the ready index with the changes of jobs and accounts.
func (n *Notifier) index(ctx context.Context, changes []*Change, standings []models.FlowState) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), NotifyTimeout)
	defer cancel()
	var left, ready []jobs.ReadyJob
	for _, c := range changes {
		if c.left != nil {
			left = append(left, *c.left)
		}
		if c.Ready != nil {
			ready = append(ready, *c.Ready)
		}
	}
	if len(left) > 0 {
		n.Log(ctx, n.Index.Remove(ctx, left...))
	}
	n.Ready(ctx, ready...)
	if len(standings) > 0 {
		n.setFlows(ctx, standings)
	}
}

// topics returns the ids of the rows that the change concerns.
func (c *Change) topics() []string {
	news := JobTopics(c.Job.ID, len(c.Events) > 0 || c.Job.Status != c.From)
	if c.NotifyWorker != "" {
		news = append(news, string(c.NotifyWorker))
	}
	if c.DueSoon() {
		news = append(news, TopicDue)
	}
	return news
}

// JobTopics returns the topics of notifications about a job: its subscribers, and those of all jobs if
// the notification is of an event.
func JobTopics(id models.JobID, event bool) []string {
	if event {
		return []string{string(id), TopicChanges}
	}
	return []string{string(id)}
}

// Worker tells a worker that something is wanted of it: it wakes its lease call if that waits
// here, and notifies its subscriptions.
func (n *Notifier) Worker(ctx context.Context, id models.WorkerID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), NotifyTimeout)
	defer cancel()
	n.Waiters.WakeWorker(id)
	n.Notifications.Publish(ctx, string(id))
}

// Account publishes that an account left its lines or returned to them. A nil flow state is
// ignored.
func (n *Notifier) Account(ctx context.Context, standing *models.FlowState) {
	if standing == nil {
		return
	}
	standings := []models.FlowState{*standing}
	n.read(ctx, standings)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), NotifyTimeout)
	defer cancel()
	n.setFlows(ctx, standings)
}

// Ready puts jobs into the index, and for each wakes one worker that waits for such a job
// here. Workers that wait elsewhere are woken through the index.
func (n *Notifier) Ready(ctx context.Context, rows ...jobs.ReadyJob) {
	if len(rows) == 0 {
		return
	}
	n.Log(ctx, n.Index.Add(ctx, rows...))
	served := map[jobs.Work]bool{}
	for _, job := range rows {
		if is := (jobs.Work{Queue: job.Queue, Account: job.Account}); !served[is] {
			served[is] = !n.Waiters.Wake(job.Queue, job.Account) // no worker is left to wake
		}
	}
}

// read replaces the flow states of accounts that fell below their limit by their current ones.
// It asks PostgreSQL, which has the limits.
func (n *Notifier) read(ctx context.Context, standings []models.FlowState) {
	var back []models.AccountID
	for _, s := range standings {
		if !s.Capped {
			back = append(back, s.AccountID)
		}
	}
	if len(back) == 0 {
		return
	}
	found, err := models.ListFlowStates(context.WithoutCancel(ctx), n.DB, back)
	n.Log(ctx, err)
	waiting := lo.KeyBy(found, func(s models.FlowState) models.AccountID { return s.AccountID })
	for i, s := range standings {
		if now, waits := waiting[s.AccountID]; waits {
			standings[i] = now
		}
	}
}

// setFlows removes accounts from their lines in the index, or returns them. It is not known which
// workers can run the jobs of returning accounts, so one worker of each kind looks.
func (n *Notifier) setFlows(ctx context.Context, standings []models.FlowState) {
	n.Log(ctx, n.Index.SetFlows(ctx, standings...))
	if slices.ContainsFunc(standings, func(s models.FlowState) bool { return !s.Capped }) {
		n.Waiters.Look()
	}
}

// Log logs that a hint was lost. The sweep mends it.
func (n *Notifier) Log(ctx context.Context, err error) {
	if err != nil {
		slog.DebugContext(ctx, "hint lost, the sweep will mend it", "error", err)
	}
}

const (
	// TopicChanges is the topic of changes of any job's status.
	TopicChanges = "jobs"
	// TopicDue is the topic of work for control processes that is due before they look for it by
	// themselves.
	TopicDue = "due"
)

// DueSoon reports whether control processes have something to do for the change, or the job waits for
// a time that may come before a process that has just looked for work looks again. The commit may take
// as long as a pause.
func (c *Change) DueSoon() bool {
	delayed := c.Job.Status == models.JobScheduled || c.Job.Status == models.JobBlocked && c.Job.BlockedBy == 0
	return c.Due || delayed && c.Job.RunAt.Sub(c.Now) < 2*DueEvery
}

// DueEvery is how often a control process looks for work although it knows of none: a notification
// may be lost.
const DueEvery = time.Second
