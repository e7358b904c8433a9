package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/migrations"
	"github.com/reelay/reelay/models/history"
	"github.com/reelay/reelay/models/postgres"
	"github.com/spf13/cobra"
	"github.com/uptrace/bun"
)

// listsOptions are the flags of `reelay-bench lists`.
type listsOptions struct {
	rows, times int
	data        string
	all, asJSON bool
}

// listsTarget is the time within which any list, filter, count or page must be answered.
const listsTarget = 200 * time.Millisecond

// listsLimit is the statement timeout of the API's connections (postgres.Open).
const listsLimit = 10 * time.Second

// listsShown is how many of the slowest queries are printed.
const listsShown = 20

func listsCommand() *cobra.Command {
	var o listsOptions
	cmd := &cobra.Command{
		Use:   "lists",
		Short: "Measure lists, filters, counts and pages over a long history of jobs",
		Long: "Fills a PostgreSQL of its own with a history of so many jobs, and with their words, attempts, dead letters,\n" +
			"webhook deliveries, videos and audit entries, and measures every list, filter, count and page over it, as the\n" +
			"API asks for them. 1,000,000 jobs take about 2.4 GB of disk and some minutes; ten times as many, about 15 GB and ten times\n" +
			"that. With --data the history is kept, and measured again at once the next time.",
		Example: "  reelay-bench lists\n  reelay-bench lists --rows 10000000 --data /var/tmp/history --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return &usageError{err}
			}
			return o.run(cmd)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.rows, "rows", 1_000_000, "how many jobs the history has")
	f.IntVar(&o.times, "times", 7, "how often each query is asked")
	f.StringVar(&o.data, "data", "", "folder in which the history is kept (default: a temporary one)")
	f.BoolVar(&o.all, "all", false, "print every query, not the slowest alone")
	f.BoolVar(&o.asJSON, "json", false, "print one JSON document")
	return cmd
}

func (o *listsOptions) check() error {
	switch {
	case o.rows < 10_000 || o.rows > 100_000_000:
		return fmt.Errorf("--rows is %d: it must be from 10000 to 100000000", o.rows)
	case o.times < 5 || o.times > 1000:
		return fmt.Errorf("--times is %d: it must be from 5 to 1000", o.times)
	}
	return nil
}

func (o *listsOptions) run(cmd *cobra.Command) (err error) {
	ctx := cmd.Context()
	data, remove, err := o.folder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	// Without waits for the disk: an incomplete history is created again.
	postgres, err := localstack.StartPostgres(ctx, localstack.PostgresConfig{Dir: filepath.Join(data, "postgres"), Test: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, postgres.Stop(context.WithoutCancel(ctx))) }()
	if err := o.fill(ctx, postgres.DSN(), cmd.ErrOrStderr()); err != nil {
		return err
	}
	result, err := o.measure(ctx, postgres.DSN())
	if err != nil {
		return err
	}
	if o.asJSON {
		return printJSON(cmd.OutOrStdout(), result)
	}
	return result.print(cmd.OutOrStdout(), o.all)
}

// folder returns the folder of the history and a function that removes it if it is temporary.
func (o *listsOptions) folder() (string, func() error, error) {
	if o.data != "" {
		return o.data, func() error { return nil }, os.MkdirAll(o.data, 0o711)
	}
	dir, err := makeDataFolder()
	return dir, func() error { return os.RemoveAll(dir) }, err
}

