// Package fakekube imitates the API server of Kubernetes for tests: pods, their templates, versions, watches and
// preconditions, over real HTTPS, with faults. It has no scheduler and no nodes: tests say what becomes of a pod. What it
// does is compared with a real API server by e2e/kubernetes.
package fakekube

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Namespace is the only namespace.
const Namespace = "reelay"

// Object is an object of the API.
type Object = map[string]any

// Server is an API server. Its methods can be called at the same time.
type Server struct {
	*httptest.Server

	// TokenFile and CAFile are what a client needs.
	TokenFile, CAFile string

	mu        sync.Mutex
	version   int
	oldest    int // watches and pages of older versions are refused
	pods      map[string]Object
	templates map[string]Object
	nodes     map[string]bool
	events    []event
	tokens    map[string]bool
	denied    map[string]bool
	most      int
	snapshots map[string][]Object
	faults    []*fault
	calls     []string
	ahead     time.Duration // of its clock
}

// Advance sets the clock of the cluster forward.
func (s *Server) Advance(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += by
}

type event struct {
	version int
	kind    string
	pod     Object
}

// fault replaces the answer to the next calls of a kind.
type fault struct {
	call  string // such as "POST pods"
	times int
	do    func(w http.ResponseWriter, r *http.Request, answer func() (int, Object))
}

// Start starts a server with one node, which accepts the token in its TokenFile.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{pods: map[string]Object{}, templates: map[string]Object{}, nodes: map[string]bool{"node-1": true}, tokens: map[string]bool{},
		denied: map[string]bool{}, snapshots: map[string][]Object{}, most: -1, version: 100}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = true // as an API server has it
	s.StartTLS()
	t.Cleanup(s.Close)
	s.TokenFile, s.CAFile = filepath.Join(t.TempDir(), "token"), filepath.Join(t.TempDir(), "ca.crt")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(s.CAFile, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Rotate(t, "token-1")
	return s
}

// Rotate replaces the token: the file has the new one, and only this is accepted.
func (s *Server) Rotate(t testing.TB, token string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = map[string]bool{token: true}
	if err := os.WriteFile(s.TokenFile, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Expire makes the server refuse all tokens.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = map[string]bool{}
}

// SetTemplate writes a PodTemplate.
func (s *Server) SetTemplate(name, template string) {
	var parsed Object
	if err := json.Unmarshal([]byte(template), &parsed); err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.templates[name] = parsed
}

// Limit sets how many pods the quota allows.
func (s *Server) Limit(most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = most
}

// Deny takes a right away, such as "create pods/eviction".
func (s *Server) Deny(rights ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, right := range rights {
		s.denied[right] = true
	}
}

// Compact makes the server forget the versions before the current one.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oldest = s.version + 1
	s.version++
	s.snapshots = map[string][]Object{}
}

// Pods returns the pods by name.
func (s *Server) Pods() map[string]Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]Object{}
	for name, pod := range s.pods {
		all[name] = clone(pod)
	}
	return all
}

// Calls returns the calls so far, such as "POST pods".
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Put creates a pod, or replaces one, as somebody else.
func (s *Server) Put(name string, pod Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	meta := pod["metadata"].(Object)
	meta["name"] = name
	if meta["uid"] == nil {
		meta["uid"] = "uid-" + strconv.Itoa(s.version)
	}
	s.put(name, pod, "ADDED")
}

// Edit changes a pod.
func (s *Server) Edit(name string, edit func(metadata, spec, status Object)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod := clone(s.pods[name])
	if pod["status"] == nil {
		pod["status"] = Object{}
	}
	edit(pod["metadata"].(Object), pod["spec"].(Object), pod["status"].(Object))
	s.put(name, pod, "MODIFIED")
}

// Run is the pod on a node.
func (s *Server) Run(name string) {
	s.Edit(name, func(_, spec, status Object) { spec["nodeName"], status["phase"] = "node-1", "Running" })
}

// Condition adds a condition to a pod, as if it held since a while ago.
func (s *Server) Condition(name, kind, status, reason, message string, ago time.Duration) {
	s.Edit(name, func(_, _, state Object) {
		all, _ := state["conditions"].([]any)
		state["conditions"] = append(all, Object{"type": kind, "status": status, "reason": reason, "message": message,
			"lastTransitionTime": time.Now().Add(-ago).UTC().Format(time.RFC3339)})
	})
}

// Kill ends a pod without further ado, such as after its grace period or with its node.
func (s *Server) Kill(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(name)
}

// LoseNode removes the node.
func (s *Server) LoseNode() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes = map[string]bool{}
}

// Fault replaces the answers to the next calls of a kind, such as "POST pods". answer carries the call out.
func (s *Server) Fault(call string, times int, do func(w http.ResponseWriter, r *http.Request, answer func() (int, Object))) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &fault{call, times, do})
}

