package provider

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"
)

// Veo is Veo at Vertex AI. Its address names the customer's project and region:
// https://REGION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/REGION.
// https://docs.cloud.google.com/vertex-ai/generative-ai/docs/model-reference/veo-video-generation
//
// A job is an operation, whose name has slashes and stands in the body of a poll. It has no state but done, and
// done is an error, videos, or no videos and the reasons why they were filtered. The answer holds the videos,
// or names them in the bucket of settings.fixed "parameters.storageUri", from which the account reads them. A
// lost answer cannot be looked up, and there is no cancel.
var Veo = &Adapter{
	Name: "veo", Title: "Veo", InlineFilms: true, Version: "vertex-v1", Auth: GoogleAccount, Concurrent: 5, PerMinute: 30,
	Prompt: "instances.0.prompt",
	Fields: map[string]string{
		"durationSeconds": "parameters.durationSeconds", "resolution": "parameters.resolution", "aspectRatio": "parameters.aspectRatio",
		"seed": "parameters.seed", "negativePrompt": "parameters.negativePrompt",
		"referenceImage": "instances.0.image.bytesBase64Encoded=base64", "referenceVideo": "instances.0.video.bytesBase64Encoded=base64",
	},
	Asked: Reads{Seconds: "parameters.durationSeconds", Resolution: "parameters.resolution", Audio: "parameters.generateAudio"},
	Submit: func(r *Request) (Call, error) {
		for param, place := range map[string]string{"referenceImage": "instances.0.image", "referenceVideo": "instances.0.video"} {
			if file, ok := r.Files[param]; ok && r.Has(place+".bytesBase64Encoded") {
				r.Set(place+".mimeType", file.Type)
			}
		}
		return Post(veoModel(r.Task)+":predictLongRunning", r.Body), nil
	},
	Ref: "name",
	Poll: func(t Task) Call {
		body, _ := json.Marshal(map[string]string{"operationName": t.Ref}) // a text is always JSON
		return Post(veoModel(t)+":fetchPredictOperation", body)
	},
	Same:   "name",
	State:  "done",
	States: map[string]State{"": Generating, "false": Generating, "true": Succeeded},
	Read: func(answer gjson.Result, s *Status) {
		response := answer.Get("response")
		switch {
		case answer.Get("name").String() == "":
			s.State = "" // it is no operation
		case s.State != Succeeded:
		case answer.Get("error").Exists():
			s.State = Failed
		default:
			for _, video := range response.Get("videos").Array() {
				if uri := video.Get("gcsUri").String(); uri != "" {
					s.Files = append(s.Files, uri)
				} else if film, err := base64.StdEncoding.DecodeString(video.Get("bytesBase64Encoded").String()); err == nil && s.Inline == nil {
					s.Inline = film
				}
			}
			filtered := response.Get("raiMediaFilteredCount").Int() > 0 || response.Get("raiMediaFilteredReasons.#").Int() > 0
			if len(s.Files) == 0 && len(s.Inline) == 0 && filtered {
				s.State, s.Code = Failed, "RAI_FILTERED"
				s.Reason = response.Get("raiMediaFilteredReasons.0").String()
			}
		}
	},
	Codes: []string{"error.status", "0.error.status", "error.code"}, Reasons: []string{"error.message", "0.error.message"},
	Errors: append([]Rule{
		{Code: "RAI_FILTERED", Means: Refused},
		{Status: 200, Text: "usage guidelines", Means: Refused}, {Status: 200, Text: "safety", Means: Refused},
		{Status: 200, Text: "responsible ai", Means: Refused}, {Status: 200, Text: "sensitive words", Means: Refused},
		// The codes of an error in an operation are those of gRPC.
		{Status: 200, Code: "3", Means: Invalid}, {Status: 200, Code: "4", Means: Crashed}, {Status: 200, Code: "7", Means: KeyRefused},
		{Status: 200, Code: "8", Means: Limited}, {Status: 200, Code: "13", Means: Crashed}, {Status: 200, Code: "14", Means: Passing},
		{Status: 200, Code: "16", Means: KeyRefused},
	}, googleErrors...),
}

// veoModel is the path of a model.
func veoModel(t Task) string {
	return "/publishers/google/models/" + strings.TrimPrefix(t.Model, "publishers/google/models/")
}

// googleErrors are those of all Google APIs.
var googleErrors = []Rule{
	{Status: 400, Text: "usage guidelines", Means: Refused}, {Status: 400, Text: "safety", Means: Refused},
	{Status: 400, Text: "prohibited_content", Means: Refused}, {Status: 400, Text: "responsible ai", Means: Refused},
	{Status: 400, Text: "api key not valid", Means: KeyRefused}, {Status: 400, Text: "api key expired", Means: KeyRefused},
	{Status: 403, Text: "billing", Means: NoCredit}, {Status: 429, Text: "prepay", Means: NoCredit},
	{Status: 400, Code: "FAILED_PRECONDITION", Text: "billing", Means: NoCredit},
}
