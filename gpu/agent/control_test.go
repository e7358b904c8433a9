package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/agent/host"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/pause"
	"github.com/stretchr/testify/require"
)

// object is a GraphQL answer, or input.
type object = map[string]any

// control is the control plane and the object store as an agent's HTTP client
// sees them, so that a test's clock can be synctest's.
type control struct {
	mu      sync.Mutex
	began   time.Time
	calls   []call
	answers map[string]func(object) (object, client.Code)
	leases  []object
	granted map[any]any       // leases, by request
	stored  map[string]string // objects, by path
	outage  outage
	missed  []call                   // calls that met an outage
	refusal client.Code              // of every call, if there is one
	losing  map[string]int           // how many answers of a call will not arrive
	slow    map[string]time.Duration // how long calls take to answer; set before the agent starts
	// storing may refuse a request to the store, which it does by answering it.
	storing func(*http.Request) (*http.Response, error)
	sockets []*websocket.Conn
}

// outage is how the control plane is away.
type outage string

const (
	refusing    outage = "connections are refused"
	hanging     outage = "calls hang"
	unavailable outage = "the API runs without its database"
)

const retryAfter = 3 * time.Second

// call is one request that was answered.
type call struct {
	name string
	at   time.Duration
	in   object
}

func newControl() *control {
	c := &control{began: time.Now(), stored: map[string]string{}, granted: map[any]any{}, losing: map[string]int{},
		answers: map[string]func(object) (object, client.Code){}}
	beat := func(object) (object, client.Code) { return heartbeatAnswer("CONTINUE"), "" }
	for _, name := range []string{"heartbeat", "reportProgress", "commitCheckpoint", "rejectCheckpoint", "commitArtifact", "storeHandle",
		"appendLog"} {
		c.answers[name] = beat
	}
	c.answers["registerWorker"] = func(object) (object, client.Code) {
		return object{"worker": object{"id": "wrk_1"}, "workerToken": "rlw_1", "heartbeatSeconds": 10, "leaseSeconds": 30}, ""
	}
	uploads := 0
	c.answers["requestUpload"] = func(in object) (object, client.Code) {
		uploads++
		key := fmt.Sprintf("%v/%d", in["type"], uploads)
		return object{"objectKey": key, "url": "http://store/" + key, "method": "PUT", "headers": object{}, "expiresAt": time.Now()}, ""
	}
	end := func(object) (object, client.Code) { return object{"job": object{"id": "job_1"}, "next": nil}, "" }
	c.answers["completeJob"], c.answers["failJob"] = end, end
	worker := func(object) (object, client.Code) { return object{"id": "wrk_1"}, "" }
	c.answers["releaseJob"], c.answers["drainSelf"], c.answers["deregisterWorker"] = worker, worker, worker
	return c
}

func heartbeatAnswer(action string) object {
	return object{"leaseExpiresAt": time.Now(), "directive": object{"action": action}}
}

// RoundTrip answers one call, upload or download.
func (c *control) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body.Close()
	}
	if r.URL.Host == "store" {
		return c.store(r, body)
	}
	var request struct {
		OperationName string
		Variables     object
	}
	upgrade := r.Header.Get("Upgrade") != ""
	if err := json.Unmarshal(body, &request); err != nil && !upgrade {
		return nil, err
	}
	if answer, err := c.absent(r, request.OperationName); answer != nil || err != nil {
		return answer, err
	}
	if upgrade {
		return c.socket(r)
	}
	in := request.Variables
	if inner, ok := in["input"].(object); ok {
		in = inner
	}
	if request.OperationName == "leaseJob" {
		return c.offer(r, in)
	}
	data, code := c.answer(request.OperationName, in)
	time.Sleep(c.slow[request.OperationName])
	return c.deliver(r, request.OperationName, data, code)
}

// absent answers as a control plane that is away does.
func (c *control) absent(r *http.Request, name string) (*http.Response, error) {
	c.mu.Lock()
	outage := c.outage
	if outage != "" {
		c.missed = append(c.missed, call{name, time.Since(c.began), nil})
	}
	c.mu.Unlock()
	switch outage {
	case refusing:
		return nil, errors.New("connection refused")
	case hanging:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case unavailable:
		answer := plain(r, http.StatusServiceUnavailable, []byte(`{"errors":[{"message":"no database","extensions":{"code":"UNAVAILABLE"}}]}`))
		answer.Header.Set("Retry-After", fmt.Sprint(retryAfter.Seconds()))
		return answer, nil
	}
	return nil, nil
}

