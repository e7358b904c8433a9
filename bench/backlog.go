package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The number of leases in the history, and the number of waiting jobs.
const (
	backlogLeases = 100_000
	backlogQueued = 1_000_000
)

// backlogShare is the minimum share of the initial rate.
const backlogShare = 0.9

// Names of the steps.
const (
	backlogFresh  = "fresh"
	backlogBehind = "after leases, no vacuum"
	backlogBefore = "many queued"
)

// backlog measures the cost of leases after many leases, and while many jobs wait.
func backlog() Measurement {
	target := func(name, of string) Target {
		return Target{Name: "lease + completeJob " + name + ", against the fresh rate", Figure: "rate", Of: of, Against: backlogFresh,
			Bound: backlogShare}
	}
	return Measurement{
		Name: "backlog", Title: "lease + completeJob with a history and with a queue", Unit: "jobs", InTurn: true,
		Targets: []Target{
			target("after 100,000 leases without a vacuum", backlogBehind),
			target("with 1 million jobs queued", backlogBefore),
		},
		Note: "100 remote workers, two requests per job. Autovacuum is off until the jobs of the last step are queued; then VACUUM ANALYZE runs once. If the run is killed, autovacuum stays off in its database.",
		Prepare: func(ctx context.Context, s *Site) ([]Contestant, error) {
			if s.DatabaseURL == "" {
				return nil, errors.New("the address of PostgreSQL is not known: autovacuum is turned off in it")
			}
			f, err := s.newFloor(ctx, s.sized(leaseWorkers, 4), accountsOfBench)
			if err != nil {
				return nil, err
			}
			if err := s.autovacuum(ctx, false); err != nil {
				return nil, err
			}
			s.later(func(ctx context.Context) error { return s.autovacuum(ctx, true) })
			round := func(ctx context.Context) (Figures, error) {
				if err := s.checkpoint(ctx); err != nil {
					return nil, err
				}
				return f.round(ctx, false)
			}
			leases, queued := s.sized(backlogLeases, 40), s.sized(backlogQueued, 1000)
			return []Contestant{
				{Name: backlogFresh, Role: Peer, Round: round},
				{Name: backlogBehind, Role: Ours, Differs: fmt.Sprintf("%s leases before", short(float64(leases))),
					Round: func(ctx context.Context) (Figures, error) {
						if err := f.endAll(ctx, leases); err != nil {
							return nil, err
						}
						return round(ctx)
					}},
				{Name: backlogBefore, Role: Ours, Differs: fmt.Sprintf("%s jobs wait", short(float64(queued))),
					Round: func(ctx context.Context) (Figures, error) {
						if err := f.queueUp(ctx, queued); err != nil {
							return nil, err
						}
						return round(ctx)
					}},
			}, nil
		},
	}
}

// endAll works until this many jobs have ended.
func (f *floor) endAll(ctx context.Context, jobs int) error {
	for f.ended.Load() < int64(jobs) {
		if _, err := f.round(ctx, false); err != nil {
			return err
		}
		f.site.Say(fmt.Sprintf("  %s of %s leases", short(float64(f.ended.Load())), short(float64(jobs))))
	}
	return nil
}

// queueUp submits until this many jobs wait, and then lets PostgreSQL vacuum and
// write.
func (f *floor) queueUp(ctx context.Context, jobs int) error {
	for part := jobs / 10; f.waiting.Load() < int64(jobs); {
		if err := f.fill(ctx, min(int(f.waiting.Load())+part, jobs)); err != nil {
			return err
		}
		f.site.Say(fmt.Sprintf("  %s of %s jobs wait", short(float64(f.waiting.Load())), short(float64(jobs))))
	}
	if err := f.site.autovacuum(ctx, true); err != nil {
		return err
	}
	return f.site.exec(ctx, "VACUUM ANALYZE")
}

// autovacuum turns autovacuum of Reelay's tables on or off.
func (s *Site) autovacuum(ctx context.Context, on bool) error {
	action := "SET (autovacuum_enabled = off)"
	if on {
		action = "RESET (autovacuum_enabled)"
	}
	return s.exec(ctx, `
		DO $$ DECLARE t regclass; BEGIN
			FOR t IN SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' LOOP
				EXECUTE format('ALTER TABLE %s `+action+`', t);
			END LOOP;
		END $$`)
}

// insufficientPrivilege is PostgreSQL's code for a missing permission.
const insufficientPrivilege = "42501"

// checkpoint makes PostgreSQL write its changes to disk, if the role is allowed to do so.
// Otherwise PostgreSQL could write gigabytes during a measurement and delay each commit.
func (s *Site) checkpoint(ctx context.Context) error {
	err := s.exec(ctx, "CHECKPOINT")
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == insufficientPrivilege {
		return nil
	}
	return err
}

// exec runs one statement on a connection of its own.
func (s *Site) exec(ctx context.Context, statement string) error {
	db, err := pgx.Connect(ctx, s.DatabaseURL)
	if err == nil {
		defer db.Close(ctx)
		_, err = db.Exec(ctx, statement)
	}
	if err != nil {
		return fmt.Errorf("prepare the database: %w", err)
	}
	return nil
}
