// Package videosapi speaks to servers of OpenAI's Videos API: vLLM-Omni, SGLang, TensorRT-LLM,
// LocalAI, another Reelay. They differ in what they accept and in how they say that a job failed,
// so it reads tolerantly: the body before the status.
package videosapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/internal/videoengine"
)

// Engine is one server.
type Engine struct {
	client *remote.Client

	mu sync.Mutex
	// former are the jobs that the server had before the present submit.
	former []string
}

// New returns the engine at a target.
func New(target remote.Target) *Engine { return &Engine{client: remote.NewClient(target)} }

// video is a job of the server. All but id and status may be missing.
type video struct {
	ID       string          `json:"id"`
	Status   string          `json:"status"`
	Progress json.Number     `json:"progress"`
	Prompt   string          `json:"prompt"`
	Size     string          `json:"size"`
	Created  json.Number     `json:"created_at"`
	URL      string          `json:"url"`
	Error    json.RawMessage `json:"error"`
}

// states are the names of states that servers use.
var states = map[string]remote.State{
	"queued": remote.Waiting, "pending": remote.Waiting, "in_queue": remote.Waiting, "created": remote.Waiting,
	"in_progress": remote.Running, "processing": remote.Running, "running": remote.Running, "generating": remote.Running,
	"completed": remote.Succeeded, "succeeded": remote.Succeeded, "success": remote.Succeeded, "done": remote.Succeeded,
	"failed": remote.Failed, "error": remote.Failed, "expired": remote.Failed,
	"cancelled": remote.Cancelled, "canceled": remote.Cancelled, "deleted": remote.Cancelled,
}

func (v *video) state() (remote.State, error) {
	state, ok := states[strings.ToLower(v.Status)]
	if !ok {
		return "", &remote.Confused{What: fmt.Sprintf("the unknown status %q", remote.Quote(v.Status))}
	}
	return state, nil
}

// Health asks whether the server is well, which models it has, and whether it has work.
func (e *Engine) Health(ctx context.Context) (remote.Health, error) {
	var health remote.Health
	if _, err := e.client.Do(ctx, remote.Call{Method: http.MethodGet, Path: "/health"}); err != nil && !absent(err) {
		return health, authorized(err)
	}
	answer, err := e.client.Do(ctx, remote.Call{Method: http.MethodGet, Path: "/v1/models"})
	if err != nil && !absent(err) {
		return health, authorized(err)
	}
	if err == nil {
		var list struct {
			Data []struct {
				ID string `json:"id"`
			} `json:"data"`
		}
		if err := answer.JSON(&list); err != nil {
			return health, err
		}
		health.Now = answer.Time()
		for _, model := range list.Data {
			health.Models = append(health.Models, model.ID)
		}
	}
	all, now, err := e.list(ctx)
	if err != nil && !absent(err) {
		return health, authorized(err)
	}
	health.Now = cmp.Or(now, health.Now)
	for _, v := range all {
		if state, err := v.state(); err == nil && (state == remote.Running || state == remote.Waiting) {
			health.Busy = true
		}
	}
	return health, nil
}

// absent reports whether the server does not know a call.
func absent(err error) bool {
	refused, ok := errors.AsType[*remote.Refused](err)
	return ok && slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}, refused.Status)
}

// authorized explains the refusal of a key.
func authorized(err error) error {
	refused, ok := errors.AsType[*remote.Refused](err)
	switch {
	case !ok:
		return err
	case refused.Status == http.StatusUnauthorized, refused.Status == http.StatusForbidden:
		return &remote.Confused{What: fmt.Sprintf("status %d: its key is missing or wrong; see --engine-secrets", refused.Status)}
	}
	return &remote.Confused{What: refused.Error()}
}

const listed = 100

// list returns the newest jobs of the server, and the server's clock.
func (e *Engine) list(ctx context.Context) ([]*video, int64, error) {
	answer, err := e.client.Do(ctx, remote.Call{Method: http.MethodGet, Path: fmt.Sprintf("/v1/videos?limit=%d&order=desc", listed)})
	if err != nil {
		return nil, 0, err
	}
	var list struct {
		Data *[]*video `json:"data"`
	}
	if err := answer.JSON(&list); err != nil {
		return nil, 0, err
	}
	if list.Data == nil {
		return nil, 0, &remote.Confused{What: "a list of videos without data"}
	}
	return slices.DeleteFunc(*list.Data, func(v *video) bool { return v == nil || v.ID == "" }), answer.Time(), nil
}

// Prepare makes the request.
func (e *Engine) Prepare(ctx context.Context, _ string, job *remote.Job) (func(context.Context) (string, error), error) {
	settings, err := videoengine.ParseSettings(job.Settings, nil)
	if err != nil {
		return nil, runtime.Failf(runtime.InvalidInput, "The settings of the model %s are invalid: %v.", job.Model, err)
	}
	body, kind, err := encode(settings, job)
	if err != nil {
		return nil, err
	}
	all, _, err := e.list(ctx)
	if err != nil && !absent(err) {
		return nil, authorized(err)
	}
	e.mu.Lock()
	e.former = nil
	for _, v := range all {
		e.former = append(e.former, v.ID)
	}
	e.mu.Unlock()
	return func(ctx context.Context) (string, error) { return e.submit(ctx, body, kind, settings) }, nil
}

