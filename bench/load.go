package bench

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// step does one thing and says how many operations that was.
type step func() (int, error)

// errNoMore ends one caller without being a failure.
var errNoMore = errors.New("there is nothing more to do")

// comeAgain is how long a caller waits that was refused for now. It is less than
// it was told, so that it does not look like rest.
const comeAgain = 50 * time.Millisecond

// atLoad is atLoad for the span of a round, with the microseconds of processor time
// that an operation took of each kind of process of this Reelay and its stores: what
// else the machine does hardly moves them. What they put off is not in it.
func (s *Site) atLoad(ctx context.Context, callers []step) (Figures, error) {
	before := s.processorTimes()
	f, operations, err := atLoad(ctx, s.Effort.Span, callers)
	if err != nil || operations == 0 {
		return f, err
	}
	for kind, spent := range s.processorTimes() {
		f[kind+" µs"] = float64((spent - before[kind]).Microseconds()) / float64(operations)
	}
	return f, nil
}

// atLoad has each caller do its step, over and over, until span is over, and
// returns the rate, the time that a step takes, and how many operations that were.
// Steps that were refused for now count as refused.
func atLoad(ctx context.Context, span time.Duration, callers []step) (f Figures, operations int, err error) {
	began := time.Now()
	end := began.Add(span)
	times, counts := make([][]time.Duration, len(callers)), make([]int, len(callers))
	ends, refused := make([]time.Time, len(callers)), make([]int, len(callers))
	group, ctx := errgroup.WithContext(ctx)
	for i, do := range callers {
		group.Go(func() error {
			at := time.Now()
			for at.Before(end) && ctx.Err() == nil {
				n, err := do()
				if errors.Is(err, errNoMore) {
					break
				}
				if errors.Is(err, errLater) {
					refused[i]++
					err = pause(ctx, comeAgain)
					at = time.Now()
					if err == nil {
						continue
					}
				}
				if err != nil {
					return err
				}
				now := time.Now()
				times[i], counts[i], at = append(times[i], now.Sub(at)), counts[i]+n, now
			}
			ends[i] = at
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return nil, 0, err
	}
	refusals := 0
	for i := range callers {
		operations, refusals = operations+counts[i], refusals+refused[i]
	}
	f = percentiles(slices.Concat(times...))
	f["rate"] = float64(operations) / slices.MaxFunc(ends, time.Time.Compare).Sub(began).Seconds()
	if refusals > 0 {
		f["refused"] = float64(refusals)
	}
	return f, operations, nil
}

// percentiles takes the nearest rank: each figure is one that was measured.
func percentiles(times []time.Duration) Figures {
	slices.Sort(times)
	at := func(p float64) float64 {
		if len(times) == 0 {
			return 0
		}
		return float64(times[max(0, int(math.Ceil(p*float64(len(times))))-1)].Microseconds()) / 1000
	}
	return Figures{"p50": at(0.50), "p99": at(0.99)}
}

// conns are so many connections, taking turns with the keys. They are closed when
// the measurement is over.
func (s *Site) conns(n int, keys []string) ([]*conn, error) {
	host, err := s.host()
	if err != nil {
		return nil, err
	}
	all := make([]*conn, n)
	for i := range all {
		all[i] = newConn(host, keys[i%len(keys)])
	}
	s.later(func(context.Context) error {
		for _, c := range all {
			c.close()
		}
		return nil
	})
	return all, nil
}
