package watch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

const (
	// changePause is how long changes are collected before a look.
	changePause = 50 * time.Millisecond
	// changeOverlap is how far each look overlaps the one before: a transaction may become
	// visible that much later than it wrote.
	changeOverlap = 10 * time.Second
	// maxChanges bounds the changes that are held for slow followers.
	maxChanges = 4096
)

// errTooSlow ends a stream whose follower missed changes: they are not stored for later.
var errTooSlow = apierror.Later(apierror.CodeUnavailable, time.Second,
	"Changes were not read fast enough, and some are lost: read the list of jobs, and subscribe again.")

// Changes follows the status changes of jobs that the caller may see and that the filter
// matches. Each comes as the job's row at that time, with the new status. The stream begins
// with changes after the call and does not end. It fails with UNAVAILABLE for a follower so
// slow that changes were lost. Changes returns NOT_FOUND for an account that the caller may
// not see.
func (w *Watcher) Changes(ctx context.Context, p jobs.Principal, f joblist.JobFilter) (Stream[*models.Job], error) {
	f, err := query.Narrow(ctx, w.DB, p, f)
	if err != nil {
		return nil, err
	}
	if f.Dead {
		return nil, apierror.Invalid("filter.dead", "Dead letters cannot be followed: list them.")
	}
	if f.Aside() {
		return nil, apierror.Invalid("filter.search",
			"Changes cannot be followed by worker, pool, zone, checkpoint or bulk operation: list the jobs.")
	}
	feed, changes, at := w.joinChanges(f.AccountID)
	return &changeStream{w: w, feed: feed, changes: changes, at: at, filter: f}, nil
}

// changeStream is one follower of changes.
type changeStream struct {
	w       *Watcher
	feed    *changeFeed
	changes *ring[jobChange]
	at      int
	filter  joblist.JobFilter
	closed  atomic.Bool
}

// Next implements Stream.
func (s *changeStream) Next(context.Context) ([]*models.Job, error) {
	var matching []*models.Job
	for len(matching) == 0 {
		heard := s.changes.after(s.at)
		switch {
		case heard.err != nil:
			return nil, heard.err
		case heard.behind:
			return nil, errTooSlow
		case len(heard.items) == 0:
			return nil, nil
		}
		for _, c := range heard.items {
			if s.filter.Matches(c.job) {
				matching = append(matching, c.job)
			}
			s.at = c.n
		}
	}
	return matching, nil
}

// Wake implements Stream.
func (s *changeStream) Wake(f func()) {
	s.changes.wake(s, s.at, f)
	if s.closed.Load() { // a change came meanwhile
		s.changes.forget(s)
	}
}

// Close implements Stream.
func (s *changeStream) Close() {
	if s.closed.CompareAndSwap(false, true) {
		s.changes.forget(s)
		s.w.leaveChanges(s.feed, s.filter.AccountID)
	}
}

// jobChange is one change, with its number in this process.
type jobChange struct {
	n   int
	job *models.Job
}

// changeFeed reads the changes of all jobs for all followers in this process.
type changeFeed struct {
	shared
	db    bun.IDB
	from  jobs.Notifications
	quit  func()                    // ends its subscription to notifications; nil before the first look
	since time.Time                 // all changes before it were read
	seen  map[models.JobID]lastSeen // of the jobs that changed since then
	n     int

	mu       sync.Mutex
	accounts map[models.AccountID]*accountChanges // "" has those of all accounts
}

// lastSeen is the last known state of a job that changed recently.
type lastSeen struct {
	seq        int
	status     models.JobStatus
	completing int // the attempt whose COMPLETING was sent
}

type accountChanges struct {
	*ring[jobChange]
	followers int
}

// joinChanges follows the changes of an account's jobs, or of all jobs, from now on. after is the
// number of the newest change.
func (w *Watcher) joinChanges(account models.AccountID) (f *changeFeed, changes *ring[jobChange], after int) {
	w.mu.Lock()
	if f = w.changes; f == nil {
		f = w.newChangeFeed()
		w.changes = f
	}
	f.enter()
	changes = f.of(account)
	after = changes.newest()
	w.mu.Unlock()
	<-f.ready
	return f, changes, after
}

func (w *Watcher) newChangeFeed() *changeFeed {
	f := &changeFeed{db: w.DB, from: w.Notifications, accounts: map[models.AccountID]*accountChanges{}}
	f.shared = shared{
		pause: changePause, look: f.read,
		age: func() { f.each((*ring[jobChange]).age) },
		fail: func(err error) {
			w.mu.Lock()
			w.forgetChanges(f)
			w.mu.Unlock()
			f.quit()
			f.each(func(changes *ring[jobChange]) { changes.fail(err) })
		},
	}
	return f
}

