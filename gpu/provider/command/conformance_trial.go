package command

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// trial is the state of a [Conformance].
type trial struct {
	Conformance
	provider *Provider
	pool     *capacity.Pool
	settings *Settings
	findings []Finding
	blocked  string // why the remaining checks cannot run

	// made are the machines that may exist, by id: those that were asked for and whose delete was
	// not confirmed by a list.
	made map[string]fleet.Instance
	took time.Duration // of the first create
	// grace is the time between SIGTERM and SIGKILL; unknown adds fields to requests.
	grace   time.Duration
	unknown bool

	mu     sync.Mutex
	faults []*flaw // of the calls since the check began
	last   *call   // the newest call that has ended
	// cut means that calls are being killed, so that their output may be incomplete.
	cut bool
}

// unknownFields are fields that no program knows, as a later version of Reelay may have them.
const unknownFields = "reelayTest"

// alter changes what a program reads.
func (t *trial) alter(input []byte) []byte {
	if !t.unknown {
		return input
	}
	var r map[string]any
	if json.Unmarshal(input, &r) != nil {
		return input
	}
	r[unknownFields] = map[string]any{"a": []int{1}}
	if pool, ok := r["pool"].(map[string]any); ok {
		pool[unknownFields] = "b"
	}
	instances, _ := r["instances"].([]any)
	for _, i := range instances {
		if instance, ok := i.(map[string]any); ok {
			instance[unknownFields] = 3
		}
	}
	altered, err := json.Marshal(r)
	if err != nil {
		return input
	}
	return append(altered, '\n')
}

// observe notes what is wrong with a call, whatever comes of it.
func (t *trial) observe(c *call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = c
	if c.leaked.Load() {
		t.faults = append(t.faults, &flaw{
			found: fmt.Sprintf("It wrote the agent's key to its output during a %s.", c.verb),
			fix:   "Do not print the request, its environment or its arguments: logs are read by many."})
	}
	switch {
	case t.cut:
	case c.flood != nil:
		t.faults = append(t.faults, &flaw{
			found: fmt.Sprintf("Its %s wrote more than %d lines or %d MiB to its standard output.", c.verb, maxLines, maxBytes>>20),
			fix:   "Write one line of JSON per machine of the pool to the standard output, and everything else to the standard error."})
	case c.late:
		t.faults = append(t.faults, &flaw{
			found: fmt.Sprintf("Its %s took longer than %s, and was killed.", c.verb, t.settings.limit(c.verb)),
			fix: "Begin the work and end: do not wait until a machine has booted or is gone. settings.timeoutSeconds is the limit " +
				"of a call, and a list takes at most 10 s."})
	case c.problem != "":
		t.faults = append(t.faults, &flaw{
			found: fmt.Sprintf("In its %s, %s.", c.verb, strings.TrimSuffix(c.problem, ".")),
			fix: "Write one line of JSON per instance to the standard output, with the fields of the protocol only, and " +
				"everything else to the standard error."})
	}
}

// takeFaults returns the first fault of the calls since the last time.
func (t *trial) takeFaults() *flaw {
	t.mu.Lock()
	defer t.mu.Unlock()
	faults := t.faults
	t.faults = nil
	if len(faults) == 0 {
		return nil
	}
	return faults[0]
}

