package localstack

import (
	"context"
	"fmt"
	"time"
)

// answers polls the child until it answers. It returns the error of the child if the child
// ends, and the last error of the poll if ctx ends.
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

// pause waits between two polls. It returns the error of ctx if ctx ends first.
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
