package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// pickupPause lets the workers' next lease calls arrive, so that they wait.
	pickupPause = 150 * time.Millisecond
	// pickupLimit is how long a job may wait for one of them.
	pickupLimit = 30 * time.Second
)

const noopQuery = "mutation submitJob($input: SubmitJobInput!) { submitJob(input: $input) { job { id status } deduplicated } }"

func noopSubmission() any {
	return map[string]any{"input": map[string]any{"type": noop, "model": noop, "params": map[string]any{"payload": benchPrompt}}}
}

// pickups is the time until a worker has a job, while nothing else happens.
func pickups() Measurement {
	return Measurement{
		Name: "pickup", Title: "pickup, idle: from submit's answer to the job in a worker's hand", Unit: "jobs",
		Targets: []Target{
			{Name: "pickup p50 against River's", Figure: "p50", Against: "River", Bound: 1, AtMost: true},
			{Name: "pickup p99, ms", Figure: "p99", Bound: 10, AtMost: true},
		},
		Note: fmt.Sprintf("One job at a time, %v apart; two workers wait in leaseJob over HTTP. A lease that arrives before the answer counts as 0. p99 is of one round, so close to its worst.", pickupPause),
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

// pickup is a customer, and workers that wait.
type pickup struct {
	customer *conn
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

// hands are workers that can take jobs.
func (s *Site) hands(ctx context.Context, n int) ([]*hand, error) {
	workers, err := s.workers(ctx, n, noop)
	if err != nil {
		return nil, err
	}
	tokens := make([]string, n)
	for i, w := range workers {
		tokens[i] = w.token
	}
	conns, err := s.conns(n, tokens)
	if err != nil {
		return nil, err
	}
	all := make([]*hand, n)
	for i, w := range workers {
		if all[i], err = newHand(conns[i], w.id); err != nil {
			return nil, err
		}
	}
	return all, nil
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

// taking is a job that came to a worker's hand.
type taking struct {
	job string
	at  time.Time
}

// once submits one job and waits for its lease; others, from before, do not count.
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
	// a worker may have the job before the customer has the answer
	answers := make(chan submitted, 1)
	go func() {
		answer, err := p.customer.post(p.submit)
		at := time.Now()
		job, _ := field(answer, "id")
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
			p.customer.close() // so that it can be used again
			return 0, context.Cause(ctx)
		}
	}
}

// submitted is a submit's answer.
type submitted struct {
	job string
	at  time.Time
	err error
}

// work takes jobs and ends them until ctx ends. That cuts off the wait for a job, but
// not its end: a worker that has a job in another round asks for one in vain.
func (h *hand) work(ctx context.Context, took func(at time.Time)) error {
	for ctx.Err() == nil {
		stay := context.AfterFunc(ctx, h.conn.close)
		answer, err := h.conn.post(h.lease)
		at := time.Now()
		stay()
		if err == nil {
			if h.held = leaseIn(answer); h.held == (lease{}) {
				err = errLater
			} else {
				took(at)
				_, err = h.cycle(false)
			}
		}
		if errors.Is(err, errLater) {
			err = pause(ctx, comeAgain)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// busyPickups is the same while jobs come at half the rate that Reelay can take.
func busyPickups() Measurement {
	return Measurement{
		Name: "pickup", Title: "pickup at half of the maximum load", Unit: "jobs",
		Targets: []Target{{Name: "pickup at half of the maximum load, p99, ms", Figure: "p99", Bound: 100, AtMost: true}},
		Note:    "The maximum is what a job costs, alone: 1/(1/submits per second + 1/(lease + completeJob per second)), each measured before. Jobs come one by one over 32 connections; 100 workers. From submit's answer to the lease, matched in order of time.",
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

// halfLoad measures half of what can be submitted and worked off at once.
func (f *floor) halfLoad(ctx context.Context, conns []*conn, body []byte) (float64, error) {
	var steps []step
	for _, c := range conns {
		steps = append(steps, func() (int, error) {
			_, err := c.post(body)
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
	if err := f.drain(ctx); err != nil { // what waits would be taken first
		return 0, err
	}
	return 0.5 / (1/max(1, submits["rate"]) + 1/max(1, cycles["rate"])), nil
}

// drain works off all that waits.
func (f *floor) drain(ctx context.Context) error {
	for _, h := range f.hands {
		h.hasty = true
		defer func() { h.hasty = false }()
	}
	_, _, err := atLoad(ctx, drainLimit, f.steps[0])
	f.waiting.Store(0)
	return err
}

// drainLimit is how long that may take.
const drainLimit = 10 * time.Minute

// paced has jobs come at a rate, and measures how long each waits.
func (f *floor) paced(ctx context.Context, rate float64, conns []*conn, body []byte) (Figures, error) {
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
			_, err := conns[i].post(body)
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

// waits pairs the submits with the leases in order of time. Which job of those
// that wait goes first does not change what is waited in all.
func waits(submitted, taken []time.Time) Figures {
	slices.SortFunc(submitted, time.Time.Compare)
	slices.SortFunc(taken, time.Time.Compare)
	if extra := len(taken) - len(submitted); extra > 0 {
		taken = taken[extra:] // jobs from before
	}
	times := make([]time.Duration, len(taken))
	for i := range taken {
		times[i] = max(0, taken[i].Sub(submitted[i]))
	}
	f := percentiles(times)
	f["unserved"] = float64(len(submitted) - len(taken))
	return f
}

// pace is how long after a call the next one is due.
type pace func() time.Duration

// evenly makes rate calls a second, all at the same distance.
func evenly(rate float64) pace {
	gap := time.Duration(float64(time.Second) / rate)
	return func() time.Duration { return gap }
}

// independently makes rate calls a second as many callers do who do not know of each
// other: their distances are exponentially distributed (a Poisson process).
func independently(rate float64) pace {
	return func() time.Duration { return time.Duration(rand.ExpFloat64() / rate * float64(time.Second)) }
}

// atPace calls do at that pace for that span, from so many callers at once, and
// returns how long each call took from the moment at which it was due: a caller
// that is held up does not make the others late unseen.
func atPace(ctx context.Context, gap pace, span time.Duration, callers int, do func(caller int) error) (Figures, error) {
	began := time.Now()
	next, end := began, began.Add(span)
	var mu sync.Mutex
	var times []time.Duration
	group, ctx := errgroup.WithContext(ctx)
	for caller := range callers {
		group.Go(func() error {
			for {
				mu.Lock()
				due := next
				next = due.Add(gap())
				mu.Unlock()
				if !due.Before(end) {
					return nil
				}
				if err := pause(ctx, time.Until(due)); err != nil {
					return err
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
	if err := group.Wait(); err != nil {
		return nil, err
	}
	f := percentiles(times)
	f["rate"] = float64(len(times)) / time.Since(began).Seconds()
	return f, nil
}
