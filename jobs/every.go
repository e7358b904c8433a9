package jobs

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"
)

// Every calls pass until ctx ends, about each interval, with jitter so that
// replicas spread out. It logs what fails and goes on.
func Every(ctx context.Context, name string, interval time.Duration, pass func(context.Context) error) error {
	for {
		if err := pass(ctx); err != nil && ctx.Err() == nil {
			slog.ErrorContext(ctx, "periodic pass failed", "pass", name, "error", err)
		}
		select {
		case <-time.After(interval*9/10 + rand.N(interval/5)):
		case <-ctx.Done():
			return nil
		}
	}
}
