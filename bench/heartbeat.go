package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/reelay/reelay/bench/wire"
)

const (
	heartbeatQuery = "mutation heartbeat($input: HeartbeatInput!) { heartbeat(input: $input) { leaseExpiresAt directive { action reason } } }"
	// holders hold a job each while they are measured: some for each connection.
	heartbeatClients = 32
	holders          = 320
)

// heartbeats measures the call that each worker makes every ten seconds.
func heartbeats() Measurement {
	return Measurement{
		Name: "heartbeat", Title: "heartbeats, 32 clients for 320 workers", Unit: "heartbeats",
		Targets: []Target{
			{Name: "heartbeats against single commits", Figure: "rate", Against: "pgbench heartbeat", Bound: 1.5},
			{Name: "heartbeats against an empty gqlgen mutation", Figure: "rate", Against: "gqlgen", Bound: 0.9},
			{Name: "heartbeats that are HOT updates, %", Figure: "HOT %", Bound: 99},
		},
		Note: "Ours: GraphQL over HTTP; checks the token and the fence, extends the lease, answers with the directive of the control plane.",
		Prepare: func(ctx context.Context, s *Site) ([]Contestant, error) {
			steps, err := s.beating(ctx, heartbeatQuery, func(l lease, _ int) any {
				return map[string]any{"attemptId": l.attempt, "fencingToken": l.token}
			})
			if err != nil {
				return nil, err
			}
			all := []Contestant{s.hot(ours(s, steps), "job_attempts")}
			all = s.limit(ctx).with(all, func(l *limit) Contestant {
				return l.contestant("heartbeat", heartbeatClients, 1, liveAttempts, "one row of 4,000, one commit")
			})
			all, err = s.bareGqlgen(ctx, all)
			return all, err
		},
	}
}

// liveAttempts are 4,000 of the limit's.
const liveAttempts = `TRUNCATE jobs, attempts, events, artifacts RESTART IDENTITY;
	INSERT INTO jobs (params, status) SELECT jsonb_build_object('payload', repeat('x', 384)), 'RUNNING' FROM generate_series(1, 4000);
	INSERT INTO attempts (job_id) SELECT id FROM jobs; ANALYZE jobs, attempts`

// beating gives each worker a job and returns clients that make a call for one worker
// after another.
func (s *Site) beating(ctx context.Context, query string, input func(l lease, i int) any) ([]step, error) {
	held, err := s.holders(ctx, s.sized(holders, 8))
	if err != nil {
		return nil, err
	}
	host, err := s.host()
	if err != nil {
		return nil, err
	}
	clients := s.sized(heartbeatClients, 4)
	conns, err := s.conns(clients, []string{""})
	if err != nil {
		return nil, err
	}
	steps := make([]step, clients)
	for i := range steps {
		var heads, bodies [][]byte
		for j := i; j < len(held); j += clients {
			b, err := newBody(query, map[string]any{"input": input(held[j].lease, j)}, "")
			if err != nil {
				return nil, err
			}
			heads, bodies = append(heads, wire.Head(host, held[j].token)), append(bodies, b.text)
		}
		c, turn := conns[i], 0
		steps[i] = func() (int, error) {
			turn = (turn + 1) % len(heads)
			_, err := c.PostAs(heads[turn], bodies[turn])
			return 1, err
		}
	}
	return steps, nil
}

// holder is a worker with a job.
type holder struct {
	worker
	lease lease
}

// holders registers workers and gives each a job, which it releases after the measurement.
func (s *Site) holders(ctx context.Context, n int) ([]holder, error) {
	f, err := s.newFloor(ctx, 0, accountsOfBench)
	if err != nil {
		return nil, err
	}
	if err := f.fill(ctx, n); err != nil {
		return nil, err
	}
	return s.holding(ctx, n)
}

// holding registers workers and leases a waiting job to each.
func (s *Site) holding(ctx context.Context, n int) ([]holder, error) {
	workers, err := s.workers(ctx, n, noop)
	if err != nil {
		return nil, err
	}
	host, err := s.host()
	if err != nil {
		return nil, err
	}
	held := make([]holder, n)
	err = atOnce(ctx, n, func(ctx context.Context, i int) error {
		c := wire.NewConn(host, workers[i].token)
		defer c.Close()
		h, err := newHand(c, workers[i].id)
		if err != nil {
			return err
		}
		for err = h.take(); errors.Is(err, wire.ErrLater) && ctx.Err() == nil; err = h.take() {
		}
		held[i] = holder{workers[i], h.held}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("give each worker a job: %w", err)
	}
	return held, nil
}
