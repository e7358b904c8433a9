package provider

import (
	"net/url"
	"strings"

	"github.com/tidwall/gjson"
)

// Runway is Runway's API, which also serves models of others. https://docs.dev.runwayml.com
var Runway = &Adapter{
	Name: "runway", Title: "Runway", Version: "2024-11-06", URL: "https://api.dev.runwayml.com",
	Auth: Bearer, Headers: map[string]string{"X-Runway-Version": "2024-11-06"}, Concurrent: 10, PerMinute: 60,
	Model: "model", Prompt: "promptText",
	Fields: map[string]string{
		"durationSeconds": "duration", "aspectRatio": "ratio", "size": "ratio", "seed": "seed", "referenceImage": "promptImage",
		"referenceVideo": "videoUri",
	},
	Asked: Reads{Seconds: "duration", Resolution: "ratio", Audio: "audio"},
	Submit: func(r *Request) (Call, error) {
		if ratio := gjson.GetBytes(r.Body, "ratio").String(); ratio != "" { // pixels, with a colon between them
			if pixels, usual := runwayRatios[ratio]; usual {
				ratio = pixels
			}
			r.Set("ratio", strings.Replace(ratio, "x", ":", 1))
		}
		path := "/v1/text_to_video"
		if r.Has("videoUri") {
			path = "/v1/video_to_video"
		} else if r.Has("promptImage") {
			path = "/v1/image_to_video"
		}
		return Post(path, r.Body), nil
	},
	Ref:   "id",
	Poll:  func(t Task) Call { return Get("/v1/tasks/" + url.PathEscape(t.Ref)) },
	Same:  "id",
	State: "status",
	States: map[string]State{
		"PENDING": Submitted, "THROTTLED": Submitted, "RUNNING": Generating, "SUCCEEDED": Succeeded, "FAILED": Failed, "CANCELLED": Cancelled,
	},
	Progress: "progress", Whole: 1, Files: "output",
	Codes: []string{"failureCode"}, Reasons: []string{"failure", "error"},
	Errors: []Rule{
		{Status: 400, Text: "enough credits", Means: NoCredit},
		{Code: "SAFETY.*", Means: Refused}, {Code: "ASSET.INVALID", Means: Invalid}, {Code: "INPUT_PREPROCESSING.SAFETY.*", Means: Refused},
		{Code: "INPUT_PREPROCESSING.*", Means: Passing}, {Code: "INTERNAL.*", Means: Crashed}, {Code: "INTERNAL", Means: Crashed},
	},
	Cancel: func(t Task) Call { return Delete("/v1/tasks/" + url.PathEscape(t.Ref)) },
}

// runwayRatios are the pixels of usual ratios.
var runwayRatios = map[string]string{"16:9": "1280:720", "9:16": "720:1280", "1:1": "960:960", "4:3": "1104:832", "3:4": "832:1104"}
