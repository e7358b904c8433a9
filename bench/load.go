package bench

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/bench/procfs"
	"github.com/reelay/reelay/bench/wire"
	"golang.org/x/sync/errgroup"
)

// step does one unit of work and returns how many operations that was.
type step func() (int, error)

// errNoMore ends one caller and is not a failure.
var errNoMore = errors.New("there is nothing more to do")

// comeAgain is how long a caller waits after wire.ErrLater. It is shorter than the API asks for,
// so that the system is never idle.
const comeAgain = 50 * time.Millisecond

// atLoad runs the package's atLoad for the span of a round. It adds the microseconds of
// processor time per operation for each kind of process of this Reelay and its stores.
// Other load on the machine hardly changes them. They do not include deferred work.
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

// atLoad lets each caller repeat its step until span has passed. It returns the rate, the
// time that a step takes, and the number of operations. A step that returns wire.ErrLater counts
// as refused.
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
				if errors.Is(err, wire.ErrLater) {
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

// percentiles returns the median and the 99th percentile in milliseconds, and sorts times.
func percentiles(times []time.Duration) Figures {
	slices.Sort(times)
	return Figures{"p50": percentile(times, 0.50), "p99": percentile(times, 0.99)}
}

// percentile uses the nearest rank, so that each figure is a measured value. It returns
// milliseconds, and 0 if there are no times.
func percentile(sorted []time.Duration, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[max(0, int(math.Ceil(p*float64(len(sorted))))-1)].Microseconds()) / 1000
}

// conns opens n connections, which use the keys in turn. They are closed after the
// measurement.
func (s *Site) conns(n int, keys []string) ([]*wire.Conn, error) {
	host, err := s.host()
	if err != nil {
		return nil, err
	}
	all := make([]*wire.Conn, n)
	for i := range all {
		all[i] = wire.NewConn(host, keys[i%len(keys)])
	}
	s.later(func(context.Context) error {
		for _, c := range all {
			c.Close()
		}
		return nil
	})
	return all, nil
}

// usage begins to count processor time. The function that it returns adds how many cores each
// kind of process has used since then; bench is this process.
func (s *Site) usage() func(f Figures) {
	began, before, self := time.Now(), s.processorTimes(), procfs.Process(os.Getpid())
	own, unknown := self.CPU()
	return func(f Figures) {
		took := time.Since(began).Seconds()
		for kind, spent := range s.processorTimes() {
			f[kind+" cores"] = (spent - before[kind]).Seconds() / took
		}
		if now, err := self.CPU(); err == nil && unknown == nil {
			f["bench cores"] = (now - own).Seconds() / took
		}
	}
}

// processorTimes returns the processor time of each kind of process, including its unnamed
// children. The processes api-1 and api-2 are of one kind. It is empty if no processes are
// known.
func (s *Site) processorTimes() map[string]time.Duration {
	times, named := map[string]time.Duration{}, map[procfs.Process]bool{}
	for _, p := range s.Staff {
		named[p] = true
	}
	for name, p := range s.Staff {
		kind, _, _ := strings.Cut(name, "-")
		family, err := p.Family()
		for _, member := range family {
			if member != p && named[member] {
				continue
			}
			spent, gone := member.CPU()
			if gone != nil && member != p {
				continue // a child that has ended
			}
			err = errors.Join(err, gone)
			times[kind] += spent
		}
		if err != nil {
			s.Say("  " + err.Error())
			delete(times, kind)
		}
	}
	return times
}
