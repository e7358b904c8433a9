package provider

import (
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/tidwall/gjson"
)

// RunPod is a serverless endpoint of a customer, with the address https://api.runpod.ai/v2/ENDPOINT.
// https://docs.runpod.io/serverless
//
// What its worker takes and returns is the customer's own: settings say the fields, and the video is looked
// for where workers usually have it. Results last for 30 minutes. A lost answer cannot be looked up.
// settings.fixed can limit what a job costs, such as {"policy.executionTimeout": 600000}.
var RunPod = &Adapter{
	Name: "runpod", Title: "RunPod", InlineFilms: true, Version: "v2", OneModel: true, Auth: Bearer, Concurrent: 5, PerMinute: 60,
	Prompt: "input.prompt",
	Fields: map[string]string{
		"durationSeconds": "input.duration", "aspectRatio": "input.aspect_ratio", "resolution": "input.resolution", "seed": "input.seed",
		"negativePrompt": "input.negative_prompt", "referenceImage": "input.image",
	},
	Asked: Reads{Seconds: "input.duration", Resolution: "input.resolution", Audio: "input.generate_audio"},
	Submit: func(r *Request) (Call, error) {
		if r.Hook != "" {
			r.Set("webhook", r.Hook)
		}
		return Post("/run", r.Body), nil
	},
	Ref:   "id",
	Poll:  func(t Task) Call { return Get("/status/" + url.PathEscape(t.Ref)) },
	Same:  "id",
	State: "status",
	States: map[string]State{
		"IN_QUEUE": Submitted, "IN_PROGRESS": Generating, "COMPLETED": Succeeded, "FAILED": Failed, "TIMED_OUT": Failed, "CANCELLED": Cancelled,
	},
	Progress: "output.progress", Whole: 100, // workers that report it do so in percent
	Read: func(answer gjson.Result, s *Status) {
		output := answer.Get("output")
		switch said := answer.Get("status").String(); {
		case said == "TIMED_OUT":
			s.Code, s.Reason = said, "The job exceeded its execution timeout."
		case s.State == Succeeded && output.IsObject() && output.Get("error").String() != "": // a worker's way to fail
			s.State, s.Reason = Failed, output.Get("error").String()
		case s.State == Succeeded:
			runpodVideo(output, s)
		}
	},
	Codes: []string{"error_type"}, Reasons: []string{"error.error_message", "error", "detail", "title"},
	Errors: []Rule{
		{Status: 400, Text: "insufficient", Means: NoCredit}, {Status: 402, Means: NoCredit},
		{Code: "TIMED_OUT", Means: Crashed},
		{Status: 200, Text: "nsfw", Means: Refused}, {Status: 200, Text: "content policy", Means: Refused}, // the worker's words
		{Status: 200, Text: "safety", Means: Refused}, {Status: 200, Text: "validation", Means: Invalid},
		{Status: 200, Text: "out of memory", Means: Crashed},
	},
	Cancel:   func(t Task) Call { return Call{Method: "POST", Path: "/cancel/" + url.PathEscape(t.Ref)} },
	Webhooks: true,
}

// runpodVideo finds the video in the output of a worker: an address, or the video in base64.
func runpodVideo(output gjson.Result, s *Status) {
	places := []string{"", "video_url", "url", "video.url", "video", "videos.0.url", "videos.0", "result", "message", "0.url", "0"}
	for _, place := range places {
		found := output
		if place != "" {
			found = output.Get(place)
		}
		if found.Type != gjson.String || found.String() == "" {
			continue
		}
		text := found.String()
		if strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://") {
			s.Files = append(s.Files, text)
			return
		}
		if _, data, ok := strings.Cut(text, ";base64,"); ok && strings.HasPrefix(text, "data:") {
			text = data
		}
		if video, err := base64.StdEncoding.DecodeString(text); err == nil && len(video) > 100 { // more than a word
			s.Inline = video
			return
		}
	}
}