// ended returns the newest call.
func (t *trial) ended() *call {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// newIDs returns ids of machines that do not exist.
func (t *trial) newIDs(n int) []string {
	var ids []string
	for range n {
		ids = append(ids, fleet.NewInstanceID(t.pool.Name))
	}
	return ids
}

// create creates machines, and returns the first refusal.
func (t *trial) create(ctx context.Context, pool *capacity.Pool, requestID string, ids []string) error {
	for _, id := range ids {
		if _, known := t.made[id]; !known {
			t.made[id] = fleet.Instance{ID: id}
		}
	}
	var first error
	for _, created := range t.provider.Create(ctx, pool, requestID, ids) {
		if first == nil {
			first = created.Err
		}
		if created.Err == nil {
			t.made[created.ID] = fleet.Instance{ID: created.ID, Zone: created.Zone}
		}
	}
	return first
}

// list returns all machines of the list that have not ended, or what is wrong with the list. No machine of
// another form of id is ignored, since nobody else has machines of the test's pool.
func (t *trial) list(ctx context.Context) ([]fleet.Instance, *flaw) {
	_, all, err := t.provider.instances(ctx, t.pool)
	if err != nil {
		fault := blame(err, "A list ends with the status 0 after one line of JSON per machine of the pool. Without a machine it prints "+
			"nothing. If the cloud did not answer, try again.")
		fault.found = "Its list failed: " + strings.TrimSuffix(err.Error(), ".") + "."
		return nil, fault
	}
	return slices.DeleteFunc(all, func(i fleet.Instance) bool { return i.State == fleet.InstanceEnded }), nil
}

// until lists the machines until wrong finds nothing wrong with them, or the time is over.
func (t *trial) until(ctx context.Context, wrong func([]fleet.Instance) *flaw) *flaw {
	ticker := time.NewTicker(min(max(t.Wait/50, 10*time.Millisecond), time.Second))
	defer ticker.Stop()
	end := time.Now().Add(t.Wait)
	for {
		all, fault := t.list(ctx)
		if fault != nil {
			return fault
		}
		found := wrong(all)
		if found == nil || ctx.Err() != nil || time.Now().After(end) {
			return found
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// listed waits until exactly these machines boot or run.
func (t *trial) listed(ctx context.Context, ids ...string) *flaw {
	return t.until(ctx, func(all []fleet.Instance) *flaw {
		for _, id := range ids {
			i := slices.IndexFunc(all, func(i fleet.Instance) bool { return i.ID == id })
			if i < 0 {
				return &flaw{
					found: fmt.Sprintf("%s after its create, its list does not have the machine %s as BOOTING, RUNNING or ENDING.", t.Wait, id),
					fix: "List a machine under the id of the request from its create on. A machine that a list leaves out counts as gone. " +
						"If it did run and ended, see why its agent did. If your cloud is slower, give a longer --wait."}
			}
			if created := all[i].CreatedAt; !created.IsZero() && time.Since(created).Abs() > clockSkew {
				return &flaw{
					found: fmt.Sprintf("Its list says that %s was created at %s, which is not now.", id, created.Format(time.RFC3339)),
					fix:   "Write createdAt with its time zone, such as 2026-12-01T12:00:00Z, or leave it out."}
			}
		}
		for _, i := range all {
			if !slices.Contains(ids, i.ID) && i.State != fleet.InstanceEnding {
				return &flaw{found: fmt.Sprintf("Its list has the machine %s, which was not asked for or was deleted.", i.ID),
					fix: "Give a machine the id of the request, look for a machine of that id before you create it, and delete all that " +
						"have it."}
			}
		}
		return nil
	})
}

// clockSkew is how far the clock of a cloud may be from ours, and a boot may be in the past.
const clockSkew = 30 * time.Minute

// remove deletes machines, and waits until no list has them.
func (t *trial) remove(ctx context.Context, ids ...string) *flaw {
	var gone []fleet.Instance
	for _, id := range ids {
		gone = append(gone, fleet.Instance{ID: id, Zone: t.made[id].Zone})
	}
	failed := t.provider.Delete(ctx, t.pool, gone)
	for _, id := range ids {
		if err := failed[id]; err != nil {
			return undeleted(id, err)
		}
	}
	fault := t.until(ctx, func(all []fleet.Instance) *flaw {
		for _, i := range all {
			if slices.Contains(ids, i.ID) && i.State != fleet.InstanceEnding {
				return &flaw{found: fmt.Sprintf("%s after its delete, its list still has the machine %s as %s.", t.Wait, i.ID, i.State),
					fix: "Delete every machine that has the id, and say that it is deleted only if your cloud has begun to. If your cloud " +
						"is slower, give a longer --wait."}
			}
		}
		return nil
	})
	if fault == nil {
		for _, id := range ids {
			delete(t.made, id)
		}
	}
	return fault
}

func undeleted(id string, err error) *flaw {
	fault := blame(err, "Delete the machine, and answer with its id. A machine that is gone, or never was, is a success.")
	fault.found = fmt.Sprintf("It could not delete %s: %s.", id, strings.TrimSuffix(err.Error(), "."))
	return fault
}

// clear deletes all machines of the test.
func (t *trial) clear(ctx context.Context) *flaw {
	var ids []string
	for id := range t.made {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	return t.remove(ctx, ids...)
}

// other returns a pool like the test's with another id and name.
func (t *trial) other() *capacity.Pool {
	other := *t.pool
	other.ID = models.NewPoolID()
	other.Name = "other-" + t.pool.Name[strings.LastIndexByte(t.pool.Name, '-')+1:]
	return &other
}
