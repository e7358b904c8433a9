package models

import "github.com/uptrace/bun"

// MatchJobs selects all that a filter matches in the plainest way.
func MatchJobs(db bun.IDB, f JobFilter) *bun.SelectQuery {
	c := and(f.conditions())
	return db.NewSelect().Model((*Job)(nil)).Column("j.id").Where(c.sql, c.args...).Order("j.id DESC")
}

// Statements that hooks do not see.
var (
	NextInOrderSQL = nextInOrderSQL
	NextJobsSQL    = nextJobsSQL
)
