package query

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
)

// ChangeKind says what a change of the installation is about.
type ChangeKind string

const (
	ChangeModel   ChangeKind = "MODEL"
	ChangePool    ChangeKind = "POOL"
	ChangeWorker  ChangeKind = "WORKER"
	ChangeQueue   ChangeKind = "QUEUE"
	ChangeHalt    ChangeKind = "HALT"
	ChangeAccount ChangeKind = "ACCOUNT"
	ChangeMember  ChangeKind = "MEMBER"
	ChangeKey     ChangeKind = "KEY"
	ChangeAlert   ChangeKind = "ALERT"
	ChangeProcess ChangeKind = "PROCESS"
)

// ChangeKinds lists the kinds in the order in which they are offered.
var ChangeKinds = []ChangeKind{
	ChangeModel, ChangePool, ChangeWorker, ChangeQueue, ChangeHalt, ChangeAccount, ChangeMember, ChangeKey, ChangeAlert, ChangeProcess,
}

// Change is a change of the installation, as every operator may read it: an entry of the audit
// log without what belongs to an account's jobs, and without secrets.
type Change struct {
	// ID is that of the entry in the audit log.
	ID   string
	At   time.Time
	Kind ChangeKind
	// Action is the name of the API's mutation, or startProcess.
	Action string
	// Actor is who did it: the name of a key, or a member's e-mail address and role.
	Actor string
	// Target is the id or the name of what was changed.
	Target string
	// Title is one sentence without a full stop.
	Title string
	// Details are lines such as "maxWorkers: 3 → 5".
	Details []string
}

// ChangeFilter narrows the feed of changes. Empty fields match everything.
type ChangeFilter struct {
	Kinds []ChangeKind
	// Target is the id or the name of what was changed.
	Target string
	// Since and Until bound the time; Until is excluded.
	Since, Until time.Time
}

// Changes lists what changed in the installation, newest first: models, pools, workers, queues,
// halts, accounts, members, keys, silences, and the versions and settings of processes. It is for
// OPERATOR and VIEWER; the whole audit log is for ADMIN. It returns INVALID_INPUT for an unknown
// kind, and for an until that is not after since.
func (r *History) Changes(ctx context.Context, p jobs.Principal, f ChangeFilter, of paging.Request) (*paging.Page[*Change], error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Until.After(f.Since) {
		return nil, apierror.Invalid("until", "until must be after since.")
	}
	var actions []string
	for _, action := range slices.Sorted(maps.Keys(changeWords)) {
		if len(f.Kinds) == 0 || slices.Contains(f.Kinds, changeWords[action].kind) {
			actions = append(actions, action)
		}
	}
	for _, kind := range f.Kinds {
		if !slices.Contains(ChangeKinds, kind) {
			return nil, apierror.Invalid("kinds", "There is no such kind of change.")
		}
	}
	if !text.Valid(f.Target, 0, jobs.MaxTargetRunes) {
		return nil, apierror.Invalid("target", "target may have %d printable characters.", jobs.MaxTargetRunes)
	}
	all := paging.ListOf("aud", "changes", f)
	mark, err := all.Begin(of)
	if err != nil {
		return nil, err
	}
	acts, err := access.ListActs(ctx, r.db, access.ActFilter{Actions: actions, Target: f.Target, Since: f.Since, Until: f.Until},
		models.AuditID(mark), of.First+1)
	if err != nil {
		return nil, fmt.Errorf("list the changes: %w", err)
	}
	names, err := r.actNames(ctx, acts)
	if err != nil {
		return nil, err
	}
	changes := make([]*Change, len(acts))
	for i, act := range acts {
		changes[i] = changeOf(act, names)
	}
	return paging.NewPage(all, changes, of.First, func(c *Change) string { return c.ID }), nil
}
