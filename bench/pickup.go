package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/reelay/reelay/bench/wire"
	"golang.org/x/sync/errgroup"
)

const (
	// pickupPause is long enough for the workers' next lease calls to arrive and wait.
	pickupPause = 150 * time.Millisecond
	// pickupLimit is how long a job can wait for a worker.
	pickupLimit = 30 * time.Second
)

const noopQuery = "mutation submitJob($input: SubmitJobInput!) { submitJob(input: $input) { job { id status } deduplicated } }"

func noopSubmission() any {
	return map[string]any{"input": map[string]any{"type": noop, "model": noop, "params": map[string]any{"payload": benchPrompt}}}
}

// pickups measures the time until a worker has a job while nothing else happens.
func pickups() Measurement {
	return Measurement{
		Name: "pickup", Title: "pickup, idle: from submit's answer to the job in a worker's hand", Unit: "jobs",
		Targets: []Target{
			{Name: "pickup p50 against River's", Figure: "p50", Against: "River", Bound: 1, AtMost: true},
			{Name: "pickup p99, ms", Figure: "p99", Bound: 10, AtMost: true},
		},
		Note: fmt.Sprintf("One job at a time, %v apart; two workers wait in leaseJob over HTTP. A lease that arrives before the answer counts as 0. p99 is that of one round, so it is close to the maximum.", pickupPause),
		Prepare: func(ctx context.Context, s *Site) ([]Contestant, error) {
			p, err := s.newPickup(ctx)
			if err != nil {
				return nil, err
			}
			n := s.n(60, 3)
			all := []Contestant{{Name: reelay, Role: Ours, Round: func(ctx context.Context) (Figures, error) { return p.round(ctx, n) }}}
			all = s.limit(ctx).with(all, func(l *limit) Contestant {
				return l.contestant("pickup", 1, 1, "TRUNCATE jobs, attempts", "one commit that submits, one that leases, by one client; its mean")
			})
			o := order{n: n, pause: pickupPause}
			o.what = "river pickup"
			all = s.peer(ctx, "river").with(all, "River", o, "in process, LISTEN/NOTIFY, its defaults")
			o.what = "asynq pickup"
			all = s.peer(ctx, "asynq").with(all, asynqName, o, "in process, Redis, polled each 20 ms (its default is 1 s)")
			o.what = "faktory pickup"
			return s.peer(ctx, "faktory").with(all, faktorName, o, "over TCP; does not commit"), nil
		},
	}
}

// pickup is a customer and waiting workers.
type pickup struct {
	customer *wire.Conn
	submit   []byte
	hands    []*hand
}

func (s *Site) newPickup(ctx context.Context) (*pickup, error) {
	customers, err := s.customers(ctx, 1)
	if err != nil {
		return nil, err
	}
	conns, err := s.conns(1, customers)
	if err != nil {
		return nil, err
	}
	b, err := newBody(noopQuery, noopSubmission(), "")
	if err != nil {
		return nil, err
	}
	hands, err := s.hands(ctx, 2)
	return &pickup{conns[0], b.text, hands}, err
}

// round measures n jobs. The first is not counted: it opens connections.
func (p *pickup) round(ctx context.Context, n int) (Figures, error) {
	taken := make(chan taking)
	working, stop := context.WithCancel(ctx)
	group, working := errgroup.WithContext(working)
	for _, h := range p.hands {
		group.Go(func() error {
			return h.work(working, func(at time.Time) {
				select {
				case taken <- taking{h.held.job, at}:
				case <-working.Done():
				}
			})
		})
	}
	var times []time.Duration
	group.Go(func() error {
		defer stop()
		for i := range n + 1 {
			late, err := p.once(working, taken)
			if err != nil {
				return err
			}
			if i > 0 {
				times = append(times, late)
			}
		}
		return nil
	})
	err := group.Wait()
	return percentiles(times), err
}

// taking is the receipt of a job by a worker.
type taking struct {
	job string
	at  time.Time
}

