// Package comfyui speaks to ComfyUI over its native API, which takes our own id for a prompt: a
// lost answer is looked up, and a finished file is found by its name even after a restart.
package comfyui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/internal/comfy"
)

// Engine is one ComfyUI.
type Engine struct {
	client *remote.Client
	pace   pace
	// older reports whether the engine has shown, during the present job, that it has no /api/jobs.
	older atomic.Bool
}

// New returns the engine at a target.
func New(target remote.Target) *Engine {
	return &Engine{client: remote.NewClient(target)}
}

// Health asks for the queue and the state of the GPU.
func (e *Engine) Health(ctx context.Context) (remote.Health, error) {
	answer, err := e.client.Do(ctx, remote.Call{Method: http.MethodGet, Path: "/prompt"})
	if err != nil {
		return remote.Health{}, confused(err)
	}
	var queue struct {
		Info *struct {
			Remaining *int `json:"queue_remaining"`
		} `json:"exec_info"`
	}
	if err := answer.JSON(&queue); err != nil {
		return remote.Health{}, err
	}
	if queue.Info == nil || queue.Info.Remaining == nil {
		return remote.Health{}, &remote.Confused{What: "/prompt has no queue_remaining"}
	}
	health := remote.Health{Busy: *queue.Info.Remaining > 0, Now: answer.Time()}
	answer, err = e.client.Do(ctx, remote.Call{Method: http.MethodGet, Path: "/system_stats"})
	if err != nil {
		return remote.Health{}, confused(err)
	}
	var stats struct {
		System struct {
			Version string `json:"comfyui_version"`
		} `json:"system"`
		Devices []struct {
			Name  string `json:"name"`
			Total int64  `json:"vram_total"`
			Free  int64  `json:"vram_free"`
		} `json:"devices"`
	}
	if err := answer.JSON(&stats); err != nil {
		return remote.Health{}, err
	}
	health.Version = stats.System.Version
	if len(stats.Devices) > 0 {
		health.GPU, health.Memory, health.Free = stats.Devices[0].Name, stats.Devices[0].Total, stats.Devices[0].Free
	}
	return health, nil
}

// confused turns a refusal of a call that is never refused into an answer of another server.
func confused(err error) error {
	if refused, ok := errors.AsType[*remote.Refused](err); ok {
		if refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden {
			return &remote.Confused{What: fmt.Sprintf("status %d: its key is missing or wrong; see --engine-secrets", refused.Status)}
		}
		return &remote.Confused{What: refused.Error()}
	}
	return err
}

// Prepare binds the parameters to the graph and uploads the files.
func (e *Engine) Prepare(ctx context.Context, key string, job *remote.Job) (func(context.Context) (string, error), error) {
	graph, err := e.graph(ctx, key, job)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(map[string]any{"prompt": graph, "prompt_id": key, "client_id": key, "extra_data": map[string]any{}})
	if err != nil {
		return nil, fmt.Errorf("encode the graph: %w", err)
	}
	e.pace.begin(job.Model, graph)
	e.older.Store(false) // the engine may have been replaced since the last job
	return func(ctx context.Context) (string, error) { return e.submit(ctx, key, graph, body) }, nil
}

// graph returns the graph of a job, whose files are named after key. It uploads the job's files,
// unless the graph is refused.
func (e *Engine) graph(ctx context.Context, key string, job *remote.Job) (comfy.Graph, error) {
	settings, err := settingsOf(job)
	if err != nil {
		return nil, err
	}
	if _, err := bind(settings, job, nil); err != nil {
		return nil, err
	}
	files := map[string]string{}
	for name, path := range job.Inputs {
		if files[name], err = e.upload(ctx, key, name, path); err != nil {
			return nil, err
		}
	}
	graph, err := bind(settings, job, files)
	if err != nil {
		return nil, err
	}
	graph.SetPrefix(key)
	return graph, nil
}

func settingsOf(job *remote.Job) (*comfy.Settings, error) {
	settings, err := comfy.ParseSettings(job.Settings, nil)
	if err != nil {
		return nil, runtime.Failf(runtime.InvalidInput, "The settings of the model %s are invalid: %v.", job.Model, err)
	}
	return settings, nil
}

