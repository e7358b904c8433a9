// Package hosted speaks to hosted providers of videos, of which internal/provider says how. Each job is
// paid: what may have been started is never started again by itself.
package hosted

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/internal/hostedengine"
	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/internal/provider"
	"github.com/tidwall/gjson"
)

// Gate decides, for all machines together, when a provider is called, and takes its webhooks.
type Gate interface {
	// Enter waits until a call may be made. It returns a *runtime.Failure if none may be made for long.
	Enter(ctx context.Context, use Use) error
	// Tell reports how a call ended. fault is nil if the provider answered as it should, or if it failed
	// for reasons of the job. retry is what Retry-After says, or 0.
	Tell(ctx context.Context, fault *provider.Fault, retry time.Duration)
	// Webhook returns where the provider may send webhooks about a job, or "".
	Webhook(ctx context.Context, job string) (string, error)
	// Webhooks calls hint for each webhook about a job, until ctx ends or the connection breaks.
	Webhooks(ctx context.Context, job string, hint func()) error
}

// Use is what a call is for. Submits go before polls when few calls are left in a minute.
type Use string

// The uses of calls.
const (
	ForSubmit Use = "SUBMIT"
	ForPoll   Use = "POLL"
)

// Engine is a provider.
type Engine struct {
	adapter *provider.Adapter
	client  *remote.Client
	target  remote.Target
	gate    Gate
}

// New returns the provider at a target. A nil gate lets all calls pass.
func New(adapter *provider.Adapter, target remote.Target, gate Gate) *Engine {
	if gate == nil {
		gate = open{}
	}
	client := remote.NewClient(target)
	return &Engine{adapter: adapter, client: client, target: target, gate: discreet{gate, client}}
}

type open struct{}

func (open) Enter(context.Context, Use) error                     { return nil }
func (open) Tell(context.Context, *provider.Fault, time.Duration) {}
func (open) Webhook(context.Context, string) (string, error)      { return "", nil }
func (open) Webhooks(context.Context, string, func()) error       { return nil }

// Health says whether there is a key. It makes no call: calls are few, and a job shows more.
func (e *Engine) Health(context.Context) (remote.Health, error) {
	if err := e.client.Sign(http.Header{}); err != nil {
		return remote.Health{}, &remote.Unreachable{Cause: err}
	}
	return remote.Health{Version: e.adapter.Version}, nil
}

const (
	maxAnswer = 8 << 20   // bytes
	maxInline = 256 << 20 // bytes of an answer that can hold a film in base64
	maxFiles  = 20 << 20  // bytes of a job's files, which become a part of the request
	maxFilm   = 4 << 30   // bytes of a result
	maxMoves  = 5         // redirects on the way to a result
	// limitedFor is how long one submit is tried that the provider refuses because of its limits.
	limitedFor = 3 * time.Minute
)

// do makes one call once the gate lets it pass. A refusal is returned as a Fault, too.
func (e *Engine) do(ctx context.Context, use Use, call provider.Call) (*remote.Answer, *provider.Fault, error) {
	if err := e.gate.Enter(ctx, use); err != nil {
		return nil, nil, err
	}
	return e.call(ctx, call)
}

// call makes a call that the gate has let pass.
func (e *Engine) call(ctx context.Context, call provider.Call) (*remote.Answer, *provider.Fault, error) {
	header := http.Header{}
	for name, value := range e.adapter.Headers {
		header.Set(name, value)
	}
	for name, value := range call.Header {
		header.Set(name, value)
	}
	made := remote.Call{Method: call.Method, Path: call.Path, Header: header, Most: maxAnswer, Direct: true}
	if e.adapter.InlineFilms {
		made.Most = maxInline
	}
	if call.Body != nil {
		made.Body, made.ContentType = call.Body, "application/json"
	}
	answer, err := e.client.Do(ctx, made)
	refused, ok := errors.AsType[*remote.Refused](err)
	switch {
	case err == nil: // also if ctx has just ended: the answer is worth its money
		e.gate.Tell(ctx, nil, 0)
		return answer, nil, nil
	case ok:
		fault := e.adapter.Fault(refused.Status, refused.Header, refused.Body)
		e.gate.Tell(ctx, &fault, retryAfter(refused.Header))
		return nil, &fault, err
	case ctx.Err() == nil:
		e.gate.Tell(ctx, &provider.Fault{Reason: err.Error(), Rule: provider.Rule{Means: provider.Passing}, Known: true}, 0)
	}
	return nil, nil, err
}

// retryAfter reads Retry-After, in seconds or as a time; the latter by the provider's own clock.
func retryAfter(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := time.ParseDuration(value + "s"); err == nil && seconds > 0 {
		return min(seconds, time.Hour)
	}
	at, err := http.ParseTime(value)
	now, noClock := http.ParseTime(header.Get("Date"))
	if err != nil || noClock != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), time.Hour)
}

