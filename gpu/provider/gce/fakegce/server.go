// Package fakegce is an imitation of Compute Engine's API for tests. It speaks HTTP on
// loopback, as the official client expects, checks requests as far as the documentation
// says how, and fails on demand.
package fakegce

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/api/compute/v1"
)

// Project is the project that the server has.
const Project = "test-project"

// Server is one project of Compute Engine. All methods can be called at the same time.
type Server struct {
	// URL is the endpoint, without /compute/v1/.
	URL string

	http    *httptest.Server
	closing chan struct{}

	mu         sync.Mutex
	changed    *sync.Cond
	zones      []string
	instances  map[string]*compute.Instance // by zone/name
	operations []*operation
	requests   map[string]remembered // by request id
	calls      []Call
	faults     []*Fault
	held       bool
	hidden     bool // lists lack the instances that are being created
	pageSize   int
	away       map[string]bool // zones that are unreachable
	room       map[string]int  // how many instances fit in a zone; without an entry, all do
	things     map[string]any  // by path, of what is only read
	denied     map[string]bool // permissions
	lastID     uint64
	bill       []*Billed
	guest      map[string]map[string]string // guest attributes by namespace/key, by zone/name
	onRunning  func(context.Context, *compute.Instance)
	scripts    sync.WaitGroup
}

// operation is an operation, and what is to happen when it ends.
type operation struct {
	*compute.Operation

	finish func(*operation)
}

// remembered is what a request id stands for.
type remembered struct {
	body string
	op   *operation
}

// Call is one request that arrived.
type Call struct {
	// Method is such as instances.insert.
	Method string
	Zone   string
	Query  map[string][]string
	Body   json.RawMessage
}

// Start starts a server with these zones.
func Start(zones ...string) *Server {
	s := &Server{
		closing: make(chan struct{}), zones: zones, instances: map[string]*compute.Instance{}, requests: map[string]remembered{},
		away: map[string]bool{}, things: map[string]any{}, room: map[string]int{}, denied: map[string]bool{}, pageSize: 500, lastID: 1 << 60,
		guest: map[string]map[string]string{},
	}
	s.changed = sync.NewCond(&s.mu)
	s.http = httptest.NewServer(s.routes())
	s.URL = s.http.URL
	return s
}

// Close ends the server and the requests that it has not answered.
func (s *Server) Close() {
	close(s.closing)
	s.mu.Lock()
	s.changed.Broadcast()
	s.mu.Unlock()
	s.http.CloseClientConnections()
	s.http.Close()
	s.scripts.Wait()
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	const zone = "/compute/v1/projects/{project}/zones/{zone}/"
	for pattern, handler := range map[string]func(*request){
		"POST " + zone + "instances":                                           s.insert,
		"POST " + zone + "instances/bulkInsert":                                s.bulkInsert,
		"GET " + zone + "instances/{name}":                                     s.get,
		"DELETE " + zone + "instances/{name}":                                  s.delete,
		"GET " + zone + "instances/{name}/getGuestAttributes":                  s.getGuestAttributes,
		"GET /compute/v1/projects/{project}/aggregated/instances":              s.aggregatedInstances,
		"GET /compute/v1/projects/{project}/aggregated/operations":             s.aggregatedOperations,
		"POST " + zone + "instances/{name}/simulateMaintenanceEvent":           s.simulateMaintenanceEvent,
		"POST /compute/v1/projects/{project}/regions/{region}/advice/{method}": s.advice,
		"GET " + zone + "operations/{name}":                                    s.operation,
		"POST " + zone + "operations/{name}/wait":                              s.wait,
		"POST /v1/projects/{project}":                                          s.testPermissions,
		"GET /compute/v1/projects/{project}/{rest...}":                         s.thing,
		"GET /compute/v1/projects/{project}":                                   s.thing,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return // the client has gone away
			}
			req := &request{w: w, r: r, method: methods[pattern[strings.Index(pattern, " ")+1:]+" "+r.Method], zone: r.PathValue("zone"), body: body}
			s.serve(req, handler)
		})
	}
	return mux
}

// request is one request and where its answer goes.
type request struct {
	w      http.ResponseWriter
	r      *http.Request
	method string
	zone   string
	body   []byte
	fault  Fault
}

// methods names the methods as the API's documentation does.
var methods = map[string]string{
	"/compute/v1/projects/{project}/zones/{zone}/instances POST":                                 "instances.insert",
	"/compute/v1/projects/{project}/zones/{zone}/instances/bulkInsert POST":                      "instances.bulkInsert",
	"/compute/v1/projects/{project}/zones/{zone}/instances/{name} GET":                           "instances.get",
	"/compute/v1/projects/{project}/zones/{zone}/instances/{name} DELETE":                        "instances.delete",
	"/compute/v1/projects/{project}/zones/{zone}/instances/{name}/getGuestAttributes GET":        "instances.getGuestAttributes",
	"/compute/v1/projects/{project}/zones/{zone}/instances/{name}/simulateMaintenanceEvent POST": "instances.simulateMaintenanceEvent",
	"/compute/v1/projects/{project}/regions/{region}/advice/{method} POST":                       "advice",
	"/compute/v1/projects/{project}/aggregated/instances GET":                                    "instances.aggregatedList",
	"/compute/v1/projects/{project}/aggregated/operations GET":                                   "operations.aggregatedList",
	"/compute/v1/projects/{project}/zones/{zone}/operations/{name} GET":                          "zoneOperations.get",
	"/compute/v1/projects/{project}/zones/{zone}/operations/{name}/wait POST":                    "zoneOperations.wait",
	"/v1/projects/{project} POST":                                                                "projects.testIamPermissions",
	"/compute/v1/projects/{project}/{rest...} GET":                                               "get",
	"/compute/v1/projects/{project} GET":                                                         "projects.get",
}