// bind returns the graph with the job's parameters. files are the engine's names of its files.
func bind(settings *comfy.Settings, job *remote.Job, files map[string]string) (comfy.Graph, error) {
	if settings.Any == nil {
		values := maps.Clone(job.Params)
		values["prompt"] = job.Prompt
		return settings.Bind(values, files), nil
	}
	data, err := json.Marshal(job.Params["graph"])
	if err != nil {
		return nil, fmt.Errorf("encode the graph: %w", err)
	}
	graph, err := comfy.ParseGraph(data)
	if err == nil {
		err = settings.Any.Check(graph, filesOf(job))
	}
	if err != nil {
		return nil, runtime.Failf(runtime.InvalidInput, "The graph is refused: %v.", err)
	}
	graph.SetFiles(files)
	return graph, nil
}

// filesOf returns how many files a graph may name.
func filesOf(job *remote.Job) int {
	for n := 0; ; n++ {
		if _, ok := job.Inputs[fmt.Sprintf("%s.%d", comfy.FilesParam, n)]; !ok {
			return n
		}
	}
}

// upload copies a file of the job to the engine and returns the name under which nodes load it.
func (e *Engine) upload(ctx context.Context, key, name, path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	err = errors.Join(parts.WriteField("type", "input"), parts.WriteField("subfolder", comfy.Folder), parts.WriteField("overwrite", "true"))
	part, failed := parts.CreateFormFile("image", key+"-"+strings.ReplaceAll(name, ".", "-")+filepath.Ext(path))
	if err = errors.Join(err, failed); err == nil {
		_, err = io.Copy(part, io.LimitReader(file, maxUpload+1))
	}
	if err = errors.Join(err, parts.Close()); err != nil {
		return "", err
	}
	if form.Len() > maxUpload {
		return "", runtime.Failf(runtime.InvalidInput, "The file %s is too large: ComfyUI takes up to %d MB.", name, maxUpload>>20)
	}
	answer, err := e.client.Do(ctx, remote.Call{
		Method: http.MethodPost, Path: "/upload/image", Body: form.Bytes(), ContentType: parts.FormDataContentType(), Limit: uploadLimit,
	})
	refused, ok := errors.AsType[*remote.Refused](err)
	if ok && (refused.Status == http.StatusBadRequest || refused.Status == http.StatusRequestEntityTooLarge) {
		return "", runtime.Failf(runtime.InvalidInput, "ComfyUI refuses the file of %s: %v.", name, refused)
	}
	if err != nil {
		return "", confused(err)
	}
	var stored struct{ Name, Subfolder string }
	if err := answer.JSON(&stored); err != nil {
		return "", err
	}
	if stored.Name == "" {
		return "", &remote.Confused{What: "an upload without a name"}
	}
	if stored.Subfolder == "" {
		return stored.Name, nil
	}
	return stored.Subfolder + "/" + stored.Name, nil
}

const (
	maxUpload   = 100 << 20 // ComfyUI's own limit
	uploadLimit = 5 * time.Minute
)

// submit queues the graph. The engine would queue the same id again: it is called only if the
// engine does not have it.
func (e *Engine) submit(ctx context.Context, key string, graph comfy.Graph, body []byte) (string, error) {
	answer, err := e.client.Do(ctx, remote.Call{Method: http.MethodPost, Path: "/prompt", Body: body, ContentType: "application/json"})
	if refused, ok := errors.AsType[*remote.Refused](err); ok {
		return "", refusal(refused, graph)
	}
	if err != nil {
		return "", err
	}
	var accepted struct {
		ID     string                     `json:"prompt_id"`
		Errors map[string]json.RawMessage `json:"node_errors"`
	}
	if err := answer.JSON(&accepted); err != nil {
		return "", err
	}
	if accepted.ID != key {
		return "", &remote.Confused{What: "it queued the job under another id"}
	}
	if len(accepted.Errors) > 0 {
		// It would run a part of the graph.
		_, _ = e.Cancel(ctx, key, nil)
		return "", refusal(&remote.Refused{Status: http.StatusBadRequest, Body: answer.Body}, graph)
	}
	return key, nil
}

// Find looks for the id in the queue and in the history.
func (e *Engine) Find(ctx context.Context, key string, _ int64, job *remote.Job) (string, remote.Found, error) {
	status, err := e.Poll(ctx, key, job)
	if err != nil {
		return "", remote.FoundUnknown, err
	}
	if status.State == remote.Gone {
		return "", remote.FoundNothing, nil
	}
	return key, remote.FoundWork, nil
}