// task is the job as adapters see it.
func (e *Engine) task(ref, key string, since int64, job *remote.Job) (provider.Task, *hostedengine.Settings, error) {
	settings, err := hostedengine.Parse(e.adapter, job.Settings, nil)
	if err != nil {
		return provider.Task{}, nil, runtime.Failf(runtime.InvalidInput, "The settings of the model %s are invalid: %v.", job.Model, err)
	}
	return provider.Task{Ref: ref, Key: key, Model: settings.Model, Prompt: job.Prompt, Since: since}, settings, nil
}

// Prepare makes the request.
func (e *Engine) Prepare(ctx context.Context, key string, job *remote.Job) (func(context.Context) (string, error), error) {
	task, settings, err := e.task("", key, 0, job)
	if err != nil {
		return nil, err
	}
	request, err := encode(e.adapter, settings, task, job)
	if err != nil {
		return nil, err
	}
	request.Hook, _ = e.webhook(ctx, job) // without it, polls alone find out how the job is
	call, err := e.adapter.Submit(request)
	if err != nil {
		return nil, runtime.Failf(runtime.InvalidInput, "%s does not take the job: %v.", e.adapter.Title, err)
	}
	var until time.Time
	return func(ctx context.Context) (string, error) {
		if until.IsZero() {
			until = time.Now().Add(limitedFor)
		}
		return e.submit(ctx, call, until)
	}, nil
}

// Admit waits for the gate.
func (e *Engine) Admit(ctx context.Context) error { return e.gate.Enter(ctx, ForSubmit) }

// submit starts the job, which Admit has let pass. Until then it may be tried again while the provider has no room.
func (e *Engine) submit(ctx context.Context, call provider.Call, until time.Time) (string, error) {
	answer, fault, err := e.call(ctx, call)
	moved, isMoved := errors.AsType[*remote.Moved](err)
	switch {
	case fault != nil && (fault.Status >= 500 || e.mayKnow(*fault)):
		return "", &remote.Unreachable{Sent: true, Cause: err} // it may have begun
	case fault != nil && fault.Rule.Means == provider.Limited && time.Now().Before(until):
		return "", remote.ErrLater
	case fault != nil && fault.Rule.Means == provider.Gone: // there is no job yet: the model is unknown
		fault.Rule.Means = provider.Invalid
		return "", e.failure(*fault, "refuses the job")
	case fault != nil:
		return "", e.failure(*fault, "refuses the job")
	case isMoved:
		return "", runtime.Failf(runtime.ProviderUnavailable, "%s answers the submit with a redirect to %s: correct the address of the pool.",
			e.adapter.Title, moved.Host())
	case err != nil:
		return "", err
	}
	if ref, ok := e.adapter.ReadRef(answer.Body); ok {
		return ref, nil
	}
	words := e.client.Clean(string(answer.Body))
	if said := e.adapter.Fault(http.StatusOK, answer.Header, []byte(words)); said.Known { // an error with the status 200
		e.tell(ctx, said)
		return "", e.failure(said, "refuses the job")
	}
	return "", &remote.Confused{What: "no id of a job: " + remote.Quote(words)}
}

// mayKnow reports whether a refused submit is worth a lookup: a passing conflict, such as a key that is used
// already because an earlier answer was lost.
func (e *Engine) mayKnow(f provider.Fault) bool {
	return e.adapter.Lookup != nil && f.Known && f.Rule.Means == provider.Passing
}

// failure is what an error means for the job.
func (e *Engine) failure(f provider.Fault, what string) *runtime.Failure {
	said := e.client.Quote(f.Reason)
	if f.Code != "" {
		said = e.client.Quote(f.Code) + ": " + said
	}
	failure := &runtime.Failure{Message: fmt.Sprintf("%s %s: %s", e.adapter.Title, what, strings.TrimSuffix(said, ".")+"."),
		RetryAfterSeconds: int(f.Rule.Delay.Seconds())}
	switch f.Rule.Means {
	case provider.Refused:
		failure.Class = runtime.ContentPolicy
	case provider.Invalid:
		failure.Class = runtime.InvalidInput
	case provider.KeyRefused, provider.NoCredit:
		failure.Class, failure.Unready = runtime.ProviderUnavailable, true
	case provider.Limited:
		failure.Class, failure.Unready = runtime.RateLimited, true
	case provider.Crashed:
		failure.Class = runtime.ModelCrash
	default:
		failure.Class = runtime.Transient
	}
	return failure
}

