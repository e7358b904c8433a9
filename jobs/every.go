package jobs

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"
)

// Every calls pass until ctx ends, about each interval, with jitter so that
// replicas spread out. It logs what fails and goes on. A pass that runs when ctx
// ends may finish.
func Every(ctx context.Context, name string, interval time.Duration, pass func(context.Context) error) error {
	for {
		if err := Finish(ctx, pass); err != nil && ctx.Err() == nil {
			slog.ErrorContext(ctx, "periodic pass failed", "pass", name, "error", err)
		}
		select {
		case <-time.After(interval*9/10 + rand.N(interval/5)):
		case <-ctx.Done():
			return nil
		}
	}
}

// finishTime is how long what runs may go on when its process is asked to end.
const finishTime = 5 * time.Second

// Finish runs a pass that ctx's end does not break off at once: it may go on for
// 5 s.
func Finish(ctx context.Context, pass func(context.Context) error) error {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		select {
		case <-time.After(finishTime):
			cancel()
		case <-running.Done():
		}
	})()
	return pass(running)
}
