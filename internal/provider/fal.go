package provider

import (
	"net/url"
	"strings"

	"github.com/tidwall/gjson"
)

// Fal is the queue of fal. The model is OWNER/APP or OWNER/APP/PATH. https://fal.ai/docs
//
// COMPLETED means that the job has ended, well or not: a failure shows at the call for the result, where an
// error with a type is the job's own. fal repeats failed jobs by itself unless it is told not to; here
// Reelay does that, and counts. A lost answer cannot be looked up: fal has no list and no key of ours.
var Fal = &Adapter{
	Name: "fal", Title: "fal", Version: "queue", URL: "https://queue.fal.run", Auth: Key, Concurrent: 10, PerMinute: 60,
	Prompt: "prompt",
	Fields: map[string]string{
		"durationSeconds": "duration=%s", "aspectRatio": "aspect_ratio", "resolution": "resolution", "seed": "seed",
		"negativePrompt": "negative_prompt", "referenceImage": "image_url", "referenceVideo": "video_url",
	},
	Asked: Reads{Seconds: "duration", Resolution: "resolution", Audio: "generate_audio"},
	Submit: func(r *Request) (Call, error) {
		path := "/" + r.Model
		if r.Hook != "" {
			path += "?fal_webhook=" + url.QueryEscape(r.Hook)
		}
		call := Post(path, r.Body)
		call.Header = map[string]string{"x-fal-no-retry": "1"}
		return call, nil
	},
	Ref:   "request_id",
	Poll:  func(t Task) Call { return Get(falRequest(t) + "/status") }, // 202 until it has ended, then 200
	Same:  "request_id",
	State: "status",
	States: map[string]State{
		"IN_QUEUE": Submitted, "IN_PROGRESS": Generating, "COMPLETED": Succeeded,
	},
	Result: func(t Task) Call { return Get(falRequest(t)) },
	Read: func(answer gjson.Result, s *Status) {
		if s.State != Succeeded {
			return
		}
		for _, place := range []string{"video.url", "video", "videos.0.url", "videos.0", "output.url", "output"} { // models differ
			if found := answer.Get(place); found.Type == gjson.String {
				s.Files = append(s.Files, found.String())
				return
			}
		}
	},
	Codes: []string{"detail.0.type", "error_type"}, Reasons: []string{"detail.0.msg", "detail", "error"},
	Errors: []Rule{
		{Status: 400, Text: "still in progress", Means: Passing}, {Status: 400, Text: "not completed", Means: Passing},
		{Status: 403, Text: "exhausted balance", Means: NoCredit}, {Status: 403, Text: "user is locked", Means: NoCredit},
		{Code: "content_policy_violation", Means: Refused}, {Code: "no_media_generated", Means: Crashed},
		{Code: "file_download_error", Means: Crashed}, {Code: "feature_not_supported", Means: Invalid},
		{Code: "internal_server_error", Means: Crashed}, {Code: "generation_timeout", Means: Crashed},
		{Code: "downstream_service_*", Means: Crashed},
		{Code: "runner_*", Means: Crashed}, {Code: "request_timeout", Means: Crashed}, {Code: "startup_timeout", Means: Crashed},
		{Code: "internal_error", Means: Crashed}, {Status: 422, Header: "X-Fal-Retryable: true", Means: Crashed},
	},
	Cancel:   func(t Task) Call { return Call{Method: "PUT", Path: falRequest(t) + "/cancel"} },
	Webhooks: true,
}

// falRequest is the path of a job, in which the model has no more than an owner and an app.
func falRequest(t Task) string {
	parts := strings.Split(t.Model, "/")
	kept := 2
	if parts[0] == "workflows" || parts[0] == "comfy" { // namespaces, which stand before the owner
		kept = 3
	}
	return "/" + strings.Join(parts[:min(kept, len(parts))], "/") + "/requests/" + url.PathEscape(t.Ref)
}