// Find looks for a job whose submit was not answered. Where the provider cannot say it, it may have
// begun, and only people can decide.
func (e *Engine) Find(ctx context.Context, key string, since int64, job *remote.Job) (string, remote.Found, error) {
	task, _, err := e.task("", key, since, job)
	if err != nil {
		return "", "", err
	}
	if e.adapter.Lookup == nil {
		return "", remote.FoundDoubt, nil
	}
	answer, fault, err := e.do(ctx, ForPoll, e.adapter.Lookup(task))
	if fault != nil && (fault.Status == http.StatusNotFound || fault.Rule.Means == provider.Gone) {
		return "", remote.FoundNothing, nil
	}
	if fault != nil {
		return "", "", e.away(*fault)
	}
	if err != nil {
		return "", "", err
	}
	if !gjson.ValidBytes(answer.Body) {
		return "", "", &remote.Confused{What: "a list that is not JSON"}
	}
	ref, sure := e.adapter.Found(gjson.ParseBytes(answer.Body), task)
	switch {
	case ref != "":
		return ref, remote.FoundWork, nil
	case !sure:
		return "", remote.FoundDoubt, nil
	}
	return "", remote.FoundNothing, nil
}

// away is an error at a call about a job that exists: it says nothing of the job, which waits.
func (e *Engine) away(f provider.Fault) error {
	if f.Rule.Means == provider.KeyRefused || f.Rule.Means == provider.NoCredit {
		return e.failure(f, "refuses the key")
	}
	return &remote.Unreachable{Sent: true, Cause: fmt.Errorf("status %d: %s", f.Status, e.client.Quote(f.Reason))}
}

// Poll asks for the state of the job, and for its result where that is a call of its own.
func (e *Engine) Poll(ctx context.Context, ref string, job *remote.Job) (remote.Status, error) {
	task, _, err := e.task(ref, "", 0, job)
	if err != nil {
		return remote.Status{}, err
	}
	answer, fault, err := e.do(ctx, ForPoll, e.adapter.Poll(task))
	if fault != nil && fault.Rule.Means == provider.Gone {
		return remote.Status{State: remote.Gone, Done: -1}, nil
	}
	if fault != nil {
		return remote.Status{}, e.away(*fault)
	}
	if err != nil {
		return remote.Status{}, err
	}
	said, err := e.adapter.ReadStatus(task, answer.Body)
	if err != nil {
		return remote.Status{}, &remote.Confused{What: e.client.Quote(err.Error())}
	}
	if said.State == provider.Succeeded && e.adapter.Result != nil {
		answer, fault, err := e.do(ctx, ForPoll, e.adapter.Result(task))
		switch {
		case fault != nil && fault.Rule.Means == provider.Gone:
			return remote.Status{State: remote.Gone, Done: -1}, nil
		case fault != nil && fault.Known && slices.Contains(ofTheCall, fault.Rule.Means):
			return remote.Status{}, e.away(*fault)
		case fault != nil: // the job's own
			return remote.Status{State: remote.Failed, Done: -1, Failure: e.ended(*fault)}, nil
		case err != nil:
			return remote.Status{}, err
		}
		if err := e.adapter.ReadResult(answer.Body, &said); err != nil {
			return remote.Status{}, &remote.Confused{What: err.Error()}
		}
	}
	if said.State == provider.Failed {
		e.tell(ctx, e.adapter.Failure(said))
	}
	return e.status(said), nil
}

// tell reports an error in an answer that went well, if it concerns all jobs of the account.
func (e *Engine) tell(ctx context.Context, fault provider.Fault) {
	if slices.Contains(ofAccount, fault.Rule.Means) {
		e.gate.Tell(ctx, &fault, 0)
	}
}

// ofAccount are the errors that concern all jobs of the account.
var ofAccount = []provider.Meaning{provider.KeyRefused, provider.NoCredit, provider.Limited}

// ended is why a job failed that the provider had accepted. It counts as an attempt whatever the reason: the job
// is paid, and starts again with the next one.
func (e *Engine) ended(f provider.Fault) *runtime.Failure {
	failure := e.failure(f, "failed")
	failure.Unready = false
	return failure
}

// ofTheCall are the errors that say nothing of the job where the result is a call of its own.
var ofTheCall = []provider.Meaning{provider.KeyRefused, provider.NoCredit, provider.Limited, provider.Passing}

// states are those of the skeleton. A job that waits at a provider is at work there: it is paid.
var states = map[provider.State]remote.State{
	provider.Submitted: remote.Running, provider.Generating: remote.Running, provider.PostProcessing: remote.Running,
	provider.Succeeded: remote.Succeeded, provider.Failed: remote.Failed, provider.Cancelled: remote.Cancelled,
}

