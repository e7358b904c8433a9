package comfyui

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/reelay/reelay/gpu/runtimes/remote"
)

// jobStates are the states of /api/jobs.
var jobStates = map[string]remote.State{
	"pending": remote.Waiting, "in_progress": remote.Running,
	"completed": remote.Succeeded, "failed": remote.Failed, "cancelled": remote.Cancelled,
}

// job asks /api/jobs for work. Newer releases have it: one answer says what the queue and the history
// say otherwise. It reports false if the engine does not answer as they do, or does not know the work:
// the queue and the history decide then.
func (e *Engine) job(ctx context.Context, ref string, job *remote.Job) (remote.Status, bool, error) {
	var found struct {
		ID       string          `json:"id"`
		Status   string          `json:"status"`
		Outputs  outputs         `json:"outputs"`
		Error    json.RawMessage `json:"execution_error"`
		Workflow struct {
			Prompt json.RawMessage `json:"prompt"`
		} `json:"workflow"`
	}
	said, err := e.callJobs(ctx, http.MethodGet, url.PathEscape(ref), &found)
	if err != nil || !said {
		return remote.Status{}, false, err
	}
	state := jobStates[found.Status]
	switch {
	case found.ID != ref || state == "":
		e.older.Store(true)
		return remote.Status{}, false, nil
	case state == remote.Waiting || state == remote.Running:
		return remote.Status{State: state, Done: -1}, true, nil
	}
	status, err := e.status(result{state, found.Outputs, found.Workflow.Prompt, found.Error}, ref, job)
	return status, err == nil, err
}

// cancelJob stops work that runs or waits. Unlike an interrupt it cannot hit the next job. It reports
// false if the engine does not have the call.
func (e *Engine) cancelJob(ctx context.Context, ref string) (bool, error) {
	var answer struct {
		Cancelled *bool `json:"cancelled"` // false for work that has ended
	}
	said, err := e.callJobs(ctx, http.MethodPost, url.PathEscape(ref)+"/cancel", &answer)
	return said && answer.Cancelled != nil, err
}

// callJobs makes a call of /api/jobs. It reports false if the answer is none of these calls. If it is not
// "Job not found" either, the engine is older and is not asked again during this job.
func (e *Engine) callJobs(ctx context.Context, method, path string, into any) (bool, error) {
	if e.older.Load() {
		return false, nil
	}
	answer, err := e.client.Do(ctx, remote.Call{Method: method, Path: "/api/jobs/" + path})
	if err == nil {
		err = answer.JSON(into)
	}
	if err == nil {
		return true, nil
	}
	if _, away := errors.AsType[*remote.Unreachable](err); away {
		return false, err
	}
	refused, _ := errors.AsType[*remote.Refused](err)
	e.older.Store(refused == nil || !unknownJob(refused))
	return false, nil
}

// unknownJob reports whether a newer release does not know a job. An older one has no such path, and
// answers 404 with a text.
func unknownJob(refused *remote.Refused) bool {
	var answer struct {
		Error string `json:"error"`
	}
	return refused.Status == http.StatusNotFound && json.Unmarshal(refused.Body, &answer) == nil && answer.Error == "Job not found"
}
