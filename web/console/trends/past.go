package trends

import (
	"context"
	"sync"
	"time"

	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/features/query"
)

// Reader reads what charts show, and shares the history between the viewers of this process.
type Reader struct {
	reads *query.Reads
	mu    sync.Mutex
	known map[string]*past
}

// NewReader returns a reader that has read nothing yet.
func NewReader(reads *query.Reads) *Reader { return &Reader{reads: reads} }

// past is the history of one range. Its mutex is held while it is read, so that one viewer reads
// and the others wait for the same.
type past struct {
	mu   sync.Mutex
	at   time.Time
	read []*history.Figures
}

// of returns the history of a range, not older than chartsFor.
func (s *Reader) of(ctx context.Context, span Range, read func(context.Context) ([]*history.Figures, error)) ([]*history.Figures, error) {
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

// chartsFor is how long charts are used for all viewers of this process.
const chartsFor = 10 * time.Second

// Past returns the history of a time, as all viewers of this process share it.
func (s *Reader) Past(ctx context.Context, span Range) ([]*history.Figures, error) {
	return s.of(ctx, span, func(ctx context.Context) ([]*history.Figures, error) {
		now := time.Now()
		found, err := s.reads.History.Timeline.Series(ctx, now.Add(-span.Length), now, span.Step)
		if n := len(found); n > 1 && found[n-1].Covered < span.Step/2 {
			found = found[:n-1] // it has hardly begun, and would look like a fall
		}
		return found, err
	})
}