func (e *Engine) submit(ctx context.Context, body []byte, kind string, settings *videoengine.Settings) (string, error) {
	answer, err := e.client.Do(ctx, remote.Call{Method: http.MethodPost, Path: "/v1/videos", Body: body, ContentType: kind})
	if refused, ok := errors.AsType[*remote.Refused](err); ok {
		return "", refusal(refused, settings)
	}
	if err != nil {
		return "", err
	}
	var v video
	if err := answer.JSON(&v); err != nil {
		return "", err
	}
	if v.ID == "" || len(v.ID) > maxID {
		return "", &remote.Confused{What: "a job without an id: " + remote.Quote(string(answer.Body))}
	}
	if e.had(v.ID) {
		return "", &remote.Confused{What: "a new job with the id of an earlier one"}
	}
	return v.ID, nil
}

// had reports whether the server had a job before the present submit.
func (e *Engine) had(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Contains(e.former, id)
}

const maxID = 500 // bytes: a handle holds it

// refusal explains a request that the server does not take. Of a status over 500 it is not known
// whether the job began.
func refusal(refused *remote.Refused, settings *videoengine.Settings) error {
	message := said(refused.Body)
	switch status := refused.Status; {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return authorized(refused)
	case status == http.StatusTooManyRequests, status == http.StatusConflict:
		return &remote.Unreachable{Cause: fmt.Errorf("it takes no job now (status %d): %s", status, message)}
	case status >= 500:
		return &remote.Unreachable{Sent: true, Cause: refused}
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed:
		return &remote.Confused{What: fmt.Sprintf("it has no /v1/videos (status %d)", status)}
	case strings.Contains(message, "Model mismatch"), strings.Contains(message, "model_not_found"):
		return &runtime.Failure{
			Class: runtime.Transient, Message: "This engine has another model: " + message + ".", Lacks: "model=" + settings.Model,
		}
	default:
		return classify(status, message, "The engine refuses the job: ")
	}
}

// said returns the message of an error: error.message, detail, or the text itself.
func said(body []byte) string {
	var object struct {
		Error  json.RawMessage `json:"error"`
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &object) == nil {
		for _, part := range []json.RawMessage{object.Error, object.Detail} {
			var inner struct {
				Message string `json:"message"`
				Code    any    `json:"code"`
			}
			var text string
			var list []struct {
				Loc []any  `json:"loc"`
				Msg string `json:"msg"`
			}
			switch {
			case json.Unmarshal(part, &inner) == nil && inner.Message != "":
				return remote.Quote(inner.Message)
			case json.Unmarshal(part, &text) == nil && text != "":
				return remote.Quote(text)
			case json.Unmarshal(part, &list) == nil && len(list) > 0:
				return remote.Quote(fmt.Sprintf("%s (%v)", list[0].Msg, list[0].Loc))
			}
		}
	}
	return cmp.Or(remote.Quote(string(body)), "it does not say why")
}

// classify says what a failure of the server means for the job.
func classify(status int, message, begin string) *runtime.Failure {
	folded := strings.ToLower(message)
	class := runtime.ModelCrash
	switch {
	case strings.Contains(folded, "out of memory"):
		class = runtime.OutOfMemory
	case strings.Contains(folded, "content policy"), strings.Contains(folded, "content_policy"), strings.Contains(folded, "moderation"),
		strings.Contains(folded, "safety"):
		class = runtime.ContentPolicy
	case status >= 400 && status < 500:
		class = runtime.InvalidInput
	}
	return runtime.Failf(class, "%s%s", begin, strings.TrimSuffix(message, ".")+".")
}

// Find looks for a job that was made after the submit began, with the prompt and the size of this
// one where the server has them. The engine had no other work, so there is one at most.
func (e *Engine) Find(ctx context.Context, _ string, since int64, job *remote.Job) (string, remote.Found, error) {
	all, _, err := e.list(ctx)
	if absent(err) {
		return "", remote.FoundUnknown, nil
	}
	if err != nil {
		return "", remote.FoundUnknown, authorized(err)
	}
	for _, v := range all { // the newest first
		created, _ := v.Created.Float64()
		older := v.Created != "" && int64(math.Ceil(created)) < since
		if older || e.had(v.ID) || v.Prompt != "" && v.Prompt != job.Prompt {
			continue
		}
		return v.ID, remote.FoundWork, nil
	}
	if len(all) >= listed {
		return "", remote.FoundUnknown, nil
	}
	return "", remote.FoundNothing, nil
}

