package servers

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/internal/faultproxy"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// figures are counts of what an operation cost, by name.
type figures map[string]int64

// figureNames lists all figures in the order of budgets.yaml.
var figureNames = []string{
	"statements", "plans", "round trips", "rows returned", "rows read", "rows written", "rows locked", "updates not HOT", "index entries",
	"WAL bytes", "Redis commands", "asynq messages", "allocations", "allocated bytes",
}

// meteredSettings make what PostgreSQL counts repeatable: nothing writes but the statements, and
// plans do not depend on how few rows a test has.
var meteredSettings = []string{
	"shared_preload_libraries=pg_stat_statements", "pg_stat_statements.max=10000", "pg_stat_statements.track_planning=on",
	"autovacuum=off", "checkpoint_timeout=1d", "max_wal_size=2GB", "full_page_writes=off", "synchronous_commit=on", "enable_seqscan=off",
}

// meter counts what calls to a stack cost in its stores and in this process.
type meter struct {
	dsn   string // of the database, through a proxy that counts round trips
	trips *atomic.Int64

	admin *pgx.Conn // its statements are not counted
	redis redis.UniversalClient
	conns []connectionsOf
	hints []redis.UniversalClient // of the stacks
}

// connectionsOf are the connections of one pool.
type connectionsOf struct {
	db           *bun.DB
	conns, apart int
}

// startMeter starts a PostgreSQL with an empty, migrated database that counts.
func startMeter(t *testing.T) *meter {
	t.Helper()
	ctx := t.Context()
	server, err := localstack.StartPostgres(ctx, localstack.PostgresConfig{Test: true, Settings: meteredSettings})
	require.NoError(t, err)
	t.Cleanup(func() { server.Stop(context.Background()) })
	_, err = migrate(ctx, server.DSN())
	require.NoError(t, err)

	m := &meter{trips: &atomic.Int64{}}
	m.admin, err = pgx.Connect(ctx, server.DSN())
	require.NoError(t, err)
	t.Cleanup(func() { m.admin.Close(context.Background()) })
	for _, query := range []string{
		"SET pg_stat_statements.track = none",
		"CREATE SCHEMA meter", "CREATE EXTENSION pg_stat_statements SCHEMA meter", "CREATE EXTENSION pg_walinspect SCHEMA meter",
	} {
		_, err = m.admin.Exec(ctx, query)
		require.NoError(t, err, "the packages of PostgreSQL 15 or newer include these extensions")
	}

	address, err := url.Parse(server.DSN())
	require.NoError(t, err)
	query := address.Query()
	socket := query.Get("host") + "/.s.PGSQL." + query.Get("port")
	proxy, err := faultproxy.Open(func() (net.Conn, error) {
		conn, err := net.Dial("unix", socket)
		return &countedConn{Conn: conn, trips: m.trips}, err
	})
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	query.Set("host", "127.0.0.1")
	query.Set("port", strconv.Itoa(proxy.Port()))
	address.RawQuery = query.Encode()
	m.dsn = address.String()
	return m
}

// attach lets the meter count what a stack does, too. The stack must be over the meter's database.
func (m *meter) attach(t *testing.T, s *stack) {
	t.Helper()
	m.redis = s.redisAt.Open(testrun.WaitLimit)
	t.Cleanup(func() { m.redis.Close() })
	m.hints = append(slices.Clip(m.hints), s.redis)
	all := divided(s.cfg)
	m.conns = append(slices.Clip(m.conns), connectionsOf{s.db, all.ordinary, all.reads}, connectionsOf{s.workers, all.workers, 0})
}

