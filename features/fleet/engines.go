package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// maxWorkersOfAgent is how many workers an agent has at most at a hosted provider.
const maxWorkersOfAgent = 100

// maxEngines is how many engines a pool may have.
const maxEngines = 100

// checkEngines checks what is written of the engines of a pool, and gives their addresses the one form.
func checkEngines(spec *capacity.PoolSpec) error {
	if !spec.HasEngines() {
		switch {
		case len(spec.Engines) > 0:
			return apierror.Invalid("engines", "Only pools of the provider %s have engines; this one has the provider %s.", engine.Provider,
				spec.Provider)
		case spec.EngineKind != "":
			return apierror.Invalid("engineKind", "Only pools of the provider %s have an engineKind; this one has the provider %s.",
				engine.Provider, spec.Provider)
		}
		return nil
	}
	if _, err := engine.ParseKind(string(spec.EngineKind)); err != nil {
		if spec.EngineKind == "" {
			err = fmt.Errorf("a pool of engines has a kind: %s", engine.List())
		}
		return apierror.Invalid("engineKind", "engineKind: %s.", err)
	}
	hosted := spec.EngineKind.Hosted()
	if hosted != nil && len(spec.Engines) != 1 {
		return apierror.Invalid("engines", "A pool of %s has one address%s; this one has %d.", hosted.Title,
			lo.Ternary(hosted.URL == "", ", which is that of your account there: see docs/users/providers.md", ", which may be left out"),
			len(spec.Engines))
	}
	if len(spec.Engines) == 0 || len(spec.Engines) > maxEngines {
		return apierror.Invalid("engines", "A pool of engines has 1 to %d engines; this one has %d.", maxEngines, len(spec.Engines))
	}
	spec.Engines = slices.Clone(spec.Engines)
	instances := map[string]bool{}
	for i, address := range spec.Engines {
		url, err := engine.ParseURL(address)
		if err != nil {
			return apierror.Invalid("engines", "engines[%d]: %s.", i, err)
		}
		if name := engine.Instance(url); instances[name] {
			return apierror.Invalid("engines", "engines[%d]: the pool lists the engine %s twice, or another one of the same host, port and path.", i,
				name)
		} else {
			instances[name] = true
		}
		spec.Engines[i] = url
	}
	switch {
	case hosted != nil && spec.MaxWorkers < 1:
		return apierror.Invalid("maxWorkers", "maxWorkers of a pool of %s must be 1 or more: leave it out.", hosted.Title)
	case hosted == nil && spec.MaxWorkers != len(spec.Engines):
		return apierror.Invalid("maxWorkers", "maxWorkers of a pool of engines is the number of its engines, %d: leave it out.",
			len(spec.Engines))
	case spec.WorkersPerMachine != 1:
		return apierror.Invalid("workersPerMachine", "An engine has one worker: leave workersPerMachine out.")
	}
	return nil
}

// Engines keeps what agents say of the engines of pools, and takes engines out of service for operators.
type Engines struct {
	DB    *bun.DB
	Pools *Pools
}

// EngineSync is what an agent says of the engines of a pool. Without reports, it only asks.
type EngineSync struct {
	// Pool is the name of the pool.
	Pool    string
	Reports []capacity.EngineReport
}

// EnginesWanted are the engines that a pool lists.
type EnginesWanted struct {
	Pool    string
	Kind    engine.Kind
	Engines []*capacity.Engine
	// Workers is how many workers an agent has for each engine.
	Workers int
}

// Sync stores what an agent says of the engines of a pool, and returns the engines that the pool lists
// now. Reports of other engines are ignored: the pool may just have changed. It returns UNAVAILABLE if there
// is no such pool yet, and INVALID_INPUT if it has no engines. The caller needs an enrolment key.
func (s *Engines) Sync(ctx context.Context, p jobs.Principal, in EngineSync) (*EnginesWanted, error) {
	if p.WorkerID != "" || p.Machine != nil {
		return nil, apierror.Forbidden("Engines are reported with an enrolment key (rl_live_…).")
	}
	reports, err := checkReports(in.Reports)
	if err != nil {
		return nil, err
	}
	if !poolName.MatchString(in.Pool) {
		return nil, apierror.Invalid("pool", "pool must be the name of a pool: 1 to 40 lower-case letters, digits and hyphens.")
	}
	wanted := new(EnginesWanted)
	var changed []models.WorkerID
	err = jobs.InTx(ctx, s.DB, func(ctx context.Context, tx bun.Tx) error {
		changed = nil
		id, err := findPool(ctx, tx, in.Pool, "pool")
		if err != nil {
			return err
		}
		pool, err := capacity.LockPool(ctx, tx, id, capacity.PoolsStay)
		if err != nil {
			return apierror.OrNotFound(err, "pool")
		}
		if !pool.HasEngines() {
			return apierror.Invalid("pool", "The pool %s has no engines: its provider is %s. Start its agents without engines.", pool.Name,
				pool.Provider)
		}
		if len(reports) > 0 {
			lacks, err := capacity.RecordEngines(ctx, tx, id, reports)
			if err != nil {
				return err
			}
			if lacks {
				if changed, err = capacity.CopyToWorkers(ctx, tx, []models.PoolID{id}); err != nil {
					return err
				}
			}
		}
		wanted.Pool, wanted.Kind, wanted.Workers = pool.Name, pool.EngineKind, 1
		account, err := capacity.GetProviderAccount(ctx, tx, id)
		if err == nil {
			wanted.Workers = min(account.Concurrent, maxWorkersOfAgent)
		} else if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		wanted.Engines, err = capacity.ListEngines(ctx, tx, []models.PoolID{id})
		return err
	})
	if err != nil {
		return nil, apierror.Wrap(err, "sync the engines of %s", in.Pool)
	}
	s.Pools.notifyWorkers(ctx, changed)
	return wanted, nil
}

