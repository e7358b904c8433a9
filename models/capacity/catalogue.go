package capacity

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// CatalogueOrigin is where an entry of the catalogue came from.
type CatalogueOrigin string

const (
	OriginShipped  CatalogueOrigin = "SHIPPED"
	OriginFolder   CatalogueOrigin = "FOLDER"
	OriginOperator CatalogueOrigin = "OPERATOR"
)

// CatalogueEntry is one version of a model or an alias. Only Current, Change, and what is said of its
// removal ever change.
type CatalogueEntry struct {
	bun.BaseModel `bun:"table:catalogue_entries,alias:ce"`

	Name    string          `bun:"name,pk"`
	Version int             `bun:"version,pk"`
	IsAlias bool            `bun:"is_alias"`
	Entry   json.RawMessage `bun:"entry,type:json"`
	Origin  CatalogueOrigin `bun:"origin"`
	// Current marks the version that new jobs use.
	Current bool  `bun:"current"`
	Change  int64 `bun:"change,nullzero,default:nextval('catalogue_changes')"`
	// CreatedBy is the id of the key, or the name of the program.
	CreatedBy string    `bun:"created_by"`
	CreatedAt time.Time `bun:"created_at,nullzero,default:clock_timestamp()"`
	// RemovedAt is when the entry was removed, if this is its newest version, and RemovedBy who did.
	RemovedAt time.Time `bun:"removed_at,nullzero"`
	RemovedBy string    `bun:"removed_by,nullzero"`
}

// LockCatalogue makes the transaction the only one that changes the catalogue. Readers go on.
func LockCatalogue(ctx context.Context, tx bun.Tx) error {
	_, err := tx.ExecContext(ctx, "LOCK TABLE catalogue_entries IN SHARE ROW EXCLUSIVE MODE")
	return err
}

// ListCatalogue returns every version of every entry, the entries in the order in which they
// were first added, and the versions of each from the oldest to the newest.
func ListCatalogue(ctx context.Context, db bun.IDB) ([]*CatalogueEntry, error) {
	var entries []*CatalogueEntry
	err := db.NewSelect().Model(&entries).
		OrderExpr("min(created_at) OVER (PARTITION BY name), name, version").Scan(ctx)
	return entries, err
}

// CatalogueChange returns a number that grows with every change of the catalogue. It is 0 for
// an empty one.
func CatalogueChange(ctx context.Context, db bun.IDB) (int64, error) {
	var change int64
	err := db.NewRaw("SELECT coalesce(max(change), 0) FROM catalogue_entries").Scan(ctx, &change)
	return change, err
}

// InsertCatalogueEntry writes a version, which replaces the current one of its name. The caller
// holds the lock of the catalogue.
func InsertCatalogueEntry(ctx context.Context, tx bun.Tx, e *CatalogueEntry) error {
	if _, err := tx.NewRaw("UPDATE catalogue_entries SET current = false WHERE name = ? AND current", e.Name).Exec(ctx); err != nil {
		return err
	}
	e.Current = true
	_, err := tx.NewInsert().Model(e).Returning("change, created_at").Exec(ctx)
	return err
}

// RemoveCatalogueEntry leaves a name without a current version. It waits for transactions that have
// locked it with LockModels.
func RemoveCatalogueEntry(ctx context.Context, tx bun.Tx, name, by string) error {
	return postgres.MustChange(tx.NewRaw(`
		UPDATE catalogue_entries SET current = false, removed_at = clock_timestamp(), removed_by = ?1, change = nextval('catalogue_changes')
		WHERE name = ?0 AND current`, name, by).Exec(ctx))
}

// RestoreCatalogueEntry makes a version current again. The caller holds the lock of the catalogue.
func RestoreCatalogueEntry(ctx context.Context, tx bun.Tx, name string, version int) error {
	return postgres.MustChange(tx.NewRaw(`
		UPDATE catalogue_entries SET current = true, removed_at = NULL, removed_by = NULL, change = nextval('catalogue_changes')
		WHERE name = ?0 AND version = ?1`, name, version).Exec(ctx))
}

