package doctor

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/migrations"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Doctor examines a live system: whether what must hold of jobs does hold, and
// whether what all of it stands on is as it should be. It changes nothing; it
// writes one small object, and deletes it again.
type Doctor struct {
	DB      *bun.DB
	Objects ExaminedObjects
	Index   jobs.ReadyIndex
	// Others know best themselves what to look at.
	Others []Examiner
}

// Examiner is a part of the system that can tell how it is.
type Examiner interface {
	Examine(ctx context.Context) []Finding
}

// ExaminedObjects is the object store as a doctor asks it.
type ExaminedObjects interface {
	// Stat returns what the store holds, or ErrNoObject.
	Stat(ctx context.Context, key string) (jobs.Object, error)
	// Open reads an object of that size, or returns ErrNoObject. Its bytes are
	// those in the store, whatever its checksum says.
	Open(ctx context.Context, key string, size int64) (io.ReadCloser, error)
	// Put writes a small object.
	Put(ctx context.Context, key string, data []byte) error
	// Delete removes an object. One that is gone already is no error.
	Delete(ctx context.Context, key string) error
}

// Level is how bad a finding is.
type Level string

const (
	// LevelOK means that there is nothing to say.
	LevelOK Level = "OK"
	// LevelAdvice is something that should be better, and breaks no promise yet.
	LevelAdvice Level = "ADVICE"
	// LevelBroken is a promise that is broken.
	LevelBroken Level = "BROKEN"
	// LevelUnknown means that it could not be looked at.
	LevelUnknown Level = "UNKNOWN"
)

// Finding is what one check found.
type Finding struct {
	Check string `json:"check"`
	Level Level  `json:"level"`
	// Holds is what the check is about, as it should be.
	Holds string `json:"holds"`
	// Found is what is there instead; empty if all is well.
	Found string `json:"found,omitempty"`
	// IDs are some of the rows in question, and Count is how many there are.
	IDs   []string `json:"ids,omitempty"`
	Count int      `json:"count,omitempty"`
	// Matters is why to care, and Fix what to do.
	Matters string `json:"matters,omitempty"`
	Fix     string `json:"fix,omitempty"`
}

// Checkup is how closely to look.
type Checkup struct {
	// Full reads every job, however old, instead of the newest ones and of those
	// that are not over.
	Full bool
	// Hash reads the bytes of objects, instead of believing the store.
	Hash bool
	// Progress, unless it is nil, is called before each check: how many are done, of how many,
	// and what the next one is about.
	Progress func(done, of int, next string)
}

// next reports that a check begins.
func (c Checkup) next(done, of int, next string) {
	if c.Progress != nil {
		c.Progress(done, of, next)
	}
}

const (
	// checkupJobs is how many of the newest jobs are looked at.
	checkupJobs = 10_000
	// checkupIDs is how many ids a finding shows.
	checkupIDs = 20
	// checkupStatement is how long one check may take, and fullStatement if it is
	// to read everything.
	checkupStatement = 20 * time.Second
	fullStatement    = 30 * time.Minute
)

// Examine returns what each check found. It returns an error if PostgreSQL
// cannot be asked: without it nothing is known.
func (d *Doctor) Examine(ctx context.Context, c Checkup) ([]Finding, error) {
	const around = 5 // checks beside those of the rows
	before, of := 1+len(invariantChecks), len(invariantChecks)+around+len(d.Others)
	c.next(0, of, "the schema")
	schema, err := d.schema(ctx)
	if err != nil {
		return nil, err
	}
	if schema.Level == LevelBroken {
		return []Finding{schema}, nil // the queries are made for the whole schema
	}
	found, err := d.invariants(ctx, c, of)
	if err != nil {
		return nil, fmt.Errorf("examine the rows: %w", err)
	}
	c.next(before, of, "the configuration of PostgreSQL")
	surroundings, err := d.surroundings(ctx)
	if err != nil {
		return nil, fmt.Errorf("examine PostgreSQL: %w", err)
	}
	c.next(before+1, of, "the objects of jobs")
	objects, err := d.pointers(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("examine the objects: %w", err)
	}
	c.next(before+2, of, "the ready index")
	index, err := d.index(ctx)
	if err != nil {
		return nil, fmt.Errorf("examine the ready index: %w", err)
	}
	c.next(before+3, of, "the object store")
	found = append(found, objects, d.probe(ctx), schema)
	found = append(append(found, surroundings...), index)
	for i, other := range d.Others {
		c.next(before+4+i, of, "what else is used")
		found = append(found, other.Examine(ctx)...)
	}
	return found, nil
}