// count returns what one call costs, with its statements and its rows by table. The call ends when the goroutines that it
// started have ended, too.
func (m *meter) count(t *testing.T, call func()) (f figures, ran []string) {
	t.Helper()
	// After a call that took too long, a stack leaves Redis alone for a moment.
	testrun.Eventually(t, "the stacks use Redis", func() bool {
		return !slices.ContainsFunc(m.hints, func(c redis.UniversalClient) bool { return c.Ping(t.Context()).Err() != nil })
	})
	m.publishCounts(t)
	f = figures{}
	tables := m.tables(t)
	handled := m.handled(t)
	m.exec(t, "SELECT meter.pg_stat_statements_reset()")
	from := m.position(t)
	require.NoError(t, m.redis.ConfigResetStat(t.Context()).Err())
	goroutines := runtime.NumGoroutine()
	trips := m.trips.Load()
	var memory, memoryAfter runtime.MemStats
	runtime.ReadMemStats(&memory)

	call()

	testrun.Eventually(t, "the call ends", func() bool { return runtime.NumGoroutine() <= goroutines })
	runtime.ReadMemStats(&memoryAfter)
	f["allocations"] = int64(memoryAfter.Mallocs - memory.Mallocs)
	f["allocated bytes"] = int64(memoryAfter.TotalAlloc - memory.TotalAlloc)
	f["round trips"] = m.trips.Load() - trips
	f["Redis commands"] = m.commands(t)
	ran = m.statements(t, f)
	m.readLog(t, from, f)
	m.publishCounts(t)
	ran = append(ran, f.rows(tables, m.tables(t))...)
	f["asynq messages"] += m.handled(t) - handled
	return f, ran
}

func (m *meter) exec(t *testing.T, query string, arguments ...any) {
	t.Helper()
	_, err := m.admin.Exec(t.Context(), query, arguments...)
	require.NoError(t, err)
}

// publishCounts lets every connection of the stack add its counts of rows to those that all
// see. By itself it does so only once a second.
func (m *meter) publishCounts(t *testing.T) {
	t.Helper()
	publish := func(ctx context.Context, db *bun.DB, n int) {
		for range n {
			conn, err := db.Conn(ctx)
			require.NoError(t, err)
			defer conn.Close()
			_, err = conn.ExecContext(ctx, "SELECT pg_stat_force_next_flush()")
			require.NoError(t, err)
		}
	}
	for _, pool := range m.conns {
		publish(t.Context(), pool.db, pool.conns)
		for range pool.apart {
			publish(postgres.AsRead(t.Context(), true), pool.db, 1)
		}
	}
}

// tableCounts are what PostgreSQL counts of one table, since its start.
type tableCounts struct{ read, inserted, updated, hot, deleted int64 }

func (m *meter) tables(t *testing.T) map[string]tableCounts {
	t.Helper()
	rows, err := m.admin.Query(t.Context(), `
		SELECT relname, seq_tup_read + coalesce(idx_tup_fetch, 0), n_tup_ins, n_tup_upd, n_tup_hot_upd, n_tup_del FROM pg_stat_user_tables`)
	require.NoError(t, err)
	defer rows.Close()
	all := map[string]tableCounts{}
	for rows.Next() {
		var name string
		var c tableCounts
		require.NoError(t, rows.Scan(&name, &c.read, &c.inserted, &c.updated, &c.hot, &c.deleted))
		all[name] = c
	}
	require.NoError(t, rows.Err())
	return all
}

// rows sets what was read and written since earlier counts, and returns it by table. Each row of the
// outbox becomes one message.
func (f figures) rows(before, after map[string]tableCounts) (byTable []string) {
	for _, name := range slices.Sorted(maps.Keys(after)) {
		a, b := before[name], after[name]
		if a == b {
			continue
		}
		inserted, updated, cold, deleted := b.inserted-a.inserted, b.updated-a.updated, b.updated-b.hot-a.updated+a.hot, b.deleted-a.deleted
		f["rows read"] += b.read - a.read
		f["rows written"] += inserted + updated + deleted
		f["updates not HOT"] += cold
		if name == "outbox" {
			f["asynq messages"] += inserted
		}
		byTable = append(byTable, fmt.Sprintf("    rows of %s: read %d, inserted %d, updated %d (%d not HOT), deleted %d",
			name, b.read-a.read, inserted, updated, cold, deleted))
	}
	return byTable
}

// statements sets how many statements ran, how often one was planned, and how many rows they returned or
// changed. It returns the statements.
func (m *meter) statements(t *testing.T, f figures) (all []string) {
	t.Helper()
	rows, err := m.admin.Query(t.Context(), `
		SELECT calls, plans, rows, trim(regexp_replace(regexp_replace(query, '--[^\n]*', '', 'g'), '\s+', ' ', 'g')) AS text
		FROM meter.pg_stat_statements ORDER BY text`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var calls, plans, returned int64
		var query string
		require.NoError(t, rows.Scan(&calls, &plans, &returned, &query))
		f["statements"] += calls
		f["plans"] += plans
		f["rows returned"] += returned
		if len(query) > 250 {
			query = query[:250] + " …"
		}
		all = append(all, fmt.Sprintf("    %d, planned %d, rows %d: %s", calls, plans, returned, query))
	}
	require.NoError(t, rows.Err())
	return all
}