// serve applies the faults that fit and lets the handler answer otherwise.
func (s *Server) serve(req *request, handler func(*request)) {
	s.mu.Lock()
	s.calls = append(s.calls, Call{Method: req.method, Zone: req.zone, Query: req.r.URL.Query(), Body: req.body})
	fault := s.take(req)
	s.mu.Unlock()
	req.fault = fault
	project := strings.TrimSuffix(req.r.PathValue("project"), ":testIamPermissions")
	switch {
	case project != Project:
		req.refuse(http.StatusForbidden, "forbidden", "The project does not exist, or you have no access to it.")
	case fault.Status != 0:
		req.refuse(fault.Status, fault.Reason, fault.Message)
	case fault.Hang:
		select {
		case <-req.r.Context().Done():
		case <-s.closing:
		}
	case fault.Lost:
		handler(&request{w: httptest.NewRecorder(), r: req.r, method: req.method, zone: req.zone, body: req.body, fault: fault})
		panic(http.ErrAbortHandler) // the connection breaks before the answer
	case req.zone != "" && !slices.Contains(s.zones, req.zone):
		req.refuse(http.StatusBadRequest, "invalid", fmt.Sprintf("Invalid value for field 'zone': '%s'. Unknown zone.", req.zone))
	default:
		handler(req)
	}
}

func (req *request) answer(value any) {
	req.w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	_ = json.NewEncoder(req.w).Encode(value) // the client may have gone away
}

// refuse answers with an error in Google's form.
func (req *request) refuse(status int, reason, message string) {
	req.w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	req.w.WriteHeader(status)
	_ = json.NewEncoder(req.w).Encode(map[string]any{"error": map[string]any{
		"code": status, "message": message,
		"errors": []map[string]string{{"message": message, "domain": "global", "reason": reason}},
	}})
}

// begin makes an operation for a request. A request id that was used before stands for the
// operation that it made, and for no other request.
func (s *Server) begin(req *request, kind, target string, finish func(*operation)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := req.r.URL.Query().Get("requestId")
	body := req.r.URL.Path + string(req.body)
	if before, used := s.requests[id]; id != "" && used {
		if before.body != body {
			req.refuse(http.StatusBadRequest, "invalid", "Invalid value for field 'requestId': it was used for another request.")
			return
		}
		req.answer(before.op.Operation)
		return
	}
	op := s.record(req.zone, kind, target, finish)
	if id != "" {
		s.requests[id] = remembered{body, op}
	}
	op.Status = "RUNNING"
	answer := *op.Operation // as it was when it was accepted
	if !s.held {
		s.end(op)
	}
	req.answer(&answer)
}

// record adds an operation. The caller holds mu.
func (s *Server) record(zone, kind, target string, finish func(*operation)) *operation {
	s.lastID++
	name := "operation-" + strconv.FormatUint(s.lastID, 10)
	base := s.URL + "/compute/v1/projects/" + Project + "/zones/" + zone
	op := &operation{finish: finish, Operation: &compute.Operation{
		Kind: "compute#operation", Id: s.lastID, Name: name, OperationType: kind, Zone: base, TargetLink: base + "/instances/" + target,
		SelfLink: base + "/operations/" + name, InsertTime: time.Now().Format(time.RFC3339Nano),
	}}
	s.operations = append(s.operations, op)
	return op
}

// end ends an operation. The caller holds mu.
func (s *Server) end(op *operation) {
	if op.Status == "DONE" {
		return
	}
	ended := *op.Operation // an answer may be encoding the other one
	ended.Status, ended.Progress, ended.EndTime = "DONE", 100, time.Now().Format(time.RFC3339Nano)
	op.Operation = &ended
	if op.finish != nil {
		op.finish(op)
	}
	s.changed.Broadcast()
}

func (s *Server) find(name string) *operation {
	for _, op := range s.operations {
		if op.Name == name {
			return op
		}
	}
	return nil
}

func (s *Server) operation(req *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	op := s.find(req.r.PathValue("name"))
	if op == nil {
		req.refuse(http.StatusNotFound, "notFound", "The resource was not found.")
		return
	}
	req.answer(op.Operation)
}

// wait answers when the operation has ended.
func (s *Server) wait(req *request) {
	stop := make(chan struct{})
	defer close(stop)
	go func() { // a condition cannot wait for a context
		select {
		case <-req.r.Context().Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			s.changed.Broadcast()
		case <-stop:
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	op := s.find(req.r.PathValue("name"))
	if op == nil {
		req.refuse(http.StatusNotFound, "notFound", "The resource was not found.")
		return
	}
	for op.Status != "DONE" && req.r.Context().Err() == nil && !s.isClosing() {
		s.changed.Wait()
	}
	req.answer(op.Operation)
}

func (s *Server) isClosing() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// Calls returns the requests of a method that arrived, in order.
func (s *Server) Calls(method string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.calls), func(c Call) bool { return c.Method != method })
}

// Instances returns the instances by zone and name.
func (s *Server) Instances() []*compute.Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*compute.Instance
	for _, key := range slices.Sorted(maps.Keys(s.instances)) {
		copied := *s.instances[key]
		all = append(all, &copied)
	}
	return all
}
