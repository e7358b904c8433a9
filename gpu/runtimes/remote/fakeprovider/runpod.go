package fakeprovider

import (
	"net/http"

	"github.com/google/uuid"
)

// runpod is a serverless endpoint, https://docs.runpod.io/serverless, with a worker that makes videos.
var runpod = shape{
	key: bearer, late: true,
	webhook: func(_ *Fake, from *http.Request, t *Task) object {
		if !t.Ended() {
			return nil
		}
		return runpodTask(from, t)
	},
	routes: map[string]func(*Fake, http.ResponseWriter, *http.Request){
		"POST /v2/{endpoint}/run": func(f *Fake, w http.ResponseWriter, r *http.Request) {
			body := readBody(r)
			t, e := f.submit(Task{ID: uuid.NewString() + "-u1",
				Prompt: body.Get("input.prompt").String(), Hook: body.Get("webhook").String(), Body: body, from: r})
			if e != nil {
				runpodRefuse(w, *e)
				return
			}
			respond(w, http.StatusOK, object{"id": t.ID, "status": "IN_QUEUE"})
		},
		"GET /v2/{endpoint}/status/{id}": func(f *Fake, w http.ResponseWriter, r *http.Request) {
			if t := runpodFind(f, w, r); t != nil {
				respond(w, http.StatusOK, runpodTask(r, t))
			}
		},
		"POST /v2/{endpoint}/cancel/{id}": func(f *Fake, w http.ResponseWriter, r *http.Request) {
			if t := runpodFind(f, w, r); t != nil {
				if !t.Ended() {
					t.State = Cancelled
					f.next()
				}
				respond(w, http.StatusOK, runpodTask(r, t))
			}
		},
		"GET /v2/{endpoint}/health": func(f *Fake, w http.ResponseWriter, _ *http.Request) {
			respond(w, http.StatusOK, object{"jobs": object{"inProgress": f.atWork()}, "workers": object{"running": f.atWork(), "idle": 1}})
		},
	},
	refuse: runpodRefuse,
}

func runpodFind(f *Fake, w http.ResponseWriter, r *http.Request) *Task {
	t := f.find(r.PathValue("id"))
	if t == nil {
		runpodRefuse(w, refusal{kind: notFound, text: "job not found"})
	}
	return t
}

func runpodTask(r *http.Request, t *Task) object {
	answer := object{"id": t.ID, "delayTime": 12}
	switch t.State {
	case Waiting:
		answer["status"] = "IN_QUEUE"
	case Running:
		answer["status"], answer["output"] = "IN_PROGRESS", object{"progress": 100 * t.Done / t.Steps}
	case Succeeded:
		answer["status"], answer["executionTime"], answer["output"] = "COMPLETED", 3700, object{"video_url": filmURL(r, t)}
	case Cancelled:
		answer["status"] = "CANCELLED"
	case Failed:
		answer["status"], answer["error"] = "FAILED", `{"error_type": "<class 'RuntimeError'>", "error_message": "CUDA error"}`
		if t.Code == content {
			answer["error"] = "The prompt breaks the content policy of this worker"
		}
	}
	return answer
}

var runpodStatus = map[string]int{
	badKey: 401, noCredit: 402, tooManyCalls: 429, tooManyJobs: 429, badInput: 400, notFound: 404, broken: 500,
}

func runpodRefuse(w http.ResponseWriter, e refusal) {
	retryAfter(w, e)
	respond(w, runpodStatus[e.kind], object{"error": e.text})
}
