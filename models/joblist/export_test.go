package joblist

import (
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// MatchJobs selects all jobs that match a filter in the simplest way.
func MatchJobs(db bun.IDB, f JobFilter) *bun.SelectQuery {
	c := and(f.conditions())
	return db.NewSelect().Model((*models.Job)(nil)).Column("j.id").Where(c.sql, c.args...).Order("j.id DESC")
}
