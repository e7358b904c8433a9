package fakeprovider

import (
	"net/http"
	"strings"

	"github.com/tidwall/gjson"
)

// kling is https://klingai.com/document-api, generation 3.x.
var kling = shape{
	key: bearer, rejects: true, sign: standardSign,
	webhook: func(_ *Fake, from *http.Request, t *Task) object { return klingTask(from, t) },
	routes: map[string]func(*Fake, http.ResponseWriter, *http.Request){
		"POST /text-to-video/{model}": klingSubmit, "POST /image-to-video/{model}": klingSubmit, "POST /omni-video/{model}": klingSubmit,
		"GET /tasks": func(f *Fake, w http.ResponseWriter, r *http.Request) {
			ids, keys := r.URL.Query().Get("task_ids"), r.URL.Query().Get("external_task_ids")
			if ids == "" && keys == "" {
				klingRefuse(w, refusal{kind: badInput, text: "task_ids or external_task_ids is required"})
				return
			}
			found := []object{}
			for _, t := range f.tasks {
				if t.ID == ids || keys != "" && t.Key == keys {
					found = append(found, klingTask(r, t))
				}
			}
			if ids != "" && len(found) == 0 {
				klingRefuse(w, refusal{kind: notFound, text: "task not found"})
				return
			}
			klingRespond(w, found)
		},
	},
	refuse: klingRefuse,
}

func klingSubmit(f *Fake, w http.ResponseWriter, r *http.Request) {
	body := readBody(r)
	key := body.Get("options.external_task_id").String()
	for _, t := range f.tasks {
		if key != "" && t.Key == key {
			klingRefuse(w, refusal{kind: badInput, text: "external_task_id already exists"})
			return
		}
	}
	prompt := body.Get("prompt").String()
	if prompt == "" {
		prompt = body.Get(`contents.#(type=="prompt").text`).String()
	}
	if body.Get("prompt").Exists() == strings.HasPrefix(r.URL.Path, "/image-to-video/") {
		klingRefuse(w, refusal{kind: badInput, text: "text-to-video takes a prompt, and image-to-video takes contents"})
		return
	}
	if d := body.Get("settings.duration"); d.Exists() && (d.Type != gjson.Number || d.Int() < 3 || d.Int() > 15) {
		klingRefuse(w, refusal{kind: badInput, text: "settings.duration must be an integer from 3 to 15"})
		return
	}
	t, e := f.submit(Task{Key: key, Model: r.URL.Path[1:], Prompt: prompt, Hook: body.Get("options.callback_url").String(),
		Body: body, from: r})
	if e != nil {
		klingRefuse(w, *e)
		return
	}
	klingRespond(w, object{"id": t.ID, "external_id": key, "status": "submitted", "create_time": t.Created.UnixMilli()})
}

func klingTask(r *http.Request, t *Task) object {
	answer := object{"id": t.ID, "external_id": t.Key, "message": "", "outputs": []object{}, "billing": []object{},
		"create_time": t.Created.UnixMilli(), "update_time": t.Created.UnixMilli()}
	switch t.State {
	case Waiting:
		answer["status"] = "submitted"
	case Running:
		answer["status"] = "processing"
	case Succeeded:
		answer["status"] = "succeeded"
		answer["outputs"] = []object{{"type": "video", "id": t.ID + "-1", "url": filmURL(r, t), "duration": "5"}}
		answer["billing"] = []object{{"charge_type": "unit", "package_type": "video", "amount": "2.00"}}
	default:
		answer["status"], answer["message"] = "failed", "Generation failed due to an internal error"
		if t.Code == content {
			answer["message"] = "Failure to pass the risk control system"
		}
	}
	return answer
}

func klingRespond(w http.ResponseWriter, data any) {
	respond(w, http.StatusOK, object{"code": 0, "message": "SUCCEED", "request_id": "9984d27b-a408-4073-ae28-17ca6a13622d", "data": data})
}

// klingCodes are the status and the code of refusals.
var klingCodes = map[string][2]int{
	badKey: {401, 1002}, noCredit: {429, 1102}, tooManyCalls: {429, 1302}, tooManyJobs: {429, 1303}, badInput: {400, 1201},
	content: {400, 1301}, notFound: {404, 1203}, broken: {500, 5000},
}

func klingRefuse(w http.ResponseWriter, e refusal) {
	retryAfter(w, e)
	text := e.text
	if e.kind == tooManyJobs {
		text = "parallel task over resource pack limit"
	}
	code := klingCodes[e.kind]
	respond(w, code[0], object{"code": code[1], "message": text, "request_id": "9984d27b-a408-4073-ae28-17ca6a13622d"})
}
