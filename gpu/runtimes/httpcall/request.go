package httpcall

import (
	"context"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/httpcall"
	"github.com/reelay/reelay/internal/outbound"
)

func invalid(err error) error { return runtime.Failf(runtime.InvalidInput, "%s", err) }

// newRequest builds the request. Its errors contain no header's value.
func newRequest(ctx context.Context, p *httpcall.Params, policy outbound.Policy, job string) (*http.Request, error) {
	to, err := p.Address(policy)
	if err != nil {
		return nil, invalid(err)
	}
	body, isJSON := p.Content()
	request, err := http.NewRequestWithContext(ctx, p.Method, to.String(), strings.NewReader(body))
	if err != nil {
		return nil, runtime.Failf(runtime.InvalidInput, "params.url cannot be called.")
	}
	request.Header.Set("User-Agent", "Reelay")
	// The job may be attempted again after its worker was lost: with this key the server can
	// tell a repetition.
	request.Header.Set("Idempotency-Key", job)
	if isJSON {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, value := range p.Headers {
		request.Header.Set(textproto.CanonicalMIMEHeaderKey(name), value)
	}
	return request, nil
}
