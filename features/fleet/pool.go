package fleet

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/internal/wellformed"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

const (
	// MaxPoolWorkers is how many workers a pool may have.
	MaxPoolWorkers = 10_000
	maxZones       = 50
	// maxCooldownSeconds bounds IdleSeconds and BootLimitSeconds of a pool.
	maxCooldownSeconds = 24 * 3600
	maxPricePerHour    = 10_000
	maxPerMachine      = 64 // workers of a machine, and GPUs of a worker
	maxAccounts        = 100
	maxSettings        = 64 << 10
)

// Pools creates and changes pools for operators.
type Pools struct {
	DB        *bun.DB
	Catalogue *catalogue.Catalogue
	Notifier  *change.Notifier
	// Checks has an entry for each provider that a pool may name. It checks the provider's
	// requirements of the pool, and returns INVALID_INPUT of the field. The check may be nil.
	Checks map[string]func(*capacity.Pool) error
	// Policy is the scaler's policy, which Explain describes.
	Policy Policy
	// Doubts returns sentences about what this process cannot find of a pool, although control may.
	// It may be nil.
	Doubts func(*capacity.Pool) []string
}

// Warnings returns sentences about what is probably wrong with a pool that was accepted.
func (s *Pools) Warnings(pool *capacity.Pool) []string {
	all := []string{}
	_, refused := s.Catalogue.Current().Split(pool.PoolSpec.Offer())
	for _, r := range refused {
		all = append(all, fmt.Sprintf("The pool runs no jobs of %s: %s.", r.Model, r.Reason))
	}
	if s.Doubts == nil {
		return all
	}
	return append(all, s.Doubts(pool)...)
}

// Providers returns the providers that a pool may name, sorted.
func (s *Pools) Providers() []string { return slices.Sorted(maps.Keys(s.Checks)) }

// Create makes a pool. It returns INVALID_INPUT for a bad field, and CONFLICT if the name is
// taken.
func (s *Pools) Create(ctx context.Context, p jobs.Principal, spec capacity.PoolSpec) (*capacity.Pool, error) {
	pool := &capacity.Pool{ID: models.NewPoolID(), PoolSpec: spec}
	if err := s.admit(ctx, p, pool); err != nil {
		return nil, err
	}
	err := jobs.InTx(ctx, s.DB, func(ctx context.Context, tx bun.Tx) error {
		if err := lockModels(ctx, tx, &pool.PoolSpec); err != nil {
			return err
		}
		if err := s.insert(ctx, tx, p, "createPool", pool); err != nil {
			return err
		}
		_, err := settle(ctx, tx, pool)
		return err
	})
	return pool, apierror.Wrap(err, "create the pool %s", spec.Name)
}

func (s *Pools) insert(ctx context.Context, tx bun.Tx, p jobs.Principal, action string, pool *capacity.Pool) error {
	err := capacity.InsertPool(ctx, tx, pool)
	if errors.Is(err, sql.ErrNoRows) {
		return apierror.Conflict("A pool named %s already exists.", pool.Name)
	}
	if err != nil {
		return err
	}
	return p.Audit(ctx, tx, action, string(pool.ID), jobs.Payload{"after": pool.Written()})
}

// Update replaces an operator's settings of a pool. Running workers stay as they are; the scaler
// adjusts their number. The name cannot change. Where its machines are looked for cannot change while the pool has
// workers or machines: CONFLICT. That is its provider, the kind of its engines, its region, and the project and the program
// of its settings.
func (s *Pools) Update(ctx context.Context, p jobs.Principal, id models.PoolID, spec capacity.PoolSpec) (*capacity.Pool, error) {
	return s.replace(ctx, p, id, spec, func(*capacity.Pool) error { return nil })
}

// UpdateIf is Update on the condition that the pool has not changed since the caller read it: seen
// is its Version at that time. Otherwise it returns CONFLICT.
func (s *Pools) UpdateIf(ctx context.Context, p jobs.Principal, id models.PoolID, seen string,
	spec capacity.PoolSpec) (*capacity.Pool, error) {
	return s.replace(ctx, p, id, spec, func(pool *capacity.Pool) error {
		if pool.Version() != seen {
			return apierror.Conflict("The pool %s changed since you read it. Read it again, and repeat your change.", pool.Name)
		}
		return nil
	})
}

