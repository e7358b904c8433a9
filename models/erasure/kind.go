package erasure

// Kind is a kind of rows in the report of a deletion.
type Kind string

// What is deleted.
const (
	Schedules  Kind = "SCHEDULES"
	Webhooks   Kind = "WEBHOOK_ENDPOINTS"
	Deliveries Kind = "WEBHOOK_DELIVERIES"
	Workflows  Kind = "WORKFLOWS"
	Jobs       Kind = "JOBS"
	// Inputs are files that were uploaded, or announced, for jobs.
	Inputs Kind = "INPUTS"
	// Objects are the files of jobs in the object store.
	Objects    Kind = "OBJECTS"
	Operations Kind = "BULK_OPERATIONS"
	Budgets    Kind = "BUDGETS"
	Views      Kind = "SAVED_VIEWS"
	Users      Kind = "USER_IDS" // rows of the ledger of which the user was removed
	Members    Kind = "MEMBERS"
	Keys       Kind = "KEYS"
	// Cancelled are the jobs that the deletion cancelled first.
	Cancelled Kind = "CANCELLED_JOBS"
)

// What is kept.
const (
	Ledger Kind = "LEDGER"
	Audit  Kind = "AUDIT_LOG"
	Pools  Kind = "POOLS"
)

// Deleted and Kept list the kinds in the order of the report.
var (
	Deleted = []Kind{
		Cancelled, Jobs, Objects, Inputs, Workflows, Schedules, Webhooks, Deliveries, Operations, Budgets, Views, Members, Keys, Users,
	}
	Kept = []Kind{Ledger, Audit, Pools}
)
