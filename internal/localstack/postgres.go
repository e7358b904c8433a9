package localstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	postgresUser     = "reelay"
	postgresDatabase = "reelay"

	// postgresStart is how long a start may take. Recovery after a crash reads
	// the whole log since the last checkpoint.
	postgresStart = 2 * time.Minute
)

// PostgresConfig says where a private PostgreSQL keeps its data.
type PostgresConfig struct {
	Dir string // holds everything that it writes; with Test, empty means a temporary folder
	// Test trades durability for speed: nothing is forced to disk.
	Test bool
	// Settings are further settings of the server, such as autovacuum=off. They override the others.
	Settings []string
}

// Postgres is a private PostgreSQL server.
type Postgres struct {
	*Child
	cluster postgresCluster
	sockets string
	dsn     string
	lock    *DirLock
	remove  []string // directories to remove when it stops
}

// StartPostgres starts a server on the data in config.Dir, which it creates if there
// are none. It returns when the server answers. ctx limits the start only. It returns a
// *[MissingError] if PostgreSQL is not installed. If the directory is in use or unusable,
// or a release that is not installed wrote its data, the error says what to do.
func StartPostgres(ctx context.Context, config PostgresConfig) (_ *Postgres, err error) {
	ctx, cancel := context.WithTimeout(ctx, postgresStart)
	defer cancel()

	server := &Postgres{}
	defer func() {
		if err != nil {
			err = errors.Join(err, server.discard())
		}
	}()
	if config.Dir == "" && config.Test {
		if config.Dir, err = server.temporary(); err != nil {
			return nil, err
		}
	}
	if config.Dir, server.lock, err = takeDir(config.Dir); err != nil {
		return nil, err
	}
	if err := server.start(ctx, config); err != nil {
		return nil, err
	}
	return server, nil
}

// DSN returns the address of its database, for pgx and for DATABASE_URL.
func (p *Postgres) DSN() string { return p.dsn }

// Stop shuts the server down and unlocks its directory. It returns an error if the server
// had to be killed, which loses no data.
func (p *Postgres) Stop(ctx context.Context) error {
	return errors.Join(p.Child.Stop(ctx), p.discard())
}

// Restart starts the server again after it ended unexpectedly, with the same data and the
// same DSN. It returns when the server answers. ctx limits the start only.
func (p *Postgres) Restart(ctx context.Context) (*Child, error) {
	ctx, cancel := context.WithTimeout(ctx, postgresStart)
	defer cancel()
	child, err := p.cluster.serve(ctx, p.sockets)
	if err != nil {
		return nil, err
	}
	p.Child = child
	return child, nil
}

// temporary creates a directory that is removed when the server stops.
func (p *Postgres) temporary() (string, error) {
	dir, err := os.MkdirTemp("", "reelay-")
	if err == nil {
		p.remove = append(p.remove, dir)
	}
	return dir, err
}

