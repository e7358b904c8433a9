package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/reelay/reelay/bench/wire"
	"github.com/reelay/reelay/client"
)

// noop is a model whose jobs end with a JSON output and no objects.
const noop = "bench.noop"

const (
	leaseQuery = "mutation leaseJob($input: LeaseJobInput!) { leaseJob(input: $input) { lease { attemptId fencingToken job { id params } } } }"
	endQuery   = "mutation completeJob($input: CompleteJobInput!) { completeJob(input: $input) { job { id status } next { attemptId fencingToken job { id params } } } }"
)

// leaseWorkers is how many workers run at once, as in the target.
const leaseWorkers = 100

// leaseAndComplete measures the lease and the completion of jobs by remote workers.
func leaseAndComplete() Measurement {
	const against, withNext = "Faktory FETCH + ACK", reelay + " with leaseNext"
	return Measurement{
		Name: "lease", Title: "lease + completeJob, 100 remote workers", Unit: "jobs",
		Targets: []Target{
			{Name: "lease + completeJob, two requests a job, against Faktory's FETCH + ACK", Figure: "rate", Against: against, Bound: 1},
			{Name: "the same with leaseNext, one request a job", Figure: "rate", Of: withNext, Against: against, Bound: 1.5},
		},
		Note: "Ours: GraphQL over HTTP, each call checks the token and the fence and commits the attempt, events and outbox. Jobs of 8 accounts in fair order, JSON output, no object.",
		Prepare: func(ctx context.Context, s *Site) ([]Contestant, error) {
			n := s.sized(leaseWorkers, 4)
			f, err := s.newFloor(ctx, n, accountsOfBench)
			if err != nil {
				return nil, err
			}
			all := []Contestant{
				{Name: reelay, Role: Ours, Round: func(ctx context.Context) (Figures, error) { return f.round(ctx, false) }},
				{Name: withNext, Role: Ours, Round: func(ctx context.Context) (Figures, error) { return f.round(ctx, true) }},
			}
			all = s.limit(ctx).with(all, func(l *limit) Contestant {
				fill := fmt.Sprintf("TRUNCATE jobs, attempts, events, outbox; INSERT INTO jobs (params) SELECT jsonb_build_object('payload', repeat('x', 384)) FROM generate_series(1, %d); ANALYZE jobs",
					int(20_000*max(1, s.Effort.Span.Seconds())))
				return l.contestant("lease-complete", 8, 1, fill, "two statements a job, 8 clients (its best)")
			})
			deep := int(30_000 * s.Effort.Span.Seconds())
			all = s.peer(ctx, "faktory").with(all, against, order{what: "faktory work", clients: n, n: deep / 2},
				"over TCP; no history, no fence, up to 30 s may be lost")
			all = s.peer(ctx, "river").with(all, "River", order{what: "river work", clients: n, n: deep},
				"in process, no network; FetchCooldown 1 ms, 100 workers; completes in batches, one row")
			all = s.peer(ctx, "asynq").with(all, asynqName, order{what: "asynq work", clients: n}, "in process, Redis, kept for an hour as history")
			return all, nil
		},
	}
}

// floor is a set of workers that process waiting jobs.
type floor struct {
	site    *Site
	sellers []*client.Client
	keys    []string
	hands   []*hand
	steps   [2][]step // without and with leaseNext
	waiting atomic.Int64
	ended   atomic.Int64
	rate    float64 // of the last round
}

// newFloor creates n workers, and accounts that submit jobs for them.
func (s *Site) newFloor(ctx context.Context, n, accounts int) (*floor, error) {
	customers, err := s.customers(ctx, accounts)
	if err != nil {
		return nil, err
	}
	f := &floor{site: s, rate: float64(s.sized(3000, 100)), keys: customers}
	for _, key := range customers {
		f.sellers = append(f.sellers, s.Admin.WithKey(key))
	}
	if f.hands, err = s.hands(ctx, n); err != nil {
		return nil, err
	}
	for _, h := range f.hands {
		f.steps[0] = append(f.steps[0], func() (int, error) { return f.took(h.cycle(false)) })
		f.steps[1] = append(f.steps[1], func() (int, error) { return f.took(h.cycle(true)) })
	}
	return f, nil
}

func (f *floor) took(n int, err error) (int, error) {
	f.waiting.Add(-int64(n))
	f.ended.Add(int64(n))
	return n, err
}

