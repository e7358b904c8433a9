package provider

import (
	"net/url"
	"strings"

	"github.com/tidwall/gjson"
)

// Replicate runs public models by OWNER/NAME, and others by OWNER/NAME:VERSION or VERSION.
// https://replicate.com/docs/reference/http
//
// Results last for one hour. A lost answer is not looked up, although there is a list of predictions: it
// has no key of ours. Models refuse inputs that they do not know, and two jobs with the same input look
// the same, so that the choice of one would be a guess.
var Replicate = &Adapter{
	Name: "replicate", Title: "Replicate", Version: "v1", URL: "https://api.replicate.com/v1", Auth: Bearer,
	Concurrent: 10, PerMinute: 600, Prompt: "input.prompt",
	Fields: map[string]string{
		"durationSeconds": "input.duration", "aspectRatio": "input.aspect_ratio", "resolution": "input.resolution", "seed": "input.seed",
		"negativePrompt": "input.negative_prompt", "referenceImage": "input.image", "referenceVideo": "input.video",
	},
	Asked: Reads{Seconds: "input.duration", Resolution: "input.resolution", Audio: "input.generate_audio"},
	Submit: func(r *Request) (Call, error) {
		if r.Hook != "" {
			r.Set("webhook", r.Hook)
			r.Set("webhook_events_filter", []string{"completed"})
		}
		if _, version, ok := strings.Cut(r.Model, ":"); ok || !strings.Contains(r.Model, "/") {
			if !ok {
				version = r.Model
			}
			r.Set("version", version)
			return Post("/predictions", r.Body), nil
		}
		return Post("/models/"+r.Model+"/predictions", r.Body), nil
	},
	Ref:   "id",
	Poll:  func(t Task) Call { return Get("/predictions/" + url.PathEscape(t.Ref)) },
	Same:  "id",
	State: "status",
	States: map[string]State{
		"starting": Submitted, "processing": Generating, "succeeded": Succeeded, "failed": Failed, "canceled": Cancelled, "aborted": Cancelled,
	},
	Read: func(answer gjson.Result, s *Status) {
		if s.State == Succeeded && answer.Get("data_removed").Bool() {
			s.State, s.Code, s.Reason = Failed, "data_removed", "The result was deleted an hour after the end."
			return
		}
		if s.State != Succeeded {
			return
		}
		output := answer.Get("output") // a text, a list of texts, or an object with one
		for _, found := range append([]gjson.Result{output, output.Get("video"), output.Get("url"), output.Get("video.url")}, output.Array()...) {
			if found.Type == gjson.String && len(s.Files) == 0 {
				s.Files = append(s.Files, found.String())
			}
		}
	},
	Codes: []string{"code"}, Reasons: []string{"detail", "error", "title"},
	Errors: []Rule{
		{Code: "data_removed", Means: Gone},
		{Status: 402, Means: NoCredit}, {Status: 401, Means: KeyRefused},
		{Status: 403, Text: "billing", Means: NoCredit}, {Status: 429, Means: Limited},
		// A prediction that failed has no code of its own, but words.
		{Status: 200, Text: "nsfw", Means: Refused}, {Status: 200, Text: "flagged as sensitive", Means: Refused},
		{Status: 200, Text: "(e005)", Means: Refused}, {Status: 200, Text: "safety", Means: Refused},
		{Status: 200, Text: "content policy", Means: Refused}, {Status: 200, Text: "moderation", Means: Refused},
		{Status: 200, Text: "e1001", Means: Crashed}, {Status: 200, Text: "out of memory", Means: Crashed},
		{Status: 200, Text: "high demand", Means: Passing}, {Status: 200, Text: "interrupted", Means: Passing},
		{Status: 200, Text: "validation failed", Means: Invalid},
	},
	Cancel: func(t Task) Call {
		return Call{Method: "POST", Path: "/predictions/" + url.PathEscape(t.Ref) + "/cancel"}
	},
	Webhooks: true,
}
