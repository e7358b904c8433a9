package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models/capacity"
	"github.com/uptrace/bun"
)

// Uses is what names a model or an alias.
type Uses struct {
	Pools, Aliases []string
	// OpenJobs have not ended. Schedules submit jobs of it: without the model, their slots are refused.
	OpenJobs, Schedules int
}

// Uses returns what names a model or an alias. It is for operators and viewers.
func (r *Registry) Uses(ctx context.Context, p jobs.Principal, name string) (*Uses, error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	uses, err := r.uses(ctx, r.DB, r.Catalogue.Current(), name)
	return uses, apierror.Wrap(err, "read what names %s", text.Clip(name, 100))
}

func (r *Registry) uses(ctx context.Context, db bun.IDB, known *catalogue.Snapshot, name string) (*Uses, error) {
	u := &Uses{Pools: []string{}, Aliases: []string{}}
	for _, alias := range known.Aliases() {
		if slices.ContainsFunc(alias.Weights, func(w catalogue.Weight) bool { return w.Name == name }) {
			u.Aliases = append(u.Aliases, alias.Name)
		}
	}
	pools, err := capacity.ListPools(ctx, db, capacity.NoPoolLock)
	if err != nil {
		return nil, fmt.Errorf("list the pools: %w", err)
	}
	for _, pool := range pools {
		if !pool.FollowsCatalogue && slices.Contains(pool.Models, name) {
			u.Pools = append(u.Pools, pool.Name)
		}
	}
	if u.OpenJobs, err = capacity.CountOpenJobs(ctx, db, name); err != nil {
		return nil, fmt.Errorf("count the jobs of %s: %w", name, err)
	}
	if u.Schedules, err = capacity.CountSchedulesOf(ctx, db, name); err != nil {
		return nil, fmt.Errorf("count the schedules of %s: %w", name, err)
	}
	return u, nil
}

// leavePools takes a model out of the pools that name it, and returns their names. It returns CONFLICT if a pool would
// have no model left.
func leavePools(ctx context.Context, tx bun.Tx, p jobs.Principal, name string) (left []string, err error) {
	pools, err := capacity.ListPools(ctx, tx, capacity.PoolsToWrite)
	if err != nil {
		return nil, fmt.Errorf("list the pools: %w", err)
	}
	for _, pool := range pools {
		if pool.FollowsCatalogue || !slices.Contains(pool.Models, name) {
			continue
		}
		before := pool.PoolSpec
		before.Models = slices.Clone(pool.Models)
		pool.Models = slices.DeleteFunc(pool.Models, func(m string) bool { return m == name })
		if len(pool.Models) == 0 {
			return nil, apierror.Conflict("The pool %s would have no models left: add another model, or delete the pool.", pool.Name)
		}
		if err := capacity.UpdatePool(ctx, tx, pool); err != nil {
			return nil, fmt.Errorf("change the pool %s: %w", pool.Name, err)
		}
		if err := p.Audit(ctx, tx, "updatePool", string(pool.ID), jobs.Payload{"before": before, "after": pool.PoolSpec}); err != nil {
			return nil, err
		}
		left = append(left, pool.Name)
	}
	return left, nil
}

// Restore puts back a model or an alias that was removed, with its last version. It returns NOT_FOUND for
// a name that never was one, and CONFLICT if the name is in the catalogue, or an alias would lead nowhere.
func (r *Registry) Restore(ctx context.Context, p jobs.Principal, name string) (*catalogue.Change, error) {
	if err := p.RequireAdmin(); err != nil {
		return nil, err
	}
	var restored *catalogue.Change
	err := r.change(ctx, func(ctx context.Context, tx bun.Tx, rows []*capacity.CatalogueEntry) error {
		var last *capacity.CatalogueEntry
		for _, row := range rows {
			if row.Name == name {
				last = row
			}
			if row.Name == name && row.Current {
				return apierror.Conflict("%s is in the catalogue: nothing was removed.", name)
			}
		}
		if last == nil {
			return apierror.NotFound("model")
		}
		last.Current = true
		next, err := catalogue.Stored(rows, r.Catalogue.Current())
		if err != nil {
			return err
		}
		if err := next.CheckAlias(name); err != nil {
			return err
		}
		if err := capacity.RestoreCatalogueEntry(ctx, tx, name, last.Version); err != nil {
			return err
		}
		restored = &catalogue.Change{Kind: catalogue.Added, Name: name, Alias: last.IsAlias, Version: last.Version}
		return p.Audit(ctx, tx, "restoreModel", name, jobs.Payload{"version": last.Version})
	})
	return restored, apierror.Wrap(err, "restore the model")
}

// and lists names in a sentence.
func and(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