// replace writes the spec of a pool if may accepts the pool once it is locked.
func (s *Pools) replace(ctx context.Context, p jobs.Principal, id models.PoolID, spec capacity.PoolSpec,
	may func(*capacity.Pool) error) (*capacity.Pool, error) {
	wanted := &capacity.Pool{PoolSpec: spec}
	if err := s.admit(ctx, p, wanted); err != nil {
		return nil, err
	}
	var changed []models.WorkerID
	pool, err := s.changeTo(ctx, p, id, &wanted.PoolSpec, func(ctx context.Context, tx bun.Tx, pool *capacity.Pool) (err error) {
		if err := may(pool); err != nil {
			return err
		}
		if err := s.update(ctx, tx, p, "updatePool", pool, wanted.PoolSpec); err != nil {
			return err
		}
		changed, err = settle(ctx, tx, pool)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.notifyWorkers(ctx, changed)
	return pool, nil
}

// settle writes what follows from the specs of pools that were written: the rows of their engines, and
// what their workers serve. It returns the workers that it changed. It returns CONFLICT if another
// pool has an engine of theirs.
func settle(ctx context.Context, tx bun.Tx, pools ...*capacity.Pool) ([]models.WorkerID, error) {
	drained, taken, err := capacity.WriteEngines(ctx, tx, pools)
	if err != nil {
		return nil, fmt.Errorf("write the engines: %w", err)
	}
	if taken != nil {
		return nil, apierror.Conflict("The pool %s has the engine %s already, or one of the same host, port and path: an engine is in one pool.",
			taken.Pool, taken.URL)
	}
	changed, err := capacity.CopyToWorkers(ctx, tx, lo.Map(pools, func(p *capacity.Pool, _ int) models.PoolID { return p.ID }))
	return append(changed, drained...), err
}

// notifyWorkers notifies workers that their pool has changed.
func (s *Pools) notifyWorkers(ctx context.Context, workers []models.WorkerID) {
	for _, id := range workers {
		s.Notifier.Worker(ctx, id)
	}
}

func (s *Pools) update(ctx context.Context, tx bun.Tx, p jobs.Principal, action string, pool *capacity.Pool, spec capacity.PoolSpec) error {
	if spec.Name != pool.Name {
		return apierror.Invalid("name", "The name of a pool is fixed: it is %s. Create another pool, and delete this one.", pool.Name)
	}
	if err := requireInPlace(ctx, tx, pool, &spec); err != nil {
		return err
	}
	before := pool.PoolSpec
	pool.PoolSpec = spec
	if !samePrice(before, spec) {
		pool.PoolQuote, pool.Advice = capacity.PoolQuote{}, nil
	}
	if err := capacity.UpdatePool(ctx, tx, pool); err != nil {
		return err
	}
	return p.Audit(ctx, tx, action, string(pool.ID), jobs.Payload{"before": before.Written(), "after": pool.Written()})
}

// lockModels prevents models from being removed until the pools are written with these specs, and
// gives those that follow the catalogue its models. It returns INVALID_INPUT for a model that was just
// removed.
func lockModels(ctx context.Context, tx bun.Tx, specs ...*capacity.PoolSpec) error {
	var names []string
	for _, spec := range specs {
		if !spec.FollowsCatalogue {
			names = append(names, spec.Models...)
			continue
		}
		if err := capacity.KeepCatalogue(ctx, tx); err != nil {
			return fmt.Errorf("lock the catalogue: %w", err)
		}
		found, err := capacity.RuntimeModels(ctx, tx, spec.EngineKind)
		if err != nil {
			return fmt.Errorf("read the models of %s: %w", spec.EngineKind, err)
		}
		spec.Models = found
	}
	if len(names) == 0 {
		return nil
	}
	removed, err := capacity.LockModels(ctx, tx, lo.Uniq(names))
	if err == nil && len(removed) > 0 {
		err = apierror.Invalid("models", "The model %s was removed from the catalogue: leave it out, or restore it.", removed[0])
	}
	return err
}

// change runs a change of a pool that is locked.
func (s *Pools) change(ctx context.Context, p jobs.Principal, id models.PoolID,
	do func(context.Context, bun.Tx, *capacity.Pool) error) (pool *capacity.Pool, err error) {
	return s.changeTo(ctx, p, id, nil, do)
}

// changeTo is change for a pool that will have this spec, if it is not nil.
func (s *Pools) changeTo(
	ctx context.Context, p jobs.Principal, id models.PoolID, spec *capacity.PoolSpec, do func(context.Context, bun.Tx, *capacity.Pool) error,
) (pool *capacity.Pool, err error) {
	if err := p.RequireOperator(); err != nil {
		return nil, err
	}
	if !id.Valid() {
		return nil, apierror.NotFound("pool")
	}
	err = jobs.InTx(ctx, s.DB, func(ctx context.Context, tx bun.Tx) error {
		if spec != nil {
			if err := lockModels(ctx, tx, spec); err != nil {
				return err
			}
		}
		var err error
		if pool, err = capacity.LockPool(ctx, tx, id, capacity.PoolsToWrite); err != nil {
			return apierror.OrNotFound(err, "pool")
		}
		return do(ctx, tx, pool)
	})
	return pool, apierror.Wrap(err, "change the pool %s", id)
}

// Pause stops a pool: it gets no more workers, its workers finish their jobs and leave, and booting
// ones are ended. A paused pool stays as it is.
func (s *Pools) Pause(ctx context.Context, p jobs.Principal, id models.PoolID) (*capacity.Pool, error) {
	var drained []models.WorkerID
	pool, err := s.change(ctx, p, id, func(ctx context.Context, tx bun.Tx, pool *capacity.Pool) error {
		if !pool.PausedAt.IsZero() {
			return nil
		}
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		pool.PausedAt, pool.PausedBy = now, p.Actor()
		if err := capacity.UpdatePool(ctx, tx, pool); err != nil {
			return err
		}
		if err := capacity.SetDesired(ctx, tx, id, 0); err != nil {
			return err
		}
		if drained, err = capacity.DrainPool(ctx, tx, id, models.LeavesPaused); err != nil {
			return err
		}
		return p.Audit(ctx, tx, "pausePool", string(id), jobs.Payload{"name": pool.Name, "draining": len(drained)})
	})
	if err != nil {
		return nil, err
	}
	s.notifyWorkers(ctx, drained)
	return pool, nil
}

// Resume ends a pause, including the pauses of the scaler after machines were refused or did not
// start.
func (s *Pools) Resume(ctx context.Context, p jobs.Principal, id models.PoolID) (*capacity.Pool, error) {
	return s.change(ctx, p, id, func(ctx context.Context, tx bun.Tx, pool *capacity.Pool) error {
		if pool.PausedAt.IsZero() && pool.BackoffUntil.IsZero() && pool.Refusals+pool.GrowBy+pool.BootFailures == 0 {
			return nil
		}
		pool.PausedAt, pool.PausedBy = time.Time{}, ""
		if err := capacity.UpdatePool(ctx, tx, pool); err != nil {
			return err
		}
		return p.Audit(ctx, tx, "resumePool", string(id), jobs.Payload{"name": pool.Name})
	})
}

// Delete removes a pool that has no workers; otherwise it returns CONFLICT.
func (s *Pools) Delete(ctx context.Context, p jobs.Principal, id models.PoolID) error {
	_, err := s.change(ctx, p, id, func(ctx context.Context, tx bun.Tx, pool *capacity.Pool) error {
		workers, err := capacity.ListPoolWorkers(ctx, tx, []models.PoolID{id})
		if err != nil {
			return err
		}
		if len(workers) > 0 {
			return apierror.Conflict("The pool %s has %s. Pause it, and delete it after they have ended.", pool.Name,
				text.Count(len(workers), "worker"))
		}
		if pool.DeletedAt, err = postgres.Now(ctx, tx); err != nil {
			return err
		}
		if err := capacity.UpdatePool(ctx, tx, pool); err != nil {
			return err
		}
		if _, err := settle(ctx, tx, pool); err != nil {
			return err
		}
		return p.Audit(ctx, tx, "deletePool", string(id), jobs.Payload{"before": pool.Written()})
	})
	return err
}

// admit checks the caller and the requested pool.
func (s *Pools) admit(ctx context.Context, p jobs.Principal, pool *capacity.Pool) error {
	if err := p.RequireOperator(); err != nil {
		return err
	}
	pool.Fill()
	if err := s.check(pool); err != nil {
		return err
	}
	return s.checkAccounts(ctx, pool.Accounts)
}

var poolName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$`)

// regionName is what the regions, data centers and contexts of clouds are named of. Programs of providers have a cloud before it.
var regionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$`)

// check returns INVALID_INPUT of the first invalid field.
func (s *Pools) check(pool *capacity.Pool) error {
	spec := pool.PoolSpec
	check, known := s.Checks[spec.Provider]
	switch {
	case !poolName.MatchString(spec.Name):
		return apierror.Invalid("name",
			"name must have 1 to 40 lower-case letters, digits and hyphens, begin with a letter, and not end with a hyphen: the machines are named after it.")
	case !known:
		return apierror.Invalid("provider", "There is no provider %q. The providers are %s.", text.Clip(spec.Provider, 64),
			strings.Join(s.Providers(), ", "))
	case spec.CapacityClass != models.CapacitySpot && spec.CapacityClass != models.CapacityOnDemand:
		return apierror.Invalid("capacityClass", "capacityClass must be SPOT or ON_DEMAND.")
	case !spec.FollowsCatalogue && (len(spec.Models) == 0 || len(spec.Models) > catalogue.MaxWorkerModels):
		return apierror.Invalid("models", "A pool runs 1 to %d models.", catalogue.MaxWorkerModels)
	case len(spec.Settings) > maxSettings:
		return apierror.Invalid("settings", "settings may have %d bytes.", maxSettings)
	case wellformed.HasNUL(spec.Settings):
		return apierror.Invalid("settings", "settings may not have NUL characters (\\u0000): the database cannot store them.")
	}
	var object map[string]any
	if err := json.Unmarshal(spec.Settings, &object); err != nil && len(spec.Settings) > 0 {
		return apierror.Invalid("settings", "settings must be a JSON object: %s.", text.Clip(text.Printable(err.Error()), lease.MaxMessageBytes))
	}
	if err := checkTexts(spec); err != nil {
		return err
	}
	if err := checkEngines(&pool.PoolSpec); err != nil {
		return err
	}
	if err := checkNumbers(spec); err != nil {
		return err
	}
	if spec.ActiveHours != "" {
		if _, err := ParseHours(spec.ActiveHours); err != nil {
			return apierror.Invalid("activeHours", "activeHours: %s.", text.Clip(text.Printable(err.Error()), lease.MaxMessageBytes))
		}
	}
	if !spec.FollowsCatalogue {
		if err := s.Catalogue.Current().Known("models", spec.Models); err != nil {
			return err
		}
	}
	if check == nil {
		return nil
	}
	return check(pool)
}

func checkTexts(spec capacity.PoolSpec) error {
	for _, f := range []struct {
		name, value string
		least       int
	}{{"region", spec.Region, 1}, {"gpuType", spec.GPUType, 1}, {"machineType", spec.MachineType, 0}} {
		if !text.Valid(f.value, f.least, text.MaxName) {
			return apierror.Invalid(f.name, "%s must have %d to %d printable characters.", f.name, f.least, text.MaxName)
		}
	}
	if !regionName.MatchString(spec.Region) {
		return apierror.Invalid("region", "region must have letters, digits and . _ : / @ + -, and begin with a letter or a digit, such as "+
			"europe-west4 or aws/us-east-1.")
	}
	for i, tier := range spec.Tiers {
		if !slices.Contains(models.Tiers, tier) || slices.Contains(spec.Tiers[:i], tier) {
			return apierror.Invalid("tiers", "tiers may list each of CRITICAL, ENTERPRISE, PRO, FREE and BATCH once; leave it out to serve all.")
		}
	}
	if len(spec.Zones) > maxZones {
		return apierror.Invalid("zones", "A pool has at most %d zones.", maxZones)
	}
	if len(spec.Accounts) > maxAccounts {
		return apierror.Invalid("accounts", "A pool is dedicated to at most %d accounts.", maxAccounts)
	}
	for i, id := range spec.Accounts {
		if !id.Valid() || slices.Contains(spec.Accounts[:i], id) {
			return apierror.Invalid("accounts", "accounts must list ids of accounts, each of them once; leave it out for all.")
		}
	}
	for i, tier := range spec.YieldingTiers {
		if !slices.Contains(models.Tiers, tier) || slices.Contains(spec.YieldingTiers[:i], tier) {
			return apierror.Invalid("yieldingTiers", "yieldingTiers must list tiers, each of them once.")
		}
	}
	for i, zone := range spec.Zones {
		if !text.Valid(zone, 1, text.MaxName) || slices.Contains(spec.Zones[:i], zone) {
			return apierror.Invalid("zones", "Each zone must have 1 to %d printable characters, and be listed once.", text.MaxName)
		}
	}
	return nil
}

func checkNumbers(spec capacity.PoolSpec) error {
	switch {
	case spec.MaxWorkers < 0 || spec.MaxWorkers > MaxPoolWorkers:
		return apierror.Invalid("maxWorkers", "maxWorkers must be from 0 to %d.", MaxPoolWorkers)
	case spec.MinWorkers < 0 || spec.MinWorkers > spec.MaxWorkers:
		return apierror.Invalid("minWorkers", "minWorkers must be from 0 to maxWorkers, which is %d.", spec.MaxWorkers)
	case spec.WarmWorkers < 0 || spec.WarmWorkers > spec.MaxWorkers:
		return apierror.Invalid("warmWorkers", "warmWorkers must be from 0 to maxWorkers, which is %d.", spec.MaxWorkers)
	case spec.IdleSeconds != nil && (*spec.IdleSeconds < 0 || *spec.IdleSeconds > maxCooldownSeconds):
		return apierror.Invalid("scaleDownCooldownSeconds",
			"scaleDownCooldownSeconds must be from 0 to %d. Leave it out to let the scaler decide.", maxCooldownSeconds)
	case spec.BootLimitSeconds < 1 || spec.BootLimitSeconds > maxCooldownSeconds:
		return apierror.Invalid("bootLimitSeconds", "bootLimitSeconds must be from 1 to %d.", maxCooldownSeconds)
	case math.IsNaN(spec.PricePerHourUSD) || spec.PricePerHourUSD < 0 || spec.PricePerHourUSD > maxPricePerHour:
		return apierror.Invalid("pricePerHourUsd", "pricePerHourUsd must be from 0 to %d.", maxPricePerHour)
	case math.IsNaN(spec.MaxPricePerHourUSD) || spec.MaxPricePerHourUSD < 0 || spec.MaxPricePerHourUSD > maxPricePerHour:
		return apierror.Invalid("maxPricePerHourUsd", "maxPricePerHourUsd must be from 0, which means no limit, to %d.", maxPricePerHour)
	case spec.WorkersPerMachine < 1 || spec.WorkersPerMachine > maxPerMachine:
		return apierror.Invalid("workersPerMachine", "workersPerMachine must be from 1 to %d.", maxPerMachine)
	case spec.MaxWorkers%spec.WorkersPerMachine != 0:
		return apierror.Invalid("maxWorkers",
			"maxWorkers is %d: it must be a multiple of workersPerMachine, which is %d, since a machine runs that many.", spec.MaxWorkers,
			spec.WorkersPerMachine)
	case spec.GPUsPerWorker < 1 || spec.GPUsPerWorker > maxPerMachine:
		return apierror.Invalid("gpusPerWorker", "gpusPerWorker must be from 1 to %d.", maxPerMachine)
	}
	return nil
}

// NoSettings is the check of a provider that has no settings.
func NoSettings(pool *capacity.Pool) error {
	if s := strings.TrimSpace(string(pool.Settings)); s != "" && s != "{}" && s != "null" {
		return apierror.Invalid("settings", "The provider %s has no settings.", pool.Provider)
	}
	return nil
}

// NotScaled is the check of a provider whose machines are started by others.
func NotScaled(pool *capacity.Pool) error {
	if err := NoSettings(pool); err != nil {
		return err
	}
	if pool.MinWorkers > 0 || pool.WarmWorkers > 0 {
		return apierror.Invalid("minWorkers", "The machines of the provider %s come by themselves: minWorkers and warmWorkers must be 0.",
			pool.Provider)
	}
	return nil
}

// checkAccounts returns INVALID_INPUT with the first of these accounts that does not exist.
func (s *Pools) checkAccounts(ctx context.Context, ids []models.AccountID) error {
	if len(ids) == 0 {
		return nil
	}
	found, err := models.GetAccounts(ctx, s.DB, ids)
	if err != nil {
		return fmt.Errorf("look up the accounts of a pool: %w", err)
	}
	for _, id := range ids {
		if !slices.ContainsFunc(found, func(a *models.Account) bool { return a.ID == id }) {
			return apierror.Invalid("accounts", "There is no account %s.", id)
		}
	}
	return nil
}
