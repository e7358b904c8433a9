package hosted

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/pause"
	"github.com/reelay/reelay/internal/provider"
)

// Control is the gate of the control plane: its limits hold for the agents of all machines.
type Control struct {
	API  *client.Client
	Pool string // its name

	tell chan bool // has a value if the control plane wants to know of the next success
}

// NewControl returns the gate of a pool.
func NewControl(api *client.Client, pool string) *Control {
	return &Control{API: api, Pool: pool, tell: make(chan bool, 1)}
}

// enterLimit bounds the wait for a turn, after which the job goes back: the provider is away for long.
const enterLimit = 15 * time.Minute

// Enter asks until the call may be made. While the control plane does not answer, no call is made: nobody could
// say whether it is one too many.
func (c *Control) Enter(ctx context.Context, use Use) error {
	begun, failures := time.Now(), 0
	for {
		turn, err := c.API.EnterProvider(ctx, client.EnterProviderInput{Pool: c.Pool, Use: client.ProviderUse(use)})
		wait, why := time.Duration(0), ""
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			failures++
			wait, why = min(time.Duration(failures)*time.Second, 10*time.Second), "The control plane does not answer."
		case turn.WaitSeconds <= 0:
			select {
			case <-c.tell:
			default:
			}
			c.tell <- turn.Tell
			return nil
		default:
			wait, why = time.Duration(turn.WaitSeconds*float64(time.Second)), turn.Reason
			wait += rand.N(min(wait/10, time.Second) + 1) // not all at once
		}
		if time.Since(begun) > enterLimit {
			return &runtime.Failure{Class: runtime.ProviderUnavailable, Message: "No call was allowed for 15 minutes. " + why, Unready: true}
		}
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
	}
}

// Webhook asks the control plane for the address.
func (c *Control) Webhook(ctx context.Context, job string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, tellLimit)
	defer cancel()
	address, err := c.API.ProviderWebhook(ctx, job)
	if client.ErrorCode(err) == client.CodeNotFound {
		return "", nil
	}
	return address, err
}

// Webhooks follows the webhooks that come to the control plane.
func (c *Control) Webhooks(ctx context.Context, job string, hint func()) error {
	var last error
	for _, err := range c.API.ProviderWebhooks(ctx, job) {
		if last = err; err == nil {
			hint()
		}
	}
	return last
}

// tellLimit is how long a report, or the question for an address, may take: it is worth less than the job.
const tellLimit = 10 * time.Second

// Tell reports how a call ended, if the control plane does not assume that.
func (c *Control) Tell(ctx context.Context, fault *provider.Fault, retry time.Duration) {
	wanted := false
	select {
	case wanted = <-c.tell:
	default:
	}
	if fault == nil && !wanted {
		return
	}
	in := client.TellProviderInput{Pool: c.Pool, Known: true, RetryAfterSeconds: retry.Seconds()}
	if fault != nil {
		in.Means, in.Status, in.Code, in.Text, in.Known = string(fault.Rule.Means), fault.Status, fault.Code, fault.Reason, fault.Known
		in.RetryAfterSeconds = max(retry, fault.Rule.Delay).Seconds()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellLimit)
	defer cancel()
	_ = c.API.TellProvider(ctx, in) // without the report the next call finds out the same
}
