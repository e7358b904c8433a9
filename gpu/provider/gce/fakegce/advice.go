package fakegce

import (
	"encoding/json"
	"net/http"
	"strings"

	"google.golang.org/api/compute/v1"
)

// simulateMaintenanceEvent reclaims a Spot machine. A machine of another kind would move to
// another host: nothing happens to it here.
func (s *Server) simulateMaintenanceEvent(req *request) {
	key := req.zone + "/" + req.r.PathValue("name")
	s.mu.Lock()
	i := s.instances[key]
	s.mu.Unlock()
	if i == nil {
		req.refuse(http.StatusNotFound, "notFound", "The resource 'projects/"+Project+"/zones/"+key+"' was not found")
		return
	}
	s.begin(req, "simulateMaintenanceEvent", i.Name, nil)
	if i.Scheduling.ProvisioningModel == "SPOT" {
		s.Preempt(req.zone, i.Name)
	}
}

// Advise sets the answers of advice.capacityHistory and advice.capacity for a machine type.
func (s *Server) Advise(machineType string, history *compute.CapacityHistoryResponse,
	scores *compute.CapacityAdviceResponseRecommendationScores) {
	s.Put("advice/capacityHistory/"+machineType, history)
	s.Put("advice/capacity/"+machineType, &compute.CapacityAdviceResponse{
		Recommendations: []*compute.CapacityAdviceResponseRecommendation{{Scores: scores}},
	})
}

// advice answers for the machine type of the request, which must be about Spot machines.
func (s *Server) advice(req *request) {
	var machineType, model string
	var err error
	switch req.r.PathValue("method") {
	case "capacityHistory":
		var asked compute.CapacityHistoryRequest
		if err = json.Unmarshal(req.body, &asked); err == nil && asked.InstanceProperties != nil && asked.InstanceProperties.Scheduling != nil {
			machineType, model = asked.InstanceProperties.MachineType, asked.InstanceProperties.Scheduling.ProvisioningModel
		}
	case "capacity":
		var asked compute.CapacityAdviceRequest
		if err = json.Unmarshal(req.body, &asked); err == nil && asked.InstanceFlexibilityPolicy != nil && asked.InstanceProperties != nil &&
			asked.Size > 0 {
			for _, selection := range asked.InstanceFlexibilityPolicy.InstanceSelections {
				machineType, model = strings.Join(selection.MachineTypes, ","), asked.InstanceProperties.Scheduling.ProvisioningModel
			}
		}
	}
	if err != nil || model != "SPOT" {
		req.refuse(http.StatusBadRequest, "invalid",
			"Invalid value for field 'instanceProperties.scheduling.provisioningModel'. It must be SPOT.")
		return
	}
	s.mu.Lock()
	value, known := s.things["advice/"+req.r.PathValue("method")+"/"+machineType]
	s.mu.Unlock()
	if !known {
		req.refuse(http.StatusBadRequest, "invalid", "Invalid value for field 'machineType': '"+machineType+"'.")
		return
	}
	req.answer(value)
}
