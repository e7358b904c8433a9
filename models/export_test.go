package models

import (
	"fmt"

	"github.com/uptrace/bun"
)

// MatchJobs selects all that a filter matches in the plainest way.
func MatchJobs(db bun.IDB, f JobFilter) *bun.SelectQuery {
	c := and(f.conditions())
	return db.NewSelect().Model((*Job)(nil)).Column("j.id").Where(c.sql, c.args...).Order("j.id DESC")
}

// These are asked as prepared statements, which hooks do not see.
const (
	CountUserQueuesSQL = countUserQueuesSQL
	ExtendLeasesSQL    = extendLeasesSQL
	ListAwaitedSQL     = listAwaitedSQL
	NextInOrderSQL     = nextInOrderSQL
	NextJobsSQL        = nextJobsSQL
)

// ListEventsAfterSQL is what ListEventsAfter asks.
func ListEventsAfterSQL(db bun.IDB) string {
	return fmt.Sprintf(listEventsAfterSQL, columnsSQL(tableOf[JobEvent](db)))
}

// TouchWorkersSQL is what TouchWorkers asks.
func TouchWorkersSQL(db bun.IDB) string {
	return fmt.Sprintf(touchWorkersSQL, columnsSQL(tableOf[Worker](db)))
}
