package joblist

import (
	"context"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// SavedView is a list of jobs that somebody named, to open it again.
type SavedView struct {
	bun.BaseModel `bun:"table:saved_views,alias:sv"`

	ID models.ViewID `bun:"id,pk"`
	// Owner is the id of the key or the member that made it. Only the owner sees a view that is
	// not Shared.
	Owner  string `bun:"owner"`
	Shared bool   `bun:"shared"`
	Name   string `bun:"name"`
	// Query is the query of the list's address, such as q=age%3A%3C1d&status=FAILED.
	Query     string    `bun:"query"`
	CreatedAt time.Time `bun:"created_at,nullzero,default:clock_timestamp()"`
	UpdatedAt time.Time `bun:"updated_at,nullzero,default:clock_timestamp()"`
}

// ListSavedViews returns up to limit views that this owner sees, by name.
func ListSavedViews(ctx context.Context, db bun.IDB, owner string, limit int) ([]*SavedView, error) {
	var found []*SavedView
	err := db.NewSelect().Model(&found).Where("sv.owner = ? OR sv.shared", owner).
		OrderExpr("lower(sv.name), sv.id").Limit(int64(limit)).Scan(ctx)
	return found, err
}

// GetSavedView returns a view that this owner sees, or sql.ErrNoRows.
func GetSavedView(ctx context.Context, db bun.IDB, owner string, id models.ViewID) (*SavedView, error) {
	v := new(SavedView)
	err := db.NewSelect().Model(v).Where("sv.id = ? AND (sv.owner = ? OR sv.shared)", id, owner).Scan(ctx)
	return v, err
}

// IsViewNameTaken reports whether another view has the name of this one for the same people.
func IsViewNameTaken(ctx context.Context, db bun.IDB, v *SavedView) (taken bool, err error) {
	err = db.NewSelect().Model((*SavedView)(nil)).ColumnExpr("count(*) > 0").
		Where("lower(sv.name) = lower(?) AND sv.shared = ? AND (sv.shared OR sv.owner = ?) AND sv.id <> ?", v.Name, v.Shared, v.Owner,
			v.ID).Scan(ctx, &taken)
	return taken, err
}

// PutSavedView writes a new view, or changes the one with its id.
func PutSavedView(ctx context.Context, db bun.IDB, v *SavedView) error {
	return db.NewRaw(`
		INSERT INTO saved_views (id, owner, shared, name, query) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name, query = EXCLUDED.query, shared = EXCLUDED.shared, updated_at = clock_timestamp()
		RETURNING *`, v.ID, v.Owner, v.Shared, v.Name, v.Query).Scan(ctx, v)
}

// DeleteSavedView deletes a view, and reports whether there was one.
func DeleteSavedView(ctx context.Context, db bun.IDB, id models.ViewID) (bool, error) {
	res, err := db.NewDelete().Model((*SavedView)(nil)).Where("id = ?", id).Exec(ctx)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// CountSavedViews counts the views of an owner.
func CountSavedViews(ctx context.Context, db bun.IDB, owner string) (n int, err error) {
	err = db.NewSelect().Model((*SavedView)(nil)).ColumnExpr("count(*)").Where("sv.owner = ?", owner).Scan(ctx, &n)
	return n, err
}
