package provider

import (
	"net/url"

	"github.com/tidwall/gjson"
)

// MiniMax is version 2 of MiniMax's API for videos, which renders MiniMax-H3.
// https://platform.minimax.io/docs/api-reference/video-generation-v2-query
//
// An error has an HTTP status of its own, and the number of old in brackets at the end of its text. Jobs are
// kept for 7 days. A lost answer is not looked up, although there is a list: it has no key of ours, and two
// jobs with the same input look the same. Webhooks are left out, because their address must first answer a
// challenge. There is no cancel.
var MiniMax = &Adapter{
	Name: "minimax", Title: "MiniMax", Version: "v2", URL: "https://api.minimax.io", Auth: Bearer, Concurrent: 4, PerMinute: 30,
	Model: "model",
	Fields: map[string]string{
		"durationSeconds": "duration", "resolution": "resolution", "aspectRatio": "ratio", "referenceImage": "first_frame",
		"referenceVideo": "reference_video",
	},
	Asked: Reads{Seconds: "duration", Resolution: "resolution"},
	Submit: func(r *Request) (Call, error) {
		content := []any{map[string]any{"type": "text", "text": r.Prompt}}
		if image := gjson.GetBytes(r.Body, "first_frame"); image.Exists() {
			content = append(content, minimaxFile("image_url", "first_frame", image.String()))
			r.Set("ratio", "adaptive") // that of the image
		}
		if video := gjson.GetBytes(r.Body, "reference_video"); video.Exists() {
			content = append(content, minimaxFile("video_url", "reference_video", video.String()))
		}
		if !r.Has("ratio") {
			r.Set("ratio", "16:9") // without an image it must be there
		}
		r.Drop("first_frame")
		r.Drop("reference_video")
		r.Set("content", content)
		return Post("/v2/video_generation", r.Body), nil
	},
	Ref:   "task_id",
	Poll:  func(t Task) Call { return Get("/v2/query/video_generation/" + url.PathEscape(t.Ref)) },
	Same:  "task.id",
	State: "task.status",
	States: map[string]State{
		"queued": Submitted, "running": Generating, "succeeded": Succeeded, "failed": Failed, "cancelled": Cancelled, "expired": Failed,
	},
	Files: "task.content.url",
	Read: func(answer gjson.Result, s *Status) {
		if answer.Get("task.status").String() == "expired" && s.Reason == "" {
			s.Code, s.Reason = "expired", "The job waited too long at MiniMax."
		}
	},
	Codes: []string{"task.error.code", "error.type"}, Reasons: []string{"task.error.message", "error.message"},
	Errors: []Rule{
		{Text: "invalid task_id", Means: Gone}, {Code: "expired", Means: Passing},
		{Text: "(1026)", Means: Refused}, {Code: "1026", Means: Refused}, {Text: "(1027)", Means: Refused}, {Code: "1027", Means: Refused},
		{Text: "(1002)", Means: Limited}, {Code: "1002", Means: Limited},
		{Text: "(1004)", Means: KeyRefused}, {Text: "(2049)", Means: KeyRefused}, {Code: "authorized_error", Means: KeyRefused},
		{Text: "(1008)", Means: NoCredit}, {Code: "1008", Means: NoCredit}, {Code: "insufficient_balance_error", Means: NoCredit},
		{Text: "(2013)", Means: Invalid}, {Code: "2013", Means: Invalid},
		{Status: 200, Text: "sensitive", Means: Refused}, // a job that failed may have words only
		{Code: "1000", Means: Crashed}, {Code: "1001", Means: Crashed}, {Code: "1024", Means: Crashed}, {Code: "1033", Means: Crashed},
	},
}

// minimaxFile is a file in the content of a request.
func minimaxFile(kind, role, address string) map[string]any {
	return map[string]any{"type": kind, "role": role, kind: map[string]string{"url": address}}
}