// fill migrates the schema and writes the history unless it exists.
func (o *listsOptions) fill(ctx context.Context, dsn string, progress io.Writer) error {
	db, done, err := postgres.OpenPatient(ctx, dsn, 3)
	if err != nil {
		return err
	}
	defer done()
	if _, err := migrations.Run(ctx, db); err != nil {
		return err
	}
	there, err := history.Jobs(ctx, db)
	switch {
	case err != nil || there == o.rows:
		return err
	case there != 0:
		return fmt.Errorf("%s holds a history of another length, or an unfinished one: remove it, or name another folder", o.data)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer conn.Close()
	began := time.Now()
	return history.Write(ctx, conn, o.rows, func(what string, done, of int) {
		fmt.Fprintf(progress, "%d of %d %s after %.0f s\n", done, of, what, time.Since(began).Seconds())
	})
}

// listsResult is the result, slowest query first.
type listsResult struct {
	Rows     int            `json:"rows"`
	Queries  []listsMeasure `json:"queries"`
	TargetMs float64        `json:"targetMs"`
	Within   int            `json:"within"` // queries whose slowest run was within the target
	Met      bool           `json:"met"`
}

type listsMeasure struct {
	List   string  `json:"list"`
	Filter string  `json:"filter"`
	What   string  `json:"what"`
	P50    float64 `json:"p50Ms"`
	Worst  float64 `json:"worstMs"`
	// Processor is the median of PostgreSQL's processor time. It includes neither other load
	// on the machine nor waits for the disk.
	Processor float64 `json:"processorMs"`
}

// measure runs each query as often as requested, over one connection, like the API.
func (o *listsOptions) measure(ctx context.Context, dsn string) (*listsResult, error) {
	db, done, err := postgres.Open(ctx, dsn, 1)
	if err != nil {
		return nil, err
	}
	defer done()
	queries, err := history.Queries(ctx, db, o.rows)
	if err != nil {
		return nil, err
	}
	var pid int
	if err := db.NewRaw("SELECT pg_backend_pid()").Scan(ctx, &pid); err != nil {
		return nil, fmt.Errorf("find the process of a connection: %w", err)
	}
	r := &listsResult{Rows: o.rows, TargetMs: milliseconds(listsTarget)}
	for _, q := range queries {
		m, err := o.time(ctx, db, pid, q)
		if err != nil {
			return nil, fmt.Errorf("%s, %s, %s: %w", q.List, q.Filter, q.What, err)
		}
		r.Queries = append(r.Queries, m)
		if m.Worst <= r.TargetMs {
			r.Within++
		}
	}
	r.Met = r.Within == len(r.Queries)
	slices.SortStableFunc(r.Queries, func(a, b listsMeasure) int { return cmp.Compare(b.Worst, a.Worst) })
	return r, nil
}

func (o *listsOptions) time(ctx context.Context, db bun.IDB, pid int, q history.Query) (listsMeasure, error) {
	var took, worked []time.Duration
	for range o.times {
		began, before := time.Now(), processorTime(pid)
		err := q.Run(ctx, db)
		// a query that the statement timeout ended also counts
		if err != nil && (ctx.Err() != nil || time.Since(began) < listsLimit) {
			return listsMeasure{}, err
		}
		took, worked = append(took, time.Since(began)), append(worked, processorTime(pid)-before)
	}
	p := percentilesOf(took)
	return listsMeasure{q.List, q.Filter, q.What, p.P50, p.Max, percentilesOf(worked).P50}, nil
}

// processorTime returns the processor time of a single-threaded process, or 0 if it cannot be
// read: only Linux reports it exactly enough.
func processorTime(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		return 0
	}
	var d time.Duration
	if _, err := fmt.Sscan(string(text), (*int64)(&d)); err != nil {
		return 0
	}
	return d
}

func (r *listsResult) print(out io.Writer, all bool) error {
	shown := r.Queries
	if !all {
		shown = shown[:min(listsShown, len(shown))]
	}
	var rows [][]string
	for _, m := range shown {
		rows = append(rows, []string{m.List, m.Filter, m.What, fmt.Sprintf("%.1f", m.P50), fmt.Sprintf("%.1f", m.Worst),
			fmt.Sprintf("%.1f", m.Processor)})
	}
	if err := printTable(out, []string{fmt.Sprintf("%d jobs, milliseconds", r.Rows), "filter", "what", "p50", "worst", "processor"},
		rows); err != nil {
		return err
	}
	verdict := "met"
	if !r.Met {
		verdict = "NOT MET"
	}
	_, err := fmt.Fprintf(out, "%d of %d queries within %.0f ms at worst: %s\n", r.Within, len(r.Queries), r.TargetMs, verdict)
	return err
}
