package jobs

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Notifier tells waiting calls and other processes what a commit changed. It only makes the
// usual path fast: whatever it loses is recovered from PostgreSQL.
type Notifier struct {
	DB      *bun.DB
	Index   ReadyIndex
	News    News
	Waiters *Waiters
	// Observer, if not nil, learns of each change.
	Observer Observer
	// Aside runs what submitters need not wait for. If nil, it runs in a goroutine.
	Aside func(tell func())
}

// notifyTimeout bounds what a slow Redis can cost the caller.
const notifyTimeout = 200 * time.Millisecond

// After reports changes once they are committed: to the observer, the ready index and
// the subscribers. It does not wait until the subscribers are notified.
func (n *Notifier) After(ctx context.Context, changes ...*Change) {
	var all []*Change
	var standings []models.Standing
	for _, c := range changes {
		if c != nil {
			all = append(append(all, c), c.others...)
		}
	}
	for _, c := range all {
		c.observe(n.Observer)
		c.trace()
		if c.standing != nil {
			standings = append(standings, *c.standing)
		}
	}
	n.read(ctx, standings)
	n.index(ctx, all, standings)
	var news []string
	for _, c := range all {
		news = append(news, c.news()...)
	}
	n.tell(ctx, news)
}

// observe reports a committed change to the observer, if there is one.
func (c *Change) observe(by Observer) {
	if by == nil {
		return
	}
	by.Changed(&c.before, c.job)
	if c.checkpoint != nil {
		by.Checkpointed(c.job, c.checkpoint.DurationSeconds)
	}
	if c.ending != nil {
		by.Ended(*c.ending)
	}
}

// tell publishes news in the background.
func (n *Notifier) tell(ctx context.Context, news []string) {
	if len(news) == 0 {
		return
	}
	slices.Sort(news)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notifyTimeout)
	go func() {
		defer cancel()
		n.News.Publish(ctx, slices.Compact(news)...)
	}()
}

// index updates the ready index with the changes of jobs and accounts.
func (n *Notifier) index(ctx context.Context, changes []*Change, standings []models.Standing) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notifyTimeout)
	defer cancel()
	var left, ready []ReadyJob
	for _, c := range changes {
		if c.left != nil {
			left = append(left, *c.left)
		}
		if c.ready != nil {
			ready = append(ready, *c.ready)
		}
	}
	if len(left) > 0 {
		n.log(ctx, n.Index.Remove(ctx, left...))
	}
	n.ready(ctx, ready...)
	if len(standings) > 0 {
		n.stand(ctx, standings)
	}
}

// news returns the ids of the rows that the change concerns.
func (c *Change) news() []string {
	news := jobNews(c.job.ID, len(c.events) > 0 || c.job.Status != c.from)
	if c.tell != "" {
		news = append(news, string(c.tell))
	}
	if c.dueSoon() {
		news = append(news, TopicDue)
	}
	if c.unsettled {
		news = append(news, TopicUnsettled)
	}
	return news
}

// jobNews returns the topics of news about a job: its subscribers, and those of all jobs if
// the news is an event.
func jobNews(id models.JobID, event bool) []string {
	if event {
		return []string{string(id), TopicChanges}
	}
	return []string{string(id)}
}

// Worker tells a worker that something is wanted of it: it wakes its lease call if that waits
// here, and notifies its subscriptions.
func (n *Notifier) Worker(ctx context.Context, id models.WorkerID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notifyTimeout)
	defer cancel()
	n.Waiters.WakeWorker(id)
	n.News.Publish(ctx, string(id))
}

// Account publishes that an account left its lines or returned to them. A nil standing is
// ignored.
func (n *Notifier) Account(ctx context.Context, standing *models.Standing) {
	if standing == nil {
		return
	}
	standings := []models.Standing{*standing}
	n.read(ctx, standings)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notifyTimeout)
	defer cancel()
	n.stand(ctx, standings)
}

// ready puts jobs into the index, and for each wakes one worker that waits for such a job
// here. Workers that wait elsewhere are woken through the index.
func (n *Notifier) ready(ctx context.Context, jobs ...ReadyJob) {
	if len(jobs) == 0 {
		return
	}
	n.log(ctx, n.Index.Add(ctx, jobs...))
	served := map[work]bool{}
	for _, job := range jobs {
		if is := (work{job.Queue, job.Account}); !served[is] {
			served[is] = !n.Waiters.Wake(job.Queue, job.Account) // no worker is left to wake
		}
	}
}

// read replaces the standings of accounts that fell below their limit by their current ones.
// It asks PostgreSQL, which has the limits.
func (n *Notifier) read(ctx context.Context, standings []models.Standing) {
	var back []models.AccountID
	for _, s := range standings {
		if !s.Capped {
			back = append(back, s.AccountID)
		}
	}
	if len(back) == 0 {
		return
	}
	found, err := models.ListStandings(context.WithoutCancel(ctx), n.DB, back)
	n.log(ctx, err)
	waiting := lo.KeyBy(found, func(s models.Standing) models.AccountID { return s.AccountID })
	for i, s := range standings {
		if now, waits := waiting[s.AccountID]; waits {
			standings[i] = now
		}
	}
}

// stand removes accounts from their lines in the index, or returns them. It is not known which
// workers can run the jobs of returning accounts, so one worker of each kind looks.
func (n *Notifier) stand(ctx context.Context, standings []models.Standing) {
	n.log(ctx, n.Index.Stand(ctx, standings...))
	if slices.ContainsFunc(standings, func(s models.Standing) bool { return !s.Capped }) {
		n.Waiters.Look()
	}
}

func (n *Notifier) log(ctx context.Context, err error) {
	if err != nil {
		slog.DebugContext(ctx, "hint lost, the sweep will mend it", "error", err)
	}
}

const (
	// TopicChanges is the topic of changes of any job's status.
	TopicChanges = "jobs"
	// TopicDue is the topic of jobs whose time comes soon.
	TopicDue = "due"
	// TopicUnsettled is the topic of ends that leave jobs to the Settler.
	TopicUnsettled = "unsettled"
)

// dueSoon reports whether the job waits for a time that may come before a process that has just
// looked for due jobs looks again. The commit may take as long as a pause.
func (c *Change) dueSoon() bool {
	delayed := c.job.Status == models.JobScheduled || c.job.Status == models.JobBlocked && c.job.BlockedBy == 0
	return delayed && c.job.RunAt.Sub(c.now) < 2*dueEvery
}

// dueEvery is how often a process looks for due jobs although it knows of none: News may be
// lost.
const dueEvery = time.Second