// checkReports returns reports with their addresses in the one form and their texts clipped. An
// engine's texts are the engine's: they are no reason to refuse what the agent says.
func checkReports(all []capacity.EngineReport) ([]capacity.EngineReport, error) {
	if len(all) > maxEngines {
		return nil, apierror.Invalid("reports", "There may be %d reports; there are %d.", maxEngines, len(all))
	}
	checked := make([]capacity.EngineReport, len(all))
	seen := map[string]bool{}
	for i, r := range all {
		place := func(field string) string { return fmt.Sprintf("reports[%d].%s", i, field) }
		url, err := engine.ParseURL(r.URL)
		switch {
		case err != nil:
			return nil, apierror.Invalid(place("url"), "%s: %s.", place("url"), err)
		case seen[url]:
			return nil, apierror.Invalid(place("url"), "There are two reports of %s.", url)
		case !slices.Contains(capacity.EngineStates[:5], r.State):
			return nil, apierror.Invalid(place("state"), "An agent reports READY, BUSY, DRAINING, UNREACHABLE or FAILED; %s follows from that.", r.State)
		case len(r.Lacks) > catalogue.MaxWorkerModels:
			return nil, apierror.Invalid(place("lacks"), "An engine may lack %d models.", catalogue.MaxWorkerModels)
		}
		for _, bytes := range []*int64{r.GPUMemoryBytes, r.GPUMemoryFreeBytes} {
			if bytes != nil && *bytes < 0 {
				return nil, apierror.Invalid(place("gpuMemoryBytes"), "The bytes of GPU memory must be 0 or more.")
			}
		}
		if err := catalogue.ValidNames(place("lacks"), lo.Map(r.Lacks, func(l capacity.EngineLack, _ int) string { return l.Model })); err != nil {
			return nil, err
		}
		clip := func(s string, most int) string { return text.Clip(text.Printable(s), most) }
		r.URL, r.Reason, r.Version = url, clip(r.Reason, lease.MaxMessageBytes), clip(r.Version, text.MaxName)
		r.GPUName = clip(r.GPUName, text.MaxName)
		r.Lacks = lo.Map(r.Lacks, func(l capacity.EngineLack, _ int) capacity.EngineLack {
			return capacity.EngineLack{Model: l.Model, Missing: clip(l.Missing, lease.MaxMessageBytes)}
		})
		seen[url] = true
		checked[i] = r
	}
	return checked, nil
}

// Hold takes an engine of a pool out of service: its worker finishes its job and leaves, and none
// registers for it. It does nothing to an engine that is held.
func (s *Engines) Hold(ctx context.Context, p jobs.Principal, pool models.PoolID, url string) error {
	return s.hold(ctx, p, "holdEngine", p.Actor(), pool, url)
}

// Resume puts an engine back into service.
func (s *Engines) Resume(ctx context.Context, p jobs.Principal, pool models.PoolID, url string) error {
	return s.hold(ctx, p, "resumeEngine", "", pool, url)
}

func (s *Engines) hold(ctx context.Context, p jobs.Principal, action, by string, id models.PoolID, address string) error {
	url, malformed := engine.ParseURL(address)
	var drained []models.WorkerID
	_, err := s.Pools.change(ctx, p, id, func(ctx context.Context, tx bun.Tx, pool *capacity.Pool) error {
		if malformed != nil {
			return apierror.Invalid("url", "%s.", malformed)
		}
		changed, err := capacity.HoldEngine(ctx, tx, id, url, by)
		if errors.Is(err, sql.ErrNoRows) {
			return apierror.New(apierror.CodeNotFound, "The pool %s has no engine %s: `reelay pools engines %s` lists them.", pool.Name, url,
				pool.Name)
		}
		if err != nil {
			return err
		}
		if drained, err = capacity.DrainHeldEngines(ctx, tx, id); err != nil || !changed {
			return err
		}
		return p.Audit(ctx, tx, action, string(id), jobs.Payload{"name": pool.Name, "url": url})
	})
	if err == nil {
		s.Pools.notifyWorkers(ctx, drained)
	}
	return err
}

// drives checks that a worker of the provider engines is that of an engine of its pool. It takes
// what the worker offers from the pool, without the models that the engine lacks.
func drives(ctx context.Context, tx bun.Tx, pool *capacity.Pool, in *Registration) error {
	switch {
	case in.Provider != engine.Provider && (pool == nil || !pool.HasEngines()):
		return nil
	case in.Provider != engine.Provider:
		return apierror.Invalid("poolId", "The pool %s has engines: its workers are those of `reelay agent --pool %s`, and no other joins.",
			pool.Name, pool.Name)
	case pool == nil || !pool.HasEngines():
		return apierror.Invalid("poolId", "The worker of an engine names the pool that lists the engine.")
	case in.Slot != 0 && pool.EngineKind.Hosted() == nil:
		return apierror.Invalid("slot", "An engine has one worker: slot must be 0.")
	}
	e, err := capacity.LockEngine(ctx, tx, pool.ID, in.ProviderInstanceID)
	if errors.Is(err, sql.ErrNoRows) {
		return apierror.Invalid("providerInstanceId", "The pool %s has no engine %s.", pool.Name, text.Clip(in.ProviderInstanceID, 64))
	}
	if err != nil {
		return err
	}
	if e.Held() {
		return apierror.Later(apierror.CodeUnavailable, pauseRetry, "An operator holds the engine %s: it gets no jobs.", e.URL)
	}
	in.Models, in.Region, in.GPUType, in.CapacityClass = e.Without(pool.Models), pool.Region, pool.GPUType, pool.CapacityClass
	return nil
}
