package gce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/models/capacity"
	"google.golang.org/api/compute/v1"
)

const (
	// pageSize is the most that a page of a list can have.
	pageSize = 500
	// keepEnded is how long an instance that vanished stays in the list, if it is known
	// why it did.
	keepEnded = time.Hour
	// operationPages bounds the list of preemptions. Compute Engine keeps them for weeks.
	operationPages = 4
)

// List implements [fleet.Provider]. It returns an error if a zone of the pool's region
// cannot be reached: its instances are unknown, not gone. Second instances of a name come
// last. Instances that Compute Engine
// reclaimed within the last hour are listed as ended, and so are those that could not be
// created, with the reason.
func (p *Provider) List(ctx context.Context, pool *capacity.Pool) ([]fleet.Instance, error) {
	service, m, err := p.of(pool)
	if err != nil {
		return nil, err
	}
	found, unreachable, err := p.instances(ctx, service, m)
	if err != nil {
		return nil, err
	}
	for _, zone := range unreachable {
		if strings.HasPrefix(zone, pool.Region+"-") {
			return nil, fleet.Refuse(fleet.Transient, "zone %s cannot be reached now: its instances are unknown", zone)
		}
	}
	reclaimed, err := p.preemptions(ctx, service, m)
	if err != nil {
		return nil, err
	}
	all := map[string]fleet.Instance{}
	for name, i := range reclaimed {
		if strings.HasPrefix(name, pool.Name+"-") {
			all[name] = i
		}
	}
	// A name is of one zone only: two zones can have machines of the same name.
	var seconds []fleet.Instance
	exists := map[string]bool{}
	for _, i := range found {
		one := instanceOf(i, reclaimed[i.Name])
		if exists[one.ID] {
			first := all[one.ID]
			if comesFirst(one, first) {
				one, first = first, one
			}
			all[first.ID], seconds = first, append(seconds, one)
			continue
		}
		all[one.ID], exists[one.ID] = one, true
	}
	for _, i := range p.failures(ctx, service, pool, all) {
		all[i.ID] = i
	}
	return append(slices.SortedFunc(maps.Values(all), func(a, b fleet.Instance) int { return cmp.Compare(a.ID, b.ID) }), seconds...), nil
}

// comesFirst reports which of two machines of one name is the right one: the one that lives, and
// of two the older, whose agent registered first.
func comesFirst(a, b fleet.Instance) bool {
	if a.Lives() != b.Lives() {
		return a.Lives()
	}
	return a.CreatedAt.Before(b.CreatedAt)
}

// instances lists the pool's instances in all zones, and the zones that did not answer.
func (p *Provider) instances(ctx context.Context, service *compute.Service, m *machine) (all []*compute.Instance, unreachable []string,
	err error) {
	var filter []string
	labels := m.labels()
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		filter = append(filter, fmt.Sprintf("(labels.%s = %q)", name, labels[name]))
	}
	for token := ""; ; {
		page, err := call(ctx, p, func(ctx context.Context) (*compute.InstanceAggregatedList, error) {
			return service.Instances.AggregatedList(m.s.Project).Filter(strings.Join(filter, " AND ")).
				MaxResults(pageSize).PageToken(token).Context(ctx).Do()
		})
		if err != nil {
			return nil, nil, err
		}
		for _, scope := range slices.Sorted(maps.Keys(page.Items)) {
			list := page.Items[scope]
			all = append(all, list.Instances...)
			// An empty zone has a warning, too.
			if list.Warning != nil && list.Warning.Code == "UNREACHABLE" {
				unreachable = append(unreachable, lastPart(scope))
			}
		}
		for _, scope := range page.Unreachables {
			unreachable = append(unreachable, lastPart(scope))
		}
		if token = page.NextPageToken; token == "" {
			return all, unreachable, nil
		}
	}
}

// instanceOf translates an instance. Its state is Running if Compute Engine has a state
// that is not known here: then nobody takes it for gone.
func instanceOf(i *compute.Instance, reclaimed fleet.Instance) fleet.Instance {
	states := map[string]fleet.InstanceState{
		"PROVISIONING": fleet.InstanceBooting, "STAGING": fleet.InstanceBooting, "PENDING": fleet.InstanceBooting,
		"PENDING_STOP": fleet.InstanceEnding, "STOPPING": fleet.InstanceEnding, "SUSPENDING": fleet.InstanceEnding,
		"DEPROVISIONING": fleet.InstanceEnding,
		"STOPPED":        fleet.InstanceEnded, "SUSPENDED": fleet.InstanceEnded, "TERMINATED": fleet.InstanceEnded,
	}
	state, ok := states[i.Status]
	if !ok {
		state = fleet.InstanceRunning
	}
	created, _ := time.Parse(time.RFC3339, i.CreationTimestamp) // zero if it cannot be read
	one := fleet.Instance{ID: i.Name, Zone: lastPart(i.Zone), State: state, CreatedAt: created}
	if state == fleet.InstanceEnding || state == fleet.InstanceEnded {
		one.Reclaimed = reclaimed.Reclaimed || strings.Contains(strings.ToLower(i.StatusMessage), "preempted")
	}
	if state == fleet.InstanceEnded {
		one.EndedAt = reclaimed.EndedAt
		if stopped, err := time.Parse(time.RFC3339, i.LastStopTimestamp); err == nil {
			one.EndedAt = stopped
		}
	}
	return one
}

