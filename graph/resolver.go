// Package graph is the GraphQL API. A resolver reads its arguments, calls one
// verb of the domain (jobs), and returns what it answers.
//
// What a caller may reach is decided in three places: whose key it is, before
// anything runs (handler.go, socket.go); which root fields its role may call (the
// schema's @auth, auth.go); and which fields of a type it is shown
// (visibility.go). Whose rows they are is for jobs to decide.
package graph

import (
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/auth"
	"github.com/reelay/reelay/jobs/bulk"
	"github.com/reelay/reelay/jobs/fleet"
	"github.com/reelay/reelay/jobs/query"
	"github.com/reelay/reelay/jobs/watch"
	"github.com/reelay/reelay/jobs/webhook"
)

// Resolver holds the roles of the domain that the API calls.
type Resolver struct {
	Submitter *jobs.Submitter
	Canceller *jobs.Canceller
	Deleter   *jobs.Deleter
	Reader    *query.Reader
	Watcher   *watch.Watcher
	Leaser    *jobs.Leaser
	Holder    *jobs.Holder
	Retrier   *jobs.Retrier
	Registrar *fleet.Registrar
	Operator  *jobs.Operator
	Fleet     *fleet.Operator
	Letters   *jobs.DeadLetters
	Bulk      *bulk.Bulk
	Keys      *auth.Keys
	Accounts  *auth.Accounts
	Webhooks  *webhook.Endpoints
	Inputs    *jobs.Inputs
}