func (m *meter) position(t *testing.T) (at string) {
	t.Helper()
	require.NoError(t, m.admin.QueryRow(t.Context(), "SELECT pg_current_wal_insert_lsn()::text").Scan(&at))
	return at
}

// readLog sets what was written to the write-ahead log since a position.
func (m *meter) readLog(t *testing.T, from string, f figures) {
	t.Helper()
	to := m.position(t)
	if from == to {
		return
	}
	// The log can be read up to what is on disk. The commit of a message writes everything before it.
	m.exec(t, "SELECT pg_logical_emit_message(true, 'meter', '')")
	rows, err := m.admin.Query(t.Context(), `
		SELECT "resource_manager/record_type", count, combined_size::bigint
		FROM meter.pg_get_wal_stats($1::pg_lsn, $2::pg_lsn, true) WHERE count > 0`, from, to)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var kind string
		var count, size int64
		require.NoError(t, rows.Scan(&kind, &count, &size))
		kind, _, _ = strings.Cut(kind, "+")
		f["WAL bytes"] += size
		f[logged[kind]] += count
	}
	require.NoError(t, rows.Err())
	delete(f, "")
}

// logged are the figures that count records of the write-ahead log, by the kind of the record. A full page of an index is
// split in place of the insertion.
var logged = map[string]string{
	"Btree/INSERT_LEAF": "index entries", "Btree/INSERT_POST": "index entries",
	"Btree/SPLIT_L": "index entries", "Btree/SPLIT_R": "index entries",
	"Gin/INSERT": "index entries", "Gin/UPDATE_META_PAGE": "index entries", "Hash/INSERT": "index entries",
	"Heap/LOCK": "rows locked", "Heap2/LOCK_UPDATED": "rows locked",
}

// commands returns how many commands Redis ran. A script counts, and so does each command in it.
func (m *meter) commands(t *testing.T) (n int64) {
	t.Helper()
	info, err := m.redis.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	for line := range strings.Lines(info) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), ":calls=")
		if rest == "" || strings.HasPrefix(name, "cmdstat_config") || name == "cmdstat_info" || name == "cmdstat_ping" {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		count, err := strconv.ParseInt(calls, 10, 64)
		require.NoError(t, err)
		n += count
	}
	return n
}

// handled returns how many messages asynq's servers have handled.
func (m *meter) handled(t *testing.T) (n int64) {
	t.Helper()
	keys, err := m.redis.Keys(t.Context(), "asynq:{*}:processed").Result()
	require.NoError(t, err)
	for _, key := range keys {
		count, err := m.redis.Get(t.Context(), key).Int64()
		require.NoError(t, err)
		n += count
	}
	return n
}

// countedConn is a connection to PostgreSQL that counts how often the client sends a request and must wait
// for the answer. Several messages that are sent together end in one such request.
type countedConn struct {
	net.Conn
	trips *atomic.Int64

	started bool   // the first message, which has no type, is over
	head    []byte // of a message, as far as it was written
	left    int    // how much of a message's body is missing
}

// Write implements net.Conn.
func (c *countedConn) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if c.left > 0 {
			n := min(c.left, len(rest))
			c.left, rest = c.left-n, rest[n:]
			continue
		}
		size := 5
		if !c.started {
			size = 4
		}
		n := min(size-len(c.head), len(rest))
		c.head, rest = append(c.head, rest[:n]...), rest[n:]
		if len(c.head) < size {
			continue
		}
		if c.head[0] == 'Q' || c.head[0] == 'S' { // a simple query, or the end of an extended one
			c.trips.Add(1)
		}
		c.left = int(binary.BigEndian.Uint32(c.head[size-4:])) - 4
		c.head, c.started = c.head[:0], true
	}
	return c.Conn.Write(p)
}
