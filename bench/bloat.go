package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// bloatJobs is how many jobs run at once: a part of the daily load that leaves enough
// processor time for autovacuum.
const bloatJobs = dailyJobs / 6

// bloatBound is the allowed growth factor of a table with a steady number of rows.
const bloatBound = 2

// bloat measures how a steady load bloats the tables that it writes.
func bloat() Measurement {
	steady := func(table string) Target {
		return Target{Name: "bloat: size of " + table + ", times its first tenth's", Figure: table + " ×", Bound: bloatBound, AtMost: true}
	}
	return Measurement{
		Name: "bloat", Title: "what a steady load leaves behind", Unit: "rows", Rounds: 1,
		Targets: []Target{steady("workers"), steady("accounts"), steady("account_lanes"), steady("outbox")},
		Note: fmt.Sprintf("A sixth of the daily load, %d jobs at once, for --minutes. Sizes include indexes; the size at the end is compared with that after the first tenth. \"dead %%\" is the share of dead rows. "+
			"The number of workers, accounts and lanes stays the same; there are more jobs and attempts.", bloatJobs),
		Prepare: func(ctx context.Context, s *Site) ([]Contestant, error) {
			if s.DatabaseURL == "" {
				return nil, errors.New("the address of PostgreSQL is not known: the sizes of tables are read from it")
			}
			d, err := s.newDay(ctx, s.sized(bloatJobs, 18))
			if err != nil {
				return nil, err
			}
			return []Contestant{{Name: reelay, Role: Ours, Round: d.bloat}}, nil
		},
	}
}

// bloat runs the load and measures tables after its first tenth and at its end.
func (d *day) bloat(ctx context.Context) (Figures, error) {
	all := time.Duration(d.site.Effort.Minutes * float64(time.Minute))
	if _, err := d.round(ctx, all/10); err != nil {
		return nil, err
	}
	before, err := d.site.tables(ctx)
	if err != nil {
		return nil, err
	}
	load, err := d.round(ctx, all-all/10)
	if err != nil {
		return nil, err
	}
	after, err := d.site.tables(ctx)
	f := Figures{"leases lost": load["leases lost"]}
	for name, t := range after {
		f[name+" MB"], f[name+" dead %"] = t.mb, t.dead
		if steady := name != "jobs" && name != "job_attempts"; steady {
			f[name+" ×"] = t.mb / before[name].mb
		}
	}
	return f, err
}

// table is the size of a table and the percentage of its rows that are dead.
type table struct{ mb, dead float64 }

// tables measures the tables that are updated during the life of a job.
func (s *Site) tables(ctx context.Context) (map[string]table, error) {
	db, err := pgx.Connect(ctx, s.DatabaseURL)
	if err != nil {
		return nil, fmt.Errorf("read the sizes of tables: %w", err)
	}
	defer db.Close(ctx)
	rows, err := db.Query(ctx, `
		SELECT relname, pg_total_relation_size(relid) / 1e6::float8, 100 * n_dead_tup / greatest(n_live_tup + n_dead_tup, 1)::float8
		FROM pg_stat_user_tables WHERE relname IN ('jobs', 'job_attempts', 'workers', 'accounts', 'account_lanes', 'outbox')`)
	if err != nil {
		return nil, fmt.Errorf("read the sizes of tables: %w", err)
	}
	all := map[string]table{}
	var name string
	var t table
	_, err = pgx.ForEachRow(rows, []any{&name, &t.mb, &t.dead}, func() error {
		all[name] = t
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the sizes of tables: %w", err)
	}
	return all, nil
}
