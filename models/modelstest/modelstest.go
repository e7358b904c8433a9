// Package modelstest gives each test a private database.
package modelstest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/reelay/reelay/internal/faultproxy"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/migrations"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// maxConns is enough for a few goroutines of one test.
const maxConns = 8

// template is the migrated database that each test copies.
const template = "reelay_template"

var server struct {
	once     sync.Once
	err      error
	postgres *localstack.Postgres
	admin    *bun.DB
}

// Main is testrun.Main, which also stops the PostgreSQL server that the tests share.
func Main(run func() int) { testrun.Main(run) }

// DB returns a migrated database of the test's own.
func DB(t testing.TB) *bun.DB {
	t.Helper()
	db, done, err := postgres.Open(t.Context(), DSN(t), maxConns)
	require.NoError(t, err)
	t.Cleanup(done)
	return db
}

// DSN is DB for tests that open their own connections.
func DSN(t testing.TB) string {
	t.Helper()
	return created(t, "TEMPLATE "+template+" STRATEGY FILE_COPY")
}

// EmptyDSN is DSN for a database without a schema.
func EmptyDSN(t testing.TB) string {
	t.Helper()
	return created(t, "TEMPLATE template0")
}

func created(t testing.TB, how string) string {
	t.Helper()
	server.once.Do(func() { server.err = start() })
	require.NoError(t, server.err)

	name := "test_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	_, err := server.admin.ExecContext(t.Context(), "CREATE DATABASE "+name+" "+how)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := server.admin.ExecContext(context.Background(), fmt.Sprintf("DROP DATABASE %s WITH (FORCE)", name))
		require.NoError(t, err)
	})
	return database(name)
}

// Proxied is DSN for a database behind a proxy.
func Proxied(t testing.TB) (string, *faultproxy.Proxy) {
	t.Helper()
	return Through(t, DSN(t))
}

// Through returns a DSN that reaches the database at dsn through a new proxy.
func Through(t testing.TB, dsn string) (string, *faultproxy.Proxy) {
	t.Helper()
	address, err := url.Parse(dsn)
	require.NoError(t, err)
	query := address.Query()
	proxy := faultproxy.New(t, "unix", filepath.Join(query.Get("host"), ".s.PGSQL."+query.Get("port")))
	query.Set("host", "127.0.0.1")
	query.Set("port", strconv.Itoa(proxy.Port()))
	address.RawQuery = query.Encode()
	return address.String(), proxy
}

// DSNOf returns the DSN of a test's database.
func DSNOf(t testing.TB, db *bun.DB) string {
	t.Helper()
	var name string
	require.NoError(t, db.NewRaw("SELECT current_database()").Scan(t.Context(), &name))
	return database(name)
}

func start() error {
	ctx := context.Background()
	started, err := localstack.StartPostgres(ctx, localstack.PostgresConfig{Test: true})
	if err != nil {
		return err
	}
	admin, closeAdmin, err := postgres.Open(ctx, started.DSN(), 4)
	if err != nil {
		return errors.Join(err, started.Stop(ctx))
	}
	server.postgres, server.admin = started, admin
	testrun.AtEnd(func() { closeAdmin(); started.Stop(context.Background()) })
	return makeTemplate(ctx)
}

// makeTemplate migrates the template and closes its connections: PostgreSQL copies a database
// only while nobody is connected to it.
func makeTemplate(ctx context.Context) error {
	if _, err := server.admin.ExecContext(ctx, "CREATE DATABASE "+template); err != nil {
		return err
	}
	db, done, err := postgres.OpenPatient(ctx, database(template), 2)
	if err != nil {
		return err
	}
	defer done()
	_, err = migrations.Run(ctx, db)
	return err
}

func database(name string) string {
	dsn, err := url.Parse(server.postgres.DSN())
	if err != nil {
		panic(err)
	}
	dsn.Path = "/" + name
	return dsn.String()
}