// once submits one job and waits for its lease. Leases of earlier jobs do not count.
func (p *pickup) once(ctx context.Context, taken <-chan taking) (time.Duration, error) {
	for rest := time.After(pickupPause); rest != nil; {
		select {
		case <-taken:
		case <-rest:
			rest = nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	// a worker can have the job before the customer has the answer
	answers := make(chan submitted, 1)
	go func() {
		answer, err := p.customer.Post(p.submit)
		at := time.Now()
		job, _ := wire.Field(answer, "id")
		answers <- submitted{job, at, err}
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, pickupLimit, fmt.Errorf("no worker got the job within %v", pickupLimit))
	defer cancel()
	came := map[string]time.Time{}
	var answered submitted
	for {
		if at, ok := came[answered.job]; ok && answered.job != "" {
			return max(0, at.Sub(answered.at)), nil
		}
		select {
		case t := <-taken:
			came[t.job] = t.at
		case answered = <-answers:
			if answered.err != nil {
				return 0, answered.err
			}
		case <-ctx.Done():
			p.customer.Close() // aborts the request, so that the connection can be used again
			return 0, context.Cause(ctx)
		}
	}
}

// submitted is the answer to a submit.
type submitted struct {
	job string
	at  time.Time
	err error
}

// work leases and completes jobs until ctx ends. That aborts the wait for a job, but not
// the completion: a worker that still held a job would get none in the next round.
func (h *hand) work(ctx context.Context, took func(at time.Time)) error {
	for ctx.Err() == nil {
		stay := context.AfterFunc(ctx, h.conn.Close)
		answer, err := h.conn.Post(h.lease)
		at := time.Now()
		stay()
		if err == nil {
			if h.held = leaseIn(answer); h.held == (lease{}) {
				err = wire.ErrLater
			} else {
				took(at)
				_, err = h.cycle(false)
			}
		}
		if errors.Is(err, wire.ErrLater) {
			err = pause(ctx, comeAgain)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// busyPickups measures the same while jobs arrive at half the maximum rate.
func busyPickups() Measurement {
	return Measurement{
		Name: "pickup", Title: "pickup at half of the maximum load", Unit: "jobs",
		Targets: []Target{{Name: "pickup at half of the maximum load, p99, ms", Figure: "p99", Bound: 100, AtMost: true}},
		Note:    "The maximum load is 1/(1/submits per second + 1/(lease + completeJob per second)), each measured alone before. 32 connections submit one job per call; 100 workers. Times are from submit's answer to the lease, matched in order of time.",
		Prepare: func(ctx context.Context, s *Site) ([]Contestant, error) {
			f, err := s.newFloor(ctx, s.sized(leaseWorkers, 4), accountsOfBench)
			if err != nil {
				return nil, err
			}
			customers, err := s.customers(ctx, accountsOfBench)
			if err != nil {
				return nil, err
			}
			conns, err := s.conns(s.sized(32, 2), customers)
			if err != nil {
				return nil, err
			}
			b, err := newBody(noopQuery, noopSubmission(), "")
			if err != nil {
				return nil, err
			}
			rate, err := f.halfLoad(ctx, conns, b.text)
			if err != nil {
				return nil, err
			}
			s.Say(fmt.Sprintf("  half of the maximum load is %.0f jobs/s", rate))
			return []Contestant{{Name: reelay, Role: Ours, Round: func(ctx context.Context) (Figures, error) {
				return f.paced(ctx, rate, conns, b.text)
			}}}, nil
		},
	}
}

// halfLoad measures the maximum rate of concurrent submits and completions, and returns half
// of it.
func (f *floor) halfLoad(ctx context.Context, conns []*wire.Conn, body []byte) (float64, error) {
	var steps []step
	for _, c := range conns {
		steps = append(steps, func() (int, error) {
			_, err := c.Post(body)
			if err == nil {
				f.waiting.Add(1)
			}
			return 1, err
		})
	}
	submits, err := f.site.atLoad(ctx, steps)
	if err != nil {
		return 0, err
	}
	cycles, err := f.round(ctx, false)
	if err != nil {
		return 0, err
	}
	if err := f.drain(ctx); err != nil { // workers would lease the waiting jobs first
		return 0, err
	}
	return 0.5 / (1/max(1, submits["rate"]) + 1/max(1, cycles["rate"])), nil
}

// drain processes all waiting jobs.
func (f *floor) drain(ctx context.Context) error {
	for _, h := range f.hands {
		h.hasty = true
		defer func() { h.hasty = false }()
	}
	_, _, err := atLoad(ctx, drainLimit, f.steps[0])
	f.waiting.Store(0)
	return err
}

// drainLimit is how long drain can take.
const drainLimit = 10 * time.Minute

// paced submits jobs at a rate and measures how long each waits.
func (f *floor) paced(ctx context.Context, rate float64, conns []*wire.Conn, body []byte) (Figures, error) {
	var mu sync.Mutex
	var came, taken []time.Time
	working, stop := context.WithCancel(ctx)
	workers, working := errgroup.WithContext(working)
	for _, h := range f.hands {
		workers.Go(func() error {
			return h.work(working, func(at time.Time) {
				mu.Lock()
				defer mu.Unlock()
				taken = append(taken, at)
			})
		})
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(came) - len(taken)
	}
	workers.Go(func() error {
		defer stop()
		_, err := atPace(working, evenly(rate), f.site.Effort.Span, len(conns), func(i int) error {
			_, err := conns[i].Post(body)
			mu.Lock()
			defer mu.Unlock()
			came = append(came, time.Now())
			return err
		})
		for begun := time.Now(); err == nil && count() > 0 && time.Since(begun) < pickupLimit; {
			err = pause(working, comeAgain)
		}
		return err
	})
	if err := workers.Wait(); err != nil {
		return nil, err
	}
	return waits(came, taken), nil
}

// waits pairs submits with leases in order of time. The order in which waiting jobs are
// leased does not change their total waiting time.
func waits(submitted, taken []time.Time) Figures {
	slices.SortFunc(submitted, time.Time.Compare)
	slices.SortFunc(taken, time.Time.Compare)
	if extra := len(taken) - len(submitted); extra > 0 {
		taken = taken[extra:] // leases of earlier jobs
	}
	times := make([]time.Duration, len(taken))
	for i := range taken {
		times[i] = max(0, taken[i].Sub(submitted[i]))
	}
	f := percentiles(times)
	f["unserved"] = float64(len(submitted) - len(taken))
	return f
}

// pace returns the time from one call to the next.
type pace func() time.Duration

// evenly makes rate calls per second at equal intervals.
func evenly(rate float64) pace {
	gap := time.Duration(float64(time.Second) / rate)
	return func() time.Duration { return gap }
}

// independently makes rate calls per second, like many independent callers: the intervals
// are exponentially distributed (a Poisson process).
func independently(rate float64) pace {
	return func() time.Duration { return time.Duration(rand.ExpFloat64() / rate * float64(time.Second)) }
}

// atPace calls do at a pace for the time span, with this many concurrent callers. It
// measures each call from the moment at which it was due, so that the delay behind a slow
// call counts.
func atPace(ctx context.Context, gap pace, span time.Duration, callers int, do func(caller int) error) (Figures, error) {
	began := time.Now()
	times, err := whilePaced(ctx, gap, func(due time.Time) bool { return due.Sub(began) < span }, callers, do)
	if err != nil {
		return nil, err
	}
	f := percentiles(times)
	f["rate"] = float64(len(times)) / time.Since(began).Seconds()
	return f, nil
}

// whilePaced is atPace for as long as more is true of the moment at which a call is due. It
// returns how long the calls took.
func whilePaced(ctx context.Context, gap pace, more func(due time.Time) bool, callers int, do func(caller int) error) ([]time.Duration,
	error) {
	next := time.Now()
	var mu sync.Mutex
	var times []time.Duration
	group, ctx := errgroup.WithContext(ctx)
	rest, over := context.WithCancel(ctx) // ends with the first call that is not made any more
	defer over()
	for caller := range callers {
		group.Go(func() error {
			for {
				mu.Lock()
				due := next
				next = due.Add(gap())
				mu.Unlock()
				if err := pause(rest, time.Until(due)); err != nil {
					return ctx.Err()
				}
				if !more(due) {
					over()
					return nil
				}
				if err := do(caller); err != nil {
					return err
				}
				late := time.Since(due)
				mu.Lock()
				times = append(times, late)
				mu.Unlock()
			}
		})
	}
	err := group.Wait()
	return times, err
}
