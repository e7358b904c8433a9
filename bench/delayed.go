package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/reelay/reelay/bench/wire"
	"golang.org/x/sync/errgroup"
)

const (
	// delayedHands is how many workers wait for the delayed jobs.
	delayedHands = 8
	// delayedJobs is how many jobs of a round are timed, half of them in each way.
	delayedJobs = 600
	// delayedGap is the mean time between two of them.
	delayedGap = 40 * time.Millisecond
	// announced is how long before its time a job is submitted that no timer knows of.
	announced = 100 * time.Millisecond

	// burstJobs is how many jobs are due at one instant.
	burstJobs = 100_000
	// burstSubmits is how many jobs a second are submitted meanwhile: 2.5 times the daily load.
	burstSubmits = 50
	// burstLimit is how long the burst can take.
	burstLimit = 5 * time.Minute
)

// delayed measures how late delayed jobs start, and how long it takes to queue many at once.
func delayed() Measurement {
	ofAll := func(name, figure string, bound float64) Target {
		return Target{Name: "delayed: " + name, Figure: figure, Bound: bound, AtMost: true}
	}
	return Measurement{
		Name: "delayed", Title: "delayed jobs: from runAt to the job in a waiting worker's hand, and many at one instant", Unit: "jobs",
		InTurn: true, Rounds: 1,
		Targets: []Target{
			ofAll("start lag p99, ms", "p99", 250),
			ofAll("start lag p99 of jobs submitted just before their time, ms", "announced p99", 250),
			ofAll("seconds to queue 100,000 due jobs", "burst s", 10),
			ofAll("submits meanwhile, p99, ms", "submit p99", 150),
		},
		Note: fmt.Sprintf("%d workers wait in leaseJob over HTTP. Half of %d jobs are submitted together, with times %v apart on average; the others one by one, %v before their time. "+
			"Then %d jobs of all lanes and %d accounts are due at one instant, while the same accounts submit %d jobs a second. Other delayed jobs are a day ahead. "+
			"\"overlap ms\" is by how much the first job of a lane was queued before the last of a higher one.",
			delayedHands, delayedJobs, delayedGap, announced, burstJobs, accountsOfBench, burstSubmits),
		Prepare: func(ctx context.Context, s *Site) ([]Contestant, error) {
			if s.DatabaseURL == "" {
				return nil, errors.New("the address of PostgreSQL is not known: the delayed jobs are written to it")
			}
			d, err := s.newDelays(ctx)
			if err != nil {
				return nil, err
			}
			var all []Contestant
			for i, rows := range s.Effort.Rows {
				rows = s.sized(rows, 1000*(i+1))
				c := Contestant{Name: short(float64(rows)) + " delayed", Role: Peer,
					Round: func(ctx context.Context) (Figures, error) { return d.round(ctx, rows) }}
				if i == len(s.Effort.Rows)-1 {
					c.Role = Ours
				}
				all = append(all, c)
			}
			return all, nil
		},
	}
}

// delays is a site with delayed jobs.
type delays struct {
	site     *Site
	db       *pgx.Conn
	rows     int
	bursts   int
	customer *wire.Conn
	hands    []*hand
	submits  []step
}

func (s *Site) newDelays(ctx context.Context) (*delays, error) {
	d := &delays{site: s}
	var err error
	if d.submits, err = s.submitters(ctx, accountsOfBench, submitQuery, func() any { return map[string]any{"input": submission()} },
		1); err != nil {
		return nil, err
	}
	customers, err := s.customers(ctx, 1)
	if err != nil {
		return nil, err
	}
	conns, err := s.conns(1, customers)
	if err != nil {
		return nil, err
	}
	d.customer = conns[0]
	if d.hands, err = s.hands(ctx, delayedHands); err != nil {
		return nil, err
	}
	if d.db, err = pgx.Connect(ctx, s.DatabaseURL); err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	s.later(d.db.Close)
	// The limit that the API accepts would be too low for the delayed jobs.
	return d, s.exec(ctx, "UPDATE accounts SET max_queued = 1000000000 WHERE name LIKE 'bench %'")
}

// round makes this many delayed rows, and then measures.
func (d *delays) round(ctx context.Context, rows int) (Figures, error) {
	for d.rows < rows {
		n := min(fillStep, rows-d.rows)
		if err := d.fill(ctx, d.rows, n, 0, "now() + interval '1 day' + make_interval(secs => i * 0.001)"); err != nil {
			return nil, err
		}
		d.rows += n
		d.site.Say(fmt.Sprintf("  %s of %s delayed jobs are written", short(float64(d.rows)), short(float64(rows))))
	}
	if err := d.site.exec(ctx, "VACUUM ANALYZE jobs"); err != nil {
		return nil, err
	}
	if err := d.site.checkpoint(ctx); err != nil {
		return nil, err
	}
	f, err := d.lags(ctx, d.site.sized(delayedJobs, 20)/2)
	if err != nil {
		return nil, err
	}
	return f, d.burst(ctx, d.site.sized(burstJobs, 500), f)
}

