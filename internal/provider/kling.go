package provider

import (
	"net/url"
	"strings"

	"github.com/tidwall/gjson"
)

// Kling is the generation 3.x of Kling's API. The model is the path of the submit, such as
// text-to-video/kling-3.0, which becomes image-to-video for a job with an image.
// https://klingai.com/document-api
//
// Each job carries Reelay's key as external_task_id, which is unique in an account: a lost answer is looked
// up by it. Jobs over the account's concurrency are refused with 1303. There is no cancel.
var Kling = &Adapter{
	Name: "kling", Title: "Kling", Version: "3", URL: "https://api-singapore.klingai.com", Auth: Bearer,
	Concurrent: 3, PerMinute: 20, Prompt: "prompt",
	Fields: map[string]string{
		"durationSeconds": "settings.duration", "aspectRatio": "settings.aspect_ratio", "resolution": "settings.resolution",
		"referenceImage": "first_frame=base64",
	},
	Asked: Reads{Seconds: "settings.duration", Resolution: "settings.resolution", Audio: "settings.audio"},
	Submit: func(r *Request) (Call, error) {
		path := "/" + r.Model
		if frame := gjson.GetBytes(r.Body, "first_frame"); frame.Exists() {
			r.Set("contents", []any{map[string]string{"type": "prompt", "text": r.Prompt},
				map[string]string{"type": "first_frame", "url": frame.String()}})
			r.Drop("first_frame")
			r.Drop("prompt")
			path = strings.Replace(path, "/text-to-video/", "/image-to-video/", 1)
		}
		r.Set("options.external_task_id", r.Key)
		if r.Hook != "" {
			r.Set("options.callback_url", r.Hook)
		}
		return Post(path, r.Body), nil
	},
	Ref:   "data.id",
	Poll:  func(t Task) Call { return Get("/tasks?task_ids=" + url.QueryEscape(t.Ref)) },
	Same:  "data.0.id",
	State: "data.0.status",
	States: map[string]State{
		"submitted": Submitted, "processing": Generating, "succeeded": Succeeded, "failed": Failed,
	},
	Files: `data.0.outputs.#(type=="video")#.url`,
	Codes: []string{"code"}, Reasons: []string{"data.0.message", "message"},
	Read: func(_ gjson.Result, s *Status) {
		if s.Code == "0" { // that of the call, which went well
			s.Code = ""
		}
	},
	Errors: []Rule{
		{Status: 429, Code: "1302", Means: Limited, Delay: klingPause}, {Status: 429, Code: "1303", Means: Limited, Delay: klingPause},
		{Status: 429, Code: "1304", Means: KeyRefused}, // the address of the caller is not allowed
		{Code: "1100", Means: KeyRefused}, {Code: "1101", Means: NoCredit}, {Code: "1102", Means: NoCredit},
		{Code: "1103", Means: Invalid}, // the account may not use this model; it may use others
		{Code: "1000", Means: KeyRefused}, {Code: "1001", Means: KeyRefused}, {Code: "1002", Means: KeyRefused},
		{Code: "1003", Means: KeyRefused}, {Code: "1004", Means: KeyRefused},
		{Status: 400, Text: "external_task_id", Means: Passing}, // it exists: the submit before was not answered
		{Code: "1200", Means: Invalid}, {Code: "1201", Means: Invalid}, {Code: "1202", Means: Invalid}, {Code: "1203", Means: Gone},
		{Code: "1301", Means: Refused}, {Code: "1300", Means: Refused},
		{Code: "5000", Means: Passing}, {Code: "5001", Means: Passing}, {Code: "5002", Means: Passing},
		// A job that failed has no code, but words.
		{Status: 200, Text: "risk control", Means: Refused}, {Status: 200, Text: "content policy", Means: Refused},
		{Status: 200, Text: "sensitive", Means: Refused}, {Status: 200, Text: "moderation", Means: Refused},
	},
	Lookup: func(t Task) Call { return Get("/tasks?external_task_ids=" + url.QueryEscape(t.Key)) },
	Found: func(answer gjson.Result, t Task) (string, bool) {
		for _, task := range answer.Get("data").Array() {
			if task.Get("external_id").String() == t.Key || task.Get("external_task_id").String() == t.Key {
				return task.Get("id").String(), true
			}
		}
		return "", true
	},
	Webhooks: true,
}

// klingPause is the shortest pause that Kling wants after a limit.
const klingPause = 1e9