// Heal ends all faults.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// Lose carries calls out and closes their connection.
func (s *Server) Lose(call string, times int) {
	s.Fault(call, times, func(w http.ResponseWriter, _ *http.Request, answer func() (int, Object)) {
		answer()
		panic(http.ErrAbortHandler)
	})
}

// Refuse answers calls with a status.
func (s *Server) Refuse(call string, times, status int, reason, message string, header ...string) {
	s.Fault(call, times, func(w http.ResponseWriter, _ *http.Request, _ func() (int, Object)) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		write(w, status, failure(status, reason, message))
	})
}

func clone(o Object) Object {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	var copied Object
	if err := json.Unmarshal(data, &copied); err != nil {
		panic(err)
	}
	return copied
}

func (s *Server) put(name string, pod Object, kind string) {
	s.version++
	meta := pod["metadata"].(Object)
	meta["resourceVersion"] = strconv.Itoa(s.version)
	if meta["creationTimestamp"] == nil {
		meta["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
	}
	pod["kind"], pod["apiVersion"] = "Pod", "v1"
	s.pods[name] = clone(pod)
	s.events = append(s.events, event{s.version, kind, clone(pod)})
}

func (s *Server) remove(name string) {
	pod := s.pods[name]
	if pod == nil {
		return
	}
	s.version++
	pod["metadata"].(Object)["resourceVersion"] = strconv.Itoa(s.version)
	delete(s.pods, name)
	s.events = append(s.events, event{s.version, "DELETED", clone(pod)})
}

func failure(status int, reason, message string) Object {
	return Object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": status}
}

func write(w http.ResponseWriter, status int, answer Object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

// ServeHTTP answers a call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/"+Namespace+"/")
	parts := strings.Split(strings.TrimPrefix(path, "/api/v1/"), "/")
	kind := parts[len(parts)-1]
	if len(parts) > 1 && (parts[0] == "pods" || parts[0] == "podtemplates" || parts[0] == "nodes") {
		kind = parts[0] + "/"
		if len(parts) > 2 {
			kind += parts[2]
		}
	}
	name := r.Method + " " + kind
	if r.URL.Query().Get("watch") != "" {
		name = "WATCH pods"
	}
	s.mu.Lock()
	w.Header().Set("Date", time.Now().Add(s.ahead).UTC().Format(http.TimeFormat))
	s.calls = append(s.calls, name)
	var do *fault
	if at := slices.IndexFunc(s.faults, func(f *fault) bool { return f.call == name && f.times > 0 }); at >= 0 {
		do = s.faults[at]
		do.times--
	}
	s.mu.Unlock()
	answer := func() (int, Object) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")] {
			return http.StatusUnauthorized, failure(http.StatusUnauthorized, "Unauthorized", "Unauthorized")
		}
		return s.answer(r, parts)
	}
	switch {
	case do != nil:
		do.do(w, r, answer)
	case name == "WATCH pods":
		s.watch(w, r)
	default:
		status, body := answer()
		write(w, status, body)
	}
}