// LockModels keeps models from being removed until the transaction ends, and returns those that were
// removed. A name that the database does not know is not among them. Entries are locked before pools.
func LockModels(ctx context.Context, tx bun.Tx, names []string) (removed []string, err error) {
	var present []string
	// A new version of an entry that commits meanwhile is in the snapshot of the next statement only.
	for range 3 {
		present = nil
		err := tx.NewRaw("SELECT name FROM catalogue_entries WHERE name = ANY (?::text[]) AND current ORDER BY name FOR SHARE",
			postgres.TextArray(names)).Scan(ctx, &present)
		if err != nil || len(present) == len(names) {
			return nil, err
		}
	}
	err = tx.NewRaw("SELECT name FROM catalogue_entries WHERE name = ANY (?::text[]) GROUP BY name HAVING NOT bool_or(current) ORDER BY name",
		postgres.TextArray(names)).Scan(ctx, &removed)
	return removed, err
}

// KeepCatalogue keeps the catalogue as it is until the transaction ends. Others may do the same.
func KeepCatalogue(ctx context.Context, tx bun.Tx) error {
	_, err := tx.ExecContext(ctx, "LOCK TABLE catalogue_entries IN ROW EXCLUSIVE MODE")
	return err
}

// runtimeModelsSQL selects the models of the catalogue with a runtime.
const runtimeModelsSQL = `SELECT name FROM catalogue_entries WHERE current AND NOT is_alias AND entry->>'runtime' = %s ORDER BY name`

// RuntimeModels returns the models of the catalogue with a runtime, by name.
func RuntimeModels(ctx context.Context, tx bun.Tx, runtime engine.Kind) ([]string, error) {
	names := []string{}
	err := tx.NewRaw(fmt.Sprintf(runtimeModelsSQL, "?"), runtime).Scan(ctx, &names)
	return names, err
}

// FollowCatalogue gives the pools that follow the catalogue its present models, and returns those that
// changed. The caller holds the lock of the catalogue.
func FollowCatalogue(ctx context.Context, tx bun.Tx) (changed []models.PoolID, err error) {
	err = tx.NewRaw(`
		WITH wanted AS (
			SELECT p.id, ARRAY(`+fmt.Sprintf(runtimeModelsSQL, "p.engine_kind")+`) AS models
			FROM pools p WHERE p.follows_catalogue AND p.deleted_at IS NULL ORDER BY p.name FOR NO KEY UPDATE OF p)
		UPDATE pools p SET models = wanted.models FROM wanted WHERE p.id = wanted.id AND p.models <> wanted.models
		RETURNING p.id`).Scan(ctx, &changed)
	return changed, err
}

// CountSchedulesOf returns how many schedules submit jobs of a model, alone or in a workflow.
func CountSchedulesOf(ctx context.Context, db bun.IDB, model string) (n int, err error) {
	err = db.NewRaw("SELECT count(*) FROM schedules WHERE model = ?0 OR ?0 = ANY (models)", model).Scan(ctx, &n)
	return n, err
}

// ModelGPUs is a model that new jobs can name, and the GPU types that can run it.
type ModelGPUs struct {
	Name     string   `bun:"name"`
	GPUTypes []string `bun:"gpu_types,array"`
}

// ListModelGPUs returns the models that new jobs can name, in no particular order.
func ListModelGPUs(ctx context.Context, db bun.IDB) (all []ModelGPUs, err error) {
	err = db.NewRaw(`
		SELECT name, ARRAY(SELECT json_array_elements_text(entry->'gpuTypes')) AS gpu_types
		FROM catalogue_entries WHERE current AND NOT is_alias`).Scan(ctx, &all)
	return all, err
}

// CountOpenJobs returns how many jobs of a model have not ended.
func CountOpenJobs(ctx context.Context, db bun.IDB, model string) (int, error) {
	n, err := db.NewSelect().Model((*models.Job)(nil)).
		Where("j.model = ?", model).
		Where("j.status IN ('SCHEDULED', 'BLOCKED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'COMPLETING')").Count(ctx)
	return int(n), err
}