func (e *Engine) status(said provider.Status) remote.Status {
	status := remote.Status{State: states[said.State], Done: said.Done}
	switch said.State {
	case provider.Submitted:
		status.Phase, status.Message = runtime.PhaseSubmitted, e.adapter.Title+" has accepted the job"
	case provider.Generating:
		status.Phase, status.Message = runtime.PhaseGenerating, e.adapter.Title+" generates the video"
	case provider.PostProcessing:
		status.Phase, status.Message = runtime.PhasePostProcessing, e.adapter.Title+" finishes the video"
	case provider.Failed:
		status.Failure = e.ended(e.adapter.Failure(said))
	case provider.Succeeded:
		status.Paid = true
		if said.Inline != nil {
			status.Files = append(status.Files, remote.File{Name: "video.mp4", Inline: said.Inline})
		}
		for _, address := range said.Files {
			name := "video.mp4"
			if u, err := url.Parse(address); err == nil && strings.EqualFold(path.Ext(u.Path), ".webm") {
				name = "video.webm"
			}
			status.Files = append(status.Files, remote.File{Name: name, Ref: address, Most: maxFilm})
		}
	}
	return status
}

// Cancel asks the provider to stop the job. The proof is left to Poll.
func (e *Engine) Cancel(ctx context.Context, ref string, job *remote.Job) (remote.Stop, error) {
	task, _, err := e.task(ref, "", 0, job)
	if err != nil || e.adapter.Cancel == nil {
		return remote.Impossible, nil
	}
	_, fault, err := e.do(ctx, ForSubmit, e.adapter.Cancel(task))
	if fault != nil && fault.Status < 500 {
		return remote.Accepted, nil // it has ended, or is gone
	}
	return remote.Accepted, err
}

// Fetch reads the film, which lies at the provider or at another public address. Each step of a redirect is
// checked as the first address is.
func (e *Engine) Fetch(ctx context.Context, file remote.File, offset int64) (body io.ReadCloser, at, size int64, err error) {
	base, _ := url.Parse(e.target.URL) // checked when the pool was written
	if object, ok := strings.CutPrefix(file.Ref, "gs://"); ok && e.adapter.Auth == provider.GoogleAccount {
		return e.fromBucket(ctx, base, object, offset)
	}
	u, address := base, file.Ref
	for range maxMoves {
		if u, err = u.Parse(address); err != nil {
			return nil, 0, 0, &remote.Confused{What: "the address of the video is not a URL"}
		}
		body, at, size, err = e.open(ctx, base, u, offset)
		moved, ok := errors.AsType[*remote.Moved](err)
		if !ok {
			break
		}
		address = moved.To
	}
	return body, at, size, err
}

func (e *Engine) open(ctx context.Context, base, u *url.URL, offset int64) (io.ReadCloser, int64, int64, error) {
	if u.Host == base.Host && u.Scheme == base.Scheme {
		if !e.adapter.OwnFiles {
			return e.client.FetchElsewhere(ctx, u.String(), offset)
		}
		return remote.NewClient(remote.Target{URL: base.Scheme + "://" + base.Host, Secrets: e.target.Secrets, TLS: e.target.TLS}).
			Fetch(ctx, u.RequestURI(), offset)
	}
	outside := e.target
	outside.Elsewhere = films // the provider has no reason to name an address of the internal network
	return remote.NewClient(outside).FetchElsewhere(ctx, u.String(), offset)
}

// fromBucket opens an object in a bucket of Google's storage, BUCKET/OBJECT, with the account's token. Only Google's
// own storage gets it; an API at another address, such as a proxy, is asked itself.
func (e *Engine) fromBucket(ctx context.Context, base *url.URL, address string, offset int64) (io.ReadCloser, int64, int64, error) {
	bucket, object, _ := strings.Cut(address, "/")
	if !validBucket.MatchString(bucket) || object == "" || object == "." || object == ".." {
		return nil, 0, 0, &remote.Confused{What: "the address of the video names no object in a bucket"}
	}
	storage := base.Scheme + "://" + base.Host
	if strings.HasSuffix(base.Hostname(), ".googleapis.com") {
		storage = "https://storage.googleapis.com"
	}
	return remote.NewClient(remote.Target{URL: storage, Secrets: e.target.Secrets, TLS: e.target.TLS}).
		Fetch(ctx, "/storage/v1/b/"+bucket+"/o/"+url.PathEscape(object)+"?alt=media", offset)
}

var validBucket = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$`)

// filmLimit is how long the transfer of a film may take.
const filmLimit = 30 * time.Minute

var films = outbound.Policy{}.Client(filmLimit)

// Remove does nothing: providers delete results by themselves.
func (e *Engine) Remove(context.Context, string) error { return nil }
