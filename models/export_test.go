package models

import "github.com/uptrace/bun"

// MatchJobs selects all that a filter matches in the plainest way.
func MatchJobs(db bun.IDB, f JobFilter) *bun.SelectQuery {
	return f.apply(db.NewSelect().Model((*Job)(nil)).Column("j.id")).Order("j.id DESC")
}
