package enginetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Call is a request that a fault answers.
type Call struct {
	Answer  http.ResponseWriter
	Request *http.Request
	Do      http.HandlerFunc // what the engine does without the fault
	Killed  <-chan struct{}
}

// Fault answers in place of the engine.
type Fault func(*Call)

type rule struct {
	paths *http.ServeMux
	nth   int // 0 is each call
	calls int
	fault Fault
}

type faults struct {
	mu    sync.Mutex
	rules []*rule
	calls []string
}

// Fault makes calls fail. The pattern is one of http.ServeMux, such as "GET /v1/videos/{id}"; nth is which
// of the calls from now on fails, or 0 for all. The newest rule counts.
func (s *server) Fault(pattern string, nth int, fault Fault) {
	paths := http.NewServeMux()
	paths.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {})
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.rules = append(s.faults.rules, &rule{paths: paths, nth: nth, fault: fault})
}

// NoFaults removes all rules.
func (s *server) NoFaults() {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.rules = nil
}

// Calls returns the methods and paths of all requests so far.
func (s *server) Calls() []string {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	return append([]string{}, s.faults.calls...)
}

func (f *faults) of(r *http.Request) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, r.Method+" "+r.URL.Path)
	var fault Fault
	for _, rule := range f.rules {
		if _, pattern := rule.paths.Handler(r); pattern == "" {
			continue
		}
		rule.calls++
		if rule.nth == 0 || rule.nth == rule.calls {
			fault = rule.fault
		}
	}
	return fault
}

// abort closes the connection without an answer, or in the middle of it.
func abort() { panic(http.ErrAbortHandler) }

// Hang answers nothing until the client leaves.
func Hang(c *Call) {
	_, _ = io.Copy(io.Discard, c.Request.Body) // or the server does not see that the client leaves
	select {
	case <-c.Request.Context().Done():
	case <-c.Killed:
	}
	abort()
}

// HTML answers 200 with a page, as a proxy with a login does.
func HTML(c *Call) {
	c.Answer.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprint(c.Answer, "<!DOCTYPE html><html><head><title>Sign in</title></head><body>Sign in to continue</body></html>")
}

// ErrorWith200 answers 200 with an error.
func ErrorWith200(c *Call) {
	respond(c.Answer, http.StatusOK, object{"error": object{"message": "the engine is overloaded", "code": "overloaded"}})
}

// Status answers a status with a text.
func Status(status int, text string) Fault {
	return func(c *Call) { http.Error(c.Answer, text, status) }
}

// Endless answers JSON of 1 GB.
func Endless(c *Call) {
	c.Answer.Header().Set("Content-Type", "application/json")
	fmt.Fprint(c.Answer, `{"id": "`)
	megabyte := bytes.Repeat([]byte("a"), 1<<20)
	for range 1 << 10 {
		if _, err := c.Answer.Write(megabyte); err != nil {
			return
		}
	}
	fmt.Fprint(c.Answer, `"}`)
}

// record lets the engine do its work and keeps the answer.
func (c *Call) record() *httptest.ResponseRecorder {
	kept := httptest.NewRecorder()
	c.Do(kept, c.Request)
	return kept
}

// header starts the answer that was kept.
func (c *Call) header(kept *httptest.ResponseRecorder) {
	for key, values := range kept.Header() {
		c.Answer.Header()[key] = values
	}
	c.Answer.Header().Set("Content-Length", strconv.Itoa(kept.Body.Len()))
	c.Answer.WriteHeader(kept.Code)
}

// Cut lets the engine do its work and closes the connection in the middle of the answer.
func Cut(c *Call) {
	kept := c.record()
	c.header(kept)
	_, _ = c.Answer.Write(kept.Body.Bytes()[:kept.Body.Len()/2])
	_ = http.NewResponseController(c.Answer).Flush() // the client may have left
	abort()
}

// LoseAnswer lets the engine do its work and closes the connection without an answer.
func LoseAnswer(c *Call) {
	c.record()
	abort()
}

// LoseRequest closes the connection; the engine never sees the request.
func LoseRequest(*Call) { abort() }

// Drip sends a byte at each tick.
func Drip(tick <-chan time.Time) Fault {
	return func(c *Call) {
		kept := c.record()
		c.header(kept)
		for _, b := range kept.Body.Bytes() {
			select {
			case <-tick:
			case <-c.Request.Context().Done():
				abort()
			case <-c.Killed:
				abort()
			}
			_, _ = c.Answer.Write([]byte{b})
			_ = http.NewResponseController(c.Answer).Flush() // if the client has left, the context ends
		}
	}
}

// Edit changes the JSON object that the engine answers.
func Edit(edit func(answer map[string]any)) Fault {
	return func(c *Call) {
		kept := c.record()
		var answer map[string]any
		if json.Unmarshal(kept.Body.Bytes(), &answer) != nil {
			answer = map[string]any{}
		}
		edit(answer)
		respond(c.Answer, kept.Code, answer)
	}
}

// Rewrite changes what the engine answers.
func Rewrite(edit func(answer []byte) []byte) Fault {
	return func(c *Call) {
		kept := c.record()
		answer := edit(kept.Body.Bytes())
		kept.Body.Reset()
		kept.Body.Write(answer)
		c.header(kept)
		_, _ = c.Answer.Write(answer)
	}
}

// Set replaces a field of the answer: a status that goes backwards, or the id of another job.
func Set(key string, value any) Fault {
	return Edit(func(answer map[string]any) { answer[key] = value })
}

// object is a JSON object.
type object = map[string]any

func respond(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // a fake answers what JSON can say
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// below reports whether a name stays in its folder.
func below(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return false
		}
	}
	return !strings.HasPrefix(name, "/")
}
