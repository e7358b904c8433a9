package jobstest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/jobs/fleet"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// FakeProvider is a cloud in memory.
type FakeProvider struct {
	mu        sync.Mutex
	Running   []string
	reclaimed []string
	Started   int
	Refuse    error
}

func NewFakeProvider(running ...string) *FakeProvider { return &FakeProvider{Running: running} }

func (f *FakeProvider) Create(_ context.Context, _ *models.Pool, ids []string) map[string]error {
	f.mu.Lock()
	defer f.mu.Unlock()
	failed := map[string]error{}
	for _, id := range ids {
		if f.Refuse != nil {
			failed[id] = f.Refuse
			continue
		}
		f.Started++
		f.Running = append(f.Running, id)
	}
	return failed
}

func (f *FakeProvider) List(context.Context) ([]fleet.Instance, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []fleet.Instance
	for _, id := range f.Running {
		all = append(all, fleet.Instance{ID: id})
	}
	for _, id := range f.reclaimed {
		all = append(all, fleet.Instance{ID: id, Ended: true, Reclaimed: true})
	}
	return all, nil
}

func (f *FakeProvider) Preempt(ctx context.Context, id string, _ time.Duration) error {
	return f.Kill(ctx, id)
}

func (f *FakeProvider) Kill(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Running = slices.DeleteFunc(f.Running, func(other string) bool { return other == id })
	f.reclaimed = append(f.reclaimed, id)
	return nil
}

func AddPool(t *testing.T, s *Stack, least, most int) *models.Pool {
	t.Helper()
	pool := &models.Pool{
		ID: models.NewPoolID(), Name: "fakes", Provider: "fake", Region: "local", GPUType: "any",
		CapacityClass: models.CapacitySpot, Models: []string{"testcard"}, MinWorkers: least, MaxWorkers: most, IdleSeconds: 60,
	}
	require.NoError(t, models.UpsertPool(t.Context(), s.DB, pool))
	return pool
}
