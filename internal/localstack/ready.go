package localstack

import (
	"context"
	"fmt"
	"time"
)

// answers asks the child until it answers. It returns the child's error if the
// child ends, and the last refusal if ctx does.
func answers(ctx context.Context, child *Child, ask func(context.Context) error) error {
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-child.Done():
			return child.Err()
		default:
		}
		if pause(ctx) != nil {
			return fmt.Errorf("%s does not answer: %w", child.config.Name, err)
		}
	}
}

// pause waits before the next look at something that tells nobody when it
// changes. It returns ctx's error if ctx ends first.
func pause(ctx context.Context) error {
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
