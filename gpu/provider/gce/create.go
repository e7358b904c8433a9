package gce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"google.golang.org/api/compute/v1"
)

// stockoutPause is how long a zone without machines is tried after the pool's others.
const stockoutPause = 5 * time.Minute

// batch is one Create.
type batch struct {
	*Provider
	*machine

	service   *compute.Service
	requestID string
}

// Create implements [fleet.Provider]. It tries the zones of the pool in their order; a
// zone that had no machines within the last minutes comes last. It returns when all
// operations have ended, and after 10 seconds at the latest: an operation that still runs
// counts as success. If it fails later, List says so.
//
// Two machines or more are created with one bulkInsert per zone, one machine with insert.
// A bulkInsert takes as many machines as a zone has, in one call. The regional bulkInsert
// would choose zones itself, and not in the pool's order.
func (p *Provider) Create(ctx context.Context, pool *capacity.Pool, requestID string, ids []string) []fleet.Created {
	if len(ids) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.config.Wait)
	defer cancel()
	service, m, err := p.of(pool)
	if err != nil {
		return fleet.Undone(ids, err)
	}
	if m.enrolment, m.key, err = p.enrolment(); err != nil {
		return fleet.Undone(ids, err)
	}
	b := &batch{Provider: p, machine: m, service: service, requestID: requestID}
	results, rest, err := b.prepare(ctx, ids)
	if err != nil {
		return fleet.Undone(ids, err)
	}
	b.create(ctx, results, rest)
	var all []fleet.Created
	for _, id := range ids {
		all = append(all, results[id])
	}
	return all
}

// prepare returns the results of the ids that cannot be created or exist already, in
// whatever zone, and the other ids.
func (b *batch) prepare(ctx context.Context, ids []string) (map[string]fleet.Created, []string, error) {
	known, _, err := b.instances(ctx, b.service, b.machine)
	if err != nil {
		return nil, nil, fmt.Errorf("list instances: %w", err)
	}
	results := map[string]fleet.Created{}
	var rest []string
	for _, id := range ids {
		at := slices.IndexFunc(known, func(i *compute.Instance) bool { return i.Name == id })
		switch {
		case !namePattern.MatchString(id):
			results[id] = fleet.Created{ID: id, Err: fleet.Refuse(fleet.Invalid, "instance %q: its id must be lower-case letters, digits and dashes",
				id)}
		case at >= 0:
			results[id] = fleet.Created{ID: id, Zone: lastPart(known[at].Zone)}
		default:
			rest = append(rest, id)
		}
	}
	return results, rest, nil
}

// create tries one zone after the other, until nothing is left to create.
func (b *batch) create(ctx context.Context, results map[string]fleet.Created, rest []string) {
	zones := b.order(b.pool)
	var elsewhere []string
	for len(zones) > 0 && len(rest) > 0 {
		zone := zones[0]
		zones = zones[1:]
		errs := b.createIn(ctx, zone, rest)
		var without []string
		for _, id := range rest {
			err := errs[id]
			results[id] = fleet.Created{ID: id, Zone: zone}
			if err == nil {
				continue
			}
			if stockout, ok := errors.AsType[*fleet.ProviderError](err); ok && stockout.Class == fleet.Stockout {
				without = append(without, id)
				elsewhere = append(elsewhere, stockout.ZonesAvailable...)
			}
			results[id] = fleet.Created{ID: id, Err: fmt.Errorf("create instance %s in %s: %w", id, zone, err)}
		}
		if rest = without; len(rest) > 0 {
			b.avoid(b.pool, zone)
		}
		// The zones that Compute Engine recommends come first.
		slices.SortStableFunc(zones, func(x, y string) int {
			return rank(slices.Contains(elsewhere, x)) - rank(slices.Contains(elsewhere, y))
		})
		if until, _ := ctx.Deadline(); time.Until(until) < b.Provider.config.Wait/5 {
			break // too little time for another zone; the next Create begins with it
		}
	}
	slices.Sort(elsewhere)
	elsewhere = slices.Compact(elsewhere)
	for _, id := range rest {
		r := results[id]
		r.Err = &fleet.ProviderError{Class: fleet.Stockout, ZonesAvailable: elsewhere, Err: r.Err}
		results[id] = r
	}
}

// rank sorts what is preferred first.
func rank(preferred bool) int {
	if preferred {
		return 0
	}
	return 1
}

// order returns the pool's zones in their order, those that had no machines last.
func (p *Provider) order(pool *capacity.Pool) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	zones := slices.Clone(pool.Zones)
	slices.SortStableFunc(zones, func(x, y string) int {
		return rank(!time.Now().Before(p.stockout[place{pool.ID, x}])) - rank(!time.Now().Before(p.stockout[place{pool.ID, y}]))
	})
	return zones
}

func (p *Provider) avoid(pool *capacity.Pool, zone string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stockout[place{pool.ID, zone}] = time.Now().Add(stockoutPause)
}