// preemptions returns the instances of the project that were reclaimed within the last
// hour, by name. An instance is deleted with its preemption: only the operation is left.
func (p *Provider) preemptions(ctx context.Context, service *compute.Service, m *machine) (map[string]fleet.Instance, error) {
	all := map[string]fleet.Instance{}
	token := ""
	for range operationPages {
		page, err := call(ctx, p, func(ctx context.Context) (*compute.OperationAggregatedList, error) {
			return service.GlobalOperations.AggregatedList(m.s.Project).Filter(`operationType = "compute.instances.preempted"`).
				OrderBy("creationTimestamp desc").MaxResults(pageSize).PageToken(token).Context(ctx).Do()
		})
		if fleet.ClassOf(err) == fleet.Permission {
			return all, nil // the account cannot read operations: no instance is known as reclaimed
		}
		if err != nil {
			return nil, fmt.Errorf("list preemptions: %w", err)
		}
		for _, list := range page.Items {
			for _, op := range list.Operations {
				at, err := time.Parse(time.RFC3339, op.InsertTime)
				if err != nil || time.Since(at) > keepEnded {
					continue
				}
				name := lastPart(op.TargetLink)
				if ended, err := time.Parse(time.RFC3339, op.EndTime); err == nil {
					at = ended
				}
				all[name] = fleet.Instance{ID: name, Zone: lastPart(op.Zone), State: fleet.InstanceEnded, EndedAt: at, Reclaimed: true}
			}
		}
		if token = page.NextPageToken; token == "" {
			break
		}
	}
	return all, nil
}

// failures returns the instances that this process asked for and that could not be
// created, with the reason. listed are those that exist.
func (p *Provider) failures(ctx context.Context, service *compute.Service, pool *capacity.Pool,
	listed map[string]fleet.Instance) []fleet.Instance {
	var failed []fleet.Instance
	for id, of := range p.pendingIn(pool) {
		if i, exists := listed[id]; exists {
			if i.State != fleet.InstanceBooting {
				p.forget(id)
			}
			continue
		}
		if of.err == nil {
			of.err = p.outcome(ctx, service, of)
			p.setFailed(id, of.err)
		}
		i := fleet.Instance{ID: id, Zone: of.zone, State: fleet.InstanceEnded, Err: of.err}
		if of.err == nil { // the operation still runs: the instance is not gone
			i.State, i.CreatedAt = fleet.InstanceBooting, of.since
		}
		failed = append(failed, i)
	}
	return failed
}

// pendingIn returns copies of what is pending in the pool, and forgets what is old.
func (p *Provider) pendingIn(pool *capacity.Pool) map[string]pending {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.pending, func(_ string, of *pending) bool { return time.Since(of.since) > keepEnded })
	all := map[string]pending{}
	for id, of := range p.pending {
		if of.pool == pool.ID {
			all[id] = *of
		}
	}
	return all
}

func (p *Provider) setFailed(id string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if of := p.pending[id]; of != nil {
		of.err = err
	}
}

func (p *Provider) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pending, id)
}

// outcome returns how the operation of an instance that is not listed failed, or nil if it
// still runs or cannot be read.
func (p *Provider) outcome(ctx context.Context, service *compute.Service, of pending) error {
	op, err := call(ctx, p, func(ctx context.Context) (*compute.Operation, error) {
		return service.ZoneOperations.Get(of.project, of.zone, of.op).Context(ctx).Do()
	})
	switch {
	case hasStatus(err, http.StatusNotFound):
		return fleet.Refuse(fleet.Transient, "the operation that creates it is gone")
	case err != nil || op.Status != "DONE":
		return nil
	}
	err = operationError(op)
	if err == nil || errors.Is(err, errExists) {
		// Created and gone since, or one of a bulkInsert that the zone had no room for.
		return fleet.Refuse(fleet.Stockout, "the zone has fewer machines than asked for, or took it away at once")
	}
	return err
}
