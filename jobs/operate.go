package jobs

import (
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/uptrace/bun"
)

// Operator is what a person who steers the queues may do to them, and to where a
// job stands.
type Operator struct {
	DB        *bun.DB
	Notifier  *Notifier
	Catalogue *catalogue.Catalogue
}