func (w *Watcher) leaveChanges(f *changeFeed, account models.AccountID) {
	w.mu.Lock()
	f.leave(account)
	f.followers--
	last := f.followers == 0
	if last {
		w.forgetChanges(f)
	}
	w.mu.Unlock()
	if last {
		f.stop()
		<-f.done
	}
}

// forgetChanges makes the next follower begin a new feed. The watcher's mu must be held.
func (w *Watcher) forgetChanges(f *changeFeed) {
	if w.changes == f {
		w.changes = nil
	}
}

// of returns an account's changes since its first follower.
func (f *changeFeed) of(account models.AccountID) *ring[jobChange] {
	f.mu.Lock()
	defer f.mu.Unlock()
	changes := f.accounts[account]
	if changes == nil {
		changes = &accountChanges{ring: newRing(maxChanges, func(c jobChange) int { return c.n })}
		f.accounts[account] = changes
	}
	changes.followers++
	return changes.ring
}

func (f *changeFeed) leave(account models.AccountID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	changes := f.accounts[account]
	if changes.followers--; changes.followers == 0 {
		delete(f.accounts, account)
	}
}

func (f *changeFeed) each(do func(*ring[jobChange])) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, changes := range f.accounts {
		do(changes.ring)
	}
}

// read sends the changes since the last look. The first look only records the existing ones,
// so that no later change is missed.
func (f *changeFeed) read(ctx context.Context, _ bool) error {
	if f.quit == nil {
		f.quit = f.from.Subscribe(ctx, change.TopicChanges, f.notify)
	}
	now, err := postgres.Now(ctx, f.db)
	if err != nil {
		return fmt.Errorf("read the clock: %w", err)
	}
	if f.since.IsZero() {
		f.since = now.Add(-changeOverlap)
	}
	found, err := joblist.ListJobChanges(ctx, f.db, f.since)
	if err != nil {
		return fmt.Errorf("list changes of jobs: %w", err)
	}
	var news []joblist.JobChange
	seen := make(map[models.JobID]lastSeen, len(f.seen))
	for _, c := range found {
		last, known := seen[c.JobID]
		if !known {
			last = f.seen[c.JobID]
		}
		news = append(news, last.next(c)...)
		seen[c.JobID] = last
	}
	if f.seen != nil {
		if err := f.publish(ctx, news); err != nil {
			return err
		}
	}
	f.seen, f.since = seen, now.Add(-changeOverlap)
	return nil
}

// next returns what a change adds to the known state of its job. COMPLETING has no event of
// its own, but every COMPLETED job has passed it.
func (l *lastSeen) next(c joblist.JobChange) []joblist.JobChange {
	before := *l
	if c.Status == models.JobCompleting {
		l.seq, l.status, l.completing = max(l.seq, c.Seq), c.Status, c.AttemptNo
		if before.completing == c.AttemptNo {
			return nil
		}
		return []joblist.JobChange{c}
	}
	if c.Seq <= l.seq {
		return nil
	}
	l.seq, l.status = c.Seq, c.Status
	if c.Status == models.JobCompleted && before.status != models.JobCompleting {
		passed := c
		passed.Status = models.JobCompleting
		return []joblist.JobChange{passed, c}
	}
	return []joblist.JobChange{c}
}

// publish reads the rows of changed jobs, once for all followers.
func (f *changeFeed) publish(ctx context.Context, news []joblist.JobChange) error {
	if len(news) == 0 {
		return nil
	}
	var ids []models.JobID
	for _, c := range news {
		ids = append(ids, c.JobID)
	}
	rows, err := models.GetJobs(ctx, f.db, slices.Compact(ids))
	if err != nil {
		return fmt.Errorf("read jobs that changed: %w", err)
	}
	byID := make(map[models.JobID]*models.Job, len(rows))
	for _, job := range rows {
		byID[job.ID] = job
	}
	told := map[models.AccountID][]jobChange{}
	for _, c := range news {
		job := byID[c.JobID]
		if job == nil {
			continue // the row was removed
		}
		if job.Status != c.Status {
			then := *job
			then.Status = c.Status
			job = &then
		}
		f.n++
		told[job.AccountID] = append(told[job.AccountID], jobChange{f.n, job})
		told[""] = append(told[""], jobChange{f.n, job})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for account, changes := range f.accounts {
		changes.add(told[account]...)
	}
	return nil
}
