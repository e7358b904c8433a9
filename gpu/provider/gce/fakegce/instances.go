package fakegce

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/api/compute/v1"
)

var (
	namePattern  = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)
	labelKey     = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
	labelValue   = regexp.MustCompile(`^[a-z0-9_-]{0,63}$`)
	filterLabels = regexp.MustCompile(`\(labels\.([a-z0-9_-]+) = "([^"]*)"\)`)
)

func (s *Server) insert(req *request) {
	var i compute.Instance
	if err := json.Unmarshal(req.body, &i); err != nil {
		req.refuse(http.StatusBadRequest, "parseError", "Parse Error: "+err.Error())
		return
	}
	template := req.r.URL.Query().Get("sourceInstanceTemplate")
	if wrong := check(&i, req.zone, template != ""); wrong != "" {
		req.refuse(http.StatusBadRequest, "invalid", wrong)
		return
	}
	key := req.zone + "/" + i.Name
	s.mu.Lock()
	_, exists := s.instances[key]
	_, repeated := s.requests[req.r.URL.Query().Get("requestId")]
	s.mu.Unlock()
	if exists && !repeated {
		req.refuse(http.StatusConflict, "alreadyExists", fmt.Sprintf("The resource 'projects/%s/zones/%s/instances/%s' already exists", Project,
			req.zone, i.Name))
		return
	}
	if !repeated && req.fault.Code == "" && !s.fits(req.zone, 1) {
		req.fault = s.stockout(req.zone)
	}
	if !repeated {
		s.add(req.zone, &i)
	}
	s.begin(req, "insert", i.Name, func(op *operation) { s.settle(op, req, []string{i.Name}) })
}

// check returns what Compute Engine would say is wrong.
func check(i *compute.Instance, zone string, template bool) string {
	for key, value := range i.Labels {
		if !labelKey.MatchString(key) || !labelValue.MatchString(value) {
			return fmt.Sprintf("Invalid value for field 'resource.labels': '%s=%s'.", key, value)
		}
	}
	schedule := i.Scheduling
	if schedule == nil {
		schedule = &compute.Scheduling{}
	}
	spot := schedule.ProvisioningModel == "SPOT"
	gpus := len(i.GuestAccelerators) > 0 || strings.Contains(i.MachineType, "/g2-") || strings.Contains(i.MachineType, "/a2-")
	switch {
	case !namePattern.MatchString(i.Name):
		return fmt.Sprintf("Invalid value for field 'resource.name': '%s'.", i.Name)
	case i.MachineType == "" && !template:
		return "Invalid value for field 'resource.machineType': ''."
	case i.MachineType != "" && !strings.HasPrefix(i.MachineType, "zones/"+zone+"/machineTypes/"):
		return fmt.Sprintf("Invalid value for field 'resource.machineType': '%s'.", i.MachineType)
	case len(i.Disks) == 0 && !template:
		return "Invalid value for field 'resource.disks': ''. No disks are specified."
	case len(i.NetworkInterfaces) == 0 && !template:
		return "Invalid value for field 'resource.networkInterfaces': ''. At least one network interface is required."
	case gpus && schedule.OnHostMaintenance != "TERMINATE":
		return "Instances with guest accelerators do not support live migration."
	case schedule.InstanceTerminationAction != "" && !spot && schedule.MaxRunDuration == nil:
		return "You cannot specify a termination action for a VM instance that has the standard provisioning model."
	case schedule.PreemptionNoticeDuration != nil && !spot:
		return "Invalid value for field 'resource.scheduling.preemptionNoticeDuration': only Spot VMs have it."
	case spot && (schedule.AutomaticRestart == nil || *schedule.AutomaticRestart):
		return "Automatic restart cannot be enabled on Spot VMs."
	}
	return ""
}

