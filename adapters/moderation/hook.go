// Package moderation asks a server of the operator whether the content of jobs is allowed.
package moderation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/internal/wellformed"
	"github.com/reelay/reelay/jobs/submit"
)

const (
	// The bounds of Config.Timeout.
	MinTimeout, MaxTimeout = 100 * time.Millisecond, 10 * time.Second

	// maxAnswer is the size of the largest answer, and maxHead that of its header, in bytes.
	maxAnswer, maxHead = 64 << 10, 32 << 10
	// maxReason and maxCategory are how much of an answer's texts a caller is shown, in bytes.
	maxReason, maxCategory = 500, 64
	// atOnce is how many questions a process has under way, and ofCall how many of one call.
	atOnce, ofCall = 64, 16
	// downAfter is the number of failures in a row after which the rest of a call is not asked about.
	downAfter = 3
	// retryAfter is when a caller is told to try again.
	retryAfter = 5 * time.Second
	// logEvery is how often failures are logged.
	logEvery = time.Minute
)

// Config says whom to ask.
type Config struct {
	URL string
	// Secret returns what is sent as a bearer token, or "".
	Secret func() string
	// Timeout is how long one question may take, with the wait for its turn.
	Timeout time.Duration
	// Open accepts the jobs about which the server gives no valid answer.
	Open bool
	// Observe, if not nil, receives each outcome and how long it took.
	Observe func(outcome submit.Moderation, took time.Duration)
}

// Hook implements submit.Moderator by HTTP.
type Hook struct {
	config Config
	client *http.Client
	turns  chan struct{}

	mu       sync.Mutex
	logged   time.Time
	unlogged int
}

var _ submit.Moderator = (*Hook)(nil)

// New returns a hook. Its URL is the operator's own, so unlike a customer's it may lead to any address.
func New(config Config) *Hook {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.MaxResponseHeaderBytes = atOnce, maxHead
	transport.DisableCompression = true // a small answer could become a large one
	return &Hook{config: config, turns: make(chan struct{}, atOnce), client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Moderate implements submit.Moderator. Once several questions in a row got no valid answer, those of the
// call that are left count as unanswered, too: a large call must not wait for each.
func (h *Hook) Moderate(ctx context.Context, all []submit.Content) []error {
	answers := make([]error, len(all))
	var next, failures atomic.Int32
	var workers sync.WaitGroup
	for range min(len(all), ofCall) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(all); i = int(next.Add(1)) - 1 {
				answers[i] = h.judge(ctx, &all[i], &failures)
			}
		})
	}
	workers.Wait()
	return answers
}

// errDown stands for the answer to a question that was not asked.
var errDown = errors.New("it did not answer the questions before")

// judge asks about one content. failures are those in a row.
func (h *Hook) judge(ctx context.Context, c *submit.Content, failures *atomic.Int32) error {
	start, v, err := time.Now(), new(verdict), error(errDown)
	if failures.Load() < downAfter {
		v, err = h.ask(ctx, c)
	}
	switch {
	case err != nil && ctx.Err() != nil: // the caller went away
		return ctx.Err()
	case err != nil:
		failures.Add(1)
		h.log(ctx, err)
		if h.config.Open {
			h.observe(submit.Unchecked, start)
			return nil
		}
		h.observe(submit.Failed, start)
		return apierror.Later(apierror.CodeUnavailable, retryAfter,
			"The content check of this installation gives no answer now, and no job is accepted without one.")
	}
	failures.Store(0)
	if v.allowed {
		h.observe(submit.Allowed, start)
		return nil
	}
	h.observe(submit.Refused, start)
	return v.refusal()
}

func (h *Hook) observe(outcome submit.Moderation, start time.Time) {
	if h.config.Observe != nil {
		h.config.Observe(outcome, time.Since(start))
	}
}

// verdict is an answer.
type verdict struct {
	allowed          bool
	reason, category string
}

// refusal returns the error for the caller. It bounds the texts of the server's answer and makes them printable.
func (v *verdict) refusal() error {
	message := "The content policy of this installation does not allow this job"
	if category := plain(v.category, maxCategory); category != "" {
		message += " (" + category + ")"
	}
	if reason := plain(v.reason, maxReason); reason != "" {
		message += ": " + strings.TrimSuffix(reason, ".")
	}
	return apierror.New(apierror.CodeContentPolicy, "%s. Change what it asks for.", message)
}

// plain returns a text of the server as one line.
func plain(s string, most int) string {
	return text.Clip(strings.Join(strings.Fields(text.Printable(s)), " "), most)
}

// ask asks the server about a content, after a turn is free. Its error says what is wrong with the
// answer. It contains neither the URL, nor anything of the question or the answer.
func (h *Hook) ask(ctx context.Context, c *submit.Content) (*verdict, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return nil, errors.New("the question cannot be encoded")
	}
	ctx, cancel := context.WithTimeout(ctx, h.config.Timeout)
	defer cancel()
	select {
	case h.turns <- struct{}{}:
		defer func() { <-h.turns }()
	case <-ctx.Done():
		return nil, errors.New("too many questions are under way")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.config.URL, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("its URL is malformed")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	// The question changes nothing, so it may be sent again over another connection.
	request.Header.Set("Idempotency-Key", string(c.JobID))
	if secret := h.secret(); secret != "" {
		request.Header.Set("Authorization", "Bearer "+secret)
	}
	response, err := h.client.Do(request)
	if err != nil {
		return nil, errors.New(outbound.Reason(err))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answered with status %d, and must with 200", response.StatusCode)
	}
	answer, err := outbound.ReadAll(response.Body, maxAnswer)
	if err != nil {
		return nil, errors.New(outbound.Reason(err))
	}
	return read(answer)
}

func (h *Hook) secret() string {
	if h.config.Secret == nil {
		return ""
	}
	return h.config.Secret()
}

// read reads an answer. One that could be understood in two ways counts as none.
func read(answer []byte) (*verdict, error) {
	var fields map[string]json.RawMessage
	v := new(verdict)
	switch {
	case !json.Valid(answer):
		return nil, errors.New("its answer is not JSON")
	case wellformed.JSON(answer) != nil:
		return nil, errors.New("its answer has a key twice, is nested too deep, or is not UTF-8")
	case json.Unmarshal(answer, &fields) != nil || field(fields, "reason", &v.reason) != nil || field(fields, "category", &v.category) != nil:
		return nil, errors.New(`its answer is not {"allowed": true or false, "reason": TEXT, "category": TEXT}`)
	}
	switch string(fields["allowed"]) {
	case "true":
		v.allowed = true
	case "false":
	default:
		return nil, errors.New(`the "allowed" of its answer is neither true nor false`)
	}
	return v, nil
}

// field reads a field that can be missing.
func field(fields map[string]json.RawMessage, name string, into *string) error {
	if raw, ok := fields[name]; ok {
		return json.Unmarshal(raw, into)
	}
	return nil
}

// log logs a failure, unless one was logged a moment ago.
func (h *Hook) log(ctx context.Context, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unlogged++; time.Since(h.logged) < logEvery {
		return
	}
	does := "jobs are refused"
	if h.config.Open {
		does = "jobs are accepted unchecked"
	}
	slog.WarnContext(ctx, "the moderation server gives no valid answer: "+does, "host", h.host(), "error", err, "failures", h.unlogged)
	h.logged, h.unlogged = time.Now(), 0
}

// host is the part of the URL that holds no secret.
func (h *Hook) host() string {
	u, err := url.Parse(h.config.URL)
	if err != nil {
		return ""
	}
	return u.Host
}
