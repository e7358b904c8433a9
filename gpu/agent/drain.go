package agent

import (
	"context"
	"errors"
	"time"
)

// watchNotices acts on the notices that the machine is going away. After the first
// one it also asks the control plane to drain this worker. A second one that is not announced
// means that the machine goes now.
func (a *Agent) watchNotices(ctx context.Context) {
	for told, signalled := false, false; ; {
		select {
		case <-ctx.Done():
			return
		case n, ok := <-a.config.Notices:
			if !ok {
				return
			}
			if signalled && !n.Announced {
				n.Deadline = time.Now()
			}
			signalled = signalled || !n.Announced
			a.log.Info("the machine is going away", "reason", n.Reason, "deadline", n.Deadline)
			if told {
				a.going.hurry(n.Deadline)
				continue
			}
			told = true
			done := make(chan struct{})
			a.going.noticing.Store(&done)
			a.going.hurry(n.Deadline)
			a.sayDraining(ctx, n)
			close(done)
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
	err := a.api.DrainSelf(ctx, a.id, n.Reason, a.times.theirs(n.Deadline))
	// An agent with nothing to hand over may have left before this call ended.
	if err != nil && !errors.Is(err, context.Canceled) && !gone(err) {
		a.log.Warn("could not report that this worker is draining", "error", err)
	}
}
