package catalogue

import (
	"fmt"
	"slices"
	"strings"

	"github.com/reelay/reelay/jobs/fairqueue"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

// anyGPU stands for every GPU type, in a model's list and on a worker.
const anyGPU = "any"

// RunsOn reports whether the model runs on a GPU of that type. A model that lists none runs anywhere.
func (m *Model) RunsOn(gpuType string) bool {
	return len(m.GPUTypes) == 0 || gpuType == anyGPU || slices.Contains(m.GPUTypes, anyGPU) || m.gpuIndex(gpuType) >= 0
}

// gpuIndex is the index of a GPU type in the model's list, or -1.
func (m *Model) gpuIndex(gpuType string) int {
	return slices.IndexFunc(m.GPUTypes, func(t string) bool { return strings.EqualFold(t, gpuType) })
}

// Rank is the index of a GPU type in the model's list, smallest first. A worker of that
// type can run jobs up to that rank.
func (m *Model) Rank(gpuType string) int {
	if gpuType == anyGPU || slices.Contains(m.GPUTypes, anyGPU) {
		return max(len(m.GPUTypes)-1, 0)
	}
	return max(m.gpuIndex(gpuType), 0)
}

// Capability says which queues a worker, or capacity of one kind, can serve.
type Capability struct {
	Ranks map[string]int // the highest GPU rank by model
	offer models.Offer
}

// CapabilityOf returns what can serve the jobs that an offer takes.
func (s *Snapshot) CapabilityOf(offer models.Offer) Capability {
	r := Capability{Ranks: map[string]int{}, offer: offer}
	for _, name := range offer.Models {
		switch m := s.newest(name); {
		case m != nil && m.RunsOn(offer.GPUType):
			r.Ranks[name] = m.Rank(offer.GPUType) // if it was removed, jobs of it may still wait
		case m == nil && s.past == nil:
			r.Ranks[name] = 0 // the snapshot does not come from the database
		}
	}
	return r
}

// newest returns the current version of a model or, if it was removed, the last one; nil if there never was one.
func (s *Snapshot) newest(name string) *Model {
	if m := s.model(name); m != nil {
		return m
	}
	var last *Model
	for key, m := range s.past {
		if key.name == name && (last == nil || m.Version > last.Version) {
			last = m
		}
	}
	return last
}

// Removed reports whether there was a model of that name, and is none now.
func (s *Snapshot) Removed(name string) bool { return s.model(name) == nil && s.newest(name) != nil }

// Refusal is a model that a worker offers and gets no jobs of, and why.
type Refusal struct {
	Model  string
	Reason string
}

// Split divides what a worker or a pool offers into the models of which it gets jobs, and the others.
func (s *Snapshot) Split(offer models.Offer) (served []string, refused []Refusal) {
	served = []string{}
	for _, name := range offer.Models {
		if why := s.refuses(name, offer.GPUType); why != "" {
			refused = append(refused, Refusal{name, why})
		} else {
			served = append(served, name)
		}
	}
	return served, refused
}

// refuses returns why a worker with a GPU type gets no jobs of a model, or "".
func (s *Snapshot) refuses(name, gpuType string) string {
	switch m := s.model(name); {
	case m != nil && m.RunsOn(gpuType):
		return ""
	case m != nil:
		return fmt.Sprintf("it runs on %s, not on %s", strings.Join(m.GPUTypes, ", "), gpuType)
	case s.alias(name) != nil:
		return "it is an alias: offer the models that it names"
	case s.newest(name) != nil:
		return "it was removed from the catalogue"
	}
	return "it is not in the catalogue"
}

// Serves reports whether an account's jobs of a queue can run there. A queue without a lane
// stands for all lanes.
func (r Capability) Serves(q models.Queue, account models.AccountID) bool {
	return r.Runs(q) && (q.Lane == "" || r.offer.ServesLane(q.Lane)) && r.offer.ServesAccount(account)
}

// Runs reports whether jobs of a queue could run there, if its lane and their account were
// served.
func (r Capability) Runs(q models.Queue) bool {
	rank, known := r.Ranks[q.Model]
	return known && q.GPURank <= rank && r.offer.Meets(q.Needs) && (q.Region == "" || q.Region == r.offer.Region)
}

// Accounts are those whose jobs can run there; none means all.
func (r Capability) Accounts() []models.AccountID { return r.offer.Accounts }

// Queues lists the queues to read, line by line in their order. Lanes are strict: a
// higher lane always comes first. A lane's promoted jobs come after its own, except when
// it is their turn. Paused lanes and models, and lanes that are not served, are left out.
func (r Capability) Queues(lanes []models.LaneState) []models.Queue {
	var all []models.Queue
	turns := fairqueue.TurnsOf(lanes...)
	for _, tier := range models.Tiers {
		i := slices.IndexFunc(lanes, func(l models.LaneState) bool { return l.Lane == tier })
		if i < 0 || lanes[i].Paused || !r.offer.ServesLane(tier) {
			continue
		}
		// Nearly always no job needs anything.
		needs := append([]models.Needs{""}, lo.Filter(lanes[i].Needs, func(n models.Needs, _ int) bool { return r.offer.Meets(n) })...)
		for _, promoted := range []bool{turns.Promoted(tier), !turns.Promoted(tier)} {
			all = append(all, r.line(models.Line{Lane: tier, Promoted: promoted}, lanes[i].PausedModels, needs)...)
		}
	}
	return all
}

func (r Capability) line(line models.Line, paused []string, needs []models.Needs) []models.Queue {
	var all []models.Queue
	for model, highest := range r.Ranks {
		if slices.Contains(paused, model) {
			continue
		}
		for rank := range highest + 1 {
			for _, n := range needs {
				all = append(all, models.Queue{Line: line, Model: model, GPURank: rank, Needs: n})
				if r.offer.Region != "" {
					all = append(all, models.Queue{Line: line, Model: model, GPURank: rank, Region: r.offer.Region, Needs: n})
				}
			}
		}
	}
	return all
}
