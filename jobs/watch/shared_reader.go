package watch

import (
	"context"
	"log/slog"
	"time"

	"github.com/reelay/reelay/models"
)

// shared is one reader for all who follow things of one kind in this process. It
// begins with the first of them and ends with the last, who waits for that.
type shared struct {
	pause time.Duration // how long news gather before a look
	// look reads what is new: of what there was news of, or of all.
	look func(ctx context.Context, all bool) error
	age  func()      // is called every ageLooks looks
	fail func(error) // is called when it cannot go on

	followers int // guarded by the watcher's mu
	news      chan struct{}
	ready     chan struct{} // closed after the first look
	stop      context.CancelFunc
	done      chan struct{}
}

// outagePause is how long a reader waits for a PostgreSQL that is away.
const outagePause = time.Second

// ageLooks is for how many looks without news what was read is kept at least.
// Thousands of followers take seconds to hear of one thing on a busy machine; were
// it dropped before, each of them would read it from PostgreSQL.
const ageLooks = 6

// enter adds a follower. The watcher's mu is held.
func (s *shared) enter() {
	s.followers++
	if s.followers > 1 {
		return
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	s.news, s.ready, s.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(s.done)
		s.fail(s.run(ctx))
		s.begun()
	}()
}

// heard has the reader look. It waits for nothing.
func (s *shared) heard() {
	select {
	case s.news <- struct{}{}:
	default: // it has news already
	}
}

// run reads until ctx ends, or look fails for a reason that does not pass.
func (s *shared) run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	all := true
	for looks := 1; ; {
		var again <-chan time.Time
		if err := s.look(ctx, all); models.IsOutage(err) && ctx.Err() == nil && s.hasBegun() {
			slog.DebugContext(ctx, "streams are late", "error", err)
			again = time.After(outagePause)
		} else if err != nil {
			return err
		}
		s.begun()
		all = true
		select {
		case <-s.news:
			all = again != nil // what the outage kept from being read is not forgotten
			if s.pause > 0 {
				time.Sleep(s.pause) // short: nobody who ends it minds
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

// begun lets the followers in.
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
