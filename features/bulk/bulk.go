package bulk

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/joblist"
	"github.com/uptrace/bun"
)

// Bulk applies one action to many jobs, at a pace, on behalf of its creator.
//
// When an operation starts, the jobs that its filter matches are recorded, one item for each.
// Any number of processes then work off the items. A process holds the lock on an item's row
// while it acts, so that the item is free again if the process dies. The action then runs
// again: every action may be repeated.
type Bulk struct {
	DB    *bun.DB
	Verbs map[joblist.BulkAction]Verb
}

// Verb applies its action to one job, which is still in the run in which it was matched. It
// may be called again after it succeeded.
type Verb func(ctx context.Context, p jobs.Principal, op *joblist.BulkOperation, item *joblist.BulkItem) error

// Roles holds the roles that perform the actions.
type Roles struct {
	Canceller   *operate.Canceller
	Retrier     *operate.Retrier
	DeadLetters *operate.DeadLetters
	Deleter     *operate.Deleter
	Operator    *operate.QueueOperator
}

// Verbs returns all actions.
func (r Roles) Verbs() map[joblist.BulkAction]Verb {
	return map[joblist.BulkAction]Verb{
		joblist.BulkDelete: func(ctx context.Context, p jobs.Principal, _ *joblist.BulkOperation, item *joblist.BulkItem) error {
			_, err := r.Deleter.Delete(ctx, p, item.JobID)
			return err
		},
		joblist.BulkSetTier: func(ctx context.Context, p jobs.Principal, op *joblist.BulkOperation, item *joblist.BulkItem) error {
			_, err := r.Operator.SetJobTier(ctx, p, item.JobID, op.Tier)
			return err
		},
		joblist.BulkSetPriority: func(ctx context.Context, p jobs.Principal, op *joblist.BulkOperation, item *joblist.BulkItem) error {
			_, err := r.Operator.SetJobPriority(ctx, p, item.JobID, *op.Priority)
			return err
		},
		joblist.BulkCancel: func(ctx context.Context, p jobs.Principal, _ *joblist.BulkOperation, item *joblist.BulkItem) error {
			_, err := r.Canceller.Cancel(ctx, p, item.JobID)
			return err
		},
		joblist.BulkRetry: func(ctx context.Context, p jobs.Principal, _ *joblist.BulkOperation, item *joblist.BulkItem) error {
			_, err := r.Retrier.Retry(ctx, p, item.JobID, false)
			return err
		},
		joblist.BulkRedrive: func(ctx context.Context, p jobs.Principal, _ *joblist.BulkOperation, item *joblist.BulkItem) error {
			return r.DeadLetters.RedriveRun(ctx, p, item.JobID, item.Run)
		},
	}
}

// operatorsAlone holds the actions that only operators may perform.
var operatorsAlone = map[joblist.BulkAction]bool{joblist.BulkRedrive: true, joblist.BulkSetTier: true}

const (
	// MaxBulkJobs is the maximum number of jobs of one operation.
	MaxBulkJobs = 100_000
	// maxOpenBulk is how many unfinished operations an account may have.
	maxOpenBulk  = 20
	maxPerMinute = 60_000
	maxCanary    = 1_000
)

// defaultPace is the default pace of an operation, in items per minute. Actions that cause GPU
// work are slow.
func defaultPace(action joblist.BulkAction) int {
	if action.Reopens() {
		return 600
	}
	return 6_000
}

// Request says what to do to which jobs. A nil pointer means the default.
type Request struct {
	Action joblist.BulkAction
	Filter joblist.JobFilter
	// IDs, if not empty, are the jobs, at most MaxBulkIDs. The filter narrows them further.
	IDs []models.JobID
	// Tier is what SET_TIER sets, Priority, from -100 to 100, what SET_PRIORITY sets.
	Tier     models.Tier
	Priority *int
	// Eligible leaves out the jobs whose status rules the action out. Without it they fail.
	Eligible bool
	// Key is the caller's idempotency key, up to 200 characters: if its account has an
	// operation with this key, Start returns that one. Empty means none.
	Key string
	// DryRun only counts.
	DryRun bool
	// PerMinute is the pace, 1 to 60,000.
	PerMinute *int
	// Canary is how many jobs to do first. The others follow only if all of these succeeded.
	Canary *int
}

// maxRedrives is how many dead letters one call may redrive.
const maxRedrives = 10_000

// RedriveRequest says which dead letters to redrive, and how. A nil pointer means the default.
type RedriveRequest struct {
	Filter models.DeadLetterFilter
	// Limit is the maximum number to redrive, 1 to 10,000.
	Limit int
	// PerMinute and Canary are as in Request.
	PerMinute, Canary *int
}

