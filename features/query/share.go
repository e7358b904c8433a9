package query

import (
	"context"
	"sync"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/postgres"
)

// The price of a read is the number of fields in its lists if every page is full, plus more
// where PostgreSQL examines many rows. Reading an object by its id is free. A hundred fields
// take about a millisecond of processor time.
const (
	// FreePrice is the price up to which a read is neither counted nor delayed.
	FreePrice = 100
	// largePrice is the price from which a read counts as large.
	largePrice = 10_000
	// SearchPrice is the price of filtering jobs: one page may examine up to 10,000 rows.
	SearchPrice = 1000
	// CountPrice is the price of counting jobs.
	CountPrice = 1000
	// TotalsPrice is the price of summing up jobs, which may examine 200,000 rows.
	TotalsPrice = 20_000
)

// PagePrice is the price of a page of that many rows, each with the fields of a usual list.
func PagePrice(rows int) int { return rows * rowFields }

// rowFields is how many fields a row of a list has.
const rowFields = 20

const (
	// readRate is how many fields a second an account's budget grows, and readBurst is its
	// maximum.
	readRate  = 50_000
	readBurst = 250_000
	// operatorReads is how many times more an operator's key may read.
	operatorReads = 5
	// readWait is how long a read waits for its turn before it is refused.
	readWait = 2 * time.Second
	// maxReadRetry is the maximum retry time of a refused read.
	maxReadRetry = time.Minute
	// readsAtOnce is how many reads of each size an account may run at once.
	readsAtOnce = 2
	// forgetReads is the number of shares from which full ones are dropped.
	forgetReads = 1000
)

// Shares divides the cost of reads among accounts, in one process. Each account has a budget,
// and only few reads of an account run at once. The others wait in its own queue. Accounts
// take turns, so that one account's queue does not delay another account. Large reads wait
// separately, and fewer of them run at once: see postgres.OpenShared.
type Shares struct {
	mu           sync.Mutex
	shares       map[shareKey]*readShare
	small, large readLane
	refill       *time.Timer
}

// NewShares returns shares with that many small and large reads at once, at least one of each.
func NewShares(small, large int) *Shares {
	lane := func(most int) readLane {
		most = max(most, 1)
		return readLane{most: most, each: min(readsAtOnce, (most+1)/2)}
	}
	return &Shares{shares: map[shareKey]*readShare{}, small: lane(small), large: lane(large)}
}

// shareKey is the holder of a share: an account, or an operator's key. Operators of one
// account must not wait for each other's scripts.
type shareKey struct {
	account models.AccountID
	key     models.KeyID
}

// readShare is one holder's remaining budget.
type readShare struct {
	balance, rate, burst float64 // fields, fields a second, fields
	at                   time.Time
}

// grow adds what the balance has gained since the last call.
func (s *readShare) grow(now time.Time) {
	s.balance = min(s.burst, s.balance+now.Sub(s.at).Seconds()*s.rate)
	s.at = now
}

// readLane holds the reads of one size. Its queues are served in turn.
type readLane struct {
	most, each int // maximum running at once: in total, and of one share
	running    int
	queues     []*readQueue // of shares with reads here; the first one has the next turn
}

// readQueue is one share's reads in a lane.
type readQueue struct {
	share   *readShare
	running int
	waiting []*waitingRead
}

type waitingRead struct {
	price    float64
	admitted chan struct{} // closed when the read is admitted
}

// queue returns the share's queue.
func (l *readLane) queue(share *readShare) *readQueue {
	for _, q := range l.queues {
		if q.share == share {
			return q
		}
	}
	q := &readQueue{share: share}
	l.queues = append(l.queues, q)
	return q
}

// Admit waits until the caller's share allows a read of that price. It returns a context to
// read with, and the read, which the caller must end. It refuses a read that waits too long as
// RATE_LIMITED.
func (s *Shares) Admit(ctx context.Context, p jobs.Principal, price int) (context.Context, *Read, error) {
	return s.admit(ctx, p, price, readWait)
}

// Await is Admit for a stream: it waits until its context ends.
func (s *Shares) Await(ctx context.Context, p jobs.Principal, price int) (context.Context, *Read, error) {
	return s.admit(ctx, p, price, 0)
}

// admit waits until ctx ends if patience is 0. Workers' reads are not counted: they are small,
// and must not wait.
func (s *Shares) admit(ctx context.Context, p jobs.Principal, price int, patience time.Duration) (context.Context, *Read, error) {
	if price <= FreePrice || p.Role == access.RoleWorker {
		return postgres.AsRead(ctx, false), &Read{}, nil
	}
	lane := &s.small
	if price >= largePrice {
		lane = &s.large
	}
	q, w := s.join(lane, p, price)
	var late <-chan time.Time
	if patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-w.admitted:
	case <-ctx.Done():
	case <-late:
	}
	refused := s.leave(q, w)
	switch {
	case refused == nil:
		return postgres.AsRead(ctx, lane == &s.large), &Read{s, lane, q, w.price}, nil
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	}
	return nil, nil, refused
}

