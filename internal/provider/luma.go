package provider

import "net/url"

// Luma is Luma's Agents API. https://docs.agents.lumalabs.ai
//
// Videos lie at an address that is signed for one hour; a poll signs it again. A lost answer cannot be looked
// up, and a job cannot be cancelled: there is no list, no key of ours and no such call.
var Luma = &Adapter{
	Name: "luma", Title: "Luma", Version: "agents-v1", URL: "https://agents.lumalabs.ai/v1", Auth: Bearer, Concurrent: 8, PerMinute: 40,
	Model: "model", Prompt: "prompt",
	Fields: map[string]string{
		"durationSeconds": "video.duration=%ss", "resolution": "video.resolution", "aspectRatio": "aspect_ratio",
		"referenceImage": "video.start_frame.data=base64", "referenceVideo": "source.data=base64",
	},
	Asked: Reads{Seconds: "video.duration", Resolution: "video.resolution"},
	Submit: func(r *Request) (Call, error) {
		if image, ok := r.Files["referenceImage"]; ok && r.Has("video.start_frame.data") {
			r.Set("video.start_frame.media_type", image.Type)
		}
		kind := "video"
		if video, ok := r.Files["referenceVideo"]; ok && r.Has("source.data") {
			r.Set("source.media_type", video.Type)
			kind = "video_edit"
		}
		if !r.Has("type") { // settings.fixed may say video_reframe
			r.Set("type", kind)
		}
		return Post("/generations", r.Body), nil
	},
	Ref:   "id",
	Poll:  func(t Task) Call { return Get("/generations/" + url.PathEscape(t.Ref)) },
	Same:  "id",
	State: "state",
	States: map[string]State{
		"queued": Submitted, "processing": Generating, "completed": Succeeded, "failed": Failed,
	},
	Files: "output.#.url",
	Codes: []string{"failure_code", "error.code", "code"}, Reasons: []string{"failure_reason", "error.message", "detail", "message", "error"},
	Errors: []Rule{
		{Code: "content_moderated", Means: Refused},
		{Code: "image_too_large", Means: Invalid}, {Code: "unsupported_format", Means: Invalid}, {Code: "corrupt_input", Means: Invalid},
		{Code: "invalid_request", Means: Invalid},
		{Code: "budget_exhausted", Means: NoCredit}, {Code: "rate_limited", Means: Limited},
		{Code: "generation_failed", Means: Crashed}, {Code: "output_not_found", Means: Crashed},
	},
}