// Poll asks for the job. Some servers answer for a failed one with the status of its error: the
// body decides.
func (e *Engine) Poll(ctx context.Context, ref string, _ *remote.Job) (remote.Status, error) {
	answer, err := e.client.Do(ctx, remote.Call{Method: http.MethodGet, Path: "/v1/videos/" + url.PathEscape(ref)})
	refused, isRefused := errors.AsType[*remote.Refused](err)
	if isRefused {
		answer, err = &remote.Answer{Status: refused.Status, Header: refused.Header, Body: refused.Body}, nil
	}
	if err != nil {
		return remote.Status{}, err
	}
	var v video
	decoded := json.Unmarshal(answer.Body, &v)
	if decoded != nil || v.ID == "" || v.Status == "" {
		switch {
		case answer.Status == http.StatusNotFound && decoded == nil:
			return remote.Status{State: remote.Gone, Done: -1}, nil
		case isRefused && refused.Status >= 500:
			return remote.Status{}, &remote.Unreachable{Sent: true, Cause: refused}
		case isRefused:
			return remote.Status{}, authorized(refused)
		}
		return remote.Status{}, &remote.Confused{What: "a job without id and status: " + remote.Quote(string(answer.Body))}
	}
	if v.ID != ref {
		return remote.Status{}, &remote.Confused{What: "the job of another id"}
	}
	state, err := v.state()
	if err != nil {
		return remote.Status{}, err
	}
	status := remote.Status{State: state, Done: done(v.Progress)}
	switch state {
	case remote.Succeeded:
		status.Files = []remote.File{{Name: "video.mp4", Ref: source{ref, v.URL}.String()}}
	case remote.Failed:
		code := answer.Status
		var inner struct{ Code json.Number }
		if json.Unmarshal(v.Error, &inner) == nil {
			if n, err := inner.Code.Int64(); err == nil {
				code = int(n)
			}
		}
		status.Failure = classify(code, said(answer.Body), "The engine failed: ")
	}
	return status, nil
}

// done reads the progress, which is in percent, or between 0 and 1. A server without progress
// says 0.
func done(progress json.Number) float64 {
	n, err := progress.Float64()
	switch {
	case err != nil || n <= 0 || n > 100 || math.IsNaN(n):
		return -1
	case n < 1:
		return n
	}
	return n / 100
}

// Cancel deletes the job at servers that stop it then. At others a deleted job would compute on,
// unseen. The proof is left to Poll: a proxy may answer in the server's place.
func (e *Engine) Cancel(ctx context.Context, ref string, job *remote.Job) (remote.Stop, error) {
	settings, err := videoengine.ParseSettings(job.Settings, nil)
	if err != nil || !settings.Aborts() {
		return remote.Impossible, nil
	}
	_, err = e.client.Do(ctx, remote.Call{Method: http.MethodDelete, Path: "/v1/videos/" + url.PathEscape(ref)})
	refused, ok := errors.AsType[*remote.Refused](err)
	switch {
	case err == nil, ok && (refused.Status == http.StatusNotFound || refused.Status == http.StatusConflict):
		return remote.Accepted, nil
	}
	return "", err
}

// Remove deletes the job and its file.
func (e *Engine) Remove(ctx context.Context, ref string) error {
	_, err := e.client.Do(ctx, remote.Call{Method: http.MethodDelete, Path: "/v1/videos/" + url.PathEscape(ref)})
	return err
}

// source says where the video of a job is.
type source struct {
	ID  string `json:"id"`
	URL string `json:"url,omitempty"`
}

func (s source) String() string {
	data, _ := json.Marshal(s) // two texts
	return string(data)
}

// Fetch reads the video from the server, or from where the server has stored it.
func (e *Engine) Fetch(ctx context.Context, file remote.File, offset int64) (io.ReadCloser, int64, int64, error) {
	var s source
	if err := json.Unmarshal([]byte(file.Ref), &s); err != nil {
		return nil, 0, 0, err
	}
	body, at, size, err := e.client.Fetch(ctx, "/v1/videos/"+url.PathEscape(s.ID)+"/content", offset)
	moved, isMoved := errors.AsType[*remote.Moved](err)
	refused, isRefused := errors.AsType[*remote.Refused](err)
	switch {
	case isMoved:
		return e.client.FetchElsewhere(ctx, moved.To, offset)
	case isRefused && s.URL != "":
		return e.client.FetchElsewhere(ctx, s.URL, offset)
	case isRefused && bytes.Contains(refused.Body, []byte("in-progress")):
		return nil, 0, 0, &remote.Unreachable{Sent: true, Cause: errors.New("the video is not written yet")}
	}
	return body, at, size, err
}

// Has looks again for a model.
func (e *Engine) Has(ctx context.Context, lacks string) (bool, error) {
	health, err := e.Health(ctx)
	return err == nil && slices.Contains(health.Models, strings.TrimPrefix(lacks, "model=")), err
}
