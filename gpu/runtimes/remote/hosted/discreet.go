package hosted

import (
	"context"
	"time"

	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/internal/provider"
)

// discreet is a gate that removes secrets from the errors that it reports: a provider may repeat them.
type discreet struct {
	Gate
	client *remote.Client
}

// Tell reports how a call ended.
func (d discreet) Tell(ctx context.Context, fault *provider.Fault, retry time.Duration) {
	if fault != nil {
		cleaned := *fault
		cleaned.Code, cleaned.Reason = d.client.Clean(fault.Code), d.client.Clean(fault.Reason)
		fault = &cleaned
	}
	d.Gate.Tell(ctx, fault, retry)
}

// Webhook returns the address, which holds a token: the provider gets it, and may repeat it.
func (d discreet) Webhook(ctx context.Context, job string) (string, error) {
	address, err := d.Gate.Webhook(ctx, job)
	d.client.Hide(address)
	return address, err
}