// Read is an admitted read.
type Read struct {
	shares *Shares // nil if the read is not counted
	lane   *readLane
	queue  *readQueue
	price  float64
}

// End makes room for the next read.
func (r *Read) End() { r.EndAt(int(r.price)) }

// EndAt ends a read that was cheaper than its price, and returns the rest to the budget.
func (r *Read) EndAt(price int) {
	if r.shares == nil {
		return
	}
	r.shares.mu.Lock()
	defer r.shares.mu.Unlock()
	r.queue.running--
	r.lane.running--
	now := time.Now()
	r.queue.share.balance += max(r.price-float64(price), 0)
	r.queue.share.grow(now)
	r.shares.next(now)
}

// join puts a read at the end of its share's queue.
func (s *Shares) join(lane *readLane, p jobs.Principal, price int) (*readQueue, *waitingRead) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	share := s.shareOf(p, now)
	q := lane.queue(share)
	w := &waitingRead{price: min(float64(price), share.burst), admitted: make(chan struct{})}
	q.waiting = append(q.waiting, w)
	s.next(now)
	return q, w
}

// leave removes a read from its queue. It returns nil if the read is admitted. Otherwise it
// returns the refusal, with the time after which the share can pay for this read and those
// that wait.
func (s *Shares) leave(q *readQueue, w *waitingRead) *apierror.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.admitted:
		return nil
	default:
	}
	now := time.Now()
	q.share.grow(now)
	lack := -q.share.balance
	for i, other := range q.waiting {
		lack += other.price
		if other == w {
			q.waiting = append(q.waiting[:i:i], q.waiting[i+1:]...)
			break
		}
	}
	s.next(now)
	after := time.Duration(max(lack, 0) / q.share.rate * float64(time.Second))
	return apierror.Later(apierror.CodeRateLimited, min(after, maxReadRetry),
		"This account reads too much at once: ask for shorter pages or fewer fields, or less often.")
}

// next admits the reads that may begin now, and schedules another look when a budget has
// grown. mu must be held.
func (s *Shares) next(now time.Time) {
	again := min(s.small.next(now), s.large.next(now))
	if s.refill != nil {
		s.refill.Stop()
		s.refill = nil
	}
	if again < never {
		s.refill = time.AfterFunc(again, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.next(time.Now())
		})
	}
}

// never is longer than any share takes to grow.
const never = time.Hour

// next admits the reads that may begin now, one of each queue in turn. It returns when the
// next share will have enough for its read, or never if none waits for that.
func (l *readLane) next(now time.Time) (again time.Duration) {
	again = never
	passed := 0 // consecutive queues without a read that may begin
	for l.running < l.most && passed < len(l.queues) {
		q := l.queues[0]
		switch {
		case len(q.waiting) == 0 && q.running == 0:
			l.queues = l.queues[1:]
			continue
		case len(q.waiting) > 0 && q.running < l.each:
			w := q.waiting[0]
			q.share.grow(now)
			if lack := w.price - q.share.balance; lack <= 0 {
				q.share.balance -= w.price
				q.waiting = q.waiting[1:]
				q.running++
				l.running++
				close(w.admitted)
				passed = -1
			} else {
				again = min(again, time.Duration(lack/q.share.rate*float64(time.Second))+time.Millisecond)
			}
		}
		l.queues = append(l.queues[1:], q)
		passed++
	}
	return again
}

// shareOf returns the caller's share. mu must be held.
func (s *Shares) shareOf(p jobs.Principal, now time.Time) *readShare {
	key, times := shareKey{account: p.AccountID}, 1.0
	if p.May(access.RoleViewer) {
		key.key, times = p.KeyID, operatorReads
	}
	share := s.shares[key]
	if share == nil {
		s.forget(now)
		share = &readShare{rate: times * readRate, burst: times * readBurst, balance: times * readBurst, at: now}
		s.shares[key] = share
	}
	return share
}

// forget drops shares that equal new ones. mu must be held.
func (s *Shares) forget(now time.Time) {
	if len(s.shares) < forgetReads {
		return
	}
	inUse := map[*readShare]bool{}
	for _, lane := range []*readLane{&s.small, &s.large} {
		for _, q := range lane.queues {
			inUse[q.share] = true
		}
	}
	for key, share := range s.shares {
		if share.grow(now); share.balance == share.burst && !inUse[share] {
			delete(s.shares, key)
		}
	}
}
