package console

import (
	"context"
	"sync"
	"time"

	"github.com/reelay/reelay/features/history"
)

// pasts shares the history that charts show between the viewers of this process.
type pasts struct {
	mu    sync.Mutex
	known map[string]*past
}

// past is the history of one range. Its mutex is held while it is read, so that one viewer reads
// and the others wait for the same.
type past struct {
	mu   sync.Mutex
	at   time.Time
	read []*history.Figures
}

// of returns the history of a range, not older than chartsFor.
func (s *pasts) of(ctx context.Context, span chartRange, read func(context.Context) ([]*history.Figures, error)) ([]*history.Figures, error) {
	s.mu.Lock()
	if s.known == nil {
		s.known = map[string]*past{}
	}
	one := s.known[span.Name]
	if one == nil {
		one = new(past)
		s.known[span.Name] = one
	}
	s.mu.Unlock()
	one.mu.Lock()
	defer one.mu.Unlock()
	if !one.at.IsZero() && time.Since(one.at) < chartsFor {
		return one.read, nil
	}
	began := time.Now()
	found, err := read(ctx)
	if err != nil {
		return nil, err
	}
	one.at, one.read = began, found
	return found, nil
}
