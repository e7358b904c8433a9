package upkeep

import (
	"context"
	"fmt"

	"github.com/reelay/reelay/models"
)

// Analyze renews the statistics of tables that have doubled since their last ANALYZE, and
// returns how many. Autovacuum checks only once a minute; until then connections keep the
// plans that they made for an empty table.
func (u *Upkeep) Analyze(ctx context.Context) (int, error) {
	tables, err := models.ListGrownTables(ctx, u.DB)
	if err != nil {
		return 0, fmt.Errorf("find the tables that have grown: %w", err)
	}
	for _, table := range tables {
		if err := models.Analyze(ctx, u.DB, table); err != nil {
			return 0, fmt.Errorf("analyze %s: %w", table, err)
		}
	}
	return len(tables), nil
}
