// Package registry changes the catalogue of models, and follows its changes.
package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/periodic"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models/capacity"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

const (
	// topic is the topic of changes of the catalogue.
	topic = "catalogue"
	// followEvery is how often a process looks for changes of the catalogue by other processes, since
	// notifications may be lost.
	followEvery = 5 * time.Second
)

// Registry applies and removes entries of the catalogue, and keeps a process's snapshot
// current.
type Registry struct {
	DB        *bun.DB
	Catalogue *catalogue.Catalogue
	// Folder has the entries of REELAY_MODELS, or is nil. Pass writes them once.
	Folder *catalogue.Source
	// Notifications tell other processes of changes. If nil, these find them a few seconds later.
	Notifications jobs.Notifications

	seeded bool
}

// Application is a file of entries to apply.
type Application struct {
	// File is the file's name, for messages.
	File string
	// Source is the file's text, in YAML or JSON.
	Source string
	// DryRun only says what would change.
	DryRun bool
}

// Apply adds and changes the entries of a file, all or none of them. Entries that the file does
// not name stay as they are. Apply returns FORBIDDEN unless the caller is an ADMIN, and
// INVALID_INPUT that lists the file's problems with their lines.
func (r *Registry) Apply(ctx context.Context, p jobs.Principal, a Application) ([]*catalogue.Change, error) {
	if err := p.RequireAdmin(); err != nil {
		return nil, err
	}
	file := filepath.Base(a.File)
	if !text.Valid(file, 1, text.MaxName) {
		return nil, apierror.Invalid("file", "file may have %d printable characters.", text.MaxName)
	}
	source, err := catalogue.Parse(file, []byte(a.Source))
	if err != nil {
		return nil, invalidSource(err)
	}
	if a.DryRun {
		rows, err := capacity.ListCatalogue(ctx, r.DB)
		if err != nil {
			return nil, fmt.Errorf("read the catalogue: %w", err)
		}
		changes, _, err := source.Plan(rows, capacity.OriginOperator, string(p.KeyID), r.Catalogue.Current())
		return changes, invalidSource(err)
	}
	var changes []*catalogue.Change
	err = r.change(ctx, func(ctx context.Context, tx bun.Tx, rows []*capacity.CatalogueEntry) error {
		var err error
		if changes, err = r.write(ctx, tx, source, rows, capacity.OriginOperator, string(p.KeyID)); err != nil {
			return err
		}
		var named []string
		for _, c := range changes {
			if c.Row != nil {
				named = append(named, fmt.Sprintf("%s %d", c.Name, c.Version))
			}
		}
		if named == nil {
			return nil
		}
		return p.Audit(ctx, tx, "applyModels", text.Clip(strings.Join(named, ", "), jobs.MaxTargetRunes), jobs.Payload{"entries": named})
	})
	return changes, apierror.Wrap(err, "apply the models of %s", file)
}

// invalidSource is INVALID_INPUT for what Parse and Plan found.
func invalidSource(err error) error {
	if err == nil {
		return nil
	}
	return apierror.Invalid("source", "%s", err)
}

// write writes the changes of a source.
func (r *Registry) write(ctx context.Context, tx bun.Tx, source *catalogue.Source, rows []*capacity.CatalogueEntry,
	origin capacity.CatalogueOrigin, by string) ([]*catalogue.Change, error) {
	changes, _, err := source.Plan(rows, origin, by, r.Catalogue.Current())
	if err != nil {
		return nil, invalidSource(err)
	}
	for _, c := range changes {
		if c.Row == nil {
			continue
		}
		if err := capacity.InsertCatalogueEntry(ctx, tx, c.Row); err != nil {
			return nil, fmt.Errorf("write version %d of %s: %w", c.Version, c.Name, err)
		}
	}
	return changes, nil
}

// change runs fn in a transaction that alone may change the catalogue, and then makes the
// result this process's snapshot. Pools of engines that follow the catalogue change with it. Their workers read their
// new models before their next lease.
func (r *Registry) change(ctx context.Context, fn func(ctx context.Context, tx bun.Tx, rows []*capacity.CatalogueEntry) error) error {
	err := jobs.InTx(ctx, r.DB, func(ctx context.Context, tx bun.Tx) error {
		if err := capacity.LockCatalogue(ctx, tx); err != nil {
			return fmt.Errorf("lock the catalogue: %w", err)
		}
		rows, err := capacity.ListCatalogue(ctx, tx)
		if err != nil {
			return fmt.Errorf("read the catalogue: %w", err)
		}
		if err := fn(ctx, tx, rows); err != nil {
			return err
		}
		pools, err := capacity.FollowCatalogue(ctx, tx)
		if err == nil {
			_, err = capacity.CopyToWorkers(ctx, tx, pools)
		}
		return apierror.Wrap(err, "change the models of pools of engines")
	})
	if err != nil {
		return err
	}
	if r.Notifications != nil {
		r.Notifications.Publish(context.WithoutCancel(ctx), topic)
	}
	return r.read(ctx)
}

