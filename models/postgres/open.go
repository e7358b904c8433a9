package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
)

// These bound how long a caller waits for a PostgreSQL that is busy or does not answer. The
// connection string can override the two that are PostgreSQL's own settings.
const (
	// connectTimeout bounds the wait for a connection, new or from the pool.
	connectTimeout = 2 * time.Second
	// spareTime is how long a connection stays open without use: each costs the server some 5 MB. pgx
	// looks once a minute, and then uses each connection once, so this must be less than a minute.
	spareTime = 30 * time.Second
	// pingTimeout bounds the check of an idle connection.
	pingTimeout = time.Second
	// statementTimeout bounds a statement, including its waits for locks.
	statementTimeout = 10 * time.Second
	// idleTimeout ends the transaction of a process that stays silent within it, which frees
	// its locks.
	idleTimeout = 10 * time.Second
	// silenceLimit bounds the wait for an answer. It is longer than any statement.
	silenceLimit = 15 * time.Second
)

// errBusy means that no connection of the pool became free in time.
var errBusy = errors.New("no connection to PostgreSQL became free")

// Open connects to the PostgreSQL at dsn with at most maxConns connections. The returned
// function closes them. No call waits forever: each fails in the end with an error for which
// IsOutage returns true.
func Open(ctx context.Context, dsn string, maxConns int) (*bun.DB, func(), error) {
	return open(ctx, fixed(dsn), maxConns, 0, bounded)
}

// OpenShared is Open with additional connections that only large reads use, see AsRead. It calls dsn again
// for each connection, whose user, password and certificates may change.
func OpenShared(ctx context.Context, dsn func() string, maxConns, maxReads int) (*bun.DB, func(), error) {
	return open(ctx, dsn, maxConns, maxReads, bounded)
}

// OpenPatient is Open without limits on the time of statements and answers, for migrations
// and for reads of whole tables.
func OpenPatient(ctx context.Context, dsn string, maxConns int) (*bun.DB, func(), error) {
	return open(ctx, fixed(dsn), maxConns, 0, func(*pgx.ConnConfig) {})
}

func fixed(dsn string) func() string { return func() string { return dsn } }

func open(ctx context.Context, dsn func() string, maxConns, maxReads int, limit func(*pgx.ConnConfig)) (*bun.DB, func(), error) {
	cfg, err := pgxpool.ParseConfig(dsn())
	if err != nil {
		// pgx's error repeats the connection string, including the password.
		return nil, nil, errMalformed
	}
	cfg.BeforeConnect = (&login{dsn: dsn, last: cfg.ConnConfig}).renew
	cfg.MaxConns = int32(maxConns)
	cfg.PingTimeout = pingTimeout
	cfg.MaxConnIdleTime = spareTime
	cfg.ConnConfig.ConnectTimeout = connectTimeout
	// bun writes the arguments into each statement, so that hardly any two are the same. To
	// prepare and cache them would cost a second round trip for nothing. run uses another
	// mode.
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	cfg.ConnConfig.OnPgError = keepsConnection
	limit(cfg.ConnConfig)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	c := connector{Connector: stdlib.GetPoolConnector(pool)}
	closePools := pool.Close
	if maxReads > 0 {
		cfg = cfg.Copy()
		cfg.MaxConns = int32(maxReads)
		reads, err := pgxpool.NewWithConfig(ctx, cfg)
		if err != nil {
			pool.Close()
			return nil, nil, fmt.Errorf("connect to PostgreSQL: %w", err)
		}
		c.reads = stdlib.GetPoolConnector(reads)
		closePools = func() { pool.Close(); reads.Close() }
	}
	plain := sql.OpenDB(c)
	// pgx's pool keeps the idle connections. database/sql would hoard them.
	plain.SetMaxIdleConns(0)
	// A newer schema can have columns that this binary does not know.
	db := bun.NewDB(plain, newDialect(), bun.WithDiscardUnknownColumns())
	return db, func() { db.Close(); closePools() }, nil
}

// bounded sets the timeouts of a connection.
func bounded(cfg *pgx.ConnConfig) {
	for name, limit := range map[string]time.Duration{
		"statement_timeout": statementTimeout, "idle_in_transaction_session_timeout": idleTimeout,
	} {
		if _, said := cfg.RuntimeParams[name]; !said {
			cfg.RuntimeParams[name] = fmt.Sprint(limit.Milliseconds())
		}
	}
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &impatient{Conn: conn}, nil
	}
}

// keepsConnection reports whether a connection stays usable after an error of PostgreSQL. It
// does not if the error ends it, or if the server became read-only, as a primary does after a
// failover.
func keepsConnection(_ *pgconn.PgConn, e *pgconn.PgError) bool {
	return !strings.EqualFold(e.SeverityUnlocalized, "FATAL") && !strings.EqualFold(e.Severity, "FATAL") && e.Code != codeReadOnly
}

// conn is a connection that signals when it is returned.
type conn struct {
	*stdlib.Conn
	end func()
}

// Close implements driver.Conn.
func (c *conn) Close() error {
	defer c.end()
	return c.Conn.Close()
}

// connector takes connections from a pool, with a bound on the wait.
type connector struct {
	driver.Connector
	reads driver.Connector // for large reads; may be nil
}

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	from, r := c.Connector, readOf(ctx)
	if r != nil && r.apart && c.reads != nil {
		from = c.reads
	}
	end, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	plain, err := from.Connect(waiting)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w within %s: %w", errBusy, connectTimeout, err)
	}
	if err != nil {
		end()
		return nil, err
	}
	return &conn{Conn: plain.(*stdlib.Conn), end: end}, nil
}

// impatient is a connection whose reads fail after silenceLimit without data. pgx sets
// deadlines only if its caller has one.
type impatient struct {
	net.Conn
	mu  sync.Mutex
	cut bool // by a deadline of pgx's
}

// SetDeadline implements net.Conn. pgx uses it to end a call.
func (c *impatient) SetDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = !at.IsZero()
	return c.Conn.SetDeadline(at)
}

// Read implements net.Conn. It closes the connection after the timeout: otherwise pgx would
// ask for the rest of the answer, and wait again.
func (c *impatient) Read(p []byte) (int, error) {
	waits, err := c.wait()
	if err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if waits && errors.Is(err, os.ErrDeadlineExceeded) && !c.isCut() {
		c.Conn.Close()
	}
	return n, err
}

// wait sets the read deadline, unless pgx has set one.
func (c *impatient) wait() (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		return false, nil
	}
	return true, c.Conn.SetReadDeadline(time.Now().Add(silenceLimit))
}

func (c *impatient) isCut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut
}
