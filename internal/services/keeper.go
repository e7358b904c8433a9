package services

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

const (
	// settled is how long a program must have run for its end to count as a first
	// one, after which it is started again at once.
	settled = 2 * time.Second
	// longestPause bounds the pauses before a program that keeps ending is started
	// again.
	longestPause = 2 * time.Second
)

// Keeper keeps a program running: whenever it has ended by itself, it is started
// again.
type Keeper struct {
	Name string // what messages call it
	// Start starts it again and returns when it serves.
	Start func(ctx context.Context) (*Child, error)
	// Patience is how many starts in a row may fail; 0 is any number.
	Patience int
}

// Run keeps child, and those that come after it, running until ctx ends or we
// stop it ourselves. It stops none. It returns an error only if its patience is
// at its end.
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

// again starts the program after a pause that grows with the ends before. It
// returns nil if ctx ends, or with an error if it is out of patience.
func (k Keeper) again(ctx context.Context, ends int) (*Child, error) {
	for failed := 0; ; {
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(restartPause(ends + failed)):
		}
		child, err := k.Start(ctx)
		if err == nil {
			return child, nil
		}
		if ctx.Err() != nil {
			return nil, nil
		}
		if failed++; failed == k.Patience {
			return nil, fmt.Errorf("%s ended and could not be started again in %d tries: %w", k.Name, failed, err)
		}
		slog.WarnContext(ctx, k.Name+" could not be started again; the next try follows", "error", err)
	}
}

// restartPause is nothing at first, then 0.1 s, 0.2 s, 0.4 s …
func restartPause(ends int) time.Duration {
	if ends == 0 {
		return 0
	}
	return min(100*time.Millisecond<<min(ends-1, 10), longestPause)
}
