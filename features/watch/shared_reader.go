package watch

import (
	"context"
	"log/slog"
	"time"

	"github.com/reelay/reelay/internal/periodic"
	"github.com/reelay/reelay/models/postgres"
)

// shared is one reader for all followers of one kind in this process. It starts with the first
// follower and ends with the last, which waits for that.
type shared struct {
	pause time.Duration // how long notifications are collected before a look
	// look reads the new items of the jobs with notifications, or of all.
	look func(ctx context.Context, all bool) error
	age  func()      // called every ageLooks looks
	fail func(error) // called when the reader cannot continue

	followers int // guarded by the watcher's mu
	notified  periodic.Wake
	ready     chan struct{} // closed after the first look
	stop      context.CancelFunc
	done      chan struct{}
}

// outagePause is how long a reader waits before it tries PostgreSQL again after an outage.
const outagePause = time.Second

// ageLooks is how many looks without notifications keep the items that were read. Thousands of
// followers take seconds to handle one item on a busy machine. If it were dropped sooner, each
// of them would read it from PostgreSQL.
const ageLooks = 6

// enter adds a follower. The watcher's mu is held.
func (s *shared) enter() {
	s.followers++
	if s.followers > 1 {
		return
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	s.notified, s.ready, s.done = periodic.NewWake(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(s.done)
		s.fail(s.run(ctx))
		s.begun()
	}()
}

// notify requests a look. It does not block.
func (s *shared) notify() { s.notified.Send() }

// run reads until ctx ends, or look fails permanently.
func (s *shared) run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	all := true
	for looks := 1; ; {
		var again <-chan time.Time
		if err := s.look(ctx, all); postgres.IsOutage(err) && ctx.Err() == nil && s.hasBegun() {
			slog.DebugContext(ctx, "streams are late", "error", err)
			again = time.After(outagePause)
		} else if err != nil {
			return err
		}
		s.begun()
		all = true
		select {
		case <-s.notified:
			all = again != nil // after an outage, read everything
			if s.pause > 0 {
				time.Sleep(s.pause) // short: it need not be interruptible
			}
		case <-tick.C:
			if looks++; looks%ageLooks == 0 {
				s.age()
			}
		case <-again:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// begun lets the waiting followers in.
func (s *shared) begun() {
	if !s.hasBegun() {
		close(s.ready)
	}
}

func (s *shared) hasBegun() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}
