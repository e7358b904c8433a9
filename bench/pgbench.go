package bench

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed pgbench
var scripts embed.FS

// limit is a separate database on the site's PostgreSQL with tables like Reelay's. pgbench
// runs transactions like Reelay's against it.
type limit struct {
	site    *Site
	program string
	env     []string
	url     string
}

// Names of the temporary databases.
const (
	limitDatabase = "reelay_bench_limit"
	peersDatabase = "reelay_bench_peers"
)

// beside creates an empty database on the same server and returns its address.
func (s *Site) beside(ctx context.Context, name string) (string, error) {
	if s.DatabaseURL == "" {
		return "", errors.New("the address of PostgreSQL is not known: give --database, or --data of a running `reelay up`")
	}
	config, err := pgx.ParseConfig(s.DatabaseURL)
	if err != nil {
		return "", errors.New("the address of PostgreSQL is malformed")
	}
	recreate := func(ctx context.Context, anew bool) error {
		db, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		defer db.Close(ctx)
		quoted := pgx.Identifier{name}.Sanitize()
		if _, err := db.Exec(ctx, "DROP DATABASE IF EXISTS "+quoted+" WITH (FORCE)"); err != nil || !anew {
			return err
		}
		_, err = db.Exec(ctx, "CREATE DATABASE "+quoted)
		return err
	}
	if err := recreate(ctx, true); err != nil {
		return "", fmt.Errorf("create a temporary database: %w", err)
	}
	s.later(func(ctx context.Context) error { return recreate(ctx, false) })
	return withDatabase(config, name), nil
}

// withDatabase returns an address in key-value form, which both pgx and libpq read.
func withDatabase(c *pgx.ConnConfig, name string) string {
	quote := func(v string) string { return "'" + regexp.MustCompile(`(['\\])`).ReplaceAllString(v, `\$1`) + "'" }
	return fmt.Sprintf("host=%s port=%d user=%s password=%s dbname=%s", quote(c.Host), c.Port, quote(c.User), quote(c.Password), quote(name))
}

// limit creates the limit's tables. If that fails, it reports the limit as missing and
// returns nil.
func (s *Site) limit(ctx context.Context) *limit {
	l, err := s.makeLimit(ctx)
	if err != nil {
		s.Lacks("the limit (pgbench)", err)
		return nil
	}
	return l
}

func (s *Site) makeLimit(ctx context.Context) (*limit, error) {
	program, err := findPgbench()
	if err != nil {
		return nil, err
	}
	address, err := s.beside(ctx, limitDatabase)
	if err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	l := &limit{site: s, program: program, url: address, env: append(os.Environ(),
		"PGHOST="+config.Host, "PGPORT="+strconv.Itoa(int(config.Port)), "PGUSER="+config.User, "PGPASSWORD="+config.Password, "PGDATABASE="+
			limitDatabase)}
	schema, err := scripts.ReadFile("pgbench/schema.sql")
	if err != nil {
		return nil, err
	}
	return l, l.exec(ctx, string(schema))
}

// mostConns is how many connections PostgreSQL has for the limit besides Reelay's.
const mostConns = 64

// findPgbench finds the program on the PATH or in the folder of Debian's packages.
func findPgbench() (string, error) {
	if path, err := exec.LookPath("pgbench"); err == nil {
		return path, nil
	}
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench"); len(found) > 0 {
		return found[len(found)-1], nil
	}
	return "", errors.New("pgbench was not found: it comes with PostgreSQL (postgresql-contrib, or postgresql on Debian)")
}

// exec runs SQL in the limit's database.
func (l *limit) exec(ctx context.Context, sql string) error {
	db, err := pgx.Connect(ctx, l.url)
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	_, err = db.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return err
}

// longestSpan is the maximum number of seconds for which pgbench runs to get a figure.
const longestSpan = 60

var (
	noTransaction = []byte("transactions actually processed: 0\n")

	tps     = regexp.MustCompile(`tps = ([0-9.]+)`)
	latency = regexp.MustCompile(`latency average = ([0-9.]+) ms`)
)

// contestant returns a contestant that runs a script with that many clients. A transaction
// counts as per operations. If before is not empty, that SQL runs first.
func (l *limit) contestant(script string, clients, per int, before, differs string) Contestant {
	return Contestant{Name: "pgbench " + script, Role: Limit, Differs: differs, Round: func(ctx context.Context) (Figures, error) {
		if before != "" {
			if err := l.exec(ctx, before); err != nil {
				return nil, err
			}
		}
		return l.run(ctx, script, clients, per)
	}}
}

func (l *limit) run(ctx context.Context, script string, clients, per int) (Figures, error) {
	text, err := scripts.ReadFile("pgbench/" + script + ".sql")
	if err != nil {
		return nil, err
	}
	span := max(1, int(math.Round(l.site.Effort.Span.Seconds()))) // pgbench counts in whole seconds
	out, err := l.pgbench(ctx, text, clients, span)
	for err == nil && bytes.Contains(out, noTransaction) && span < longestSpan { // the machine is busy
		span *= 2
		out, err = l.pgbench(ctx, text, clients, span)
	}
	if err := errors.Join(err, ctx.Err()); err != nil {
		return nil, fmt.Errorf("pgbench %s: %w: %.500s", script, err, out)
	}
	rate, wait := tps.FindSubmatch(out), latency.FindSubmatch(out)
	if rate == nil || wait == nil {
		return nil, fmt.Errorf("pgbench %s printed no rate: %.500s", script, out)
	}
	f := Figures{}
	if f["rate"], err = strconv.ParseFloat(string(rate[1]), 64); err != nil {
		return nil, err
	}
	f["rate"] *= float64(per)
	f["mean"], err = strconv.ParseFloat(string(wait[1]), 64)
	return f, err
}

// pgbench runs a script for this many seconds and returns the output.
func (l *limit) pgbench(ctx context.Context, script []byte, clients, seconds int) ([]byte, error) {
	cmd := exec.CommandContext(ctx, l.program, "--no-vacuum", "--protocol=prepared", "--file=/dev/stdin",
		"--client="+strconv.Itoa(clients), "--jobs="+strconv.Itoa(min(clients, 2)), "--time="+strconv.Itoa(seconds))
	cmd.Env, cmd.WaitDelay = l.env, time.Second
	cmd.Stdin = bytes.NewReader(script)
	return cmd.CombinedOutput()
}

// with adds a contestant of the limit if the limit is available.
func (l *limit) with(all []Contestant, make func(l *limit) Contestant) []Contestant {
	if l == nil {
		return all
	}
	return append(slices.Clip(all), make(l))
}