// Remove takes a model or an alias out of the catalogue. It returns CONFLICT while an alias or a pool
// names it or a job of it has not ended, and NOT_FOUND for an unknown name. With fromPools, it takes the model out
// of the pools first. Ended jobs keep their version of it.
func (r *Registry) Remove(ctx context.Context, p jobs.Principal, name string, fromPools bool) error {
	if err := p.RequireAdmin(); err != nil {
		return err
	}
	err := r.change(ctx, func(ctx context.Context, tx bun.Tx, rows []*capacity.CatalogueEntry) error {
		i := slices.IndexFunc(rows, func(e *capacity.CatalogueEntry) bool { return e.Name == name && e.Current })
		if i < 0 {
			return apierror.NotFound("model")
		}
		// First the entry: a pool that is saved with the model at this moment commits before, or waits and is refused.
		if err := capacity.RemoveCatalogueEntry(ctx, tx, name, p.Actor()); err != nil {
			return err
		}
		more := jobs.Payload{"version": rows[i].Version}
		if fromPools {
			left, err := leavePools(ctx, tx, p, name)
			if err != nil {
				return err
			}
			more["pools"] = left
		}
		if err := r.mayRemove(ctx, tx, rows, rows[i]); err != nil {
			return err
		}
		return p.Audit(ctx, tx, "removeModel", name, more)
	})
	return apierror.Wrap(err, "remove the model")
}

// mayRemove refuses to remove what something needs.
func (r *Registry) mayRemove(ctx context.Context, tx bun.Tx, rows []*capacity.CatalogueEntry, entry *capacity.CatalogueEntry) error {
	now, err := catalogue.Stored(rows, r.Catalogue.Current())
	if err != nil {
		return err
	}
	uses, err := r.uses(ctx, tx, now, entry.Name)
	if err != nil {
		return err
	}
	switch {
	case len(uses.Aliases) > 0:
		return apierror.Conflict("The alias %s names %s: change or remove the alias first.", uses.Aliases[0], entry.Name)
	case entry.IsAlias:
	case len(now.Models()) == 1:
		return apierror.Conflict("%s is the last model: a catalogue needs one.", entry.Name)
	case len(uses.Pools) > 0:
		return apierror.Conflict("The model %s is listed by %s %s. Remove it there first, or with the model (--from-pools, fromPools).",
			entry.Name, lo.Ternary(len(uses.Pools) == 1, "the pool", "the pools"), and(uses.Pools))
	case uses.OpenJobs > 0:
		return apierror.Conflict("The model %s is in use by jobs that have not ended (%d): wait for them, or cancel them.", entry.Name,
			uses.OpenJobs)
	}
	return nil
}

// Seed writes the entries of a release or of a folder, except those that an operator has
// changed or removed.
func (r *Registry) Seed(ctx context.Context, source *catalogue.Source, origin capacity.CatalogueOrigin) error {
	return r.change(ctx, func(ctx context.Context, tx bun.Tx, rows []*capacity.CatalogueEntry) error {
		kept := source.Without(func(name string) bool {
			last := -1
			for i, row := range rows {
				if row.Name == name {
					last = i
				}
			}
			return last >= 0 && (rows[last].Origin == capacity.OriginOperator || !rows[last].RemovedAt.IsZero())
		})
		changes, err := r.write(ctx, tx, kept, rows, origin, "reelay")
		if err != nil {
			return err
		}
		for _, c := range changes {
			if c.Row != nil {
				slog.DebugContext(ctx, "a catalogue entry was written", "name", c.Name, "version", c.Version, "origin", origin)
			}
		}
		return nil
	})
}

// Follow keeps the snapshot current until ctx ends.
func (r *Registry) Follow(ctx context.Context) error {
	changed := periodic.NewWake()
	defer r.Notifications.Subscribe(ctx, topic, changed.Send)()
	return periodic.EveryOr(ctx, "catalogue", followEvery, changed, r.Pass)
}

// Pass makes the newest state of the catalogue this process's snapshot.
func (r *Registry) Pass(ctx context.Context) error {
	if r.Folder != nil && !r.seeded {
		if err := r.Seed(ctx, r.Folder, capacity.OriginFolder); err != nil {
			return fmt.Errorf("write the models of REELAY_MODELS: %w", err)
		}
		r.seeded = true
		return nil
	}
	change, err := capacity.CatalogueChange(ctx, r.DB)
	if err != nil {
		return fmt.Errorf("look for changes of the catalogue: %w", err)
	}
	if change == r.Catalogue.Current().Change {
		return nil
	}
	return r.read(ctx)
}

// read reads the catalogue.
func (r *Registry) read(ctx context.Context) error {
	rows, err := capacity.ListCatalogue(ctx, r.DB)
	if err != nil {
		return fmt.Errorf("read the catalogue: %w", err)
	}
	next, err := catalogue.Stored(rows, r.Catalogue.Current())
	if err != nil {
		return err
	}
	if len(next.Models()) == 0 {
		return errors.New("the catalogue in the database has no models: run reelay migrate")
	}
	r.Catalogue.Replace(next)
	return nil
}
