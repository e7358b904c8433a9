package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverConns is the size of the pool, as in the figures on which the targets are based.
const riverConns = 40

// noopArgs are the arguments of a job, the same for all peers.
type noopArgs struct {
	Payload string `json:"payload"`
}

func (noopArgs) Kind() string { return "noop" }

// openRiver connects to the database and makes sure that River's tables exist and are empty.
func openRiver(ctx context.Context) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(os.Getenv("PEERS_DATABASE_URL"))
	if err != nil {
		return nil, errors.New("PEERS_DATABASE_URL is malformed")
	}
	config.MaxConns = riverConns
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet()})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	_, err = pool.Exec(ctx, "TRUNCATE river_job")
	return pool, err
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// inserter returns a client that only inserts.
func inserter(pool *pgxpool.Pool) (*river.Client[pgx.Tx], error) {
	return river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: quiet()})
}

func riverInsert(ctx context.Context, t task) (figures, error) {
	pool, err := openRiver(ctx)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	client, err := inserter(pool)
	if err != nil {
		return nil, err
	}
	return callers(ctx, t, 1, func(ctx context.Context, _ int) error {
		_, err := client.Insert(ctx, noopArgs{t.payload}, nil)
		return err
	})
}

const bulkSize = 100

func riverBulk(t task, n int) []river.InsertManyParams {
	all := make([]river.InsertManyParams, n)
	for i := range all {
		all[i].Args = noopArgs{t.payload}
	}
	return all
}

func riverInsertManyFast(ctx context.Context, t task) (figures, error) {
	pool, err := openRiver(ctx)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	client, err := inserter(pool)
	if err != nil {
		return nil, err
	}
	return callers(ctx, t, bulkSize, func(ctx context.Context, _ int) error {
		_, err := client.InsertManyFast(ctx, riverBulk(t, bulkSize))
		return err
	})
}

// riverWorker does nothing with a job except report its arrival.
type riverWorker struct {
	river.WorkerDefaults[noopArgs]
	came func()
}

func (w *riverWorker) Work(context.Context, *river.Job[noopArgs]) error {
	w.came()
	return nil
}

// worker starts a client that works jobs and fetches as fast as River allows.
func worker(ctx context.Context, pool *pgxpool.Pool, max int, cooldown time.Duration, came func()) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{came: came})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Logger: quiet(), Workers: workers, FetchCooldown: cooldown,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: max}},
	})
	if err != nil {
		return nil, err
	}
	return client, client.Start(ctx)
}

// riverWork processes t.n jobs and counts the completed rows.
func riverWork(ctx context.Context, t task) (figures, error) {
	pool, err := openRiver(ctx)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	client, err := inserter(pool)
	if err != nil {
		return nil, err
	}
	for left := t.n; left > 0; left -= 1000 {
		if _, err := client.InsertManyFast(ctx, riverBulk(t, min(left, 1000))); err != nil {
			return nil, err
		}
	}
	if _, err := pool.Exec(ctx, "ANALYZE river_job"); err != nil {
		return nil, err
	}
	all := newCountdown(t.n)
	began := time.Now()
	working, err := worker(ctx, pool, t.clients, time.Millisecond, all.one)
	if err != nil {
		return nil, err
	}
	f, err := all.rate(ctx, began, t.span)
	if err != nil {
		return nil, err
	}
	if err := working.Stop(ctx); err != nil { // it completes the jobs that it has
		return nil, err
	}
	var completed int
	if err := pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state = 'completed'").Scan(&completed); err != nil {
		return nil, err
	}
	f["rate"] = float64(completed) / time.Since(began).Seconds()
	return f, nil
}

// riverPickup measures with River's default settings, as in normal use.
func riverPickup(ctx context.Context, t task) (figures, error) {
	pool, err := openRiver(ctx)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	client, err := inserter(pool)
	if err != nil {
		return nil, err
	}
	taken := make(chan time.Time, 1)
	working, err := worker(ctx, pool, 8, river.FetchCooldownDefault, func() { taken <- time.Now() })
	if err != nil {
		return nil, err
	}
	defer working.Stop(context.WithoutCancel(ctx))
	return oneByOne(ctx, t, taken, func(ctx context.Context) error {
		_, err := client.Insert(ctx, noopArgs{t.payload}, nil)
		return err
	})
}
