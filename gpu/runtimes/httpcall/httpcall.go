// Package httpcall is the runtime of the model http.call: a job is one HTTP request, made again
// if a worker is lost. It connects to public addresses only, like webhooks do.
package httpcall

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/httpcall"
	"github.com/reelay/reelay/internal/outbound"
)

// Name is the name of this runtime in the catalogue.
const Name = httpcall.Runtime

const (
	maxBody    = 64 << 10 // bytes of a response's body that are kept
	maxHeaders = 50       // headers of a response that are kept
	maxHeader  = 1024     // bytes of each
	// maxHeadersJSON and maxBodyJSON bound what headers and body take as JSON, where a control
	// character takes six bytes: a result that cannot be stored would repeat the call.
	maxHeadersJSON = 96 << 10
	maxBodyJSON    = runtime.MaxOutput - maxHeadersJSON - 1<<10
	maxLater       = 24 * time.Hour
	beatEvery      = 30 * time.Second // the agent counts 5 minutes without progress as a hang
)

// Run serves an agent, one job at a time, until the agent sends shutdown or in
// ends. It returns an error if the agent breaks the protocol or the pipes fail.
func Run(ctx context.Context, in io.Reader, out io.Writer, policy outbound.Policy) error {
	return runtime.Serve(ctx, in, out, runtime.Ready{Runtime: "http 1"}, caller{policy})
}

// caller is the Handler. It keeps nothing between jobs.
type caller struct{ policy outbound.Policy }

// Load does nothing: there is no model.
func (caller) Load(context.Context, runtime.Model) error { return nil }

