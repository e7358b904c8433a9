package agent

import (
	"context"
	"errors"
	"time"
)

// watchNotices acts on the notices that the machine is going away. After the first
// one it also asks the control plane to drain this worker. A second one means that
// the machine goes now.
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
	// An agent with nothing to hand over may have left before this call ended.
	if err != nil && !errors.Is(err, context.Canceled) && !gone(err) {
		a.log.Warn("could not report that this worker is draining", "error", err)
	}
}
