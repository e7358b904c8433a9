package fakeprovider

import "net/http"

// runway is https://docs.dev.runwayml.com, generation 2024-11-06.
var runway = shape{
	key: bearer,
	routes: map[string]func(*Fake, http.ResponseWriter, *http.Request){
		"POST /v1/text_to_video": runwaySubmit, "POST /v1/image_to_video": runwaySubmit, "POST /v1/video_to_video": runwaySubmit,
		"GET /v1/tasks/{id}": func(f *Fake, w http.ResponseWriter, r *http.Request) {
			t := f.find(r.PathValue("id"))
			if t == nil {
				runwayRefuse(w, refusal{kind: notFound, text: "Task not found"})
				return
			}
			respond(w, http.StatusOK, runwayTask(r, t))
		},
		"DELETE /v1/tasks/{id}": func(f *Fake, w http.ResponseWriter, r *http.Request) {
			if t := f.find(r.PathValue("id")); t != nil && !t.Ended() {
				t.State = Cancelled
				f.next()
			}
			w.WriteHeader(http.StatusNoContent)
		},
		"GET /v1/organization": func(f *Fake, w http.ResponseWriter, _ *http.Request) {
			respond(w, http.StatusOK, object{"creditBalance": 1000, "tier": object{"maxMonthlyCreditSpend": 10000,
				"models": object{"gen4.5": object{"maxConcurrentGenerations": f.config.Concurrent}}}, "usage": object{"models": object{}}})
		},
	},
	refuse: runwayRefuse,
}

func runwaySubmit(f *Fake, w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Runway-Version") != "2024-11-06" {
		runwayRefuse(w, refusal{kind: badInput, text: "The X-Runway-Version header is missing or unknown"})
		return
	}
	body := readBody(r)
	t, e := f.submit(Task{Model: body.Get("model").String(), Prompt: body.Get("promptText").String(), Body: body})
	if e != nil {
		runwayRefuse(w, *e)
		return
	}
	respond(w, http.StatusOK, object{"id": t.ID, "estimatedCost": object{"credits": 50}})
}

func runwayTask(r *http.Request, t *Task) object {
	answer := object{"id": t.ID, "createdAt": t.Created.UTC().Format("2006-01-02T15:04:05.000Z")}
	if t.Ended() {
		answer["cost"] = object{"credits": 0} // refunded
	} else {
		answer["estimatedCost"] = object{"credits": 50}
	}
	switch t.State {
	case Waiting:
		answer["status"] = "THROTTLED"
	case Running:
		answer["status"], answer["progress"] = "RUNNING", float64(t.Done)/float64(t.Steps)
	case Succeeded:
		answer["status"], answer["output"], answer["cost"] = "SUCCEEDED", []string{filmURL(r, t)}, object{"credits": 50}
	case Cancelled:
		answer["status"] = "CANCELLED"
	case Failed:
		answer["status"], answer["failure"], answer["failureCode"] = "FAILED", "An unexpected error occurred.", "INTERNAL.BAD_OUTPUT.CODE01"
		if t.Code == content {
			answer["failure"], answer["failureCode"] = "The output was flagged by our moderation.", "SAFETY.OUTPUT.VIDEO"
		}
	}
	return answer
}

var runwayStatus = map[string]int{
	badKey: 401, noCredit: 400, tooManyCalls: 429, tooManyJobs: 429, badInput: 400, content: 400, notFound: 404, broken: 502,
}

func runwayRefuse(w http.ResponseWriter, e refusal) {
	retryAfter(w, e)
	text := e.text
	if e.kind == noCredit {
		text = "You do not have enough credits to run this task."
	}
	if e.kind == content {
		respond(w, 400, object{"error": text, "failureCode": "SAFETY.INPUT.TEXT"})
		return
	}
	respond(w, runwayStatus[e.kind], object{"error": text})
}
