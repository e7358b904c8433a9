package remote

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"
	"github.com/reelay/reelay/internal/provider"
)

// handle names the work of a job on an engine. It is stored before the submit, without Ref, and
// again after it: a worker that adopts it sees whether the submit was answered.
type handle struct {
	Kind string `json:"kind"`
	URL  string `json:"url"` // of the engine
	// Key is the id that was chosen for the work. Each start of a job has another one: an engine that
	// knows the key of work that failed must not answer with that.
	Key string `json:"key"`
	// Since is the engine's clock before the submit.
	Since int64 `json:"since,omitempty"`
	// Ref is the engine's name of the work.
	Ref string `json:"ref,omitempty"`
	// Account is the pool whose account at a hosted provider has the work, or "".
	Account string `json:"account,omitempty"`
	// Asked is what was asked of the account's provider, and Made reports that it made the video. The control plane enters
	// the fee by them: package lease reads Key, Ref, Asked and Made.
	Asked *provider.Asked `json:"asked,omitempty"`
	Made  bool            `json:"made,omitempty"`
	// Missed counts the attempts that could not fetch the result, which is paid.
	Missed int `json:"missed,omitempty"`
}

// newHandle returns the handle of work that is to start.
func newHandle(kind, url string) handle {
	return handle{Kind: kind, URL: url, Key: uuid.NewString()}
}

// parseHandle reads a handle of an earlier attempt. It reports false for what is none.
func parseHandle(value string) (h handle, ok bool) {
	err := json.Unmarshal([]byte(value), &h)
	return h, err == nil && h.Kind != "" && h.Key != "" && h.URL != ""
}

func (h handle) String() string {
	data, _ := json.Marshal(h) // strings and numbers
	return string(data)
}

// Remove deletes what an engine keeps of the work that a handle names, if the engine is the one at
// url.
func Remove(ctx context.Context, e Engine, url, value string) error {
	h, ok := parseHandle(value)
	if !ok || h.URL != url || h.Ref == "" {
		return nil
	}
	return e.Remove(ctx, h.Ref)
}
