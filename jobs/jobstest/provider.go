package jobstest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// FakeProvider is a cloud in memory.
type FakeProvider struct {
	mu        sync.Mutex
	Running   []string
	reclaimed []string
	Started   int
	Refuse    error
	// Room, if not 0, is how many machines it has place for. It refuses the others as a STOCKOUT.
	Room int
	// Created is when all its machines were created; zero if it does not say.
	Created time.Time

	pools map[string]models.PoolID // by machine, of those that it created
}

func NewFakeProvider(running ...string) *FakeProvider { return &FakeProvider{Running: running} }

func (f *FakeProvider) Create(_ context.Context, pool *capacity.Pool, _ string, ids []string) []fleet.Created {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Refuse != nil {
		return fleet.Undone(ids, f.Refuse)
	}
	answer := fleet.Undone(ids, nil)
	for i, id := range ids {
		if f.Room > 0 && len(f.Running) >= f.Room {
			answer[i].Err = fleet.Refuse(fleet.Stockout, "this zone has no more such machines")
			continue
		}
		if f.pools == nil {
			f.pools = map[string]models.PoolID{}
		}
		f.pools[id] = pool.ID
		f.Started++
		f.Running = append(f.Running, id)
	}
	return answer
}

func (f *FakeProvider) List(_ context.Context, pool *capacity.Pool) ([]fleet.Instance, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []fleet.Instance
	other := func(id string) bool { return f.pools[id] != "" && f.pools[id] != pool.ID }
	for _, id := range f.Running {
		if !other(id) {
			all = append(all, fleet.Instance{ID: id, State: fleet.InstanceRunning, CreatedAt: f.Created})
		}
	}
	for _, id := range f.reclaimed {
		if !other(id) {
			all = append(all, fleet.Instance{ID: id, State: fleet.InstanceEnded, Reclaimed: true})
		}
	}
	return all, nil
}

func (f *FakeProvider) Preempt(ctx context.Context, pool *capacity.Pool, instance fleet.Instance, _ time.Duration) error {
	f.Delete(ctx, pool, []fleet.Instance{instance})
	return nil
}

func (f *FakeProvider) Delete(_ context.Context, _ *capacity.Pool, instances []fleet.Instance) map[string]error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range instances {
		f.Running = slices.DeleteFunc(f.Running, func(other string) bool { return other == i.ID })
		f.reclaimed = append(f.reclaimed, i.ID)
	}
	return nil
}

func AddPool(t *testing.T, s *Stack, least, most int) *capacity.Pool {
	t.Helper()
	pool := &capacity.Pool{
		ID: models.NewPoolID(),
		PoolSpec: capacity.PoolSpec{
			Name: "fakes", Provider: "fake", Region: "local", GPUType: "any",
			CapacityClass: models.CapacitySpot, Models: []string{"testcard"}, MinWorkers: least, MaxWorkers: most, IdleSeconds: new(60),
		},
	}
	require.NoError(t, capacity.UpsertPool(t.Context(), s.DB, pool))
	return pool
}
