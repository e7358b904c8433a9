package fleet

import (
	"context"
	"encoding/json"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/uptrace/bun"
)

// requireInPlace returns CONFLICT if a spec changes where the machines of a pool are looked for while it has some: they would be
// paid for until a person finds them. Workers without machines are started by hand, and register again elsewhere.
func requireInPlace(ctx context.Context, tx bun.Tx, pool *capacity.Pool, spec *capacity.PoolSpec) error {
	field, found := "", 0
	switch {
	case spec.Provider != pool.Provider:
		field = "provider"
	case spec.EngineKind != pool.EngineKind:
		field = "engineKind"
	case spec.Region != pool.Region:
		field = "region"
	default:
		field = movedBy(pool.Settings, spec.Settings)
	}
	switch field {
	case "":
		return nil
	case "provider", "engineKind":
		workers, err := capacity.ListPoolWorkers(ctx, tx, []models.PoolID{pool.ID})
		if err != nil {
			return err
		}
		found = len(workers)
	}
	machines, err := capacity.ListMachines(ctx, tx, []models.PoolID{pool.ID})
	if err != nil {
		return err
	}
	if found = max(found, len(machines)); found == 0 {
		return nil
	}
	return apierror.Conflict("The %s of the pool %s can change when it has no workers or machines; it has %d. Pause it first, or create "+
		"another pool.", field, pool.Name, found)
}

// movedBy returns the name of the setting that decides where machines are looked for and that differs, or "".
func movedBy(before, after json.RawMessage) string {
	// Providers without these settings have nothing else under these names.
	var was, is struct{ Project, Program string }
	_, _ = json.Unmarshal(before, &was), json.Unmarshal(after, &is)
	switch {
	case was.Project != is.Project:
		return "settings.project"
	case was.Program != is.Program:
		return "settings.program"
	}
	return ""
}
