package localstack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"
)

const (
	// settled is how long a program must have run for its end to count as the first one,
	// after which it is restarted at once.
	settled = 2 * time.Second
	// longestPause is the longest pause before the restart of a program that keeps ending,
	// and longestWait the longest pause after a failed start.
	longestPause = 2 * time.Second
	longestWait  = 15 * time.Second
)

// Keeper keeps a program running: it restarts the program whenever it ends unexpectedly.
type Keeper struct {
	Name string // what messages call it
	// Start starts the program again and returns when it serves.
	Start func(ctx context.Context) (*Child, error)
	// Permanent reports whether no later start can succeed after this error of a start. If
	// it is nil, every error is temporary.
	Permanent func(error) bool
}

// permanentCauses are the messages of PostgreSQL and Redis about data that they will never
// read.
var permanentCauses = []string{
	"is not a valid data directory", "has wrong ownership", "has invalid permissions", "database files are incompatible with server",
	"could not locate a valid checkpoint record", "invalid primary checkpoint record",
	"Bad file format reading the append only file", "Can't handle RDB format version",
}

// Permanent reports whether the error of a store's start needs a person to act: its
// program or data are missing, unreadable or corrupt. Other errors, such as a full disk,
// may be temporary.
func Permanent(err error) bool {
	var path *fs.PathError // but not a socket that does not exist yet
	if errors.As(err, &path) && (errors.Is(path, fs.ErrNotExist) || errors.Is(path, fs.ErrPermission)) || errors.As(err, new(*MissingError)) {
		return true
	}
	return slices.ContainsFunc(permanentCauses, func(cause string) bool { return strings.Contains(err.Error(), cause) })
}

// Run keeps child and its successors running until ctx ends or the child is stopped. It
// stops none itself. It retries and logs failed starts, and returns an error only if the
// cause is permanent.
func (k Keeper) Run(ctx context.Context, child *Child) error {
	ends := 0 // consecutive ends, each soon after the start
	for {
		began := time.Now()
		select {
		case <-ctx.Done():
			return nil
		case <-child.Done():
		}
		if ctx.Err() != nil || child.Err() == nil {
			return nil
		}
		if time.Since(began) >= settled {
			ends = 0
		}
		slog.WarnContext(ctx, k.Name+" ended unexpectedly and is restarted", "error", child.Err())
		var err error
		if child, err = k.again(ctx, ends); child == nil {
			return err
		}
		ends++
	}
}

// again starts the program after a pause that grows with the number of ends and failed
// starts. It returns nil if ctx ends, and an error only if the error is permanent.
func (k Keeper) again(ctx context.Context, ends int) (*Child, error) {
	pause := min(restartPause(ends), longestPause)
	for failed := 1; ; failed++ {
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(pause):
		}
		child, err := k.Start(ctx)
		if err == nil {
			return child, nil
		}
		if ctx.Err() != nil {
			return nil, nil
		}
		if k.Permanent != nil && k.Permanent(err) {
			return nil, fmt.Errorf("%s ended and cannot be started again: %w", k.Name, err)
		}
		pause = min(restartPause(ends+failed), longestWait)
		slog.WarnContext(ctx, k.Name+" could not be restarted, retrying later", "tries", failed, "next", pause, "error", err)
	}
}

// restartPause is zero at first, then 0.1 s, 0.2 s, 0.4 s …
func restartPause(ends int) time.Duration {
	if ends == 0 {
		return 0
	}
	return 100 * time.Millisecond << min(ends-1, 10)
}
