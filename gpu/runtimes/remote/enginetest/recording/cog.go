package recording

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/reelay/reelay/internal/testrun"
)

type cog struct {
	*Recorder
	hooks    chan map[string]any
	seen     []map[string]any
	hooksURL string
	run      int // webhooks of an earlier run of an id may come late
}

func (c *cog) health(status string) {
	c.Until("health is "+status, "/health-check", func(a Answer) bool { return a.Object(c.t)["status"] == status })
}

func (c *cog) put(name, id string, input map[string]any) {
	body := map[string]any{"input": input, "webhook": fmt.Sprintf("%s/%d", c.hooksURL, c.run)}
	c.Do(name, "PUT", "/predictions/"+id, body, "Prefer", "respond-async")
}

func (c *cog) putAndWait(name, id string, input map[string]any) {
	c.Do(name, "PUT", "/predictions/"+id, map[string]any{"input": input})
	c.health("READY") // the answer comes before the slot is free
}

// begun waits until the prediction has logged something: Cog forgets a cancel of the first moment, renders
// to the end, and says then that it was cancelled.
func (c *cog) begun() {
	testrun.Eventually(c.t, "the first log", func() bool {
		for event := c.next(); event != nil; event = c.next() {
			c.seen = append(c.seen, event)
			if event["logs"] != "" {
				return true
			}
		}
		c.engine.Step()
		return false
	})
}

// webhooks collects what the engine has sent of a prediction until it has ended.
func (c *cog) webhooks(name string) {
	events := c.seen
	testrun.Eventually(c.t, "the last webhook", func() bool {
		event := c.next()
		if event == nil {
			c.engine.Step()
			return false
		}
		events = append(events, event)
		return event["status"] == "succeeded" || event["status"] == "failed" || event["status"] == "canceled"
	})
	c.Events(name, "webhook", events)
	c.seen = nil
	c.run++
}

// next returns a webhook of this run, or nil if none has come.
func (c *cog) next() map[string]any {
	for len(c.hooks) > 0 {
		event := <-c.hooks
		if event["path"] == fmt.Sprintf("/%d", c.run) {
			delete(event, "path")
			event["type"] = event["status"]
			return event
		}
	}
	return nil
}

// Cog records a Cog server whose setup takes some time.
func Cog(t testing.TB, engine Engine) []Exchange {
	c := &cog{Recorder: New(t, engine), hooks: make(chan map[string]any, 1000)}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var event map[string]any
		if json.NewDecoder(r.Body).Decode(&event) == nil {
			event["path"] = r.URL.Path
			c.hooks <- event
		}
	}))
	t.Cleanup(receiver.Close)
	c.hooksURL = receiver.URL
	c.Name(receiver.URL, "receiver")

	c.Do("health while it starts", "GET", "/health-check", nil)
	c.put("put while it starts", "early", map[string]any{"prompt": "a boat"})
	c.health("READY")
	c.Do("health when it is ready", "GET", "/health-check", nil)
	c.Do("about itself", "GET", "/", nil)
	c.Do("openapi", "GET", "/openapi.json", nil)

	c.put("put", "good", map[string]any{"prompt": "a boat", "seconds": 2})
	c.begun()
	c.put("put again while it runs", "good", map[string]any{"prompt": "a boat", "seconds": 2})
	c.Do("health while it runs", "GET", "/health-check", nil)
	c.Do("poll", "GET", "/predictions/good", nil)
	c.put("put another while it runs", "other", map[string]any{"prompt": "a boat"})
	c.webhooks("webhooks of success")
	c.health("READY")
	c.put("put after its end", "good", map[string]any{"prompt": "a boat", "seconds": 20})
	c.begun()
	c.Do("cancel", "POST", "/predictions/good/cancel", nil)
	c.webhooks("webhooks of a cancel")
	c.health("READY")
	c.Do("cancel after its end", "POST", "/predictions/good/cancel", nil)
	c.Do("cancel unknown", "POST", "/predictions/nope/cancel", nil)

	c.putAndWait("put and wait", "waited", map[string]any{"prompt": "a boat", "seconds": 0})
	c.put("put what fails", "failed", map[string]any{"prompt": "boom", "seconds": 0.2})
	c.webhooks("webhooks of a failure")
	c.health("READY")
	c.putAndWait("put what fails and wait", "memory", map[string]any{"prompt": "memory", "seconds": 0})
	for _, bad := range []struct {
		name  string
		input map[string]any
	}{
		{"without a prompt", map[string]any{}},
		{"below the minimum", map[string]any{"prompt": "a boat", "seconds": -1}},
		{"above the maximum", map[string]any{"prompt": "a boat", "seconds": 601}},
		{"a word for a number", map[string]any{"prompt": "a boat", "seconds": "many"}},
		{"a number for a word", map[string]any{"prompt": 5}},
		{"an unknown input", map[string]any{"prompt": "a boat", "seconds": 0, "unknown": 1}},
	} {
		c.putAndWait("put "+bad.name, "bad", bad.input)
	}
	c.Do("put no JSON", "PUT", "/predictions/bad", "{nope")
	c.Do("put without an input", "PUT", "/predictions/bad", map[string]any{})
	c.health("READY")

	c.put("put what ends the worker", "dead", map[string]any{"prompt": "dead", "seconds": 0.2})
	c.webhooks("webhooks of a crash")
	c.health("UNHEALTHY")
	c.Do("health after a crash", "GET", "/health-check", nil)
	c.put("put after a crash", "late", map[string]any{"prompt": "a boat"})
	engine.Restart()
	c.health("READY")
	c.Do("cancel after a restart", "POST", "/predictions/good/cancel", nil)
	return c.Exchanges
}