// Redrive begins an operation that redrives the open dead letters that the filter matches,
// oldest jobs first. Unless the filter names an audience or a cause, these are only the
// operators' dead letters.
func (b *Bulk) Redrive(ctx context.Context, p jobs.Principal, r RedriveRequest) (*joblist.BulkOperation, error) {
	if err := query.ValidDeadLetterFilter(r.Filter); err != nil {
		return nil, err
	}
	if r.Limit < 1 || r.Limit > maxRedrives {
		return nil, apierror.Invalid("limit", "limit must be from 1 to %d; it is %d.", maxRedrives, r.Limit)
	}
	r.Filter = query.ForAudience(r.Filter)
	op, err := b.newOperation(p, Request{Action: joblist.BulkRedrive, PerMinute: r.PerMinute, Canary: r.Canary})
	if err != nil {
		return nil, err
	}
	return op, b.start(ctx, p, "redriveDeadLetters", op, r.Filter, func(ctx context.Context, tx bun.Tx) (int, error) {
		return joblist.InsertBulkDeadLetters(ctx, tx, op.ID, r.Filter, r.Limit)
	})
}

func (b *Bulk) newOperation(p jobs.Principal, r Request) (*joblist.BulkOperation, error) {
	op := &joblist.BulkOperation{
		ID: models.NewBulkID(), Action: r.Action, Tier: r.Tier, Priority: r.Priority, PerMinute: defaultPace(r.Action),
		AccountID: p.AccountID, StartedBy: p.KeyID, Role: p.Role, RequestKey: r.Key,
		Errors: []*joblist.BulkError{}, Outcomes: map[string]int{},
	}
	if r.PerMinute != nil {
		op.PerMinute = *r.PerMinute
	}
	if r.Canary != nil {
		op.Canary = *r.Canary
	}
	op.CanaryOver = op.Canary == 0
	switch {
	case !p.May(access.RoleClient):
		return nil, apierror.Forbidden("Bulk operations are for clients and operators: this key's role is %s.", p.Role)
	case b.Verbs[r.Action] == nil:
		return nil, apierror.Invalid("action", "There is no action %s.", text.Clip(string(r.Action), 32))
	case operatorsAlone[r.Action] && !p.May(access.RoleOperator):
		return nil, apierror.Forbidden("The action %s is for operators: this key's role is %s.", r.Action, p.Role)
	case r.Action != joblist.BulkSetTier && r.Tier != "":
		return nil, apierror.Invalid("tier", "tier goes with no action but SET_TIER: leave it out.")
	case r.Action == joblist.BulkSetTier && !slices.Contains(models.Tiers, r.Tier):
		return nil, apierror.Invalid("tier", "SET_TIER needs the tier to set.")
	case r.Action != joblist.BulkSetPriority && r.Priority != nil:
		return nil, apierror.Invalid("priority", "priority goes with no action but SET_PRIORITY: leave it out.")
	case r.Action == joblist.BulkSetPriority && r.Priority == nil:
		return nil, apierror.Invalid("priority", "SET_PRIORITY needs the priority to set.")
	case r.Priority != nil && (*r.Priority < -submit.MaxPriority || *r.Priority > submit.MaxPriority):
		return nil, apierror.Invalid("priority", "priority must be from %d to %d; it is %d.", -submit.MaxPriority, submit.MaxPriority,
			*r.Priority)
	case !text.Valid(r.Key, 0, maxRequestKey):
		return nil, apierror.Invalid("idempotencyKey", "idempotencyKey may have %d printable characters.", maxRequestKey)
	case op.PerMinute < 1 || op.PerMinute > maxPerMinute:
		return nil, apierror.Invalid("perMinute", "perMinute must be from 1 to %d; it is %d.", maxPerMinute, op.PerMinute)
	case op.Canary < 0 || op.Canary > maxCanary:
		return nil, apierror.Invalid("canary", "canary must be from 0 to %d; it is %d.", maxCanary, op.Canary)
	}
	return op, nil
}

func (b *Bulk) start(
	ctx context.Context, p jobs.Principal, as string, op *joblist.BulkOperation, filter any, match func(context.Context, bun.Tx) (int, error),
) error {
	var err error
	if op.Filter, err = json.Marshal(filter); err != nil {
		return fmt.Errorf("encode a filter: %w", err)
	}
	err = jobs.InTx(ctx, b.DB, func(ctx context.Context, tx bun.Tx) error {
		if err := joblist.InsertBulkOperation(ctx, tx, op); err != nil {
			return err
		}
		// Concurrent calls may exceed the limit a little. It only prevents one account from
		// filling the table.
		open, err := joblist.CountOpenBulk(ctx, tx, op.AccountID)
		if err != nil {
			return err
		}
		if open > maxOpenBulk {
			return apierror.Later(apierror.CodeQuotaExceeded, time.Minute,
				"This account has %d bulk operations that are not finished: wait for one to end, or cancel one.", open)
		}
		if op.Matched, err = match(ctx, tx); err != nil {
			return err
		}
		if op.Matched > MaxBulkJobs {
			return errTooManyJobs
		}
		if err := joblist.SetBulkMatched(ctx, tx, op); err != nil {
			return err
		}
		return auditBulk(ctx, p, tx, as, op, jobs.Payload{"action": op.Action, "filter": op.Filter, "tier": op.Tier, "matched": op.Matched})
	})
	return apierror.Wrap(err, "start bulk operation %s", op.ID)
}

