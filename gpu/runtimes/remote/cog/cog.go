// Package cog speaks to containers that Cog built, over their HTTP API. Cog takes our own id for a
// prediction. It sends the result once, to a webhook, and has no call to ask for it later.
package cog

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/internal/cogengine"
)

const (
	maxFile    = 100 << 20 // bytes of a file that is sent in a prediction
	maxWebhook = 512 << 20 // bytes of a webhook, which has the video in base64
	maxKept    = 4         // predictions of which the last webhook is kept
)

// Engine is one container.
type Engine struct {
	client *remote.Client
	target remote.Target

	mu       sync.Mutex
	receiver string                 // the address of the webhooks, once they are served
	webhooks map[string]*prediction // the last one of each prediction
	order    []string
	hinted   chan struct{} // receives when a webhook has come
	epoch    string        // of the container when it got the newest prediction
	silent   time.Time     // since when the container is idle without having sent the result; or zero
}

// prediction is what a webhook says.
type prediction struct {
	ID     string          `json:"id"`
	Status string          `json:"status"`
	Error  string          `json:"error"`
	Logs   string          `json:"logs"`
	Output json.RawMessage `json:"output"`
}

// New returns the engine at a target.
func New(target remote.Target) *Engine {
	return &Engine{client: remote.NewClient(target), target: target, webhooks: map[string]*prediction{}, hinted: make(chan struct{}, 1)}
}

// Health asks for the state of the container. Its epoch is when its setup began.
func (e *Engine) Health(ctx context.Context) (remote.Health, error) {
	answer, err := e.client.Do(ctx, remote.Call{Method: http.MethodGet, Path: "/health-check"})
	if refused, ok := errors.AsType[*remote.Refused](err); ok {
		return remote.Health{}, &remote.Confused{What: refused.Error()}
	}
	if err != nil {
		return remote.Health{}, err
	}
	var said struct {
		Status string
		Setup  struct {
			Started string `json:"started_at"`
			Logs    string
		}
		Version struct{ Coglet string }
	}
	if err := answer.JSON(&said); err != nil {
		return remote.Health{}, err
	}
	health := remote.Health{Epoch: said.Setup.Started, Version: said.Version.Coglet, Now: answer.Time()}
	switch said.Status {
	case "READY":
	case "BUSY":
		health.Busy = true
	case "STARTING":
		health.Loading = "its setup has not ended"
	case "SETUP_FAILED", "DEFUNCT", "UNHEALTHY":
		return health, &remote.Unreachable{Cause: fmt.Errorf("it is %s: restart the container; %s",
			said.Status, remote.Quote(said.Setup.Logs))}
	default:
		return health, &remote.Confused{What: fmt.Sprintf("the unknown status %q", remote.Quote(said.Status))}
	}
	return health, nil
}

// Prepare makes the prediction's input: what the settings say, with files as data URLs.
func (e *Engine) Prepare(ctx context.Context, key string, job *remote.Job) (func(context.Context) (string, error), error) {
	settings, err := cogengine.ParseSettings(job.Settings, nil)
	if err != nil {
		return nil, runtime.Failf(runtime.InvalidInput, "The settings of the model %s are invalid: %v.", job.Model, err)
	}
	input := map[string]any{}
	for param, value := range job.Params {
		name, mapped := settings.Inputs[param]
		if !mapped {
			name = param
		}
		if file, isFile := job.Inputs[param]; isFile {
			if value, err = dataURL(file); err != nil {
				return nil, err
			}
		}
		if name != "" && value != nil {
			input[name] = value
		}
	}
	if settings.Prompt != "-" {
		input[settings.Prompt] = job.Prompt
	}
	maps.Copy(input, settings.Fixed)
	receiver, err := e.listen()
	if err != nil {
		return nil, err
	}
	health, err := e.Health(ctx)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.epoch, e.silent = health.Epoch, time.Time{}
	e.mu.Unlock()
	body := map[string]any{
		"input": input, "webhook": receiver + "/" + key, "webhook_events_filter": []string{"start", "output", "logs", "completed"},
	}
	return func(ctx context.Context) (string, error) {
		answer, err := e.client.Do(ctx, remote.Call{
			Method: http.MethodPut, Path: "/predictions/" + key, Body: body, Header: http.Header{"Prefer": {"respond-async"}},
		})
		if refused, ok := errors.AsType[*remote.Refused](err); ok {
			return "", refusal(refused)
		}
		if err != nil {
			return "", err
		}
		var p prediction
		if err := answer.JSON(&p); err != nil {
			return "", err
		}
		if p.ID != key {
			return "", &remote.Confused{What: "a prediction without our id: " + remote.Quote(string(answer.Body))}
		}
		return key, nil
	}, nil
}

