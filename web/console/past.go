package console

import (
	"context"
	"sync"
	"time"

	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/features/query"
)

// chartReader reads what charts show, and shares the history between the viewers of this process.
type chartReader struct {
	reader *query.Reader
	mu     sync.Mutex
	known  map[string]*past
}

func newChartReader(reader *query.Reader) *chartReader { return &chartReader{reader: reader} }

// past is the history of one range. Its mutex is held while it is read, so that one viewer reads
// and the others wait for the same.
type past struct {
	mu   sync.Mutex
	at   time.Time
	read []*history.Figures
}

// of returns the history of a range, not older than chartsFor.
func (s *chartReader) of(ctx context.Context, span chartRange, read func(context.Context) ([]*history.Figures, error)) ([]*history.Figures, error) {
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

// past returns the history of a time, as all viewers of this process share it.
func (s *chartReader) past(ctx context.Context, span chartRange) ([]*history.Figures, error) {
	return s.of(ctx, span, func(ctx context.Context) ([]*history.Figures, error) {
		now := time.Now()
		found, err := s.reader.History.Series(ctx, now.Add(-span.Length), now, span.Step)
		if n := len(found); n > 1 && found[n-1].Covered < span.Step/2 {
			found = found[:n-1] // it has hardly begun, and would look like a fall
		}
		return found, err
	})
}
