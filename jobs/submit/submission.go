package submit

import (
	"encoding/json"
	"time"

	"github.com/reelay/reelay/models"
)

// Submission is a client's request for a job. Nil pointers and empty values mean the default.
type Submission struct {
	Type           string
	Model          string
	Prompt         string
	Params         json.RawMessage
	Tier           models.Tier
	Priority       int
	IdempotencyKey *string
	MaxAttempts    *int
	TimeoutSeconds *int
	UserID         string
	Metadata       json.RawMessage
	// CallbackURL is called when a run of the job ends. If empty, only the account's endpoints
	// are.
	CallbackURL string
	// RunAt is the earliest time at which the job may start; nil means at once. The job
	// expires if it has not started by ExpiresAt; nil means never.
	RunAt, ExpiresAt *time.Time
	// DependsOn are jobs of the same account that must be COMPLETED first.
	DependsOn []models.JobID
	// Region is a preference, or a requirement if RequireRegion is set.
	Region        string
	RequireRegion bool
	// Retry narrows the backoff between attempts.
	Retry *models.RetryPolicy
	// AtMostOnce ends the job FAILED if its only attempt ends without success, for whatever
	// reason. It excludes MaxAttempts above 1 and Retry.
	AtMostOnce bool
	// MaxPreemptions is after how many losses of spot workers a run continues on on-demand
	// capacity only, 0 to 1000; nil means never.
	MaxPreemptions *int
	// FinishBy is when the job should be complete; nil means no time. Without slack, the job
	// runs on on-demand capacity only.
	FinishBy *time.Time
	// MaxPricePerHour is the highest price of a worker that may run the job, in USD, 0 to
	// 10,000. It counts in steps, see priceSteps; nil means any price.
	MaxPricePerHour *float64
	// Draft asks for a draft of the video; nil asks for the video.
	Draft *Draft
	// Video is the Videos API's own data; nil for any other caller.
	Video *VideoRequest

	// takes is shared by the drafts of one request. continues is the draft that the job continues.
	takes     models.TakesID
	continues models.JobID
	// node is the node of a workflow that the job is; nil for any other.
	node *GraphNode
}

// Draft asks for a job that ends after some steps: with a preview and a checkpoint, and without
// a video.
type Draft struct {
	// Steps is 1 to the steps of the whole video.
	Steps int
}

// VideoRequest is what a Submission from the Videos API has in addition.
type VideoRequest struct {
	// Model, Size and Seconds are the client's own values, and are returned unchanged.
	Model, Size, Seconds string
	// RemixOf is the job that it is a remix of.
	RemixOf models.JobID
	// Digest (32 bytes) is equal for equal requests of the same caller.
	Digest []byte
	// Retry is the number of the retry, as the sender states it; 0 is the first request.
	Retry int
	// Age is how long ago the request arrived.
	Age time.Duration
}

// GraphNode is a node of a [Graph]. JobID is set: that of the new job, or of the job that is
// reused.
type GraphNode struct {
	models.WorkflowNode
	// Submission is the request of the new job. It has no idempotency key.
	Submission Submission
	// Parents are the jobs of the nodes that it waits for.
	Parents []models.JobID
}
