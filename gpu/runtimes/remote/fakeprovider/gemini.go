package fakeprovider

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/tidwall/gjson"
)

// gemini is the Interactions API of Gemini, and the part of its API for files that has the videos.
var gemini = shape{
	key: func(r *http.Request) string { return r.Header.Get("x-goog-api-key") },
	routes: map[string]func(*Fake, http.ResponseWriter, *http.Request){
		"POST /v1/interactions": geminiSubmit,
		"GET /v1/interactions/{id}": func(f *Fake, w http.ResponseWriter, r *http.Request) {
			if t := geminiFind(f, w, r); t != nil {
				respond(w, http.StatusOK, f.interaction(r, t))
			}
		},
		"POST /v1/interactions/{id}/cancel": func(f *Fake, w http.ResponseWriter, r *http.Request) {
			if t := geminiFind(f, w, r); t != nil {
				if !t.Ended() {
					t.State = Cancelled
					f.next()
				}
				respond(w, http.StatusOK, f.interaction(r, t))
			}
		},
		"DELETE /v1/interactions/{id}": func(f *Fake, w http.ResponseWriter, r *http.Request) {
			if t := geminiFind(f, w, r); t != nil {
				respond(w, http.StatusOK, object{})
			}
		},
		"GET /v1/files/{call}": geminiFile, "GET /v1beta/files/{call}": geminiFile,
	},
	refuse: geminiRefuse,
}

var geminiDuration = regexp.MustCompile(`^([3-9]|10)s$`)

func geminiSubmit(f *Fake, w http.ResponseWriter, r *http.Request) {
	body := readBody(r)
	format := body.Get("response_format")
	switch duration := format.Get("duration"); {
	case format.Get("type").String() != "video" || !body.Get("background").Bool():
		geminiRefuse(w, refusal{kind: badInput, text: "this fake makes videos, in the background"})
		return
	case duration.Exists() && (duration.Type != gjson.String || !geminiDuration.MatchString(duration.String())):
		geminiRefuse(w, refusal{kind: badInput, text: "Invalid value at 'response_format.duration'"})
		return
	}
	prompt := body.Get("input").String()
	if body.Get("input").IsArray() {
		prompt = body.Get(`input.#(type=="text").text`).String()
	}
	t, e := f.submit(Task{ID: "v1_" + uuid.NewString(), Key: fmt.Sprintf("video%d", len(f.tasks)), Model: body.Get("model").String(),
		Prompt: prompt, Body: body})
	if e != nil {
		geminiRefuse(w, *e)
		return
	}
	respond(w, http.StatusOK, f.interaction(r, t))
}

func geminiFind(f *Fake, w http.ResponseWriter, r *http.Request) *Task {
	t := f.find(r.PathValue("id"))
	if t == nil {
		geminiRefuse(w, refusal{kind: notFound, text: "Invalid interaction name"})
	}
	return t
}

// geminiFile sends a video, whose name is a job's key.
func geminiFile(f *Fake, w http.ResponseWriter, r *http.Request) {
	name := strings.TrimSuffix(r.PathValue("call"), ":download")
	for _, t := range f.tasks {
		if t.Key == name && r.URL.Query().Get("alt") == "media" {
			f.sendFilm(w, r, t)
			return
		}
	}
	googleRefuse(w, refusal{kind: notFound, text: "The file does not exist, or alt=media is missing."})
}

func (f *Fake) interaction(r *http.Request, t *Task) object {
	now := t.Created.UTC().Format(time.RFC3339)
	answer := object{"id": t.ID, "object": "interaction", "model": t.Model, "created": now, "updated": now}
	output := func(part object) []object {
		return []object{{"type": "model_output", "content": []object{part}}}
	}
	switch t.State {
	case Waiting:
		answer["status"] = "queued"
	case Running:
		answer["status"] = "in_progress"
	case Succeeded:
		answer["status"], answer["steps"] = "completed", output(object{"type": "video", "mime_type": "video/mp4",
			"uri": base(r) + "/v1beta/files/" + t.Key + ":download?alt=media"})
	case Cancelled:
		answer["status"] = "cancelled"
	case Failed:
		answer["status"] = "failed"
		if t.Code == content {
			answer["status"], answer["steps"] = "completed", output(object{"type": "text", "text": "I cannot make this video."})
		}
	}
	return answer
}

// geminiRefuse differs from other APIs of Google: a wrong key and an unknown job are invalid arguments.
func geminiRefuse(w http.ResponseWriter, e refusal) {
	switch e.kind {
	case badKey:
		e = refusal{kind: badInput, text: "API key not valid. Please pass a valid API key."}
	case notFound:
		e.kind = badInput
	}
	googleRefuse(w, e)
}
