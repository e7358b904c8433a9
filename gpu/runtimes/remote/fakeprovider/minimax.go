package fakeprovider

import (
	"fmt"
	"net/http"
	"time"

	"github.com/tidwall/gjson"
)

// minimax is version 2 of https://platform.minimax.io.
var minimax = shape{
	key: bearer,
	routes: map[string]func(*Fake, http.ResponseWriter, *http.Request){
		"POST /v2/video_generation": minimaxSubmit,
		"GET /v2/query/video_generation/{id}": func(f *Fake, w http.ResponseWriter, r *http.Request) {
			t := f.find(r.PathValue("id"))
			if t == nil || f.config.Now().Sub(t.Created) > minimaxLasts {
				minimaxRefuse(w, refusal{kind: notFound})
				return
			}
			respond(w, http.StatusOK, object{"task": minimaxTask(r, t)})
		},
		"GET /v2/query/video_generation": func(f *Fake, w http.ResponseWriter, r *http.Request) {
			list := []object{}
			for i := len(f.tasks) - 1; i >= max(0, len(f.tasks)-100); i-- {
				list = append(list, minimaxTask(r, f.tasks[i]))
			}
			respond(w, http.StatusOK, object{"tasks": list, "total": len(list)})
		},
	},
	refuse: minimaxRefuse,
}

// minimaxLasts is how long MiniMax knows a job.
const minimaxLasts = 7 * 24 * time.Hour

func minimaxSubmit(f *Fake, w http.ResponseWriter, r *http.Request) {
	body := readBody(r)
	image := body.Get(`content.#(type=="image_url").image_url.url`).String()
	switch d, ratio := body.Get("duration"), body.Get("ratio").String(); {
	case d.Exists() && (d.Type != gjson.Number || d.Int() < 4 || d.Int() > 15):
		minimaxRefuse(w, refusal{kind: badInput, text: "duration must be an integer from 4 to 15"})
		return
	case image == "" && (ratio == "" || ratio == "adaptive"):
		minimaxRefuse(w, refusal{kind: badInput, text: "ratio is required for text-to-video"})
		return
	}
	t, e := f.submit(Task{ID: fmt.Sprint(424010985738629 + len(f.tasks)), Model: body.Get("model").String(),
		Prompt: body.Get(`content.#(type=="text").text`).String(), Hook: body.Get("callback_url").String(), Body: body})
	if e != nil {
		minimaxRefuse(w, *e)
		return
	}
	respond(w, http.StatusOK, object{"task_id": t.ID})
}

func minimaxTask(r *http.Request, t *Task) object {
	answer := object{"id": t.ID, "model": t.Model, "created_at": t.Created.Unix(), "updated_at": t.Created.Unix(),
		"resolution": "2K", "duration": 5, "ratio": t.Body.Get("ratio").String()}
	switch t.State {
	case Waiting:
		answer["status"] = "queued"
	case Running:
		answer["status"] = "running"
	case Succeeded:
		answer["status"], answer["content"] = "succeeded", object{"url": filmURL(r, t)}
	case Cancelled:
		answer["status"] = "cancelled"
	case Failed:
		answer["status"], answer["error"] = "failed", object{"code": "1000", "message": "internal error"}
		if t.Code == content {
			answer["error"] = object{"code": "1027", "message": "generated video contains sensitive content"}
		}
	}
	return answer
}

// minimaxErrors are the status, the type, the text and the number of refusals.
var minimaxErrors = map[string]struct {
	status, number int
	kind, text     string
}{
	badKey:       {401, 1004, "authorized_error", "login fail: Please carry the API secret key in the request header"},
	noCredit:     {402, 1008, "insufficient_balance_error", "insufficient balance"},
	tooManyCalls: {429, 1002, "rate_limit_error", "rate limit, please retry later"},
	tooManyJobs:  {429, 1002, "rate_limit_error", "rate limit, please retry later"},
	badInput:     {400, 2013, "bad_request_error", "invalid params"},
	content:      {422, 1026, "unprocessable_entity_error", "video description contains sensitive content"},
	notFound:     {400, 2013, "bad_request_error", "invalid params, invalid task_id"},
	broken:       {500, 1000, "server_error", "internal error"},
}

func minimaxRefuse(w http.ResponseWriter, e refusal) {
	retryAfter(w, e)
	said := minimaxErrors[e.kind]
	text := said.text
	if e.kind == badInput {
		text += ", " + e.text
	}
	respond(w, said.status, object{"type": "error", "request_id": "021785229015510a2c883cf675b9804d", "error": object{
		"type": said.kind, "message": fmt.Sprintf("%s (%d)", text, said.number), "http_code": fmt.Sprint(said.status)}})
}
