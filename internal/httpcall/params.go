// Package httpcall reads the parameters of a job that is one HTTP request. The API checks them
// when the job is submitted, and the runtime http before it makes the call.
package httpcall

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/internal/text"
	"golang.org/x/net/http/httpguts"
)

// Runtime is the name of the runtime in the catalogue.
const Runtime = "http"

const (
	maxTimeout  = 300 // seconds
	defaultTime = 30  // seconds
)

// Settings are what a worker learns with a job.
type Settings struct {
	// Except are addresses of Reelay itself, as host:port, which no job can call.
	Except []string `json:"except,omitempty"`
}

// Params are the parameters of a job.
type Params struct {
	Method         string            `json:"method"`
	URL            string            `json:"url"`
	Headers        map[string]string `json:"headers"`
	Body           json.RawMessage   `json:"body"`
	ExpectedStatus []json.RawMessage `json:"expectedStatus"`
	TimeoutSeconds float64           `json:"timeoutSeconds"`

	ranges [][2]int
}

// Problem is a parameter that no call can have. Its text is a sentence that begins with the
// name, and contains no header's value, no body and no query of the URL.
type Problem struct {
	Field string // such as params.url
	text  string
}

func (p *Problem) Error() string { return p.text }

func problem(field, format string, args ...any) error {
	return &Problem{"params." + field, "params." + field + " " + fmt.Sprintf(format, args...)}
}

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}

// reserved are headers that the connection or Reelay decides.
var reserved = []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer", "Keep-Alive",
	"Proxy-Connection", "Proxy-Authorization", "Expect"}

// Read reads and checks params, except the URL. Its error is a *Problem.
func Read(raw json.RawMessage) (*Params, error) {
	p := &Params{Method: http.MethodGet, TimeoutSeconds: defaultTime}
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, &Problem{"params", fmt.Sprintf("The parameters are not valid: %v.", err)}
	}
	body, _ := p.Content()
	switch {
	case !slices.Contains(methods, p.Method):
		return nil, problem("method", "must be one of %s.", strings.Join(methods, ", "))
	case !(p.TimeoutSeconds > 0 && p.TimeoutSeconds <= maxTimeout):
		return nil, problem("timeoutSeconds", "must be over 0 and at most %d.", maxTimeout)
	case body != "" && (p.Method == http.MethodGet || p.Method == http.MethodHead):
		return nil, problem("body", "is not allowed with the method %s.", p.Method)
	}
	if err := p.checkHeaders(); err != nil {
		return nil, err
	}
	return p, p.readExpected()
}

func (p *Params) checkHeaders() error {
	for name, value := range p.Headers {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value):
			return problem("headers", "has a header whose name or value is not valid in HTTP: %q.", canonical)
		case slices.Contains(reserved, canonical):
			return problem("headers", "must not have %s: Reelay sets it.", canonical)
		}
	}
	return nil
}

// readExpected reads statuses such as 201, and ranges such as "200-299" and "2xx".
func (p *Params) readExpected() error {
	for i, raw := range p.ExpectedStatus {
		said := strings.TrimSpace(strings.Trim(string(raw), `"`))
		first, last, isRange := strings.Cut(said, "-")
		if class, ok := strings.CutSuffix(strings.ToLower(said), "xx"); ok && len(class) == 1 {
			first, last, isRange = class+"00", class+"99", true
		}
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(strings.TrimSpace(first))
		to, err2 := strconv.Atoi(strings.TrimSpace(last))
		if err1 != nil || err2 != nil || from < 200 || to > 599 || from > to {
			return problem(fmt.Sprintf("expectedStatus.%d", i),
				"is %s: name a status from 200 to 599, such as 201, or a range, such as \"200-299\" or \"2xx\".", text.Clip(string(raw), 40))
		}
		p.ranges = append(p.ranges, [2]int{from, to})
	}
	if len(p.ranges) == 0 {
		p.ranges = [][2]int{{200, 299}}
	}
	return nil
}

// Expects reports whether a response with this status is a success.
func (p *Params) Expects(status int) bool {
	return slices.ContainsFunc(p.ranges, func(r [2]int) bool { return r[0] <= status && status <= r[1] })
}

// Expected names the statuses that are a success, such as "200–299, 404".
func (p *Params) Expected() string {
	names := make([]string, len(p.ranges))
	for i, r := range p.ranges {
		if names[i] = strconv.Itoa(r[0]); r[1] > r[0] {
			names[i] += "–" + strconv.Itoa(r[1])
		}
	}
	return strings.Join(names, ", ")
}

// Address returns the parsed URL, or a *Problem if the policy does not allow it.
func (p *Params) Address(policy outbound.Policy) (*url.URL, error) {
	to, err := policy.CheckURL(p.URL)
	if err != nil {
		return nil, problem("url", "is not allowed: %v", err)
	}
	return to, nil
}

// Content returns what to send. A text is sent as it is, anything else as JSON.
func (p *Params) Content() (body string, isJSON bool) {
	if len(p.Body) == 0 || string(p.Body) == "null" {
		return "", false
	}
	if json.Unmarshal(p.Body, &body) == nil {
		return body, false
	}
	return string(p.Body), true
}

// Check checks params at submit. Whether the name of the URL leads to a public address is known
// only when the call is made. Its error is a *Problem.
func Check(raw json.RawMessage, policy outbound.Policy) error {
	p, err := Read(raw)
	if err != nil {
		return err
	}
	_, err = p.Address(policy)
	return err
}
