package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// growthWorkers is how many workers wait at each step of the growth.
var growthWorkers = []int{10, 1000, 4000}

// growthBound is the allowed ratio of an operation's cost at the last step to the first.
const growthBound = 1.5

// Names of the first and the last step.
const (
	growthFirst = "few rows"
	growthLast  = "many rows"
)

// growth measures how the cost of operations grows with jobs and workers.
func growth() Measurement {
	against := func(name, figure string) Target {
		return Target{Name: "growth: " + name, Figure: figure, Against: growthFirst, Bound: growthBound, AtMost: true}
	}
	return Measurement{
		Name: "growth", Title: "what operations cost as jobs and workers grow", Unit: "jobs", InTurn: true, Rounds: 3,
		Targets: []Target{
			against("milliseconds of a job, submit to completeJob", "ms a job"),
			against("milliseconds of a submit alone", "ms a submit"),
			against("milliseconds of a heartbeat", "ms a heartbeat"),
		},
		Note: "Cost is time divided by operations, with 8 clients. The history consists of COMPLETED jobs of one account. The workers wait in leaseJob for new jobs. The submits alone use a model for which no worker waits.",
		Prepare: func(ctx context.Context, s *Site) ([]Contestant, error) {
			if s.DatabaseURL == "" {
				return nil, errors.New("the address of PostgreSQL is not known: the history is written to it")
			}
			g, err := s.newGrowth(ctx)
			if err != nil {
				return nil, err
			}
			var all []Contestant
			for i, rows := range s.Effort.Rows {
				rows, workers := s.sized(rows, 1000*(i+1)), s.sized(growthWorkers[min(i, len(growthWorkers)-1)], 4*(i+1))
				c := Contestant{Name: "a step between", Role: Peer, Differs: fmt.Sprintf("%s rows in jobs, %s waiting workers", short(float64(rows)),
					short(float64(workers)))}
				c.Round = func(ctx context.Context) (Figures, error) { return g.round(ctx, rows, workers) }
				switch i {
				case len(s.Effort.Rows) - 1:
					c.Name, c.Role = growthLast, Ours
				case 0:
					c.Name = growthFirst
				}
				all = append(all, c)
			}
			return all, nil
		},
	}
}

// grown is a site whose history grows.
type grown struct {
	site    *Site
	rows    int
	hands   []*hand
	jobs    []step // submit a job for which a worker waits
	submits []step // submit a job that no worker leases
}

const growthClients = 8

func (s *Site) newGrowth(ctx context.Context) (*grown, error) {
	g := &grown{site: s}
	customers, err := s.customers(ctx, accountsOfBench)
	if err != nil {
		return nil, err
	}
	conns, err := s.conns(growthClients, customers)
	if err != nil {
		return nil, err
	}
	b, err := newBody(noopQuery, noopSubmission(), "")
	if err != nil {
		return nil, err
	}
	for _, c := range conns {
		g.jobs = append(g.jobs, func() (int, error) {
			_, err := c.Post(b.text)
			return 1, err
		})
	}
	g.submits, err = s.submitters(ctx, growthClients, submitQuery, func() any { return map[string]any{"input": submission()} }, 1)
	return g, err
}

// round makes this many rows and workers, and then measures.
func (g *grown) round(ctx context.Context, rows, workers int) (Figures, error) {
	if err := g.fill(ctx, rows); err != nil {
		return nil, err
	}
	if more := workers - len(g.hands); more > 0 {
		g.site.Say(fmt.Sprintf("  registering %d workers", more))
		hands, err := g.site.hands(ctx, more)
		if err != nil {
			return nil, err
		}
		g.hands = append(g.hands, hands...)
	}
	if err := g.site.checkpoint(ctx); err != nil {
		return nil, err
	}
	alone, err := g.site.atLoad(ctx, g.submits)
	if err != nil {
		return nil, err
	}
	lives, err := g.lives(ctx, g.hands[:workers])
	if err != nil {
		return nil, err
	}
	steps, err := g.site.beating(ctx, heartbeatQuery, func(l lease, _ int) any {
		return map[string]any{"attemptId": l.attempt, "fencingToken": l.token}
	})
	if err != nil {
		return nil, err
	}
	beats, err := g.site.atLoad(ctx, steps)
	return Figures{"ms a submit": 1000 / alone["rate"], "ms a job": 1000 / lives, "ms a heartbeat": 1000 / beats["rate"]}, err
}

// maxAhead is how many jobs can wait for workers, so that submits do not take all the time.
const maxAhead = 500

// lives lets customers submit and workers work, and returns jobs per second.
func (g *grown) lives(ctx context.Context, hands []*hand) (float64, error) {
	working, stop := context.WithCancel(ctx)
	group, working := errgroup.WithContext(working)
	var submitted, ended atomic.Int64
	for _, h := range hands {
		group.Go(func() error {
			return h.work(working, func(time.Time) { ended.Add(1) })
		})
	}
	var rate float64
	group.Go(func() error {
		defer stop()
		if err := pause(working, time.Second); err != nil { // until all of them wait
			return err
		}
		var steps []step
		for _, submit := range g.jobs {
			steps = append(steps, func() (int, error) {
				for submitted.Load()-ended.Load() > maxAhead {
					if err := pause(working, time.Millisecond); err != nil {
						return 0, err
					}
				}
				n, err := submit()
				submitted.Add(int64(n))
				return n, err
			})
		}
		began := time.Now()
		if _, _, err := atLoad(working, g.site.Effort.Span, steps); err != nil {
			return err
		}
		for ended.Load() < submitted.Load() && time.Since(began) < pickupLimit+g.site.Effort.Span {
			if err := pause(working, time.Millisecond); err != nil {
				return err
			}
		}
		rate = float64(ended.Load()) / time.Since(began).Seconds()
		return nil
	})
	return rate, group.Wait()
}

// fillStep is how many rows are written in one statement.
const fillStep = 200_000

// fill writes COMPLETED jobs until there are this many rows.
func (g *grown) fill(ctx context.Context, rows int) error {
	if g.rows >= rows {
		return nil
	}
	db, err := pgx.Connect(ctx, g.site.DatabaseURL)
	if err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	defer db.Close(ctx)
	for g.rows < rows {
		n := min(fillStep, rows-g.rows)
		if _, err := db.Exec(ctx, `
			INSERT INTO jobs (id, account_id, type, model, status, tier, lane, params, max_attempts, timeout_seconds, estimated_gpu_seconds,
				attempt_no, output, queued_at, created_at, completed_at)
			SELECT overlay(uuid7_floor(at)::text PLACING '7000-8000-' || lpad(to_hex(i), 12, '0') FROM 15)::uuid,
				(SELECT id FROM accounts WHERE name LIKE 'bench %' ORDER BY created_at LIMIT 1),
				'bench.noop', 'bench.noop', 'COMPLETED', 'BATCH', 'BATCH', jsonb_build_object('payload', repeat('x', 384)), 3, 600, 1, 1, '{"ok": true}', at, at, at
			FROM (SELECT i, now() - interval '1 day' - make_interval(secs => $2::float8 - i * 0.001) AS at
				FROM generate_series($1::bigint + 1, $1::bigint + $3) i) made`, g.rows, float64(rows)*0.001, n); err != nil {
			return fmt.Errorf("write the history: %w", err)
		}
		g.rows += n
		g.site.Say(fmt.Sprintf("  %s rows of %s are written", short(float64(g.rows)), short(float64(rows))))
	}
	_, err = db.Exec(ctx, "VACUUM ANALYZE jobs")
	return err
}