func (s *Server) answer(r *http.Request, parts []string) (int, Object) {
	missing := func() (int, Object) {
		return http.StatusNotFound, failure(http.StatusNotFound, "NotFound", fmt.Sprintf("%s %q not found", parts[0], parts[len(parts)-1]))
	}
	var body Object
	if r.Body != nil {
		_ = json.NewDecoder(r.Body).Decode(&body)
	}
	if parts[len(parts)-1] == "selfsubjectaccessreviews" {
		asked := body["spec"].(Object)["resourceAttributes"].(Object)
		right := fmt.Sprint(asked["verb"], " ", asked["resource"])
		if part := asked["subresource"]; part != "" {
			right += fmt.Sprint("/", part)
		}
		return http.StatusCreated, Object{"kind": "SelfSubjectAccessReview", "status": Object{"allowed": !s.denied[right]}}
	}
	switch {
	case parts[0] == "podtemplates" && len(parts) == 2:
		if template := s.templates[parts[1]]; template != nil {
			return http.StatusOK, Object{"kind": "PodTemplate", "apiVersion": "v1", "template": template}
		}
		return missing()
	case parts[0] == "nodes" && len(parts) == 2:
		if s.denied["get nodes"] {
			return http.StatusForbidden, failure(http.StatusForbidden, "Forbidden", `nodes is forbidden: User "control" cannot get resource "nodes"`)
		}
		if s.nodes[parts[1]] {
			return http.StatusOK, Object{"kind": "Node", "apiVersion": "v1"}
		}
		return missing()
	case parts[0] != "pods":
		return missing()
	case len(parts) == 1 && r.Method == http.MethodPost:
		return s.create(r, body)
	case len(parts) == 1:
		return s.list(r)
	}
	pod := s.pods[parts[1]]
	switch {
	case pod == nil:
		return missing()
	case r.Method == http.MethodDelete:
		return s.delete(pod, body)
	case len(parts) == 3 && parts[2] == "eviction":
		state, _ := pod["status"].(Object)
		if state == nil {
			state = Object{}
			pod["status"] = state
		}
		all, _ := state["conditions"].([]any)
		state["conditions"] = append(all, Object{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"})
		s.put(parts[1], pod, "MODIFIED")
		return s.delete(s.pods[parts[1]], body["deleteOptions"].(Object))
	}
	return http.StatusOK, clone(pod)
}

func (s *Server) create(r *http.Request, pod Object) (int, Object) {
	name := pod["metadata"].(Object)["name"].(string)
	switch {
	case s.pods[name] != nil:
		return http.StatusConflict, failure(http.StatusConflict, "AlreadyExists", fmt.Sprintf("pods %q already exists", name))
	case s.most >= 0 && len(s.pods) >= s.most:
		return http.StatusForbidden, failure(http.StatusForbidden, "Forbidden", fmt.Sprintf(
			"pods %q is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, used: 2, limited: 2", name))
	case r.URL.Query().Get("dryRun") != "":
		return http.StatusCreated, pod
	}
	pod["metadata"].(Object)["uid"] = "uid-" + strconv.Itoa(s.version)
	pod["status"] = Object{"phase": "Pending"}
	s.put(name, pod, "ADDED")
	return http.StatusCreated, clone(s.pods[name])
}

func (s *Server) delete(pod, options Object) (int, Object) {
	meta := pod["metadata"].(Object)
	name := meta["name"].(string)
	if wants, _ := options["preconditions"].(Object); wants != nil {
		for field, value := range wants {
			if meta[field] != value {
				return http.StatusConflict, failure(http.StatusConflict, "Conflict", fmt.Sprintf(
					"Operation cannot be fulfilled on pods %q: the %s in the precondition (%v) does not match (%v)", name, field, value, meta[field]))
			}
		}
	}
	grace, _ := options["gracePeriodSeconds"].(float64)
	spec := pod["spec"].(Object)
	status, _ := pod["status"].(Object)
	if spec["nodeName"] == nil || grace == 0 || status["phase"] == "Failed" || status["phase"] == "Succeeded" {
		s.remove(name)
		return http.StatusOK, clone(pod)
	}
	meta["deletionTimestamp"] = time.Now().Add(time.Duration(grace) * time.Second).UTC().Format(time.RFC3339)
	s.put(name, pod, "MODIFIED")
	return http.StatusOK, clone(pod)
}

func matches(pod Object, selector string) bool {
	labels, _ := pod["metadata"].(Object)["labels"].(Object)
	for want := range strings.SplitSeq(selector, ",") {
		name, value, _ := strings.Cut(want, "=")
		if labels[name] != value {
			return false
		}
	}
	return true
}

func (s *Server) list(r *http.Request) (int, Object) {
	query := r.URL.Query()
	limit, _ := strconv.Atoi(query.Get("limit"))
	snapshot, from := "", 0
	if next := query.Get("continue"); next != "" {
		id, at, _ := strings.Cut(next, "/")
		snapshot = id
		from, _ = strconv.Atoi(at)
		if s.snapshots[id] == nil {
			return http.StatusGone, failure(http.StatusGone, "Expired",
				"The provided continue parameter is too old to display a consistent list result.")
		}
	} else {
		snapshot = strconv.Itoa(s.version)
		all := []Object{}
		for _, name := range slices.Sorted(maps.Keys(s.pods)) {
			if matches(s.pods[name], query.Get("labelSelector")) {
				all = append(all, clone(s.pods[name]))
			}
		}
		s.snapshots[snapshot] = all
	}
	all := s.snapshots[snapshot]
	meta := Object{"resourceVersion": snapshot}
	to := len(all)
	if limit > 0 && from+limit < len(all) {
		to = from + limit
		meta["continue"] = fmt.Sprintf("%s/%d", snapshot, to)
	}
	return http.StatusOK, Object{"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": all[from:to]}
}

// watch sends what happened since a version, and ends: nobody waits for more.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	if since < s.oldest {
		_ = out.Encode(Object{"type": "ERROR", "object": failure(http.StatusGone, "Expired", "too old resource version")})
		return
	}
	for _, e := range s.events {
		if e.version > since && matches(e.pod, r.URL.Query().Get("labelSelector")) {
			_ = out.Encode(Object{"type": e.kind, "object": e.pod})
		}
	}
}
