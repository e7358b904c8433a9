package httpcall

import (
	"context"
	"encoding/json"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/outbound"
	"golang.org/x/net/http/httpguts"
)

// params are the parameters of a job.
type params struct {
	Method         string            `json:"method"`
	URL            string            `json:"url"`
	Headers        map[string]string `json:"headers"`
	Body           json.RawMessage   `json:"body"`
	ExpectedStatus []json.RawMessage `json:"expectedStatus"`
	TimeoutSeconds float64           `json:"timeoutSeconds"`

	ranges [][2]int
}

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}

// reserved are headers that the connection or Reelay decides.
var reserved = []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Expect"}

func invalid(format string, args ...any) error {
	return runtime.Failf(runtime.InvalidInput, format, args...)
}

func readParams(raw json.RawMessage) (*params, error) {
	p := &params{Method: http.MethodGet, TimeoutSeconds: defaultTime}
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, invalid("params are not what this model takes: %v.", err)
	}
	switch {
	case !slices.Contains(methods, p.Method):
		return nil, invalid("params.method must be one of %s.", strings.Join(methods, ", "))
	case !(p.TimeoutSeconds > 0 && p.TimeoutSeconds <= maxTimeout):
		return nil, invalid("params.timeoutSeconds must be over 0 and at most %d.", maxTimeout)
	}
	return p, p.readExpected()
}

// readExpected reads statuses such as 201, and ranges such as "200-299".
func (p *params) readExpected() error {
	for _, raw := range p.ExpectedStatus {
		first, last, isRange := strings.Cut(strings.Trim(string(raw), `"`), "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || from < 200 || to > 599 || from > to {
			return invalid("params.expectedStatus may hold statuses from 200 to 599, such as 201, and ranges, such as \"200-299\".")
		}
		p.ranges = append(p.ranges, [2]int{from, to})
	}
	if len(p.ranges) == 0 {
		p.ranges = [][2]int{{200, 299}}
	}
	return nil
}

func (p *params) expects(status int) bool {
	return slices.ContainsFunc(p.ranges, func(r [2]int) bool { return r[0] <= status && status <= r[1] })
}

// request builds the request. Its errors contain no header's value.
func (p *params) request(ctx context.Context, policy outbound.Policy, job string) (*http.Request, error) {
	to, err := policy.CheckURL(p.URL)
	if err != nil {
		return nil, invalid("params.url is not allowed: %v", err)
	}
	body, isJSON := p.body()
	if body != "" && (p.Method == http.MethodGet || p.Method == http.MethodHead) {
		return nil, invalid("params.body is not allowed with the method %s.", p.Method)
	}
	request, err := http.NewRequestWithContext(ctx, p.Method, to.String(), strings.NewReader(body))
	if err != nil {
		return nil, invalid("params.url cannot be called.")
	}
	request.Header.Set("User-Agent", "Reelay")
	// The job may be attempted again after its worker was lost: with this key the server can
	// tell a repetition.
	request.Header.Set("Idempotency-Key", job)
	if isJSON {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, value := range p.Headers {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value):
			return nil, invalid("params.headers has a header whose name or value is not valid in HTTP: %q.", canonical)
		case slices.Contains(reserved, canonical):
			return nil, invalid("params.headers must not have %s: Reelay sets it.", canonical)
		}
		request.Header.Set(canonical, value)
	}
	return request, nil
}

// body returns what to send. A text is sent as it is, anything else as JSON.
func (p *params) body() (body string, isJSON bool) {
	if len(p.Body) == 0 || string(p.Body) == "null" {
		return "", false
	}
	if json.Unmarshal(p.Body, &body) == nil {
		return body, false
	}
	return string(p.Body), true
}
