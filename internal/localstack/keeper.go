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
	// settled is how long a program must have run for its end to count as a first
	// one, after which it is started again at once.
	settled = 2 * time.Second
	// longestPause bounds the pauses before a program that keeps ending is started
	// again, and longestWait those after starts that failed.
	longestPause = 2 * time.Second
	longestWait  = 15 * time.Second
)

// Keeper keeps a program running: whenever it has ended by itself, it is started
// again.
type Keeper struct {
	Name string // what messages call it
	// Start starts it again and returns when it serves.
	Start func(ctx context.Context) (*Child, error)
	// Permanent tells of the error of a start that no later one can succeed; nil is of
	// none.
	Permanent func(error) bool
}

// permanentCauses are what PostgreSQL and Redis say of data that they will not read
// however often they are started.
var permanentCauses = []string{
	"is not a valid data directory", "has wrong ownership", "has invalid permissions", "database files are incompatible with server",
	"could not locate a valid checkpoint record", "invalid primary checkpoint record",
	"Bad file format reading the append only file", "Can't handle RDB format version",
}

// Permanent tells of the error of a store's start that a person has to act: its program
// or data are gone, may not be read, or are broken. Anything else, such as a full disk,
// may pass.
func Permanent(err error) bool {
	var path *fs.PathError // and not a socket that is not there yet
	if errors.As(err, &path) && (errors.Is(path, fs.ErrNotExist) || errors.Is(path, fs.ErrPermission)) || errors.As(err, new(*MissingError)) {
		return true
	}
	return slices.ContainsFunc(permanentCauses, func(cause string) bool { return strings.Contains(err.Error(), cause) })
}

// Run keeps child, and those that come after it, running until ctx ends or we
// stop it ourselves. It stops none. While it cannot be started it is tried again, and
// the log says why; Run returns an error only if the cause is permanent.
func (k Keeper) Run(ctx context.Context, child *Child) error {
	ends := 0 // in a row, each soon after the start
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
		slog.WarnContext(ctx, k.Name+" ended by itself and is started again", "error", child.Err())
		var err error
		if child, err = k.again(ctx, ends); child == nil {
			return err
		}
		ends++
	}
}

// again starts the program after a pause that grows with the ends before, and with the
// starts that fail. It returns nil if ctx ends, or with an error if that is permanent.
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
		slog.WarnContext(ctx, k.Name+" could not be started again and is tried again later", "tries", failed, "next", pause, "error", err)
	}
}

// restartPause is nothing at first, then 0.1 s, 0.2 s, 0.4 s …
func restartPause(ends int) time.Duration {
	if ends == 0 {
		return 0
	}
	return 100 * time.Millisecond << min(ends-1, 10)
}