// Poll asks /api/jobs. If that does not know the work, Poll looks into the history, the queue and once
// more into the history, since work moves from the one to the other.
func (e *Engine) Poll(ctx context.Context, ref string, job *remote.Job) (remote.Status, error) {
	if status, said, err := e.job(ctx, ref, job); said || err != nil {
		return status, err
	}
	for try := range 2 {
		status, found, err := e.history(ctx, ref, job)
		if err != nil || found {
			return status, err
		}
		if try > 0 {
			break
		}
		state, err := e.queued(ctx, ref)
		if err != nil || state != remote.Gone {
			return remote.Status{State: state, Done: -1}, err
		}
	}
	return remote.Status{State: remote.Gone, Done: -1}, nil
}

// queued says whether work runs, waits or is in neither list.
func (e *Engine) queued(ctx context.Context, ref string) (remote.State, error) {
	answer, err := e.client.Do(ctx, remote.Call{Method: http.MethodGet, Path: "/queue"})
	if err != nil {
		return "", confused(err)
	}
	var queue struct {
		Running *[][]json.RawMessage `json:"queue_running"`
		Pending *[][]json.RawMessage `json:"queue_pending"`
	}
	if err := answer.JSON(&queue); err != nil {
		return "", err
	}
	if queue.Running == nil || queue.Pending == nil {
		return "", &remote.Confused{What: "/queue has no lists"}
	}
	has := func(items [][]json.RawMessage) bool {
		return slices.ContainsFunc(items, func(item []json.RawMessage) bool {
			return len(item) > 1 && string(item[1]) == strconv.Quote(ref)
		})
	}
	switch {
	case has(*queue.Running):
		return remote.Running, nil
	case has(*queue.Pending):
		return remote.Waiting, nil
	}
	return remote.Gone, nil
}

// Cancel withdraws work that waits and interrupts work that runs. The proof is left to Poll.
func (e *Engine) Cancel(ctx context.Context, ref string, _ *remote.Job) (remote.Stop, error) {
	if said, err := e.cancelJob(ctx, ref); said || err != nil {
		return remote.Accepted, err
	}
	state, err := e.queued(ctx, ref)
	if err != nil {
		return "", err
	}
	switch state {
	case remote.Waiting:
		_, err = e.client.Do(ctx, remote.Call{Method: http.MethodPost, Path: "/queue", Body: map[string]any{"delete": []string{ref}}})
	case remote.Running:
		_, err = e.client.Do(ctx, remote.Call{Method: http.MethodPost, Path: "/interrupt", Body: map[string]string{"prompt_id": ref}})
	}
	if err != nil {
		return "", confused(err)
	}
	return remote.Accepted, nil
}

// Fetch reads an output file.
func (e *Engine) Fetch(ctx context.Context, file remote.File, offset int64) (io.ReadCloser, int64, int64, error) {
	return e.client.Fetch(ctx, "/view?"+file.Ref, offset)
}

// Remove takes the work out of the history. ComfyUI has no call that deletes files.
func (e *Engine) Remove(ctx context.Context, ref string) error {
	_, err := e.client.Do(ctx, remote.Call{Method: http.MethodPost, Path: "/history", Body: map[string]any{"delete": []string{ref}}})
	return err
}

// view returns the query that reads a file.
func view(filename, subfolder, kind string) string {
	return url.Values{"filename": {filename}, "subfolder": {subfolder}, "type": {kind}}.Encode()
}

// endings are what nodes that save videos append to the prefix: SaveVideo, SaveWEBM and the nodes
// of VideoHelperSuite.
var endings = []string{"_00001-audio.mp4", "_00001_.mp4", "_00001.mp4", "_00001_.webm", "_00001.webm"}

// Salvage looks for files that are named after the key.
func (e *Engine) Salvage(ctx context.Context, key string, job *remote.Job) ([]remote.File, error) {
	settings, err := settingsOf(job)
	if err != nil {
		return nil, err
	}
	graph, err := bind(settings, job, nil)
	if err != nil {
		return nil, err
	}
	var files []remote.File
	names := graph.SetPrefix(key)
	for _, node := range slices.Sorted(maps.Keys(names)) {
		if settings.Output != "" && settings.Output != node {
			continue
		}
		for _, ending := range endings {
			ref := view(names[node]+ending, comfy.Folder, "output")
			body, _, _, err := e.client.Fetch(ctx, "/view?"+ref, 0)
			if _, refused := errors.AsType[*remote.Refused](err); refused {
				continue
			}
			if err != nil {
				return nil, err
			}
			body.Close()
			files = append(files, remote.File{Name: names[node] + ending, Ref: ref})
		}
	}
	return files, nil
}
