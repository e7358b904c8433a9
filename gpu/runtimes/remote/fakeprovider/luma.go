package fakeprovider

import (
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// luma is the Agents API of https://docs.agents.lumalabs.ai, which is below /v1, and beside it Luma's older API, the
// Dream Machine.
var luma = shape{
	key: bearer,
	routes: map[string]func(*Fake, http.ResponseWriter, *http.Request){
		"POST /v1/generations": lumaSubmit,
		"GET /v1/generations/{id}": func(f *Fake, w http.ResponseWriter, r *http.Request) {
			if t := lumaFind(f, w, r); t != nil {
				respond(w, http.StatusOK, lumaGeneration(r, t))
			}
		},
		"POST /dream-machine/v1/generations/video": lumaSubmit,
		"GET /dream-machine/v1/generations/{id}": func(f *Fake, w http.ResponseWriter, r *http.Request) {
			if t := lumaFind(f, w, r); t != nil {
				respond(w, http.StatusOK, lumaDream(r, t))
			}
		},
		"GET /dream-machine/v1/generations": func(f *Fake, w http.ResponseWriter, r *http.Request) {
			list := []object{}
			for i := len(f.tasks) - 1; i >= max(0, len(f.tasks)-100); i-- {
				list = append(list, lumaDream(r, f.tasks[i]))
			}
			respond(w, http.StatusOK, object{"generations": list, "count": len(list), "limit": 100, "offset": 0, "has_more": false})
		},
		"DELETE /dream-machine/v1/generations/{id}": func(f *Fake, w http.ResponseWriter, r *http.Request) {
			if t := lumaFind(f, w, r); t != nil {
				if !t.Ended() {
					t.State = Cancelled
					f.next()
				}
				w.WriteHeader(http.StatusNoContent)
			}
		},
	},
	refuse: lumaRefuse,
}

func lumaSubmit(f *Fake, w http.ResponseWriter, r *http.Request) {
	body := readBody(r)
	dream := strings.HasPrefix(r.URL.Path, "/dream-machine/")
	duration := body.Get("video.duration")
	if dream {
		duration = body.Get("duration")
	}
	if duration.Exists() && (duration.Type != gjson.String || !strings.HasSuffix(duration.String(), "s")) {
		lumaRefuse(w, refusal{kind: badInput, text: "video.duration: Input should be '5s' or '10s'"})
		return
	}
	t, e := f.submit(Task{Model: body.Get("model").String(), Prompt: body.Get("prompt").String(),
		Hook: body.Get("callback_url").String(), Body: body})
	switch {
	case e != nil:
		lumaRefuse(w, *e)
	case dream:
		respond(w, http.StatusCreated, lumaDream(r, t))
	default:
		respond(w, http.StatusCreated, lumaGeneration(r, t))
	}
}

func lumaFind(f *Fake, w http.ResponseWriter, r *http.Request) *Task {
	t := f.find(r.PathValue("id"))
	if t == nil || t.State == Cancelled {
		lumaRefuse(w, refusal{kind: notFound, text: "Generation not found"})
		return nil
	}
	return t
}

// lumaGeneration is a job as the Agents API has it.
func lumaGeneration(r *http.Request, t *Task) object {
	answer := object{"id": t.ID, "created_at": t.Created.UTC().Format(time.RFC3339Nano), "model": t.Model, "type": t.Body.Get("type").String(),
		"failure_code": nil, "failure_reason": nil, "output": nil}
	switch t.State {
	case Waiting:
		answer["state"] = "queued"
	case Running:
		answer["state"] = "processing"
	case Succeeded:
		answer["state"], answer["output"] = "completed", []object{{"type": "video", "url": filmURL(r, t)}}
	default:
		answer["state"], answer["failure_code"], answer["failure_reason"] = "failed", "generation_failed", "The generation failed."
		if t.Code == content {
			answer["failure_code"], answer["failure_reason"] = "content_moderated", "The output was flagged by moderation."
		}
	}
	return answer
}

// lumaDream is a job as the Dream Machine has it.
func lumaDream(r *http.Request, t *Task) object {
	answer := object{"id": t.ID, "generation_type": "video", "model": t.Model, "created_at": t.Created.UTC().Format(time.RFC3339Nano),
		"failure_reason": nil, "assets": nil, "request": t.Body.Value()}
	switch t.State {
	case Waiting:
		answer["state"] = "queued"
	case Running:
		answer["state"] = "dreaming"
	case Succeeded:
		answer["state"], answer["assets"] = "completed", object{"video": filmURL(r, t)}
	default:
		answer["state"], answer["failure_reason"] = "failed", "The generation failed."
		if t.Code == content {
			answer["failure_reason"] = "400: Prompt contains content that is not allowed by moderation"
		}
	}
	return answer
}

var lumaStatus = map[string]int{
	badKey: 401, noCredit: 402, tooManyCalls: 429, tooManyJobs: 429, badInput: 422, content: 400, notFound: 404, broken: 500,
}

func lumaRefuse(w http.ResponseWriter, e refusal) {
	retryAfter(w, e)
	if e.kind == content {
		respond(w, 400, object{"detail": e.text, "failure_code": "content_moderated"})
		return
	}
	respond(w, lumaStatus[e.kind], object{"detail": e.text})
}