func (s *Server) bulkInsert(req *request) {
	var bulk compute.BulkInsertInstanceResource
	if err := json.Unmarshal(req.body, &bulk); err != nil {
		req.refuse(http.StatusBadRequest, "parseError", "Parse Error: "+err.Error())
		return
	}
	names := slices.Sorted(maps.Keys(bulk.PerInstanceProperties))
	if int64(len(names)) != bulk.Count || bulk.Count == 0 || bulk.InstanceProperties == nil {
		req.refuse(http.StatusBadRequest, "invalid", "Invalid value for field 'resource.count': it must be the number of perInstanceProperties.")
		return
	}
	instances, wrong := expand(&bulk, req.zone, names)
	s.mu.Lock()
	_, repeated := s.requests[req.r.URL.Query().Get("requestId")]
	for _, name := range names {
		if _, exists := s.instances[req.zone+"/"+name]; exists && !repeated {
			req.fault.Code, req.fault.Message, req.fault.Status = "RESOURCE_ALREADY_EXISTS", "The resource '"+name+"' already exists",
				http.StatusConflict
		}
	}
	s.mu.Unlock()
	if wrong != "" {
		req.refuse(http.StatusBadRequest, "invalid", wrong)
		return
	}
	fitting := len(names)
	for fitting > 0 && !s.fits(req.zone, fitting) {
		fitting--
	}
	if int64(fitting) < max(bulk.MinCount, 1) && req.fault.Code == "" {
		req.fault = s.stockout(req.zone)
	}
	var made []string
	if !repeated && req.fault.Code != "RESOURCE_ALREADY_EXISTS" {
		for _, i := range instances[:max(fitting, 0)] {
			s.add(req.zone, i)
			made = append(made, i.Name)
		}
	}
	s.begin(req, "bulkInsert", "", func(op *operation) { s.settle(op, req, made) })
}

// expand returns the instances that a bulkInsert describes, or what is wrong.
func expand(bulk *compute.BulkInsertInstanceResource, zone string, names []string) ([]*compute.Instance, string) {
	p := bulk.InstanceProperties
	var all []*compute.Instance
	for _, name := range names {
		if bulk.PerInstanceProperties[name].Name != name {
			return nil, "Invalid value for field 'resource.perInstanceProperties'."
		}
		if strings.Contains(p.MachineType, "/") {
			return nil, "Invalid value for field 'resource.instanceProperties.machineType': it must be a name."
		}
		i := &compute.Instance{
			Name: name, Labels: p.Labels, Metadata: p.Metadata, Scheduling: p.Scheduling, Disks: p.Disks, GuestAccelerators: p.GuestAccelerators,
			NetworkInterfaces: p.NetworkInterfaces, ServiceAccounts: p.ServiceAccounts, Tags: p.Tags,
		}
		if p.MachineType != "" {
			i.MachineType = "zones/" + zone + "/machineTypes/" + p.MachineType
		}
		if wrong := check(i, zone, bulk.SourceInstanceTemplate != ""); wrong != "" {
			return nil, wrong
		}
		all = append(all, i)
	}
	return all, ""
}

// add adds an instance that is being created.
func (s *Server) add(zone string, i *compute.Instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	i.Id, i.Status, i.Zone = s.lastID, "PROVISIONING", s.URL+"/compute/v1/projects/"+Project+"/zones/"+zone
	now := time.Now()
	i.CreationTimestamp = now.Format(time.RFC3339Nano)
	s.instances[zone+"/"+i.Name] = i
	s.bill = append(s.bill, &Billed{Name: i.Name, Zone: zone, From: now})
}

// settle is the end of an operation that creates instances. The caller holds mu.
func (s *Server) settle(op *operation, req *request, names []string) {
	fault := req.fault
	for _, name := range names {
		key := req.zone + "/" + name
		if fault.Code != "" {
			delete(s.instances, key)
			s.bill = slices.DeleteFunc(s.bill, func(b *Billed) bool { return b.Zone == req.zone && b.Name == name && b.To.IsZero() })
		} else if i := s.instances[key]; i != nil && i.Status == "PROVISIONING" {
			running := *i
			running.Status = "RUNNING"
			s.instances[key] = &running
			s.running(&running)
		}
	}
	if fault.Code == "" {
		return
	}
	op.HttpErrorStatusCode, op.HttpErrorMessage = int64(fault.OperationStatus), http.StatusText(fault.OperationStatus)
	failed := &compute.OperationErrorErrors{Code: fault.Code, Message: fault.Message}
	if len(fault.ZonesAvailable) > 0 {
		failed.ErrorDetails = []*compute.OperationErrorErrorsErrorDetails{{ErrorInfo: &compute.ErrorInfo{
			Domain: "compute.googleapis.com", Reason: "resource_availability",
			Metadatas: map[string]string{"zone": req.zone, "zonesAvailable": strings.Join(fault.ZonesAvailable, ",")},
		}}}
	}
	op.Error = &compute.OperationError{Errors: []*compute.OperationErrorErrors{failed}}
}

