package models

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

// Codes of PostgreSQL's errors.
const (
	codeReadOnly      = "25006"
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
)

// outageCodes begin the codes of what ends by itself, or by an operator's hand:
// PostgreSQL is away, starting, stopping, full or overloaded, was taken over
// from, or gave a statement up that others stood in the way of.
var outageCodes = []string{
	"08",                            // the connection broke
	codeReadOnly,                    // a standby, or a primary that was one
	"25P03",                         // we were silent within a transaction
	codeSerialization, codeDeadlock, // after some tries
	"53",    // out of connections, memory or disk
	"55P03", // a lock was not to be had
	"57014", // the statement timeout
	"57P",   // shutting down, crashed, starting
	"58",    // the disk failed
}

// IsOutage tells whether an error says that PostgreSQL, or the way there, cannot
// serve now, and not that a statement was wrong. After one it is not known
// whether a commit under way took place.
func IsOutage(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		// The handshake's refusals are PostgreSQL's errors, too.
		var refused *pgconn.ConnectError
		return errors.As(err, &refused) || pg.Severity == "PANIC" ||
			slices.ContainsFunc(outageCodes, func(code string) bool { return strings.HasPrefix(pg.Code, code) })
	}
	var refused *pgconn.ConnectError
	var network *net.OpError
	// What could not be sent is safe to send again: the connection was closed.
	if errors.As(err, &refused) || errors.As(err, &network) || pgconn.SafeToRetry(err) {
		return true
	}
	return slices.ContainsFunc([]error{
		errBusy, sql.ErrConnDone, driver.ErrBadConn, io.ErrUnexpectedEOF, io.EOF,
		net.ErrClosed, os.ErrDeadlineExceeded, context.DeadlineExceeded,
	}, func(gone error) bool { return errors.Is(err, gone) })
}

// IsLostRace tells whether PostgreSQL undid a transaction only because of others
// at the same time: it may be run again as it is.
func IsLostRace(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == codeSerialization || pg.Code == codeDeadlock)
}

// IsMisconfigured tells whether PostgreSQL refused a connection for what it asked
// for, a user, a password or a database: it will not help to try again.
func IsMisconfigured(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (strings.HasPrefix(pg.Code, "28") || pg.Code == "3D000")
}
