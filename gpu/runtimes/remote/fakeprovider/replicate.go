package fakeprovider

import (
	"net/http"
	"net/url"
	"time"
)

// replicate is https://replicate.com/docs/reference/http. Its API is below /v1.
var replicate = shape{
	key: bearer, late: true, sign: standardSign,
	webhook: func(f *Fake, from *http.Request, t *Task) object {
		if !t.Ended() && t.Body.Get("webhook_events_filter.0").String() == "completed" {
			return nil
		}
		return f.prediction(from, t)
	},
	routes: map[string]func(*Fake, http.ResponseWriter, *http.Request){
		"POST /v1/predictions": replicateSubmit, "POST /v1/models/{owner}/{name}/predictions": replicateSubmit,
		"GET /v1/predictions/{id}": func(f *Fake, w http.ResponseWriter, r *http.Request) {
			t := f.find(r.PathValue("id"))
			if t == nil {
				replicateRefuse(w, refusal{kind: notFound, text: "The requested resource could not be found."})
				return
			}
			respond(w, http.StatusOK, f.prediction(r, t))
		},
		"POST /v1/predictions/{id}/cancel": func(f *Fake, w http.ResponseWriter, r *http.Request) {
			t := f.find(r.PathValue("id"))
			if t == nil {
				replicateRefuse(w, refusal{kind: notFound, text: "The requested resource could not be found."})
				return
			}
			if !t.Ended() {
				t.State = Cancelled
				f.next()
			}
			respond(w, http.StatusOK, f.prediction(r, t))
		},
		"GET /v1/predictions": func(f *Fake, w http.ResponseWriter, r *http.Request) {
			list := []object{}
			for i := len(f.tasks) - 1; i >= max(0, len(f.tasks)-100); i-- {
				list = append(list, f.prediction(r, f.tasks[i]))
			}
			respond(w, http.StatusOK, object{"next": nil, "previous": nil, "results": list})
		},
	},
	refuse: replicateRefuse,
}

func replicateSubmit(f *Fake, w http.ResponseWriter, r *http.Request) {
	body := readBody(r)
	model := r.PathValue("owner") + "/" + r.PathValue("name")
	if model == "/" {
		model = body.Get("version").String()
	}
	if model == "" || !body.Get("input").IsObject() {
		replicateRefuse(w, refusal{kind: badInput, text: "- version is required\n- input is required\n"})
		return
	}
	t, e := f.submit(Task{ID: replicateID(len(f.tasks)), Model: model, Prompt: body.Get("input.prompt").String(),
		Hook: body.Get("webhook").String(), Body: body, from: r})
	if e != nil {
		replicateRefuse(w, *e)
		return
	}
	respond(w, http.StatusCreated, f.prediction(r, t))
}

// replicateID is the id of the n-th prediction: 26 letters and digits.
func replicateID(n int) string {
	const letters = "abcdefghjkmnpqrstvwxyz"
	return "gm3qorzdhgbfurvjtvhg6dck" + string(letters[n/len(letters)%len(letters)]) + string(letters[n%len(letters)])
}

// predictionsLast is how long Replicate keeps what came of a prediction.
const predictionsLast = time.Hour

func (f *Fake) prediction(r *http.Request, t *Task) object {
	own := base(r) + "/v1/predictions/" + url.PathEscape(t.ID)
	answer := object{"id": t.ID, "model": t.Model, "version": "hidden", "input": t.Body.Get("input").Value(), "logs": "", "output": nil,
		"error": nil, "data_removed": false, "created_at": t.Created.UTC().Format(time.RFC3339Nano), "source": "api",
		"urls": object{"get": own, "cancel": own + "/cancel", "web": own}}
	switch t.State {
	case Waiting:
		answer["status"] = "starting"
	case Running:
		answer["status"] = "processing"
	case Succeeded:
		answer["status"], answer["output"], answer["metrics"] = "succeeded", filmURL(r, t), object{"predict_time": 3.7}
	case Cancelled:
		answer["status"] = "canceled"
	case Failed:
		answer["status"], answer["error"] = "failed", "Prediction failed: CUDA error: an illegal memory access was encountered"
		if t.Code == content {
			answer["error"] = "The input or output was flagged as sensitive. Please try again with different inputs. (E005)"
		}
	}
	if t.Ended() && f.config.Now().Sub(t.Created) > predictionsLast {
		answer["data_removed"], answer["output"], answer["input"] = true, nil, object{}
	}
	return answer
}

var replicateStatus = map[string]int{
	badKey: 401, noCredit: 402, tooManyCalls: 429, tooManyJobs: 429, badInput: 422, content: 422, notFound: 404, broken: 500,
}

func replicateRefuse(w http.ResponseWriter, e refusal) {
	retryAfter(w, e)
	status, text := replicateStatus[e.kind], e.text
	if e.kind == tooManyCalls {
		text = "Request was throttled. Your rate limit resets in ~30s."
	}
	respond(w, status, object{"title": http.StatusText(status), "detail": text, "status": status})
}
