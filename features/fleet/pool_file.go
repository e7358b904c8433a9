package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/jsondiff"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/internal/yamlfile"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// maxFilePools is how many pools one file may have.
const maxFilePools = 200

// PoolFile is a file of pools to apply.
type PoolFile struct {
	// File is the file's name, for messages.
	File string
	// Source is the file's text, in YAML or JSON.
	Source string
	// DryRun returns the changes without making them.
	DryRun bool
}

// PoolChange is the effect of applying one pool of a file.
type PoolChange struct {
	Kind catalogue.ChangeKind
	Name string
	// Differences lists the differences from the existing pool, if Kind is Changed.
	Differences []jsondiff.Difference
	// Warnings are as in [Pools.Warnings].
	Warnings []string

	pool *capacity.Pool // the existing or the new one
	spec capacity.PoolSpec
}

type filePool struct {
	capacity.PoolSpec `yaml:",inline"`
	Settings          yamlfile.Document `yaml:"settings"`
}

// Apply adds and changes the pools of a file, all or none of them. Pools that the file does not
// name stay as they are. It returns INVALID_INPUT that lists the file's problems with their
// lines, and CONFLICT as Update does.
func (s *Pools) Apply(ctx context.Context, p jobs.Principal, f PoolFile) ([]*PoolChange, error) {
	if err := p.RequireOperator(); err != nil {
		return nil, err
	}
	name := filepath.Base(f.File)
	if !text.Valid(name, 1, text.MaxName) {
		return nil, apierror.Invalid("file", "file may have %d printable characters.", text.MaxName)
	}
	wanted, err := s.read(ctx, name, f.Source)
	if err != nil {
		return nil, apierror.Invalid("source", "%s", err)
	}
	var changes []*PoolChange
	var changed []models.WorkerID
	err = jobs.InTx(ctx, s.DB, func(ctx context.Context, tx bun.Tx) error {
		specs := lo.Map(wanted, func(_ capacity.PoolSpec, i int) *capacity.PoolSpec { return &wanted[i] })
		if err := lockModels(ctx, tx, specs...); err != nil {
			return err
		}
		pools, err := capacity.ListPools(ctx, tx, lo.Ternary(f.DryRun, capacity.NoPoolLock, capacity.PoolsToWrite))
		if err != nil {
			return err
		}
		changes = nil
		for _, spec := range wanted {
			c := compare(pools, spec)
			c.Warnings = s.Warnings(&capacity.Pool{PoolSpec: spec, PoolQuote: c.pool.PoolQuote})
			changes = append(changes, c)
		}
		if f.DryRun {
			return nil
		}
		for _, c := range changes {
			if err := s.write(ctx, tx, p, c); err != nil {
				return err
			}
		}
		changed, err = settle(ctx, tx, lo.Map(changes, func(c *PoolChange, _ int) *capacity.Pool { return c.pool })...)
		return err
	})
	if err != nil {
		return nil, apierror.Wrap(err, "apply the pools of %s", name)
	}
	s.notifyWorkers(ctx, changed)
	return changes, nil
}

func (s *Pools) write(ctx context.Context, tx bun.Tx, p jobs.Principal, c *PoolChange) error {
	switch c.Kind {
	case catalogue.Added:
		return s.insert(ctx, tx, p, "applyPools", c.pool)
	case catalogue.Changed:
		return s.update(ctx, tx, p, "applyPools", c.pool, c.spec)
	}
	return nil
}

// read reads and checks a file of pools.
func (s *Pools) read(ctx context.Context, name, source string) ([]capacity.PoolSpec, error) {
	var found struct {
		Pools []filePool `yaml:"pools"`
	}
	file, err := yamlfile.Read(name, "pools", []byte(source), &found)
	if err != nil {
		return nil, err
	}
	if n := len(found.Pools); n == 0 || n > maxFilePools {
		return nil, fmt.Errorf("%s: the file must have 1 to %d pools; it has %d", name, maxFilePools, n)
	}
	var specs []capacity.PoolSpec
	for i, entry := range found.Pools {
		spec, place := entry.spec(), fmt.Sprintf("$.pools[%d]", i)
		if slices.ContainsFunc(specs, func(other capacity.PoolSpec) bool { return other.Name == spec.Name }) {
			file.Problem(place+".name", "the file has two pools with the name %s", text.Clip(spec.Name, 64))
		}
		if !spec.HasEngines() && !file.Given(place+".maxWorkers") { // 0 would drain a pool that has workers
			file.Problem(place, "maxWorkers is missing: write how many workers the pool may have, 0 for none")
		}
		checked := &capacity.Pool{PoolSpec: spec}
		err := s.check(checked)
		spec = checked.PoolSpec // with the addresses in their one form
		if err == nil {
			err = s.checkAccounts(ctx, spec.Accounts)
		}
		if err != nil {
			var wrong *apierror.Error
			if !errors.As(err, &wrong) {
				return nil, err
			}
			file.Problem(place+"."+wrong.Field, "%s", wrong.Message)
		}
		specs = append(specs, spec)
	}
	return specs, file.Err()
}

// spec returns the pool with the defaults for what the file leaves out.
func (f filePool) spec() capacity.PoolSpec {
	spec := f.PoolSpec
	spec.Settings = json.RawMessage(f.Settings)
	spec.Fill()
	return spec
}

// compare compares a pool of a file with the one that exists.
func compare(pools []*capacity.Pool, spec capacity.PoolSpec) *PoolChange {
	i := slices.IndexFunc(pools, func(p *capacity.Pool) bool { return p.Name == spec.Name })
	if i < 0 {
		return &PoolChange{Kind: catalogue.Added, Name: spec.Name, pool: &capacity.Pool{ID: models.NewPoolID(), PoolSpec: spec}, spec: spec}
	}
	c := &PoolChange{Kind: catalogue.Changed, Name: spec.Name, pool: pools[i], spec: spec}
	c.Differences = jsondiff.Compare(inJSON(pools[i].PoolSpec), inJSON(spec))
	if len(c.Differences) == 0 {
		c.Kind = catalogue.Unchanged
	}
	return c
}

func inJSON(spec capacity.PoolSpec) json.RawMessage {
	data, _ := json.Marshal(spec.Written()) // the settings are valid JSON, and the numbers finite
	return data
}