// Get returns an operation, or NOT_FOUND. Operators see all operators' operations, of any
// account, because these concern every account's jobs.
func (b *Bulk) Get(ctx context.Context, p jobs.Principal, id models.BulkID) (*joblist.BulkOperation, error) {
	if !id.Valid() {
		return nil, apierror.NotFound("bulk operation")
	}
	op, err := joblist.GetBulkOperation(ctx, b.DB, id)
	if err == nil && !seesBulk(p, op) {
		return nil, apierror.NotFound("bulk operation")
	}
	if err != nil {
		return nil, apierror.Wrap(apierror.OrNotFound(err, "bulk operation"), "read bulk operation %s", id)
	}
	return op, nil
}

// List lists the operations that the caller may see, newest first. With open it lists only
// unfinished ones.
func (b *Bulk) List(ctx context.Context, p jobs.Principal, open bool, of paging.Request) (*paging.Page[*joblist.BulkOperation], error) {
	all := paging.ListOf("bulk", p.Scope(), open)
	mark, err := all.Begin(of)
	if err != nil {
		return nil, err
	}
	filter := joblist.BulkFilter{Open: open}
	if !p.May(access.RoleViewer) {
		filter.AccountID = p.AccountID
	}
	found, err := joblist.ListBulkOperations(ctx, b.DB, filter, models.BulkID(mark), of.First+1)
	if err != nil {
		return nil, fmt.Errorf("list bulk operations: %w", err)
	}
	return paging.NewPage(all, found, of.First, func(op *joblist.BulkOperation) string { return string(op.ID) }), nil
}

func seesBulk(p jobs.Principal, op *joblist.BulkOperation) bool {
	return p.May(access.RoleViewer) || op.Role == access.RoleClient && p.Sees(op.AccountID)
}

// Pause stops an operation after the jobs in progress. It returns CONFLICT for a finished one.
func (b *Bulk) Pause(ctx context.Context, p jobs.Principal, id models.BulkID) (*joblist.BulkOperation, error) {
	return b.steer(ctx, p, "pauseBulkOperation", id, func(ctx context.Context, tx bun.Tx, op *joblist.BulkOperation) error {
		op.Paused = true
		return joblist.SteerBulkOperation(ctx, tx, op)
	})
}

// Resume continues a paused operation, also one that its canary paused. It returns CONFLICT
// for a finished one.
func (b *Bulk) Resume(ctx context.Context, p jobs.Principal, id models.BulkID) (*joblist.BulkOperation, error) {
	return b.steer(ctx, p, "resumeBulkOperation", id, func(ctx context.Context, tx bun.Tx, op *joblist.BulkOperation) error {
		op.Paused = false
		return joblist.SteerBulkOperation(ctx, tx, op)
	})
}

// Cancel ends an operation after the jobs in progress; the others stay as they are. It returns
// CONFLICT for a finished one.
func (b *Bulk) Cancel(ctx context.Context, p jobs.Principal, id models.BulkID) (*joblist.BulkOperation, error) {
	return b.steer(ctx, p, "cancelBulkOperation", id, joblist.EndBulkOperation)
}

func (b *Bulk) steer(
	ctx context.Context, p jobs.Principal, as string, id models.BulkID, change func(context.Context, bun.Tx, *joblist.BulkOperation) error,
) (op *joblist.BulkOperation, err error) {
	if err := p.RequireChange(); err != nil {
		return nil, err
	}
	if op, err = b.Get(ctx, p, id); err != nil {
		return nil, err
	}
	err = jobs.InTx(ctx, b.DB, func(ctx context.Context, tx bun.Tx) error {
		if op, err = joblist.LockBulkOperation(ctx, tx, id); err != nil {
			return apierror.OrNotFound(err, "bulk operation")
		}
		if !op.FinishedAt.IsZero() {
			return apierror.Conflict("This bulk operation is finished.")
		}
		if err := auditBulk(ctx, p, tx, as, op, jobs.Payload{"paused": op.Paused}); err != nil {
			return err
		}
		return change(ctx, tx, op)
	})
	if err != nil {
		return nil, apierror.Wrap(err, "steer bulk operation %s", id)
	}
	return op, nil
}

// auditBulk adds an operator's action on an operation to the audit log. Clients act on their
// own jobs, which is not logged.
func auditBulk(ctx context.Context, p jobs.Principal, tx bun.Tx, as string, op *joblist.BulkOperation, more jobs.Payload) error {
	if !p.May(access.RoleOperator) {
		return nil
	}
	return p.Audit(ctx, tx, as, string(op.ID), more)
}
