package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// PostgreSQL's error codes.
const (
	codeReadOnly      = "25006"
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeLockTimeout   = "55P03"
)

// outageCodes are prefixes of the codes of errors that pass by themselves or that an operator
// resolves: PostgreSQL is unreachable, starting, stopping, full, overloaded or failed over, or
// it gave up a statement that others blocked.
var outageCodes = []string{
	"08",                            // the connection broke
	codeReadOnly,                    // a standby, or a primary that was one
	"25P03",                         // we were silent within a transaction
	codeSerialization, codeDeadlock, // after some tries
	"53",            // out of connections, memory or disk
	codeLockTimeout, // a lock was not to be had
	"57014",         // the statement timeout
	"57P",           // shutting down, crashed, starting
	"58",            // the disk failed
}

// IsOutage reports whether an error means that PostgreSQL, or the network to it, cannot serve
// now, and not that a statement was wrong. After such an error it is unknown whether a commit
// in progress took effect.
func IsOutage(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		// PostgreSQL's refusals during the handshake are ConnectErrors, too.
		var refused *pgconn.ConnectError
		return errors.As(err, &refused) || pg.Severity == "PANIC" ||
			slices.ContainsFunc(outageCodes, func(code string) bool { return strings.HasPrefix(pg.Code, code) })
	}
	var refused *pgconn.ConnectError
	var network *net.OpError
	// SafeToRetry means that nothing was sent: the connection was already closed.
	if errors.As(err, &refused) || errors.As(err, &network) || pgconn.SafeToRetry(err) {
		return true
	}
	return slices.ContainsFunc([]error{
		errBusy, errStandby, ErrLostRace, sql.ErrConnDone, driver.ErrBadConn, io.ErrUnexpectedEOF, io.EOF,
		net.ErrClosed, os.ErrDeadlineExceeded, context.DeadlineExceeded,
	}, func(gone error) bool { return errors.Is(err, gone) })
}

// IsBusy reports whether an outage means that PostgreSQL answers, but gave a transaction up: it took
// too long, waited too long for others or for a connection, or could not be reconciled with others.
// The transaction changed nothing.
func IsBusy(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return slices.Contains([]string{codeSerialization, codeDeadlock, codeLockTimeout, "57014", "25P03"}, pg.Code)
	}
	return errors.Is(err, errBusy) || errors.Is(err, ErrLostRace)
}

// Answers reports whether an outage means that PostgreSQL can be reached, but is read-only or full,
// or its disk failed.
func Answers(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == codeReadOnly || strings.HasPrefix(pg.Code, "53") || strings.HasPrefix(pg.Code, "58"))
}

// ErrLostRace rolls a transaction back that finds that a concurrent one has changed what it read.
var ErrLostRace = errors.New("a concurrent transaction changed what this one had read")

// IsLostRace reports whether a transaction was rolled back only because of concurrent ones, so
// that it can be retried unchanged.
func IsLostRace(err error) bool {
	var pg *pgconn.PgError
	return errors.Is(err, ErrLostRace) || errors.As(err, &pg) && (pg.Code == codeSerialization || pg.Code == codeDeadlock)
}

// IsLockTimeout reports whether a transaction was rolled back because it waited for a lock for as long
// as it wanted to.
func IsLockTimeout(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == codeLockTimeout
}

// Violates reports whether PostgreSQL refused a write because of a constraint or unique index.
func Violates(err error, constraint string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.ConstraintName == constraint
}

// IsMisconfigured reports whether PostgreSQL refused a connection because of its user,
// password or database. A retry does not help.
func IsMisconfigured(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (strings.HasPrefix(pg.Code, "28") || pg.Code == "3D000")
}
