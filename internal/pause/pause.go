// Package pause waits.
package pause

import (
	"context"
	"time"
)

// For waits for d. It returns the cause of ctx's end if ctx ends before.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
