package enginetest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Cog is a fake of Cog's HTTP server with one slot, whose predictor makes films.
type Cog struct {
	server
	started time.Time
	ready   bool
	broken  bool
	current *prediction
	hooks   chan hook
	openapi json.RawMessage // as recorded
	inputs  inputs
}

type prediction struct {
	id, webhook string
	task        *task
	logs        string
	cancelled   bool
	ended       chan object
}

type hook struct {
	url  string
	body []byte
}

// NewCog starts a fake of Cog. Its setup ends with the first step.
func NewCog(t testing.TB) *Cog {
	c := &Cog{server: server{t: t}, hooks: make(chan hook, 10_000)}
	c.boot = func() {
		c.started, c.ready, c.broken, c.current = time.Now(), false, false, nil
		c.line.add(&task{id: "setup", steps: 1, failAt: -1, begin: func() {}, step: func() {}, end: func(bool) { c.ready = true }})
	}
	c.openapi, c.inputs = recordedInputs(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.about)
	mux.HandleFunc("GET /health-check", c.health)
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, c.openapi) })
	mux.HandleFunc("PUT /predictions/{id}", c.put)
	mux.HandleFunc("POST /predictions/{id}/cancel", c.cancel)
	c.start(mux)
	sent := make(chan struct{})
	go func(hooks <-chan hook) {
		defer close(sent)
		for h := range hooks { // one after the other, so that they arrive in their order
			res, err := http.Post(h.url, "application/json", bytes.NewReader(h.body))
			if err == nil { // Cog ignores a receiver that is away
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		}
	}(c.hooks)
	t.Cleanup(func() {
		c.Kill()
		c.mu.Lock()
		close(c.hooks)
		c.hooks = nil
		c.mu.Unlock()
		<-sent
	})
	return c
}

func (c *Cog) about(w http.ResponseWriter, _ *http.Request) {
	respond(w, http.StatusOK, object{
		"cog_version": "0.23.1", "docs_url": "/docs", "healthcheck_url": "/health-check", "openapi_url": "/openapi.json",
		"predictions_cancel_url": "/predictions/{prediction_id}/cancel", "predictions_idempotent_url": "/predictions/{prediction_id}",
		"predictions_url": "/predictions", "shutdown_url": "/shutdown",
	})
}

func (c *Cog) health(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	setup := object{"status": "starting", "started_at": c.started.UTC().Format(time.RFC3339Nano)}
	answer := object{"status": "STARTING", "setup": setup, "version": object{
		"coglet": "0.23.1", "python_sdk": "0.23.1", "python": "3.11.7", "git_sha": "9b9f6339", "build_time": "2026-10-20T14:46:36Z",
	}}
	if c.ready {
		setup["status"], setup["completed_at"], setup["logs"] = "succeeded", setup["started_at"], "[coglet] Server ready\n"
		answer["status"] = "READY"
	}
	switch {
	case c.broken:
		answer["status"] = "UNHEALTHY"
		answer["user_healthcheck_error"] = "Healthcheck error: protocol error: healthcheck channel closed"
	case c.current != nil:
		answer["status"] = "BUSY"
	}
	respond(w, http.StatusOK, answer)
}

// request is what a PUT says.
type request struct {
	Input   map[string]any `json:"input"`
	Webhook string         `json:"webhook"`
}

func (c *Cog) put(w http.ResponseWriter, r *http.Request) {
	var req request
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "Failed to parse the request body as JSON: key must be a string at line 1 column 2")
		return
	}
	async := strings.Contains(r.Header.Get("Prefer"), "respond-async")
	id := r.PathValue("id")

	c.mu.Lock()
	p := c.current
	switch {
	case !c.ready:
		c.mu.Unlock()
		refusePrediction(w, http.StatusServiceUnavailable,
			"Setup has not finished yet. Wait until it has finished, or GET /health-check for status.")
		return
	case p != nil && p.id == id:
		answer := p.show("processing")
		if req.Input != nil {
			answer["input"] = req.Input
		}
		c.mu.Unlock()
		respond(w, http.StatusAccepted, answer)
		return
	case p != nil || c.broken:
		c.mu.Unlock()
		refusePrediction(w, http.StatusConflict, "At capacity - all prediction slots busy")
		return
	}
	if problems := c.inputs.problems(req.Input); problems != nil {
		c.mu.Unlock()
		respond(w, http.StatusUnprocessableEntity, object{"detail": problems})
		return
	}
	p = c.begin(id, req)
	c.mu.Unlock()

	if async {
		respond(w, http.StatusAccepted, object{"id": id, "status": "starting"})
		return
	}
	select {
	case answer := <-p.ended:
		respond(w, http.StatusOK, answer)
	case <-r.Context().Done(): // the client of a held PUT has left: Cog cancels
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stop(p)
	}
}

