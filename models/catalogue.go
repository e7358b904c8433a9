package models

import (
	"context"
	"encoding/json"
	"time"

	"github.com/uptrace/bun"
)

// CatalogueOrigin is where an entry of the catalogue came from.
type CatalogueOrigin string

const (
	OriginShipped  CatalogueOrigin = "SHIPPED"
	OriginFolder   CatalogueOrigin = "FOLDER"
	OriginOperator CatalogueOrigin = "OPERATOR"
)

// CatalogueEntry is one version of a model or an alias. Only Current, Origin and Change ever
// change.
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

// RemoveCatalogueEntry leaves a name without a current version. It marks the entry as the
// operator's, so that no release brings it back.
func RemoveCatalogueEntry(ctx context.Context, tx bun.Tx, name string) error {
	return mustChange(tx.NewRaw(`
		UPDATE catalogue_entries SET current = false, origin = ?1, change = nextval('catalogue_changes')
		WHERE name = ?0 AND current`, name, OriginOperator).Exec(ctx))
}

// CountOpenJobs returns how many jobs of a model have not ended.
func CountOpenJobs(ctx context.Context, db bun.IDB, model string) (int, error) {
	n, err := db.NewSelect().Model((*Job)(nil)).
		Where("j.model = ?", model).
		Where("j.status IN ('SCHEDULED', 'BLOCKED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'COMPLETING')").Count(ctx)
	return int(n), err
}