func refusal(refused *remote.Refused) error {
	switch refused.Status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return runtime.Failf(runtime.InvalidInput, "Cog refuses the input: %s.", remote.Quote(string(refused.Body)))
	case http.StatusConflict, http.StatusTooManyRequests:
		return &remote.Unreachable{Cause: refused} // it runs another prediction
	}
	return &remote.Confused{What: refused.Error()}
}

func dataURL(file string) (string, error) {
	info, err := os.Stat(file)
	if err == nil && info.Size() > maxFile {
		return "", runtime.Failf(runtime.InvalidInput, "A file of the job has over %d MB, which is too much for a prediction of Cog.",
			maxFile>>20)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	return "data:" + mime.TypeByExtension(filepath.Ext(file)) + ";base64," + base64.StdEncoding.EncodeToString(data), nil
}

// listen serves the webhooks at the address of this machine from which it reaches the container.
func (e *Engine) listen() (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.receiver != "" {
		return e.receiver, nil
	}
	u, err := url.Parse(e.target.URL)
	if err != nil {
		return "", err
	}
	port := map[bool]string{true: "443", false: "80"}[u.Scheme == "https"]
	if u.Port() != "" {
		port = u.Port()
	}
	way, err := net.Dial("udp", net.JoinHostPort(u.Hostname(), port)) // sends nothing
	if err != nil {
		return "", &remote.Unreachable{Cause: err}
	}
	defer way.Close()
	listener, err := net.Listen("tcp", net.JoinHostPort(way.LocalAddr().(*net.UDPAddr).IP.String(), "0"))
	if err != nil {
		return "", fmt.Errorf("listen for the webhooks of Cog: %w", err)
	}
	e.receiver = "http://" + listener.Addr().String()
	go func() { _ = http.Serve(listener, http.HandlerFunc(e.receive)) }() // it ends with the process
	return e.receiver, nil
}

// receive takes a webhook. What ended a prediction is not replaced by what arrives late.
func (e *Engine) receive(w http.ResponseWriter, r *http.Request) {
	var p prediction
	if json.NewDecoder(http.MaxBytesReader(w, r.Body, maxWebhook)).Decode(&p) != nil || p.ID == "" || "/"+p.ID != r.URL.Path {
		http.Error(w, "this is no webhook of a prediction", http.StatusBadRequest)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.webhooks[p.ID]
	if before == nil {
		e.order = append(e.order, p.ID)
		if len(e.order) > maxKept {
			delete(e.webhooks, e.order[0])
			e.order = e.order[1:]
		}
	}
	if before == nil || !ended(before.Status) {
		e.webhooks[p.ID] = &p
	}
	select {
	case e.hinted <- struct{}{}:
	default:
	}
}

func ended(status string) bool {
	return status == "succeeded" || status == "failed" || status == "canceled" || status == "aborted"
}

func (e *Engine) last(ref string) *prediction {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.webhooks[ref]
}

// Watch passes on that a webhook has come.
func (e *Engine) Watch(ctx context.Context, _ string, _ *remote.Job, hint func(remote.Hint)) error {
	for {
		select {
		case <-e.hinted:
			hint(remote.Hint{Poll: true})
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Find takes a container that is busy as busy with our prediction: it had no other. Asking by another
// PUT would run the prediction again if it has just ended.
func (e *Engine) Find(ctx context.Context, key string, _ int64, _ *remote.Job) (string, remote.Found, error) {
	health, err := e.Health(ctx)
	switch {
	case e.last(key) != nil, err == nil && health.Busy:
		return key, remote.FoundWork, nil
	}
	return "", remote.FoundUnknown, err // its webhook may be under way
}

// Poll says what the last webhook said. An idle container without one has lost the prediction, or its
// webhook went to a process that is gone.
func (e *Engine) Poll(ctx context.Context, ref string, _ *remote.Job) (remote.Status, error) {
	health, err := e.Health(ctx)
	p := e.last(ref)
	if p == nil || !ended(p.Status) {
		switch {
		case err != nil:
			return remote.Status{}, err
		case health.Busy || e.late(health):
			return running(p), nil
		}
		return remote.Status{State: remote.Gone, Done: -1}, nil
	}
	switch p.Status {
	case "succeeded":
		return succeeded(p)
	case "failed":
		class := runtime.ModelCrash
		if strings.Contains(strings.ToLower(p.Error), "out of memory") {
			class = runtime.OutOfMemory
		}
		failure := runtime.Failf(class, "The prediction failed: %s.", strings.TrimSuffix(remote.Quote(p.Error), "."))
		failure.Detail = p.Logs
		return remote.Status{State: remote.Failed, Failure: failure}, nil
	}
	return remote.Status{State: remote.Cancelled, Done: -1}, nil
}

// lateLimit is how long the webhook with the result may take after the container is idle.
const lateLimit = 5 * time.Second

// late reports whether the webhook with the result may still come: the container is the one that
// got the prediction, and has only just become idle.
func (e *Engine) late(health remote.Health) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.epoch != "" && health.Epoch != e.epoch {
		return false
	}
	if e.silent.IsZero() {
		e.silent = time.Now()
	}
	return time.Since(e.silent) < lateLimit
}

// percent is how programs of Python print their progress.
var percent = regexp.MustCompile(`(\d{1,3})%\|`)

func running(p *prediction) remote.Status {
	status := remote.Status{State: remote.Running, Done: -1}
	if p != nil {
		if all := percent.FindAllStringSubmatch(p.Logs, -1); len(all) > 0 {
			n, _ := strconv.Atoi(all[len(all)-1][1])
			status.Done = float64(n) / 100
		}
	}
	return status
}

// succeeded reads the output: a data URL, an address, or a list of these, of which the last counts.
func succeeded(p *prediction) (remote.Status, error) {
	status := remote.Status{State: remote.Succeeded}
	var list []string
	var one string
	if json.Unmarshal(p.Output, &one) == nil && one != "" {
		list = []string{one}
	} else if json.Unmarshal(p.Output, &list) != nil {
		status.Output = p.Output
		return status, nil
	}
	for i := len(list) - 1; i >= 0; i-- {
		head, data, isData := strings.Cut(strings.TrimPrefix(list[i], "data:"), ";base64,")
		if !strings.HasPrefix(list[i], "data:") || !isData {
			name := list[i]
			if u, err := url.Parse(list[i]); err == nil {
				name = path.Base(u.Path)
			}
			status.Files = append(status.Files, remote.File{Name: name, Ref: list[i]})
			continue
		}
		content, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return status, runtime.Failf(runtime.DefectiveResult, "NO_RESULT: The result is not valid base64.")
		}
		status.Files = append(status.Files, remote.File{Name: "output" + extensions[head], Inline: content})
	}
	return status, nil
}

var extensions = map[string]string{
	"video/mp4": ".mp4", "video/webm": ".webm", "image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp",
}

// Cancel asks for the end of the prediction. Cog stops the program and says so by a webhook.
func (e *Engine) Cancel(ctx context.Context, ref string, _ *remote.Job) (remote.Stop, error) {
	_, err := e.client.Do(ctx, remote.Call{Method: http.MethodPost, Path: "/predictions/" + ref + "/cancel"})
	if refused, ok := errors.AsType[*remote.Refused](err); ok && refused.Status == http.StatusNotFound {
		return remote.Stopped, nil
	}
	return remote.Accepted, err
}

// Fetch reads a result that Cog has put elsewhere. Others are in the webhook.
func (e *Engine) Fetch(ctx context.Context, file remote.File, offset int64) (io.ReadCloser, int64, int64, error) {
	if file.Inline != nil {
		return io.NopCloser(bytes.NewReader(file.Inline)), 0, int64(len(file.Inline)), nil
	}
	return e.client.FetchElsewhere(ctx, file.Ref, offset)
}

// Remove forgets the result.
func (e *Engine) Remove(_ context.Context, ref string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.webhooks, ref)
	return nil
}