// fill writes n delayed jobs of the accounts that submit, from the number from on. The series tells
// the ids apart.
func (d *delays) fill(ctx context.Context, from, n, series int, runAt string) error {
	_, err := d.db.Exec(ctx, `
		WITH chosen AS (
			SELECT id, row_number() OVER (ORDER BY id) - 1 AS nth FROM accounts
			WHERE id IN (SELECT id FROM accounts WHERE name LIKE 'bench %' ORDER BY created_at LIMIT $4)),
		written AS (
			INSERT INTO jobs (id, account_id, type, model, status, tier, lane, params, max_attempts, timeout_seconds, estimated_gpu_seconds, run_at)
			SELECT overlay(uuid7_floor(now())::text PLACING '7' || lpad($3::integer::text, 3, '0') || '-8000-' || lpad(to_hex(i), 12, '0') FROM 15)::uuid,
				c.id, 'video.generate', 'testcard', 'SCHEDULED', t.lane, t.lane, jsonb_build_object('payload', repeat('x', 384)), 3, 600, 1, `+runAt+`
			FROM generate_series($1::bigint + 1, $1::bigint + $2) i
			JOIN chosen c ON c.nth = i % $4
			JOIN unnest('{CRITICAL,ENTERPRISE,PRO,FREE,BATCH}'::text[]) WITH ORDINALITY t (lane, nth) ON t.nth = 1 + i / 8 % 5
			RETURNING account_id)
		UPDATE accounts a SET queued = a.queued + w.jobs FROM (SELECT account_id, count(*) AS jobs FROM written GROUP BY 1) w WHERE a.id = w.account_id`,
		from, n, series, accountsOfBench)
	if err != nil {
		return fmt.Errorf("write delayed jobs: %w", err)
	}
	return nil
}

// lags measures how late n jobs that were submitted long before start, and n that were submitted
// just before.
func (d *delays) lags(ctx context.Context, n int) (Figures, error) {
	var mu sync.Mutex
	taken := map[string]time.Time{}
	working, stop := context.WithCancel(ctx)
	group, working := errgroup.WithContext(working)
	for _, h := range d.hands {
		group.Go(func() error {
			return h.work(working, func(at time.Time) {
				mu.Lock()
				defer mu.Unlock()
				taken[h.held.job] = at
			})
		})
	}
	f := Figures{}
	group.Go(func() error {
		defer stop()
		for name, submit := range map[string]func(context.Context, int) (map[string]time.Time, error){"": d.planned, "announced ": d.announced} {
			due, err := submit(working, n)
			if err != nil {
				return err
			}
			times := make([]time.Duration, 0, n)
			for began := time.Now(); len(due) > 0; {
				mu.Lock()
				for job, at := range due {
					if came, ok := taken[job]; ok {
						times = append(times, came.Sub(at))
						delete(due, job)
					}
				}
				mu.Unlock()
				if time.Since(began) > pickupLimit {
					return fmt.Errorf("%d delayed jobs did not start within %v", len(due), pickupLimit)
				}
				if err := pause(working, comeAgain); err != nil {
					return err
				}
			}
			for p, value := range percentiles(times) {
				f[name+p] = value
			}
		}
		return nil
	})
	return f, group.Wait()
}

// planned submits n jobs together, waits until the last of them is due, and returns their times.
func (d *delays) planned(ctx context.Context, n int) (map[string]time.Time, error) {
	gap, at := independently(float64(time.Second/delayedGap)), time.Now().Add(3*time.Second)
	due, inputs := make([]time.Time, n), make([]any, n)
	for i := range n {
		at = at.Add(gap()).Truncate(time.Microsecond)
		due[i], inputs[i] = at, delayedSubmission(at)
	}
	b, err := newBody(submitsQuery, map[string]any{"inputs": inputs}, "")
	if err != nil {
		return nil, err
	}
	answer, err := d.customer.Post(b.text)
	if err != nil {
		return nil, err
	}
	times := map[string]time.Time{}
	for _, at := range due {
		job, found := wire.Field(answer, "id")
		if !found {
			return nil, fmt.Errorf("the API accepted %d jobs of %d", len(times), n)
		}
		times[job] = at
		_, answer, _ = bytes.Cut(answer, []byte(job))
	}
	return times, pause(ctx, time.Until(at))
}