func refusePrediction(w http.ResponseWriter, status int, message string) {
	respond(w, status, object{"error": message, "status": "failed"})
}

// begin starts a prediction. Its steps are ten for each second that the input asks for.
func (c *Cog) begin(id string, req request) *prediction {
	p := &prediction{id: id, webhook: req.Webhook, ended: make(chan object, 1)}
	prompt, _ := req.Input["prompt"].(string)
	seconds, given := req.Input["seconds"].(float64)
	if !given {
		seconds = 1
	}
	p.task = &task{
		id: id, steps: int(10 * seconds), failAt: -1,
		begin: func() {
			c.renders[id]++
			c.send(p, p.show("processing"))
		},
		step: func() {
			p.logs += "step\n"
			c.send(p, p.show("processing"))
		},
		end: func(failed bool) { c.end(p, prompt, failed) },
	}
	if prompt == "boom" || prompt == "memory" || prompt == "dead" {
		p.task.failAt = p.task.steps
	}
	c.current = p
	c.line.add(p.task)
	return p
}

// end is that of a prediction which was not stopped before.
func (c *Cog) end(p *prediction, prompt string, failed bool) {
	if failed {
		answer := p.show("failed")
		answer["error"] = map[string]string{
			"boom":   "Prediction failed: Prediction failed: ValueError: boom happened",
			"memory": "Prediction failed: Prediction failed: RuntimeError: CUDA out of memory. Tried to allocate 20.00 GiB (pretended)",
			"dead":   "Worker crashed",
		}[prompt]
		c.broken = prompt == "dead"
		c.finish(p, answer)
		return
	}
	status := "succeeded"
	if p.cancelled {
		status = "canceled"
	}
	answer := p.show(status)
	if film := c.filmOf(p.id, small); film != nil {
		output := "data:video/mp4;base64," + base64.StdEncoding.EncodeToString(film)
		partial := p.show("processing")
		partial["output"] = []string{output}
		c.send(p, partial)
		answer["output"] = output
	}
	c.finish(p, answer)
}

func (c *Cog) finish(p *prediction, answer object) {
	answer["metrics"] = object{"predict_time": 0.5}
	c.current = nil
	c.send(p, answer)
	p.ended <- answer
}

// stop cancels a prediction if it runs.
func (c *Cog) stop(p *prediction) {
	if c.current != p {
		return
	}
	if !c.cancels {
		p.cancelled = true // it renders on, and is said to be cancelled at its end
		return
	}
	c.current = nil
	c.line.stop()
	c.finish(p, p.show("canceled"))
}

func (c *Cog) cancel(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil || c.current.id != r.PathValue("id") {
		respond(w, http.StatusNotFound, object{})
		return
	}
	c.stop(c.current)
	respond(w, http.StatusOK, object{})
}

func (p *prediction) show(status string) object {
	return object{"id": p.id, "status": status, "logs": p.logs, "metrics": object{}}
}

// send puts a webhook into the line.
func (c *Cog) send(p *prediction, answer object) {
	if p.webhook == "" || c.hooks == nil {
		return
	}
	body, err := json.Marshal(maps.Clone(answer))
	if err != nil {
		c.t.Error(err)
		return
	}
	select {
	case c.hooks <- hook{url: p.webhook, body: body}:
	default:
		c.t.Error("more webhooks than a test can want")
	}
}