// createIn creates the instances in one zone, and returns an error for each that is not
// being created.
func (b *batch) createIn(ctx context.Context, zone string, ids []string) map[string]error {
	if len(ids) == 1 {
		return map[string]error{ids[0]: b.insert(ctx, zone, ids[0])}
	}
	errs, err := b.bulkInsert(ctx, zone, ids)
	if errors.Is(err, errExists) {
		// One name stands in the way of all: find out which.
		errs = map[string]error{}
		for _, id := range ids {
			errs[id] = b.insert(ctx, zone, id)
		}
		return errs
	}
	if err != nil {
		errs = map[string]error{}
		for _, id := range ids {
			errs[id] = err
		}
	}
	return errs
}

// request names one call, so that Compute Engine carries it out once.
func (b *batch) request(parts ...string) string {
	notice := strconv.FormatInt(b.notice(), 10) // another body needs another id
	return nameUUID(append([]string{b.Provider.config.Cluster, b.requestID, notice}, parts...)...).String()
}

// begin starts an operation. If Compute Engine grants no notice as long as the pool asks for,
// the machines get the notice that they have by default.
func (b *batch) begin(ctx context.Context, do func(ctx context.Context) (*compute.Operation, error)) (*compute.Operation, error) {
	op, err := call(ctx, b.Provider, do)
	if fleet.ClassOf(err) == fleet.Invalid && strings.Contains(err.Error(), "preemptionNoticeDuration") && b.notice() > 0 {
		slog.Warn("Compute Engine refuses the notice of the pool. Its machines get the default notice.", "pool", b.pool.Name, "error", err)
		b.withoutNotice = true
		return call(ctx, b.Provider, do)
	}
	return op, err
}

func (b *batch) insert(ctx context.Context, zone, id string) error {
	op, err := b.begin(ctx, func(ctx context.Context) (*compute.Operation, error) {
		insert := b.service.Instances.Insert(b.s.Project, zone, b.instance(zone, id)).RequestId(b.request(zone, id))
		if b.s.Template != "" {
			insert.SourceInstanceTemplate(b.s.Template)
		}
		return insert.Context(ctx).Do()
	})
	if err == nil {
		err = b.await(ctx, zone, op, id)
	}
	if errors.Is(err, errExists) || hasStatus(err, http.StatusConflict) {
		return b.ours(ctx, zone, id)
	}
	return err
}

// ours returns an error if the instance that exists belongs to somebody else.
func (b *batch) ours(ctx context.Context, zone, id string) error {
	i, err := call(ctx, b.Provider, func(ctx context.Context) (*compute.Instance, error) {
		return b.service.Instances.Get(b.s.Project, zone, id).Context(ctx).Do()
	})
	if err != nil {
		return &fleet.ProviderError{Class: fleet.Transient, Err: fmt.Errorf("it exists, but cannot be read: %w", err)}
	}
	for name, value := range b.labels() {
		if i.Labels[name] != value {
			return fleet.Refuse(fleet.Invalid, "an instance of this name exists that does not belong to the pool")
		}
	}
	return nil
}

// bulkInsert creates several instances with one call. It returns an error for each that the
// zone had no room for, or one error for all.
func (b *batch) bulkInsert(ctx context.Context, zone string, ids []string) (map[string]error, error) {
	op, err := b.begin(ctx, func(ctx context.Context) (*compute.Operation, error) {
		return b.service.Instances.BulkInsert(b.s.Project, zone, b.bulk(zone, ids)).
			RequestId(b.request(append([]string{zone}, ids...)...)).Context(ctx).Do()
	})
	if err == nil {
		err = b.await(ctx, zone, op, ids...)
	}
	if hasStatus(err, http.StatusConflict) {
		err = errExists
	}
	if err != nil || b.isPending(ids[0]) {
		return nil, err
	}
	known, _, err := b.instances(ctx, b.service, b.machine)
	if err != nil {
		return nil, nil // the next List tells
	}
	missing := map[string]error{}
	for _, id := range ids {
		if !slices.ContainsFunc(known, func(i *compute.Instance) bool { return i.Name == id }) {
			missing[id] = fleet.Refuse(fleet.Stockout, "the zone has fewer machines than asked for")
		}
	}
	return missing, nil
}

// pending is an operation that creates an instance and still ran when Create returned.
type pending struct {
	pool    models.PoolID
	project string
	zone    string
	op      string
	since   time.Time
	err     error // how the operation failed; nil while it runs
}

// await waits for an operation until ctx ends, and returns how it failed. The operation is
// remembered for List if it still runs.
func (b *batch) await(ctx context.Context, zone string, op *compute.Operation, ids ...string) error {
	for op.Status != "DONE" {
		// It returns when the operation ends, or earlier.
		next, err := b.service.ZoneOperations.Wait(b.s.Project, zone, op.Name).Context(ctx).Do()
		if err != nil {
			// Accepted is accepted: whether it works out is for List to say.
			b.remember(zone, op.Name, ids)
			return nil
		}
		op = next
	}
	return operationError(op)
}

func (b *batch) remember(zone, op string, ids []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		b.pending[id] = &pending{pool: b.pool.ID, project: b.s.Project, zone: zone, op: op, since: time.Now()}
	}
}

func (p *Provider) isPending(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pending[id] != nil
}

func lastPart(path string) string { return path[strings.LastIndex(path, "/")+1:] }
