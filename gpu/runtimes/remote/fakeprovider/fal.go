package fakeprovider

import (
	"net/http"
	"net/url"
	"strings"
)

// fal is the queue of https://fal.ai/docs. Its paths have a model of two parts or more, so that one route
// serves them all. Only a request's status, result and cancel have "requests" as their third part.
var fal = shape{
	key:     func(r *http.Request) string { return strings.TrimPrefix(r.Header.Get("Authorization"), "Key ") },
	webhook: falWebhook, sign: falSign,
	routes: map[string]func(*Fake, http.ResponseWriter, *http.Request){
		"POST /{owner}/{app}": falSubmit, "POST /{owner}/{app}/{path...}": falSubmit,
		"GET /{owner}/{app}/requests/{id}/status": func(f *Fake, w http.ResponseWriter, r *http.Request) {
			if t := falFind(f, w, r); t != nil {
				falStatus(f, w, r, t)
			}
		},
		"GET /{owner}/{app}/requests/{id}": func(f *Fake, w http.ResponseWriter, r *http.Request) {
			if t := falFind(f, w, r); t != nil {
				falResult(w, r, t)
			}
		},
		"PUT /{owner}/{app}/requests/{id}/cancel": func(f *Fake, w http.ResponseWriter, r *http.Request) {
			t := falFind(f, w, r)
			if t == nil {
				return
			}
			if t.Ended() {
				respond(w, http.StatusBadRequest, object{"status": "ALREADY_COMPLETED"})
				return
			}
			t.State = Cancelled
			f.next()
			respond(w, http.StatusAccepted, object{"status": "CANCELLATION_REQUESTED"})
		},
	},
	refuse: falRefuse,
}

func falSubmit(f *Fake, w http.ResponseWriter, r *http.Request) {
	body := readBody(r)
	t, e := f.submit(Task{Model: strings.Trim(r.URL.Path, "/"), Prompt: body.Get("prompt").String(),
		Hook: r.URL.Query().Get("fal_webhook"), Body: body, from: r})
	if e != nil {
		falRefuse(w, *e)
		return
	}
	respond(w, http.StatusOK, falURLs(r, t, object{"status": "IN_QUEUE", "gateway_request_id": t.ID, "queue_position": f.atWork() - 1}))
}

// falWebhook is what fal says at the end of a request.
func falWebhook(_ *Fake, from *http.Request, t *Task) object {
	said := object{"request_id": t.ID, "gateway_request_id": t.ID, "status": "ERROR", "error": "Invalid status code: 503", "payload": nil}
	switch {
	case !t.Ended():
		return nil
	case t.State == Succeeded:
		said["status"], said["error"] = "OK", nil
		said["payload"] = object{"video": object{"url": filmURL(from, t), "content_type": "video/mp4"}}
	}
	return said
}

// falURLs adds the addresses of a request, in which the model has no more than an owner and an app.
func falURLs(r *http.Request, t *Task, answer object) object {
	parts := strings.Split(t.Model, "/")
	address := base(r) + "/" + parts[0] + "/" + parts[1] + "/requests/" + url.PathEscape(t.ID)
	answer["request_id"], answer["response_url"] = t.ID, address
	answer["status_url"], answer["cancel_url"] = address+"/status", address+"/cancel"
	return answer
}

// falFind returns the request, or refuses the call.
func falFind(f *Fake, w http.ResponseWriter, r *http.Request) *Task {
	t := f.find(r.PathValue("id"))
	if t == nil || !strings.HasPrefix(t.Model+"/", r.PathValue("owner")+"/"+r.PathValue("app")+"/") {
		falRefuse(w, refusal{kind: notFound, text: "Request not found"})
		return nil
	}
	return t
}

func falStatus(f *Fake, w http.ResponseWriter, r *http.Request, t *Task) {
	answer := falURLs(r, t, object{"logs": nil})
	switch t.State {
	case Waiting:
		answer["status"], answer["queue_position"] = "IN_QUEUE", 0
		respond(w, http.StatusAccepted, answer)
	case Running:
		answer["status"] = "IN_PROGRESS"
		respond(w, http.StatusAccepted, answer)
	default:
		answer["status"], answer["metrics"] = "COMPLETED", object{"inference_time": 3.7}
		respond(w, http.StatusOK, answer)
	}
}

func falResult(w http.ResponseWriter, r *http.Request, t *Task) {
	switch {
	case !t.Ended():
		respond(w, http.StatusBadRequest, object{"detail": "Request is still in progress"})
	case t.State == Succeeded:
		respond(w, http.StatusOK, object{"seed": 42, "video": object{
			"url": filmURL(r, t), "content_type": "video/mp4", "file_name": "video.mp4"}})
	case t.State == Cancelled:
		respond(w, http.StatusBadRequest, object{"detail": "Request was cancelled"})
	case t.Code == content:
		falRefuse(w, refusal{kind: content, text: "The content could not be processed because it was flagged by a content checker."})
	default:
		w.Header().Set("X-Fal-Error-Type", "runner_disconnected")
		respond(w, http.StatusServiceUnavailable, object{"detail": "Runner disconnected", "error_type": "runner_disconnected"})
	}
}

var falStatuses = map[string]int{
	badKey: 401, noCredit: 403, tooManyCalls: 429, tooManyJobs: 429, badInput: 422, content: 422, notFound: 404, broken: 500,
}

func falRefuse(w http.ResponseWriter, e refusal) {
	retryAfter(w, e)
	var detail any = e.text
	switch e.kind {
	case noCredit:
		detail = "User is locked. Reason: Exhausted balance."
	case content:
		w.Header().Set("X-Fal-Retryable", "false")
		detail = []object{{"loc": []string{"body", "prompt"}, "msg": e.text, "type": "content_policy_violation"}}
	case badInput:
		w.Header().Set("X-Fal-Retryable", "false")
		detail = []object{{"loc": []string{"body", "prompt"}, "msg": e.text, "type": "missing"}}
	}
	respond(w, falStatuses[e.kind], object{"detail": detail})
}