// announced submits n jobs one by one, each shortly before its time, and returns their times.
func (d *delays) announced(ctx context.Context, n int) (map[string]time.Time, error) {
	gap := independently(float64(time.Second / delayedGap))
	times := map[string]time.Time{}
	for range n {
		at := time.Now().Add(announced).Truncate(time.Microsecond)
		b, err := newBody(submitQuery, map[string]any{"input": delayedSubmission(at)}, "")
		if err != nil {
			return nil, err
		}
		answer, err := d.customer.Post(b.text)
		if err != nil {
			return nil, err
		}
		job, _ := wire.Field(answer, "id")
		times[job] = at
		if err := pause(ctx, gap()); err != nil {
			return nil, err
		}
	}
	return times, nil
}

func delayedSubmission(at time.Time) map[string]any {
	return map[string]any{"type": noop, "model": noop, "params": map[string]any{"payload": benchPrompt},
		"runAt": at.UTC().Format(time.RFC3339Nano)}
}

// burst lets n jobs be due at one instant and adds what it measures to f.
func (d *delays) burst(ctx context.Context, n int, f Figures) error {
	d.bursts++
	ahead := 10*time.Second + time.Duration(n)*200*time.Microsecond
	at := time.Now().Add(ahead).Truncate(time.Microsecond)
	if err := d.fill(ctx, 0, n, d.bursts, "'"+at.UTC().Format(time.RFC3339Nano)+"'::timestamptz"); err != nil {
		return err
	}
	if err := d.site.exec(ctx, "VACUUM ANALYZE jobs"); err != nil {
		return err
	}
	if time.Until(at) < time.Second {
		return fmt.Errorf("%d jobs were not written within %v", n, ahead)
	}
	if err := d.site.checkpoint(ctx); err != nil {
		return err
	}
	if err := pause(ctx, time.Until(at)); err != nil {
		return err
	}
	var over atomic.Bool
	var times []time.Duration
	before := d.site.processorTimes()
	group, working := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		times, err = whilePaced(working, independently(burstSubmits), func(time.Time) bool { return !over.Load() }, len(d.submits),
			func(i int) error {
				_, err := d.submits[i]()
				return err
			})
		return err
	})
	group.Go(func() error {
		defer over.Store(true)
		err := d.await(working, at)
		f["burst s"] = time.Since(at).Seconds()
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	for kind, spent := range d.site.processorTimes() {
		f["burst "+kind+" s"] = (spent - before[kind]).Seconds()
	}
	submits := percentiles(times)
	f["submits"], f["submit p50"], f["submit p99"] = float64(len(times)), submits["p50"], submits["p99"]
	var queued int
	var overlap float64
	err := d.db.QueryRow(ctx, `
		WITH lanes AS (
			SELECT array_position('{CRITICAL,ENTERPRISE,PRO,FREE,BATCH}'::text[], lane) AS nth, min(queued_at) AS first, max(queued_at) AS last, count(*) AS jobs
			FROM jobs WHERE status = 'QUEUED' AND queued_at >= $1 AND model = 'testcard' AND idempotency_key IS NULL GROUP BY lane)
		SELECT coalesce(sum(jobs), 0)::bigint, coalesce((SELECT max(extract(epoch FROM h.last - l.first)) FROM lanes h JOIN lanes l ON h.nth < l.nth), 0)::float8 FROM lanes`, at).Scan(&queued, &overlap)
	if err != nil {
		return fmt.Errorf("read the queued jobs: %w", err)
	}
	if queued != n {
		return fmt.Errorf("%d jobs of %d were queued", queued, n)
	}
	f["overlap ms"] = max(0, 1000*overlap)
	return nil
}

// await waits until all jobs of an instant are queued.
func (d *delays) await(ctx context.Context, at time.Time) error {
	for {
		var left bool
		err := d.db.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM jobs WHERE lane = 'BATCH' AND (status = 'SCHEDULED' OR status = 'BLOCKED' AND blocked_by = 0) AND run_at = $1)`, at).Scan(&left)
		switch {
		case err != nil:
			return fmt.Errorf("look for delayed jobs: %w", err)
		case !left:
			return nil
		case time.Since(at) > burstLimit:
			return fmt.Errorf("the jobs of an instant were not queued within %v", burstLimit)
		}
		if err := pause(ctx, comeAgain); err != nil {
			return err
		}
	}
}
