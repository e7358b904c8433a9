package query

import (
	"context"
	"fmt"
	"slices"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Models reads which models there are, and whether workers run them.
type Models struct {
	db *bun.DB
	// Catalogue has the models.
	Catalogue *catalogue.Catalogue
}

// ModelState is whether workers run a model, and whether they should.
type ModelState string

const (
	ModelAvailable ModelState = "AVAILABLE"  // a registered worker can run it
	ModelNoWorker  ModelState = "NO_WORKER"  // a pool names it or jobs wait for it, and no worker can run it
	ModelNotServed ModelState = "NOT_SERVED" // no pool names it, and no job waits for it
)

// ModelStatus is a model, and whether a worker that can run it is present.
type ModelStatus struct {
	*catalogue.Model
	Available bool
	State     ModelState
	// Fallback is the model's, without the models that the caller does not see.
	Fallback []string
}

// List lists the models of a snapshot of the catalogue.
func (r *Models) List(ctx context.Context, of *catalogue.Snapshot) ([]ModelStatus, error) {
	return r.modelStates(ctx, of, of.Models())
}

// Get returns one version of a model, or nil if there is none. Version 0 means the current
// one.
func (r *Models) Get(ctx context.Context, of *catalogue.Snapshot, name string, version int) (*ModelStatus, error) {
	m := of.Find(name, version)
	if m == nil {
		return nil, nil
	}
	found, err := r.modelStates(ctx, of, []*catalogue.Model{m})
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

func (r *Models) modelStates(ctx context.Context, of *catalogue.Snapshot, all []*catalogue.Model) ([]ModelStatus, error) {
	available, err := r.availableModels(ctx, of)
	if err != nil {
		return nil, err
	}
	expected, err := models.ListExpectedModels(ctx, r.db, lo.Map(all, func(m *catalogue.Model, _ int) string { return m.Name }))
	if err != nil {
		return nil, apierror.Wrap(err, "read the models that are asked for")
	}
	var found []ModelStatus
	for _, m := range all {
		status := ModelStatus{m, available[m.Name], ModelNotServed, of.FallbackOf(m)}
		switch {
		case status.Available:
			status.State = ModelAvailable
		case slices.Contains(expected, m.Name):
			status.State = ModelNoWorker
		}
		found = append(found, status)
	}
	return found, nil
}

// availableModels returns the models that a registered worker can run.
func (r *Models) availableModels(ctx context.Context, of *catalogue.Snapshot) (map[string]bool, error) {
	offered, err := models.ListOfferedModels(ctx, r.db)
	if err != nil {
		return nil, fmt.Errorf("read available models: %w", err)
	}
	available := map[string]bool{}
	for _, o := range offered {
		if m := of.Find(o.Model, 0); m != nil && m.RunsOn(o.GPUType) {
			available[o.Model] = true
		}
	}
	return available, nil
}