// Worst returns the worst level of these findings.
func Worst(found []Finding) Level {
	order := map[Level]int{LevelOK: 0, LevelAdvice: 1, LevelUnknown: 2, LevelBroken: 3}
	worst := LevelOK
	for _, f := range found {
		if order[f.Level] > order[worst] {
			worst = f.Level
		}
	}
	return worst
}

// invariants are examined in one snapshot: what is written meanwhile is seen
// whole or not at all.
func (d *Doctor) invariants(ctx context.Context, c Checkup, of int) ([]Finding, error) {
	e := Examination()
	limit := checkupStatement
	if e.Jobs = checkupJobs; c.Full {
		e.Jobs, limit = 0, fullStatement
	}
	var found []Finding
	err := jobs.InSnapshot(ctx, d.DB, func(ctx context.Context, tx bun.Tx) error {
		if err := models.BoundStatements(ctx, tx, limit); err != nil {
			return err
		}
		for i, check := range invariantChecks {
			c.next(1+i, of, string(check.which))
			f, err := check.examine(ctx, tx, e)
			if err != nil {
				return fmt.Errorf("%s: %w", check.which, err)
			}
			found = append(found, f)
		}
		return nil
	})
	return found, err
}

func (check invariantCheck) examine(ctx context.Context, tx bun.Tx, e models.Examination) (Finding, error) {
	f := Finding{Check: string(check.which), Level: LevelOK, Holds: check.holds}
	var broken models.Violations
	err := tx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) (err error) { // a savepoint
		broken, err = models.FindViolations(ctx, tx, check.which, e, checkupIDs)
		return err
	})
	if models.IsStatementTimeout(err) {
		f.Level, f.Found = LevelUnknown, "This check took too long and was stopped."
		f.Fix = "Run it again when PostgreSQL is less busy, or with --full, which has a longer time limit."
		return f, nil
	}
	if broken.Count > 0 {
		f.Level, f.IDs, f.Count, f.Found = LevelBroken, broken.IDs, broken.Count, check.found
		f.Matters, f.Fix = check.matters, check.fix
	}
	return f, err
}

// Examination is what the rows are examined by.
func Examination() models.Examination {
	e := models.Examination{Edges: historyEdges()}
	for _, lane := range models.Tiers {
		if target := jobs.Policies[lane].WaitTarget; target != jobs.NoTarget {
			e.Lanes = append(e.Lanes, lane)
			e.Waits = append(e.Waits, max(stuckTargets*target, time.Minute).Seconds())
		}
	}
	return e
}

// stuckTargets is how many wait targets a job may be queued while a worker that
// could run it is idle.
const stuckTargets = 10

// historyEdges are the moves of the state machine as events tell of them: that a
// job is COMPLETING shows in none, and that a waiting one changed its lane in
// one of the state that it stays in.
func historyEdges() []string {
	var edges []string
	for from, all := range change.Moves {
		if from.Waiting() {
			edges = append(edges, ">"+string(from), string(from)+">"+string(from))
		}
		if from == models.JobCompleting {
			from = models.JobRunning
		}
		for _, to := range all {
			edges = append(edges, string(from)+">"+string(to))
		}
	}
	return edges
}

// schema compares the database's schema with this program's.
func (d *Doctor) schema(ctx context.Context) (Finding, error) {
	f := Finding{Check: "schema", Level: LevelOK, Holds: "The database schema matches this program."}
	missing, unknown, err := migrations.Compare(ctx, d.DB)
	switch {
	case err != nil:
		return f, fmt.Errorf("read the version of the schema; run `reelay migrate` if it never ran: %w", err)
	case len(missing) > 0:
		f.Level, f.Found, f.IDs, f.Count = LevelBroken, "The schema lacks steps that this program needs.", missing, len(missing)
		f.Matters, f.Fix = "Queries of this program fail. Nothing else was examined.", "Run `reelay migrate`."
	case len(unknown) > 0:
		f.Level, f.Found, f.IDs, f.Count = LevelAdvice, "The schema has steps that this program does not know.", unknown, len(unknown)
		f.Matters, f.Fix = "A newer Reelay created it; this version does not use all of it.", "Upgrade every process to the newer version."
	}
	return f, nil
}
