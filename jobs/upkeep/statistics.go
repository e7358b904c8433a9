package upkeep

import (
	"context"
	"fmt"

	"github.com/reelay/reelay/models"
)

// Analyze renews the statistics of the tables that have doubled since they were last
// renewed, and returns how many those are. Autovacuum looks once a minute; until then
// connections keep the plans that they made while a table was empty.
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