// deliver answers, unless the answer is to be lost.
func (c *control) deliver(r *http.Request, name string, data object, code client.Code) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.losing[name] > 0 {
		c.losing[name]--
		return nil, errors.New("connection reset by peer")
	}
	return respond(r, name, data, code), nil
}

func (c *control) answer(name string, in object) (object, client.Code) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call{name, time.Since(c.began), in})
	if c.refusal != "" {
		return nil, c.refusal
	}
	return c.answers[name](in)
}

// offer gives what is queued, or waits as long as it is asked to.
func (c *control) offer(r *http.Request, in object) (*http.Response, error) {
	c.mu.Lock()
	c.calls = append(c.calls, call{"leaseJob", time.Since(c.began), in})
	if refusal := c.refusal; refusal != "" {
		c.mu.Unlock()
		return respond(r, "leaseJob", nil, refusal), nil
	}
	offered := c.granted[in["requestId"]]
	if offered == nil && len(c.leases) > 0 {
		offered, c.leases = c.leases[0], c.leases[1:]
		c.granted[in["requestId"]] = offered
	}
	c.mu.Unlock()
	if offered == nil {
		if err := pause.For(r.Context(), time.Duration(in["waitSeconds"].(float64))*time.Second); err != nil {
			return nil, r.Context().Err()
		}
	}
	return c.deliver(r, "leaseJob", object{"lease": offered, "directive": nil}, "")
}

func (c *control) store(r *http.Request, body []byte) (*http.Response, error) {
	c.mu.Lock()
	storing := c.storing
	c.mu.Unlock()
	if storing != nil {
		if answer, err := storing(r); answer != nil || err != nil {
			return answer, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call{r.Method + r.URL.Path, time.Since(c.began), nil})
	if r.Method == http.MethodPut {
		c.stored[r.URL.Path] = string(body)
		return plain(r, http.StatusOK, nil), nil
	}
	text, ok := c.stored[r.URL.Path]
	if !ok {
		return plain(r, http.StatusNotFound, nil), nil
	}
	return plain(r, http.StatusOK, []byte(text)), nil
}

func respond(r *http.Request, name string, data object, code client.Code) *http.Response {
	var value any = data
	if list, ok := data["list"]; ok { // the answer is a list
		value = list
	}
	answer := object{"data": object{name: value}}
	if code != "" {
		answer = object{"errors": []object{{"message": "refused", "extensions": object{"code": code}}}}
	}
	text, _ := json.Marshal(answer)
	return plain(r, http.StatusOK, text)
}

func plain(r *http.Request, status int, body []byte) *http.Response {
	return &http.Response{ContentLength: int64(len(body)), StatusCode: status, Status: http.StatusText(status), Header: http.Header{},
		Request: r, Body: io.NopCloser(bytes.NewReader(body))}
}

// body is what an object holds.
func (c *control) body(path string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stored[path]
}

// count is how many calls were answered so far.
func (c *control) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls)
}

// after returns the calls that were answered after the first n.
func (c *control) after(n int) []call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls[n:])
}

// set changes how a call is answered from now on.
func (c *control) set(name string, answer func(object) (object, client.Code)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[name] = answer
}

// goAway begins an outage, which breaks the open sockets.
func (c *control) goAway(how outage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outage = how
	for _, socket := range c.sockets {
		go socket.CloseNow()
	}
	c.sockets = nil
}

// refuseAll has every call answered with a code.
func (c *control) refuseAll(code client.Code) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusal = code
}

func (c *control) comeBack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outage = ""
}

// lose has the next answers of a call not arrive.
func (c *control) lose(name string, answers int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.losing[name] = answers
}

