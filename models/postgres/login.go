package postgres

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// errMalformed stands for pgx's error, which repeats the connection string, including the password.
var errMalformed = errors.New("the database URL is malformed: use postgres://user:password@host:5432/name")

var errMoved = errors.New("it names another server or database: restart this process to use it")

// login gives new connections the user, password and certificates of the newest connection string.
type login struct {
	dsn func() string

	mu    sync.Mutex
	last  *pgx.ConnConfig // of the newest connection string that could be used
	wrong string          // the connection string that could not
}

// renew changes how a connection that is about to be opened logs in.
func (l *login) renew(ctx context.Context, cfg *pgx.ConnConfig) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	dsn := l.dsn()
	fresh, err := pgx.ParseConfig(dsn) // reads the files of certificates again, too
	switch {
	case err != nil:
		err = errMalformed
	case !slices.Equal(places(&fresh.Config), places(&l.last.Config)):
		err = errMoved
	default:
		l.last, l.wrong = fresh, ""
	}
	if err != nil && dsn != l.wrong {
		l.wrong = dsn
		slog.WarnContext(ctx, "the database URL changed, but cannot be used: the former one stays in use", "error", err)
	}
	cfg.User, cfg.Password = l.last.User, l.last.Password
	cfg.TLSConfig, cfg.Fallbacks = l.last.TLSConfig, l.last.Fallbacks
	return nil
}

// place is a server and one of its databases.
type place struct {
	host     string
	port     uint16
	database string
}

func places(c *pgconn.Config) []place {
	all := []place{{c.Host, c.Port, c.Database}}
	for _, other := range c.Fallbacks {
		all = append(all, place{other.Host, other.Port, c.Database})
	}
	return all
}