func (p *Postgres) discard() error {
	var errs []error
	if p.lock != nil {
		errs = append(errs, p.lock.Release())
		p.lock = nil
	}
	for _, dir := range p.remove {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

func (p *Postgres) start(ctx context.Context, config PostgresConfig) error {
	p.cluster = postgresCluster{dir: config.Dir, test: config.Test, more: config.Settings}
	cluster := &p.cluster
	if err := cluster.findPrograms(); err != nil {
		return err
	}
	var err error
	if cluster.account, err = unprivileged(cluster.program("postgres"), "postgres", "_postgres"); err != nil {
		return err
	}
	p.sockets = config.Dir
	if !fitsSocket(p.sockets, ".s.PGSQL.5432.lock") {
		if p.sockets, err = p.temporary(); err != nil {
			return err
		}
	}
	if err := errors.Join(cluster.account.own(config.Dir), cluster.account.own(p.sockets)); err != nil {
		return err
	}
	if err := cluster.initialize(ctx); err != nil {
		return err
	}
	if p.Child, err = cluster.serve(ctx, p.sockets); err != nil {
		return err
	}
	p.dsn = postgresDSN(p.sockets, postgresDatabase)
	if err := createDatabase(ctx, p.sockets); err != nil {
		p.Kill()
		return fmt.Errorf("create the database in %s: %w", config.Dir, err)
	}
	return nil
}

// postgresCluster is a data directory and the PostgreSQL programs that can read it.
type postgresCluster struct {
	dir     string
	test    bool
	more    []string // settings
	bin     string
	account *account
}

func (c *postgresCluster) data() string               { return filepath.Join(c.dir, "data") }
func (c *postgresCluster) log() string                { return filepath.Join(c.dir, "postgres.log") }
func (c *postgresCluster) program(name string) string { return filepath.Join(c.bin, name) }

// initialize creates the data unless they exist. It renames the directory last, so that
// an interrupted initdb leaves nothing that looks like data.
func (c *postgresCluster) initialize(ctx context.Context) error {
	if _, err := os.Stat(c.data()); err == nil {
		return nil
	}
	draft := c.data() + ".new"
	if err := os.RemoveAll(draft); err != nil {
		return unusable(c.dir, err)
	}
	args := []string{"-D", draft, "-U", postgresUser, "--auth=trust", "--encoding=UTF8", "--locale=C"}
	if c.test {
		args = append(args, "--no-sync")
	}
	child, err := StartChild(ChildConfig{
		Name: "initdb", Path: c.program("initdb"), Args: args, Env: postgresEnv(), Dir: c.dir,
		Log: c.log(), Stop: syscall.SIGKILL, account: c.account,
	})
	if err != nil {
		return err
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
		child.Kill()
		return fmt.Errorf("initdb in %s: %w", c.dir, ctx.Err())
	}
	if err := os.Rename(draft, c.data()); err != nil {
		return fmt.Errorf("make a database in %s: %w", c.dir, errors.Join(child.Err(), err))
	}
	return syncDir(c.dir)
}

// serve starts the server and waits until it answers. While children of a killed server
// are still ending, PostgreSQL refuses to start, to protect the data. Then serve tries
// again.
func (c *postgresCluster) serve(ctx context.Context, sockets string) (*Child, error) {
	for {
		if err := discountStalePID(ctx, c.data()); err != nil {
			return nil, err
		}
		child, err := StartChild(ChildConfig{
			Name: "postgres", Path: c.program("postgres"), Args: c.settings(sockets), Env: postgresEnv(), Dir: c.dir,
			Log: c.log(), Stop: c.stopSignal(), account: c.account,
		})
		if err != nil {
			return nil, err
		}
		err = answers(ctx, child, func(ctx context.Context) error {
			conn, err := pgx.Connect(ctx, postgresDSN(sockets, "postgres"))
			if err != nil {
				return err
			}
			return conn.Close(ctx)
		})
		if err == nil {
			return child, nil
		}
		child.Kill()
		if !strings.Contains(child.lastWords(), "is still in use") || pause(ctx) != nil {
			return nil, err
		}
	}
}

// stopSignal returns the signal for a fast shutdown, which ends sessions and writes all
// data to disk. For a test server it is an immediate shutdown, which writes nothing.
func (c *postgresCluster) stopSignal() syscall.Signal {
	if c.test {
		return syscall.SIGQUIT
	}
	return syscall.SIGINT
}

func (c *postgresCluster) settings(sockets string) []string {
	settings := []string{
		"listen_addresses=", "port=5432", "unix_socket_directories=" + sockets, "unix_socket_permissions=0700",
		"max_connections=200", "shared_buffers=128MB", "jit=off", "timezone=UTC", "log_timezone=UTC", "logging_collector=off",
	}
	if c.test {
		settings = append(settings, "fsync=off", "synchronous_commit=off", "full_page_writes=off",
			"wal_level=minimal", "max_wal_senders=0", "max_wal_size=256MB", // the files may be on a memory file system
			"dynamic_shared_memory_type=mmap") // in the data directory, and so removed with it
	}
	settings = append(settings, c.more...)
	args := []string{"-D", c.data()}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return args
}

// postgresEnv returns this process's environment without variables that would redirect the
// server, and with messages in English, since the code below matches some of them.
func postgresEnv() []string {
	var env []string
	for _, setting := range os.Environ() {
		if !strings.HasPrefix(setting, "PG") && !strings.HasPrefix(setting, "LC_") && !strings.HasPrefix(setting, "LANG") {
			env = append(env, setting)
		}
	}
	return append(env, "LC_ALL=C")
}

func postgresDSN(sockets, database string) string {
	query := url.Values{"host": {sockets}, "port": {"5432"}, "user": {postgresUser}, "sslmode": {"disable"}}
	return "postgres:///" + database + "?" + query.Encode()
}

func createDatabase(ctx context.Context, sockets string) error {
	conn, err := pgx.Connect(ctx, postgresDSN(sockets, "postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var exists bool
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, postgresDatabase).Scan(&exists)
	if err != nil || exists {
		return err
	}
	_, err = conn.Exec(ctx, `CREATE DATABASE `+postgresDatabase)
	return err
}

// discountStalePID handles the postmaster.pid that a killed server left behind.
//
// If that server is still ending, it waits. Otherwise another process may have the pid by
// now, and PostgreSQL would refuse to start while that process lives. So the function
// writes this process's pid, which PostgreSQL ignores because it is its parent's. It keeps
// the rest of the file, by which PostgreSQL checks whether children of the dead server
// still use its memory. The caller holds the directory's lock, so no other server starts.
func discountStalePID(ctx context.Context, data string) error {
	path := filepath.Join(data, "postmaster.pid")
	for {
		content, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the pid file of an earlier server: %w", err)
		}
		first, rest, _ := bytes.Cut(content, []byte("\n"))
		pid, err := strconv.Atoi(string(bytes.TrimSpace(first)))
		if err != nil || pid <= 0 || !strings.Contains(commandLine(pid), data) {
			return os.WriteFile(path, append([]byte(strconv.Itoa(os.Getpid())+"\n"), rest...), 0o600)
		}
		if pause(ctx) != nil {
			return fmt.Errorf("a PostgreSQL server (process %d) already uses %s: stop it first", pid, data)
		}
	}
}