// breakStore makes storing see each request to the store first. storing may answer it or fail it.
// If it returns neither a response nor an error, the store answers.
func (c *control) breakStore(storing func(*http.Request) (*http.Response, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.storing = storing
}

// of returns the calls of the given names, in their order.
func (c *control) of(names ...string) []call {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []call
	for _, call := range c.calls {
		if slices.Contains(names, call.name) {
			found = append(found, call)
		}
	}
	return found
}

func names(calls []call) []string {
	var all []string
	for _, call := range calls {
		all = append(all, call.name)
	}
	return all
}

// queue offers a job, with checkpoints to resume from.
func (c *control) queue(checkpoints ...object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leases = append(c.leases, lease(checkpoints...))
}

func lease(checkpoints ...object) object {
	return object{
		"attemptId": "att_1", "fencingToken": "token", "attemptNo": 1, "leaseExpiresAt": time.Now(),
		"job": object{"id": "job_1", "type": "video.generate", "model": "testcard", "prompt": "a lighthouse",
			"params": object{"fps": 24}},
		"checkpoints": checkpoints, "checkpointSeconds": 30, "timeoutSeconds": 3600,
	}
}

// model is a runtime process that does what its test says.
type model struct {
	loads    chan runtime.Model
	orders   chan string
	started  chan runtime.Start
	messages chan runtime.Message
	ended    sync.Once
	deaf     atomic.Bool // does not stop when it is told to
	load     time.Duration
	fetch    float64
	tail     string
	output   atomic.Value // what TailSince returns
}

func newModel() *model {
	return &model{orders: make(chan string, 100), loads: make(chan runtime.Model, 100), started: make(chan runtime.Start, 1),
		tail: "last words", messages: make(chan runtime.Message, 100)}
}

func (m *model) Announced() runtime.Ready {
	return runtime.Ready{Protocol: runtime.ProtocolVersion, Runtime: "scripted", Models: runtime.Offers("testcard")}
}

func (m *model) Load(order runtime.Model) error {
	m.loads <- order
	time.Sleep(m.load)
	m.messages <- &runtime.Loaded{Model: order.Name, FetchSeconds: m.fetch}
	return nil
}

func (m *model) Start(order runtime.Start) error {
	m.started <- order
	return nil
}

func (m *model) Checkpoint() error {
	m.orders <- "checkpoint"
	return nil
}

func (m *model) Stored() error {
	m.orders <- "stored"
	return nil
}

func (m *model) Cancel(keep bool) error {
	if keep {
		m.orders <- "cancel, keep"
	} else {
		m.orders <- "cancel"
	}
	if !m.deaf.Load() {
		m.messages <- &runtime.Cancelled{}
	}
	return nil
}

func (m *model) Messages() <-chan runtime.Message { return m.messages }
func (m *model) Wait() error                      { return runtime.Failf(runtime.ModelCrash, "the runtime died") }
func (m *model) Tail() string                     { return m.tail }

func (m *model) TailSince(position int64) ([]byte, int64) {
	output, _ := m.output.Load().(string)
	return []byte(output[max(position, 0):]), int64(len(output))
}

func (m *model) Kill() {
	m.ended.Do(func() { m.orders <- "kill"; close(m.messages) })
}

// die ends the process by itself.
func (m *model) die() { m.ended.Do(func() { close(m.messages) }) }

// file makes a file in a job's work directory.
func file(t *testing.T, order runtime.Start, name string) string {
	t.Helper()
	path := filepath.Join(order.Workdir, name)
	require.NoError(t, os.WriteFile(path, []byte("bytes of "+name), 0o600))
	return path
}

// fixture is an agent at work.
type fixture struct {
	*control
	model   *model      // the first runtime
	models  chan *model // those that follow
	notices chan Notice
	ended   chan error
	stop    context.CancelFunc
	log     *strings.Builder // to be read after synctest.Wait
}

// story runs an agent in a bubble whose clock is the test's. tell may be nil.
func story(t *testing.T, prepare func(*control, *model), tell func(*testing.T, *fixture), settings ...func(*Config)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{control: newControl(), model: newModel(), models: make(chan *model, 10), notices: make(chan Notice),
			ended: make(chan error, 1), log: &strings.Builder{}}
		prepare(f.control, f.model)
		api, err := client.New("http://control", "rl_enrol", client.WithTransport(f.control))
		require.NoError(t, err)
		config := Config{
			Client: api, Provider: "local", InstanceID: "one", Region: "here", GPUType: "none", WorkDir: dir,
			Runtimes: []host.Command{{Name: "scripted", Command: []string{"scripted"}}},
			Notices:  f.notices, Log: slog.New(slog.NewTextHandler(f.log, nil)),
		}.withDefaults()
		for _, set := range settings {
			set(&config)
		}
		require.NoError(t, config.check())
		launches := 0
		a := newAgent(config, func(context.Context, host.Command) (host.Process, error) {
			if launches++; launches == 1 {
				return f.model, nil
			}
			next := newModel()
			f.models <- next
			return next, nil
		})
		ctx, stop := context.WithCancel(t.Context())
		f.stop = stop
		go func() { f.ended <- a.run(ctx) }()

		tell(t, f)

		stop()
		synctest.Wait()
	})
}

// leave gives notice and waits for the agent's end.
func (f *fixture) leave(t *testing.T) {
	t.Helper()
	f.notices <- Notice{Reason: "test", Deadline: time.Now().Add(30 * time.Second)}
	require.NoError(t, <-f.ended)
}
