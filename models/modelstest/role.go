package modelstest

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
)

// Role is a user of PostgreSQL who needs a password, for a database of the test's own.
type Role struct{ dsn, name string }

// passworded makes the server ask some of its users for a password: all others need none.
var passworded struct {
	once sync.Once
	err  error
}

// NewRole returns a superuser with a password.
func NewRole(t testing.TB, password string) *Role {
	t.Helper()
	r := &Role{dsn: DSN(t)}
	passworded.once.Do(func() { passworded.err = askForPasswords(t) })
	require.NoError(t, passworded.err)
	address, err := url.Parse(r.dsn)
	require.NoError(t, err)
	r.name = "user_of_" + strings.TrimPrefix(address.Path, "/")
	r.run(t, fmt.Sprintf("CREATE ROLE %s SUPERUSER LOGIN PASSWORD '%s' IN ROLE passworded", r.name, password))
	testrun.Eventually(t, "the server asks for the password", func() bool {
		_, done, err := postgres.Open(t.Context(), r.DSN("not "+password), 1)
		if err == nil {
			done()
		}
		return postgres.IsMisconfigured(err)
	})
	return r
}

func askForPasswords(t testing.TB) error {
	ctx := t.Context()
	if _, err := server.admin.ExecContext(ctx, "CREATE ROLE passworded"); err != nil {
		return err
	}
	var path string
	if err := server.admin.NewRaw("SHOW hba_file").Scan(ctx, &path); err != nil {
		return err
	}
	rules, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, append([]byte("local all +passworded scram-sha-256\n"), rules...), 0o600); err != nil {
		return err
	}
	_, err = server.admin.ExecContext(ctx, "SELECT pg_reload_conf()")
	return err
}

// DSN returns the address of the role's database with a password.
func (r *Role) DSN(password string) string {
	dsn, err := url.Parse(r.dsn)
	if err != nil {
		panic(err)
	}
	query := dsn.Query()
	query.Set("user", r.name)
	query.Set("password", password)
	dsn.RawQuery = query.Encode()
	return dsn.String()
}

// SetPassword changes the password. Open connections stay.
func (r *Role) SetPassword(t testing.TB, password string) {
	t.Helper()
	r.run(t, fmt.Sprintf("ALTER ROLE %s PASSWORD '%s'", r.name, password))
}

// Disconnect ends the connections of the role.
func (r *Role) Disconnect(t testing.TB) {
	t.Helper()
	r.run(t, fmt.Sprintf("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = '%s'", r.name))
}

func (r *Role) run(t testing.TB, statement string) {
	t.Helper()
	_, err := server.admin.ExecContext(t.Context(), statement)
	require.NoError(t, err)
}