// round submits so many jobs that no worker waits, and then lets the workers run.
func (f *floor) round(ctx context.Context, next bool) (Figures, error) {
	if err := f.fill(ctx, int(1.5*f.rate*f.site.Effort.Span.Seconds())+20*len(f.steps[0])); err != nil {
		return nil, err
	}
	steps := f.steps[0]
	if next {
		steps = f.steps[1]
	}
	figures, err := f.site.atLoad(ctx, steps)
	if err != nil {
		return nil, err
	}
	f.rate = max(f.rate, figures["rate"])
	return figures, f.settle(ctx)
}

// settle ends the held jobs, since their leases would expire before the next round.
func (f *floor) settle(ctx context.Context) error {
	return atOnce(ctx, len(f.hands), func(ctx context.Context, i int) error {
		var err error
		for f.hands[i].held != (lease{}) && ctx.Err() == nil {
			n := 0
			if n, err = f.hands[i].cycle(false); err != nil && !errors.Is(err, wire.ErrLater) {
				return err
			}
			f.waiting.Add(-int64(n))
		}
		return ctx.Err()
	})
}

// fillEach is how many jobs one call of fill submits.
const fillEach = 500

// fill submits until this many jobs wait, or up to fillEach more.
func (f *floor) fill(ctx context.Context, n int) error {
	missing := n - int(f.waiting.Load())
	if missing <= 0 {
		return nil
	}
	calls := (missing + fillEach - 1) / fillEach
	params := json.RawMessage(`{"payload":"` + benchPrompt + `"}`)
	many := make([]client.SubmitJobInput, fillEach)
	for i := range many {
		many[i] = client.SubmitJobInput{Type: new(noop), Model: noop, Params: &params}
	}
	return atOnce(ctx, calls, func(ctx context.Context, i int) error {
		_, err := f.sellers[i%len(f.sellers)].SubmitJobs(ctx, many)
		if err == nil {
			f.waiting.Add(fillEach)
		}
		return err
	})
}

// hand is a remote worker that leases and completes jobs.
type hand struct {
	conn  *wire.Conn
	lease []byte // the request for a job, which waits for one
	now   []byte // the same request without waiting
	hasty bool   // whether it uses the request without waiting
	held  lease
	out   []byte
}

// lease is the lease of a job. The zero value means that the worker holds no job.
type lease struct{ attempt, token, job string }

func newHand(c *wire.Conn, worker string) (*hand, error) {
	h := &hand{conn: c}
	for request, wait := range map[*[]byte]int{&h.lease: 20, &h.now: 0} {
		b, err := newBody(leaseQuery, map[string]any{"input": map[string]any{"workerId": worker, "waitSeconds": wait}}, "")
		if err != nil {
			return nil, err
		}
		*request = b.text
	}
	return h, nil
}

// cycle completes one job. If next is set, it leases the next job in the same request.
func (h *hand) cycle(next bool) (int, error) {
	if h.held == (lease{}) {
		if err := h.take(); err != nil {
			return 0, err
		}
	}
	h.out = append(h.out[:0], `{"query":"`+endQuery+`","variables":{"input":{"attemptId":"`...)
	h.out = append(h.out, h.held.attempt...)
	h.out = append(append(h.out, `","fencingToken":"`...), h.held.token...)
	h.out = append(h.out, `","result":{"ok":true}`...)
	if next {
		h.out = append(h.out, `,"leaseNext":true`...)
	}
	answer, err := h.conn.Post(append(h.out, `}}}`...))
	if errors.Is(err, wire.ErrLost) { // too much time passed between two rounds
		h.held = lease{}
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	h.held = leaseIn(answer)
	return 1, nil
}

// take waits for a job. A hasty hand returns errNoMore if there is none now.
func (h *hand) take() error {
	request := h.lease
	if h.hasty {
		request = h.now
	}
	answer, err := h.conn.Post(request)
	if err != nil {
		return err
	}
	h.held = leaseIn(answer)
	switch {
	case h.held != (lease{}):
		return nil
	case h.hasty:
		return errNoMore
	}
	return fmt.Errorf("a worker got no job within 20 s: %.300s", answer)
}

// leaseIn returns the lease in an answer, if there is one.
func leaseIn(answer []byte) lease {
	_, answer, found := bytes.Cut(answer, []byte(`"attemptId"`))
	if !found {
		return lease{}
	}
	attempt, rest, _ := bytes.Cut(answer[len(`:"`):], []byte(`"`))
	token, _ := wire.Field(rest, "fencingToken")
	job, _ := wire.Field(rest, "id")
	return lease{string(attempt), token, job}
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