// output is the result of a call.
type output struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	// Body is the text of the response, or its base64 form if Base64 is set. It is cut if
	// Truncated is set.
	Body      string `json:"body"`
	Base64    bool   `json:"base64,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
	Millis    int64  `json:"millis"`
}

// Render makes the call. No error and no log line contains a header, a body or the query of the
// URL, which may hold secrets.
func (c caller) Render(ctx context.Context, job *runtime.Job) (runtime.Result, error) {
	p, err := httpcall.Read(job.Params)
	if err != nil {
		return runtime.Result{}, invalid(err)
	}
	timeout := time.Duration(p.TimeoutSeconds * float64(time.Second))
	var settings httpcall.Settings
	if len(job.Settings) > 0 {
		if err := json.Unmarshal(job.Settings, &settings); err != nil {
			return runtime.Result{}, runtime.Failf(runtime.Transient, "The settings of the model cannot be read: %v.", err)
		}
	}
	policy := c.policy.Except(settings.Except...)
	request, err := newRequest(ctx, p, policy, job.Job)
	if err != nil {
		return runtime.Result{}, err
	}
	type answer struct {
		result *output
		err    error
	}
	answered := make(chan answer, 1)
	go func() {
		result, err := call(policy.Client(timeout), request, p)
		answered <- answer{result, err}
	}()
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	progress := runtime.Progress{Phase: runtime.PhaseRendering, Message: "calling " + request.URL.Hostname()}
	for {
		job.Progress(progress)
		select {
		case <-job.CheckpointAsked:
			job.Checkpoint(runtime.Checkpoint{}) // a call has none
		case <-beat.C:
		case a := <-answered:
			if a.err != nil {
				return runtime.Result{}, a.err
			}
			data, err := json.Marshal(a.result)
			return runtime.Result{Output: data}, err
		}
	}
}

// call makes the request, and returns a *runtime.Failure if the answer is not an expected one.
func call(client outbound.Client, request *http.Request, p *httpcall.Params) (*output, error) {
	defer client.CloseIdleConnections()
	began := time.Now()
	response, err := client.Do(request)
	if err != nil {
		return nil, unreached(request, err)
	}
	defer response.Body.Close()
	if !p.Expects(response.StatusCode) {
		return nil, unexpected(request, response, p)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	if err != nil && (repeatable(request.Method) || request.Context().Err() != nil) {
		return nil, unreached(request, err)
	}
	o := &output{Status: response.StatusCode, Headers: headersOf(response.Header), Millis: time.Since(began).Milliseconds()}
	o.keep(body, err != nil)
	return o, nil
}

// repeatable reports whether a call of the method that the server has accepted may be made again,
// only to read its answer.
func repeatable(method string) bool { return method != http.MethodPost && method != http.MethodPatch }

// keep stores a body, of which the end is missing if it is cut or longer than the limit.
func (o *output) keep(body []byte, cut bool) {
	if o.Truncated = cut || len(body) > maxBody; o.Truncated {
		body = body[:min(len(body), maxBody)]
		for range utf8.UTFMax - 1 { // a character that was cut
			if r, size := utf8.DecodeLastRune(body); r == utf8.RuneError && size == 1 {
				body = body[:len(body)-1]
			}
		}
	}
	o.Body = string(body)
	if !utf8.Valid(body) || strings.ContainsRune(o.Body, 0) || jsonBytes(o.Body) > maxBodyJSON {
		o.Body, o.Base64 = base64.StdEncoding.EncodeToString(body), true
	}
}

// jsonBytes returns how many bytes a text takes as JSON.
func jsonBytes(text string) int {
	encoded, _ := json.Marshal(text) // a text can always be encoded
	return len(encoded)
}

// unreached describes a call without an answer. A URL that is not allowed stays so. A server that
// cannot be reached is for the job's owner to mend, unless this machine's own network fails.
func unreached(request *http.Request, err error) error {
	class := runtime.EndpointFailed
	if refused := (outbound.Refusal("")); errors.As(err, &refused) {
		class = runtime.InvalidInput
	} else if outbound.Local(err) {
		class = runtime.Transient
	}
	return runtime.Failf(class, "The call of %s failed: %s.", request.URL.Hostname(), outbound.Reason(err))
}

// laterLimited is how many seconds to wait after 429 without Retry-After.
const laterLimited = 60

// unexpected classifies an answer that the job does not expect.
func unexpected(request *http.Request, response *http.Response, p *httpcall.Params) error {
	failure := runtime.Failf(runtime.InvalidInput, "%s returned status %d; expected %s.",
		request.URL.Hostname(), response.StatusCode, p.Expected())
	asked := later(response.Header.Get("Retry-After"), time.Now())
	switch code := response.StatusCode; {
	case code == http.StatusTooManyRequests:
		failure.Class, failure.RetryAfterSeconds = runtime.EndpointFailed, cmp.Or(asked, laterLimited)
	case code == http.StatusServiceUnavailable:
		failure.Class, failure.RetryAfterSeconds = runtime.EndpointFailed, asked
	case code >= 500, code == http.StatusRequestTimeout, code == http.StatusTooEarly:
		failure.Class = runtime.EndpointFailed
	case code >= 300 && code < 400:
		failure.Message += " Redirects are not followed: call the URL to which it leads, or expect the status."
	}
	return failure
}

// later reads Retry-After, in seconds or as a date. It returns 0 if there is none.
func later(header string, now time.Time) int {
	wait := time.Duration(0)
	if seconds, err := strconv.Atoi(strings.TrimSpace(header)); err == nil {
		wait = time.Duration(min(max(seconds, 0), int(maxLater.Seconds()))) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		wait = at.Sub(now)
	}
	return int(min(max(wait, 0), maxLater).Seconds())
}

// headersOf returns the headers of a response, without cookies, which would be credentials.
func headersOf(all http.Header) map[string]string {
	names := make([]string, 0, len(all))
	for name := range all {
		if name != "Set-Cookie" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	kept, left := map[string]string{}, maxHeadersJSON
	for _, name := range names[:min(len(names), maxHeaders)] {
		value := strings.ToValidUTF8(strings.ReplaceAll(strings.Join(all[name], ", "), "\x00", ""), "�")
		if len(value) > maxHeader {
			value = strings.ToValidUTF8(value[:maxHeader], "") + "…"
		}
		if left -= jsonBytes(name) + jsonBytes(value) + 2; left < 0 {
			break
		}
		kept[name] = value
	}
	return kept
}
