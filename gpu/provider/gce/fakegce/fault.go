package fakegce

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// Fault is what goes wrong with a request. The zero values of Method and Zone mean all.
type Fault struct {
	// Method is such as instances.insert.
	Method string
	Zone   string
	// Times is how many requests it affects: 0 means one, -1 means all.
	Times int

	// Status, with a reason and a message, is the answer in place of the real one.
	Status  int
	Reason  string
	Message string
	// Hang leaves the request without an answer, and without effect.
	Hang bool
	// Lost carries the request out and loses the answer.
	Lost bool
	// Code, with Message, makes the operation fail. OperationStatus is its HTTP status,
	// and ZonesAvailable is what Compute Engine recommends.
	Code            string
	OperationStatus int
	ZonesAvailable  []string
}

// Stockout is the fault of a zone that has no machines, which recommends others.
func Stockout(zone string, available ...string) Fault {
	return Fault{
		Zone: zone, Code: "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", OperationStatus: http.StatusServiceUnavailable, ZonesAvailable: available,
		Message: "The zone '" + zone + "' does not have enough resources available to fulfill the request.",
	}
}

// QuotaExceeded is the fault of an operation that needs more than the quota.
func QuotaExceeded() Fault {
	return Fault{
		Code: "QUOTA_EXCEEDED", OperationStatus: http.StatusForbidden,
		Message: "Quota 'PREEMPTIBLE_NVIDIA_L4_GPUS' exceeded. Limit: 0.0 in region us-central1.",
	}
}

// Inject makes requests fail from now on.
func (s *Server) Inject(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fault := range faults {
		if fault.Times == 0 {
			fault.Times = 1
		}
		s.faults = append(s.faults, &fault)
	}
}

// take returns the first fault that fits. The caller holds mu.
func (s *Server) take(req *request) Fault {
	for _, fault := range s.faults {
		creates := req.method == "instances.insert" || req.method == "instances.bulkInsert"
		if fault.Times == 0 || fault.Method != "" && fault.Method != req.method || fault.Zone != "" && fault.Zone != req.zone ||
			fault.Code != "" && !creates {
			continue
		}
		if fault.Times > 0 {
			fault.Times--
		}
		return *fault
	}
	return Fault{}
}

// Hold lets operations run until Finish.
func (s *Server) Hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = true
}

// Finish ends all operations. Later ones end at once.
func (s *Server) Finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
	for _, op := range s.operations {
		s.end(op)
	}
}

// Limit sets how many instances a zone has room for.
func (s *Server) Limit(zone string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room[zone] = n
}

// PageSize sets how many entries a page of a list has.
func (s *Server) PageSize(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pageSize = n
}

// Unreachable sets whether lists have only a warning for a zone.
func (s *Server) Unreachable(zone string, away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away[zone] = away
}

// HideNew sets whether lists lag behind: they lack the instances that are being created.
func (s *Server) HideNew(hidden bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden = hidden
}

// Preempt reclaims an instance. One whose termination action is DELETE is gone at once; the
// operation tells of it.
func (s *Server) Preempt(zone, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	op := s.record(zone, "compute.instances.preempted", name, nil)
	op.Status = "DONE"
	s.stopped(zone, name)
	if i := s.instances[zone+"/"+name]; i != nil && i.Scheduling.InstanceTerminationAction != "DELETE" {
		stopped := *i
		stopped.Status, stopped.StatusMessage = "TERMINATED", "Instance was preempted."
		s.instances[zone+"/"+name] = &stopped
		return
	}
	delete(s.instances, zone+"/"+name)
}

// Double gives another zone an instance of the same name. The first was created an hour ago, the
// second half an hour ago.
func (s *Server) Double(zone, name, other string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, second := *s.instances[zone+"/"+name], *s.instances[zone+"/"+name]
	first.CreationTimestamp = time.Now().Add(-time.Hour).Format(time.RFC3339Nano)
	second.CreationTimestamp = time.Now().Add(-30 * time.Minute).Format(time.RFC3339Nano)
	second.Zone = strings.Replace(second.Zone, "/zones/"+zone, "/zones/"+other, 1)
	s.instances[zone+"/"+name], s.instances[other+"/"+name] = &first, &second
}

// SetStatus sets the status of an instance, and what it says about it.
func (s *Server) SetStatus(zone, name, status, message string) {
	s.setStatus(zone, name, status, message)
}

// Put adds something that can be read at this path below the project, such as
// global/images/i.
func (s *Server) Put(path string, value any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.things[path] = value
}

// Remove removes what Put put there.
func (s *Server) Remove(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.things, path)
}

// Deny takes permissions away from testIamPermissions. The calls still work.
func (s *Server) Deny(permissions ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, permission := range permissions {
		s.denied[permission] = true
	}
}

func (s *Server) thing(req *request) {
	s.mu.Lock()
	value, known := s.things[req.r.PathValue("rest")]
	s.mu.Unlock()
	if !known {
		req.refuse(http.StatusNotFound, "notFound", "The resource '"+strings.TrimPrefix(req.r.URL.Path, "/compute/v1/")+"' was not found")
		return
	}
	req.answer(value)
}

func (s *Server) testPermissions(req *request) {
	var asked struct {
		Permissions []string `json:"permissions"`
	}
	if err := json.Unmarshal(req.body, &asked); err != nil {
		req.refuse(http.StatusBadRequest, "parseError", err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	granted := []string{}
	for _, permission := range asked.Permissions {
		if !s.denied[permission] {
			granted = append(granted, permission)
		}
	}
	req.answer(map[string]any{"permissions": granted})
}
