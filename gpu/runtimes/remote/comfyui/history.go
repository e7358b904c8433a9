package comfyui

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/internal/comfy"
)

// outputs are the files and texts of nodes, by the id of the node.
type outputs = map[string]map[string]json.RawMessage

// entry is what the history says of work.
type entry struct {
	Prompt  []json.RawMessage `json:"prompt"` // the third is the graph
	Outputs outputs           `json:"outputs"`
	Status  *struct {
		Status   string              `json:"status_str"`
		Messages [][]json.RawMessage `json:"messages"`
	} `json:"status"`
}

// history reports whether the history has the work, and how it ended.
func (e *Engine) history(ctx context.Context, ref string, job *remote.Job) (remote.Status, bool, error) {
	answer, err := e.client.Do(ctx, remote.Call{Method: http.MethodGet, Path: "/history/" + url.PathEscape(ref)})
	if err != nil {
		return remote.Status{}, false, confused(err)
	}
	var found map[string]*entry
	if err := answer.JSON(&found); err != nil {
		return remote.Status{}, false, err
	}
	done := found[ref]
	switch {
	case len(found) == 0:
		return remote.Status{}, false, nil
	case done == nil || done.Status == nil:
		return remote.Status{}, false, &remote.Confused{What: "a history of other work"}
	}
	end := result{state: remote.Failed, outputs: done.Outputs, raised: done.message("execution_error")}
	switch {
	case done.Status.Status == "success":
		end.state = remote.Succeeded
	case done.message("execution_interrupted") != nil:
		end.state = remote.Cancelled
	}
	if len(done.Prompt) > 2 {
		end.graph = done.Prompt[2]
	}
	status, err := e.status(end, ref, job)
	return status, err == nil, err
}

// result is how work has ended.
type result struct {
	state   remote.State
	outputs outputs
	graph   json.RawMessage
	raised  json.RawMessage // what a node raised
}

// status returns the status of work that has ended.
func (e *Engine) status(end result, ref string, job *remote.Job) (remote.Status, error) {
	status := remote.Status{State: end.state, Done: -1}
	switch end.state {
	case remote.Succeeded:
		settings, err := settingsOf(job)
		if err != nil {
			return status, err
		}
		status.Files = files(end.outputs, settings.Output, ref, namedIn(end.graph))
	case remote.Failed:
		status.Failure = failure(end.raised)
	}
	e.pace.end(end.state == remote.Succeeded)
	return status, nil
}

// namedIn returns the nodes of a graph whose files have the key in their names.
func namedIn(data json.RawMessage) map[string]bool {
	named := map[string]bool{}
	var graph comfy.Graph
	if json.Unmarshal(data, &graph) == nil {
		for id, node := range graph {
			if node != nil {
				_, named[id] = node.Inputs[comfy.Prefix]
			}
		}
	}
	return named
}

// message returns the content of a message of the run, or nil.
func (h *entry) message(name string) json.RawMessage {
	for _, m := range h.Status.Messages {
		var said string
		if len(m) == 2 && json.Unmarshal(m[0], &said) == nil && said == name {
			return m[1]
		}
	}
	return nil
}

// failure describes what a node raised.
func failure(message json.RawMessage) *runtime.Failure {
	var raised struct {
		Node      string   `json:"node_id"`
		Class     string   `json:"node_type"`
		Message   string   `json:"exception_message"`
		Type      string   `json:"exception_type"`
		Traceback []string `json:"traceback"`
	}
	_ = json.Unmarshal(message, &raised) // what is missing stays empty
	f := runtime.Failf(runtime.ModelCrash, "The node %s (%s) failed: %s", cmp.Or(raised.Node, "?"), cmp.Or(raised.Class, "unknown"),
		cmp.Or(remote.Quote(raised.Message), "ComfyUI does not say why."))
	f.Detail = strings.Join(raised.Traceback, "")
	if strings.HasSuffix(raised.Type, "OutOfMemoryError") || strings.Contains(strings.ToLower(raised.Message), "out of memory") {
		f.Class = runtime.OutOfMemory
	}
	return f
}

// saved is a file in the outputs of a node.
type saved struct {
	Filename  string `json:"filename"`
	Subfolder string `json:"subfolder"`
	Type      string `json:"type"`
}

var videoExtensions = []string{".mp4", ".webm"}

// files returns the files of the outputs, the best first: videos before pictures, and kept files
// before temporary ones. A video lies under images, gifs or videos, as its node likes. A node that
// names its files has none without the key: it would be the file of another run.
func files(outputs outputs, output, key string, named map[string]bool) []remote.File {
	type candidate struct {
		saved
		rank int
	}
	var all []candidate
	for node, lists := range outputs {
		if output != "" && node != output {
			continue
		}
		for _, list := range lists {
			var items []saved
			if json.Unmarshal(list, &items) != nil {
				continue // a text or another value
			}
			for _, item := range items {
				if item.Filename == "" || named[node] && !strings.Contains(item.Filename, key) {
					continue
				}
				rank := 0
				if !slices.Contains(videoExtensions, strings.ToLower(path.Ext(item.Filename))) {
					rank += 2
				}
				if item.Type != "output" {
					rank++
				}
				all = append(all, candidate{item, rank})
			}
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(a.rank-b.rank, strings.Compare(a.Filename, b.Filename))
	})
	var found []remote.File
	for _, c := range all {
		found = append(found, remote.File{Name: c.Filename, Ref: view(c.Filename, c.Subfolder, cmp.Or(c.Type, "output"))})
	}
	return found
}
