package agent

import (
	"context"
	"errors"
	"time"
)

// watchNotices passes on what is said about the machine's end. The first notice
// tells the control plane too, so that it gives this worker nothing more; the
// second one means now.
func (a *Agent) watchNotices(ctx context.Context) {
	for told := false; ; {
		select {
		case <-ctx.Done():
			return
		case n, ok := <-a.config.Notices:
			if !ok {
				return
			}
			if told {
				n.Deadline = time.Now()
			}
			a.log.Info("the machine is going away", "reason", n.Reason, "deadline", n.Deadline)
			a.going.hurry(n.Deadline)
			if !told {
				told = true
				a.sayDraining(ctx, n)
			}
		}
	}
}

func (a *Agent) sayDraining(ctx context.Context, n Notice) {
	select {
	case <-a.registered:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(ctx, farewellTimeout)
	defer cancel()
	err := a.api.DrainSelf(ctx, a.worker, n.Reason, n.Deadline)
	// an agent with nothing to hand over may have left before this was through
	if err != nil && !errors.Is(err, context.Canceled) && !gone(err) {
		a.log.Warn("could not say that this worker drains", "error", err)
	}
}
