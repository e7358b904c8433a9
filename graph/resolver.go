// Package graph is the GraphQL API. A resolver reads its arguments, calls one method of
// the domain (package jobs and the packages below it), and returns the result.
//
// An operation passes these packages and files:
//
//   - handler.go authenticates the caller, except on a WebSocket, which
//     transport/protocol.go authenticates.
//   - Package transport reads the operation and sends its responses.
//   - Package limit refuses operations that would cost too much.
//   - response.go makes a response, within the caller's share of reads.
//   - The resolvers (*.resolvers.go) call the domain, and package loader reads the edges
//     between rows in batches.
//   - Package failure turns errors into what the caller reads.
//
// Three checks decide what a caller can reach: the key, before anything runs; the role
// that a root field requires (the directive @auth, auth.go); and the fields of a type
// that the role can see (visibility.go). The domain decides whose rows they are.
package graph

import (
	"context"
	"sync"
	"time"

	"github.com/reelay/reelay/features/alert"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/budget"
	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/features/erase"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/hosted"
	"github.com/reelay/reelay/features/pricebook"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/region"
	"github.com/reelay/reelay/features/registry"
	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/features/watch"
	"github.com/reelay/reelay/features/webhook"
	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// Resolver holds the parts of the domain that the API calls.
type Resolver struct {
	Submitter   *submit.Submitter
	Canceller   *operate.Canceller
	Deleter     *operate.Deleter
	Reads       *query.Reads
	Watcher     *watch.Watcher
	Leaser      *lease.Leaser
	Attempts    *lease.Attempts
	Retrier     *operate.Retrier
	Registrar   *fleet.Registrar
	Operator    *operate.QueueOperator
	Registry    *registry.Registry
	Fleet       *fleet.WorkerOperator
	Pools       *fleet.Pools
	Engines     *fleet.Engines
	Providers   *hosted.Accounts
	Prices      *pricebook.Prices
	DeadLetters *operate.DeadLetters
	Bulk        *bulk.Bulk
	Keys        *auth.Keys
	Accounts    *auth.Accounts
	Budgets     *budget.Budgets
	Eraser      *erase.Eraser
	Members     *auth.Members
	Webhooks    *webhook.Endpoints
	Inputs      *inputs.Inputs
	Alerts      *alert.Desk
	// ProviderWebhooks are those that hosted providers send.
	ProviderWebhooks *hosted.Webhooks
	// Examine runs the checks of the doctor.
	Examine func(ctx context.Context) ([]doctor.Finding, error)
	// RedisVersion returns the version of Redis, or "" if it is not known.
	RedisVersion func(ctx context.Context) string
	// Region returns how the regions stand, or nil if there is only one; it is nil if that is never known.
	Region    func(ctx context.Context) (*region.Report, error)
	Schedules *schedule.Schedules
	Workflows *workflow.Workflows

	// examining is held while the checks run.
	examining sync.Mutex
	// machines is Options.Machines.
	machines func(ctx context.Context, token string) (*jobs.Machine, error)
}

// poolOf returns a pool that an operator has just changed, with its numbers.
func (r *Resolver) poolOf(ctx context.Context, pool *capacity.Pool, err error) (*query.PoolStatus, error) {
	if err != nil {
		return nil, err
	}
	return r.Reads.Fleet.Pool(ctx, pool.ID)
}

// engineOf returns an engine that an operator has just changed, with its worker.
func (r *Resolver) engineOf(ctx context.Context, id models.PoolID, address string, err error) (*query.PoolEngine, error) {
	if err != nil {
		return nil, err
	}
	pool, err := r.Reads.Fleet.Pool(ctx, id)
	if err != nil {
		return nil, err
	}
	url, _ := engine.ParseURL(address) // the change has checked it
	for _, e := range pool.Engines {
		if e.URL == url {
			return e, nil
		}
	}
	return nil, apierror.NotFound("engine")
}

// examineWithin bounds an examination.
const examineWithin = time.Minute

var errExamining = apierror.Conflict("This API process is already running the checks. Try again in a minute.")

// examine runs the checks of the doctor, one examination at a time.
func (r *Resolver) examine(ctx context.Context) ([]*doctor.Finding, error) {
	if !r.examining.TryLock() {
		return nil, errExamining
	}
	defer r.examining.Unlock()
	ctx, cancel := context.WithTimeout(ctx, examineWithin)
	defer cancel()
	found, err := r.Examine(ctx)
	if err != nil {
		return nil, apierror.Wrap(err, "examine the system")
	}
	all := make([]*doctor.Finding, len(found))
	for i := range found {
		if found[i].IDs == nil {
			found[i].IDs = []string{}
		}
		all[i] = &found[i]
	}
	return all, nil
}
