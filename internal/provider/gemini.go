package provider

import (
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/tidwall/gjson"
)

// Gemini is the Interactions API of Gemini, whose model Omni makes videos.
// https://ai.google.dev/gemini-api/docs/interactions
//
// A job is an interaction in the background. A completed one that has only text is a refusal. An unknown one is
// answered with 400. Videos lie at the API itself, which wants the key for them. A lost answer cannot be looked
// up: there is no list.
var Gemini = &Adapter{
	Name: "gemini", Title: "Gemini", InlineFilms: true, Version: "interactions-v1", URL: "https://generativelanguage.googleapis.com", Auth: GoogleKey,
	Concurrent: 5, PerMinute: 30, Model: "model", Prompt: "input", OwnFiles: true,
	Fields: map[string]string{
		"durationSeconds": "response_format.duration=%ss", "resolution": "response_format.resolution",
		"aspectRatio": "response_format.aspect_ratio", "referenceImage": "image=base64", "referenceVideo": "video=base64",
	},
	Asked: Reads{Seconds: "response_format.duration", Resolution: "response_format.resolution"},
	Submit: func(r *Request) (Call, error) {
		input := []any{}
		for _, from := range []struct{ param, kind string }{{"referenceImage", "image"}, {"referenceVideo", "video"}} {
			if data := gjson.GetBytes(r.Body, from.kind); data.Exists() {
				input = append(input, map[string]string{"type": from.kind, "data": data.String(), "mime_type": r.Files[from.param].Type})
				r.Drop(from.kind)
			}
		}
		if len(input) > 0 {
			r.Set("input", append(input, map[string]string{"type": "text", "text": r.Prompt}))
		}
		r.Set("background", true) // otherwise the call lasts as long as the job
		r.Set("store", true)
		r.Set("response_format.type", "video")
		if !r.Has("response_format.delivery") {
			r.Set("response_format.delivery", "uri") // the answer itself holds only small videos
		}
		return Post("/v1/interactions", r.Body), nil
	},
	Ref:   "id",
	Poll:  func(t Task) Call { return Get("/v1/interactions/" + url.PathEscape(t.Ref)) },
	Same:  "id",
	State: "status",
	States: map[string]State{
		"queued": Submitted, "in_progress": Generating, "completed": Succeeded, "failed": Failed, "cancelled": Cancelled,
		"incomplete": Failed, "budget_exceeded": Failed, "requires_action": Failed, "requires_continuation": Failed,
	},
	Read: func(answer gjson.Result, s *Status) {
		var said []string
		for _, step := range answer.Get("steps").Array() {
			if step.Get("type").String() != "model_output" {
				continue
			}
			if s.Reason == "" {
				s.Reason = step.Get("error.message").String()
			}
			for _, part := range step.Get("content").Array() {
				if kind := part.Get("type").String(); kind == "text" {
					said = append(said, part.Get("text").String())
				} else if kind == "video" && s.State == Succeeded {
					geminiVideo(part, s)
				}
			}
		}
		switch {
		case s.State == Succeeded && len(s.Files) == 0 && s.Inline == nil && len(said) > 0:
			s.State, s.Code, s.Reason = Failed, "TEXT_ONLY", strings.Join(said, " ")
		case s.State == Failed && s.Code == "":
			s.Code = answer.Get("status").String()
		}
	},
	Codes:   []string{"error.status", "0.error.status", "error.code", "errors.0.code"},
	Reasons: []string{"error.message", "0.error.message", "errors.0.message"},
	Errors: append([]Rule{
		{Status: 400, Text: "invalid interaction name", Means: Gone},
		{Status: 400, Text: "authentication credential", Means: Passing}, // seen in polls of jobs that went well
		{Status: 200, Code: "TEXT_ONLY", Means: Refused}, {Status: 200, Code: "budget_exceeded", Means: NoCredit},
		{Status: 200, Code: "requires_action", Means: Invalid},
		{Status: 200, Text: "safety", Means: Refused}, {Status: 200, Text: "prohibited_content", Means: Refused},
		{Status: 200, Code: "incomplete", Means: Crashed}, {Status: 200, Code: "failed", Means: Crashed},
	}, googleErrors...),
	Cancel: func(t Task) Call {
		return Call{Method: "POST", Path: "/v1/interactions/" + url.PathEscape(t.Ref) + "/cancel"}
	},
}

// geminiVideo adds a video of the model. A file of the API is sent only if its address asks for its content.
func geminiVideo(part gjson.Result, s *Status) {
	uri := part.Get("uri").String()
	if part.Get("uri").Type != gjson.String || uri == "" {
		if film, err := base64.StdEncoding.DecodeString(part.Get("data").String()); err == nil && len(film) > 0 {
			s.Inline = film
		}
		return
	}
	if u, err := url.Parse(uri); err == nil && strings.Contains(u.Path, "/files/") && !u.Query().Has("alt") {
		query := u.Query()
		query.Set("alt", "media")
		u.RawQuery = query.Encode()
		uri = u.String()
	}
	s.Files = append(s.Files, uri)
}
