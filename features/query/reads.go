package query

import (
	"cmp"
	"time"

	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/internal/batch"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/checkpoints"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models/reports"
	"github.com/uptrace/bun"
)

// Reads are the checked reads, by subject. Rows that the caller may not see are NOT_FOUND.
type Reads struct {
	Jobs        *Jobs
	Workflows   *Workflows
	Queues      *Queues
	Fleet       *Fleet
	Models      *Models
	History     *History
	Costs       *Costs
	Reports     *Reports
	DeadLetters *DeadLetters
	Webhooks    *Webhooks
	Directory   *Directory
	// Shares limits the cost of lists: a caller that reads a list calls it first.
	Shares *Shares
	// Views are the saved lists of jobs.
	Views *Views
}

// Sources are what the reads come from.
type Sources struct {
	DB        *bun.DB
	Sealer    *seal.Sealer
	Objects   jobs.Objects
	Catalogue *catalogue.Catalogue
	// Estimates may be nil: then there are no forecasts.
	Estimates *estimate.Estimator
	// Checkpoints are the plans of the pools. It may be nil.
	Checkpoints *checkpoints.Plans
	// Clock tells how long unfinished work has lasted. The default reads PostgreSQL's.
	Clock *jobs.Clock
	// Shares may be nil: then few reads run at once.
	Shares *Shares
	// LinkKeys returns the keys of links to approvals: the first one signs, all of them verify. If it is
	// nil, there are no such links.
	LinkKeys func() [][]byte
	// Keep returns for how long what is of a kind is kept: 0 for what goes as soon as it can, and -1 for ever.
	Keep func(reports.Kind) time.Duration
}

// defaultReads is how many small and large reads run at once without Sources.Shares.
const defaultReads = 4

// New returns the reads of these sources.
func New(s Sources) *Reads {
	s.Clock, s.Shares = cmp.Or(s.Clock, &jobs.Clock{DB: s.DB}), cmp.Or(s.Shares, NewShares(defaultReads, defaultReads))
	timeline := &history.Timeline{DB: s.DB}
	r := &Reads{
		Jobs: &Jobs{
			db: s.DB, sealer: s.Sealer, objects: s.Objects, catalogue: s.Catalogue, estimates: s.Estimates, Clock: s.Clock,
			reads: batch.Group[*jobRead]{Linger: readLinger, MinSiblings: readSiblings, Enough: readsEnough},
		},
		Workflows:   &Workflows{db: s.DB, objects: s.Objects, clock: s.Clock, links: approvalLinks{s.LinkKeys}},
		Fleet:       &Fleet{db: s.DB, catalogue: s.Catalogue, checkpoints: s.Checkpoints},
		Models:      &Models{db: s.DB, Catalogue: s.Catalogue},
		DeadLetters: &DeadLetters{db: s.DB},
		Webhooks:    &Webhooks{db: s.DB},
		Directory:   &Directory{db: s.DB},
		Shares:      s.Shares,
		Views:       &Views{DB: s.DB},
	}
	r.Jobs.fleet = r.Fleet
	r.Queues = &Queues{db: s.DB, catalogue: s.Catalogue, estimates: s.Estimates, timeline: timeline, fleet: r.Fleet}
	r.Costs = &Costs{db: s.DB, timeline: timeline}
	r.Reports = &Reports{db: s.DB, jobs: r.Jobs, costs: r.Costs, keep: s.Keep}
	r.History = &History{db: s.DB, Timeline: timeline, queues: r.Queues}
	return r
}