// fits reports whether n more instances fit in a zone.
func (s *Server) fits(zone string, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	room, limited := s.room[zone]
	for key := range s.instances {
		if strings.HasPrefix(key, zone+"/") {
			room--
		}
	}
	return !limited || room >= n
}

// stockout is what happens in a zone without room.
func (s *Server) stockout(zone string) Fault {
	var available []string
	for _, other := range s.zones {
		if other != zone && s.fits(other, 1) {
			available = append(available, other)
		}
	}
	return Stockout(zone, available...)
}

func (s *Server) get(req *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.instances[req.zone+"/"+req.r.PathValue("name")]
	if i == nil {
		req.refuse(http.StatusNotFound, "notFound", "The resource was not found.")
		return
	}
	req.answer(i)
}

func (s *Server) delete(req *request) {
	name := req.r.PathValue("name")
	s.mu.Lock()
	_, exists := s.instances[req.zone+"/"+name]
	_, repeated := s.requests[req.r.URL.Query().Get("requestId")]
	s.mu.Unlock()
	if !exists && !repeated {
		req.refuse(http.StatusNotFound, "notFound", "The resource was not found.")
		return
	}
	s.setStatus(req.zone, name, "STOPPING", "")
	s.begin(req, "delete", name, func(*operation) {
		delete(s.instances, req.zone+"/"+name)
		s.stopped(req.zone, name)
	})
}

func (s *Server) setStatus(zone, name, status, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.instances[zone+"/"+name]; i != nil {
		changed := *i
		changed.Status, changed.StatusMessage = status, message
		s.instances[zone+"/"+name] = &changed
	}
}

// aggregatedInstances lists the instances of all zones, in pages.
func (s *Server) aggregatedInstances(req *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	filter := req.r.URL.Query().Get("filter")
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(s.instances)) {
		zone, _, _ := strings.Cut(key, "/")
		if matches(s.instances[key].Labels, filter) && !s.away[zone] && !(s.hidden && s.instances[key].Status == "PROVISIONING") {
			keys = append(keys, key)
		}
	}
	items := map[string]compute.InstancesScopedList{}
	for _, zone := range s.zones {
		code := "NO_RESULTS_ON_PAGE"
		if s.away[zone] {
			code = "UNREACHABLE"
		}
		items["zones/"+zone] = compute.InstancesScopedList{Warning: &compute.InstancesScopedListWarning{Code: code}}
	}
	page, next := s.page(req, len(keys))
	for _, key := range keys[page:min(page+s.pageSize, len(keys))] {
		zone, _, _ := strings.Cut(key, "/")
		list := items["zones/"+zone]
		list.Warning = nil
		list.Instances = append(list.Instances, s.instances[key])
		items["zones/"+zone] = list
	}
	req.answer(&compute.InstanceAggregatedList{Kind: "compute#instanceAggregatedList", Items: items, NextPageToken: next})
}

// page returns where the requested page begins, and the token of the next one.
func (s *Server) page(req *request, total int) (from int, next string) {
	from, _ = strconv.Atoi(req.r.URL.Query().Get("pageToken")) // the first page has no token
	from = min(from, total)
	if from+s.pageSize < total {
		next = strconv.Itoa(from + s.pageSize)
	}
	return from, next
}

func matches(labels map[string]string, filter string) bool {
	for _, part := range filterLabels.FindAllStringSubmatch(filter, -1) {
		if labels[part[1]] != part[2] {
			return false
		}
	}
	return true
}

// aggregatedOperations lists the operations of one type, the newest first, in pages.
func (s *Server) aggregatedOperations(req *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	filter := req.r.URL.Query().Get("filter")
	var fitting []*compute.Operation
	for _, op := range slices.Backward(s.operations) {
		if filter == "" || filter == fmt.Sprintf("operationType = %q", op.OperationType) {
			fitting = append(fitting, op.Operation)
		}
	}
	page, next := s.page(req, len(fitting))
	items := map[string]compute.OperationsScopedList{}
	for _, op := range fitting[page:min(page+s.pageSize, len(fitting))] {
		scope := op.Zone[strings.Index(op.Zone, "zones/"):]
		items[scope] = compute.OperationsScopedList{Operations: append(items[scope].Operations, op)}
	}
	req.answer(&compute.OperationAggregatedList{Kind: "compute#operationAggregatedList", Items: items, NextPageToken: next})
}
