package fakeprovider

import (
	"encoding/base64"
	"net/http"
	"strings"
)

// veo is Vertex AI with the models of Veo, and beside it the storage with the buckets of results. Its API is
// below /v1/projects/PROJECT/locations/REGION.
var veo = shape{
	key: bearer,
	routes: map[string]func(*Fake, http.ResponseWriter, *http.Request){
		"POST /v1/projects/{project}/locations/{region}/publishers/google/models/{call}": func(f *Fake, w http.ResponseWriter, r *http.Request) {
			switch model, verb, _ := strings.Cut(r.PathValue("call"), ":"); verb {
			case "predictLongRunning":
				veoSubmit(f, w, r, model)
			case "fetchPredictOperation":
				veoPoll(f, w, r)
			default:
				googleRefuse(w, refusal{kind: notFound, text: "Method not found."})
			}
		},
		"GET /storage/v1/b/{bucket}/o/{object}": func(f *Fake, w http.ResponseWriter, r *http.Request) {
			for _, t := range f.tasks {
				if veoURI(t) == "gs://"+r.PathValue("bucket")+"/"+r.PathValue("object") && r.URL.Query().Get("alt") == "media" {
					f.sendFilm(w, r, t)
					return
				}
			}
			googleRefuse(w, refusal{kind: notFound, text: "No such object"})
		},
	},
	refuse: googleRefuse,
}

func veoSubmit(f *Fake, w http.ResponseWriter, r *http.Request, model string) {
	body := readBody(r)
	if d := body.Get("parameters.durationSeconds"); d.Exists() && (d.Int() < 4 || d.Int() > 8) {
		googleRefuse(w, refusal{kind: badInput, text: "durationSeconds is out of bounds"})
		return
	}
	t, e := f.submit(Task{Model: model, Prompt: body.Get("instances.0.prompt").String(), Body: body})
	if e != nil {
		googleRefuse(w, *e)
		return
	}
	path := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/v1/"), ":predictLongRunning")
	t.Key = path + "/operations/" + t.ID // the operation's name
	respond(w, http.StatusOK, object{"name": t.Key})
}

func veoPoll(f *Fake, w http.ResponseWriter, r *http.Request) {
	name := readBody(r).Get("operationName").String()
	for _, t := range f.tasks {
		if t.Key != name {
			continue
		}
		answer := object{"name": name} // done is left out as long as it is false
		if t.Ended() {
			answer["done"] = true
		}
		switch {
		case t.State == Succeeded:
			answer["response"] = object{"@type": "type.googleapis.com/cloud.ai.large_models.vision.GenerateVideoResponse",
				"raiMediaFilteredCount": 0, "videos": []object{f.veoVideo(t)}}
		case t.Ended() && t.Code == content:
			answer["response"] = object{"@type": "type.googleapis.com/cloud.ai.large_models.vision.GenerateVideoResponse",
				"raiMediaFilteredCount": 1, "raiMediaFilteredReasons": []string{"The video was filtered out because it broke the guidelines. " +
					"Support codes: 58061214"}}
		case t.Ended():
			answer["error"] = object{"code": 13, "message": "Video generation failed due to an internal server issue."}
		}
		respond(w, http.StatusOK, answer)
		return
	}
	googleRefuse(w, refusal{kind: notFound, text: "The operation was not found."})
}

// veoURI is where the video of a job lies, or "" if the answer holds it.
func veoURI(t *Task) string {
	if bucket := t.Body.Get("parameters.storageUri").String(); bucket != "" {
		return strings.TrimSuffix(bucket, "/") + "/" + t.ID + "/sample_0.mp4"
	}
	return ""
}

func (f *Fake) veoVideo(t *Task) object {
	if uri := veoURI(t); uri != "" {
		return object{"gcsUri": uri, "mimeType": "video/mp4"}
	}
	film, err := f.config.Film(*t)
	if err != nil {
		panic(err) // no test can go on
	}
	return object{"bytesBase64Encoded": base64.StdEncoding.EncodeToString(film), "mimeType": "video/mp4"}
}

// googleErrors are the HTTP status and the name of it in errors of Google.
var googleErrors = map[string]struct {
	status int
	name   string
}{
	badKey: {401, "UNAUTHENTICATED"}, noCredit: {403, "PERMISSION_DENIED"}, tooManyCalls: {429, "RESOURCE_EXHAUSTED"},
	tooManyJobs: {429, "RESOURCE_EXHAUSTED"}, badInput: {400, "INVALID_ARGUMENT"}, content: {400, "INVALID_ARGUMENT"},
	notFound: {404, "NOT_FOUND"}, broken: {500, "INTERNAL"},
}

func googleRefuse(w http.ResponseWriter, e refusal) {
	retryAfter(w, e)
	text := e.text
	switch e.kind {
	case noCredit:
		text = "This API method requires billing to be enabled."
	case content:
		text = "The prompt could not be submitted. It contains words that violate the usage guidelines. Support codes: 58061214"
	}
	said := googleErrors[e.kind]
	respond(w, said.status, object{"error": object{"code": said.status, "message": text, "status": said.name}})
}
