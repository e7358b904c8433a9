package hosted

import (
	"context"
	"net/netip"
	"net/url"

	"github.com/reelay/reelay/gpu/runtimes/remote"
)

// webhook returns where the provider may send webhooks about a job, or "" if it sends none, or none that arrive:
// the address must be public and encrypted, unless the provider is a fake on the same machine.
func (e *Engine) webhook(ctx context.Context, job *remote.Job) (string, error) {
	if !e.adapter.Webhooks {
		return "", nil
	}
	address, err := e.gate.Webhook(ctx, job.ID)
	if err != nil {
		return "", err
	}
	to, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	own, _ := url.Parse(e.target.URL) // checked when the pool was written
	if inside(to.Hostname()) && loopback(own.Hostname()) || !inside(to.Hostname()) && to.Scheme == "https" {
		return address, nil
	}
	return "", nil
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// inside reports whether a host surely cannot be reached from the internet.
func inside(host string) bool {
	address, err := netip.ParseAddr(host)
	return loopback(host) || err == nil && (address.IsPrivate() || address.IsLinkLocalUnicast() || address.IsUnspecified())
}

// Watch calls hint when the provider has sent a webhook. Webhooks are hints of which nothing is believed: each only
// asks for a poll.
func (e *Engine) Watch(ctx context.Context, _ string, job *remote.Job, hint func(remote.Hint)) error {
	address, err := e.webhook(ctx, job)
	if err != nil {
		return err
	}
	if address != "" {
		return e.gate.Webhooks(ctx, job.ID, func() { hint(remote.Hint{Poll: true}) })
	}
	<-ctx.Done() // there are none
	return ctx.Err()
}
