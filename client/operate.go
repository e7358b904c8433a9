package client

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/Khan/genqlient/graphql"
)

// IDs returns the ids that begin with a prefix such as job_01937d3e, at most 10: its kind, and at
// least 6 hex digits. Only ids that the caller may see are found.
func (c *Client) IDs(ctx context.Context, prefix string) ([]string, error) {
	data, err := ids(ctx, repeater{c}, prefix)
	if err != nil {
		return nil, err
	}
	return data.Ids, nil
}

// JobAttempts returns a job's attempts, oldest first, and its status, or a NOT_FOUND error.
func (c *Client) JobAttempts(ctx context.Context, id string) ([]Attempt, JobStatus, error) {
	data, err := jobAttempts(ctx, repeater{c}, id)
	if err != nil {
		return nil, "", err
	}
	job, err := found(data.Job, "job", id)
	if err != nil {
		return nil, "", err
	}
	return job.Attempts, job.Status, nil
}

// LiveLog returns what the worker of an attempt has sent of its log after a number of bytes: 0, or
// the End of the answer before.
func (c *Client) LiveLog(ctx context.Context, attemptID string, after int64) (*LiveLog, error) {
	data, err := liveLog(ctx, repeater{c}, attemptID, after)
	if err != nil {
		return nil, err
	}
	node, err := found(data.Node, "attempt", attemptID)
	if err != nil {
		return nil, err
	}
	attempt, ok := (*node).(*liveLogNodeAttempt)
	if !ok {
		return nil, fmt.Errorf("%s is not the id of an attempt", attemptID)
	}
	return &attempt.LiveLog, nil
}

// JobEventPage returns one page of a job's events, oldest first, and the job's status, or a
// NOT_FOUND error; first and after are those of Jobs.
func (c *Client) JobEventPage(ctx context.Context, id string, first int, after string) (*JobEventPage, JobStatus, error) {
	data, err := jobEventPage(ctx, repeater{c}, id, Optional(first), Optional(after))
	if err != nil {
		return nil, "", err
	}
	job, err := found(data.Job, "job", id)
	if err != nil {
		return nil, "", err
	}
	return &job.Events, job.Status, nil
}

// Overview returns the state of all of Reelay. It needs an operator's key.
func (c *Client) Overview(ctx context.Context) (*Overview, error) {
	data, err := overview(ctx, repeater{c})
	if err != nil {
		return nil, err
	}
	return &data.Overview, nil
}

// Attention returns what an operator should look at, the most urgent first. It needs an operator's
// key.
func (c *Client) Attention(ctx context.Context) ([]AttentionCause, error) {
	data, err := attention(ctx, repeater{c})
	if err != nil {
		return nil, err
	}
	return data.Attention, nil
}

// ServerVersion returns the version of the API.
func (c *Client) ServerVersion(ctx context.Context) (string, error) {
	data, err := serverVersion(ctx, repeater{c})
	if err != nil {
		return "", err
	}
	return data.Version, nil
}

// Do sends any GraphQL document once, and returns the data of its answer.
func (c *Client) Do(ctx context.Context, document string, variables map[string]any) (json.RawMessage, error) {
	var data json.RawMessage
	request := &graphql.Request{Query: document, Variables: variables}
	if err := (caller{c}).MakeRequest(ctx, request, &graphql.Response{Data: &data}); err != nil {
		return nil, err
	}
	return data, nil
}

// SetJobTier moves a waiting job to a tier's lane at once, and a running job when it is queued
// again. It needs an operator's key.
func (c *Client) SetJobTier(ctx context.Context, id string, tier Tier) (*Job, error) {
	data, err := setJobTier(ctx, repeater{c}, id, tier)
	if err != nil {
		return nil, err
	}
	return &data.SetJobTier, nil
}

// SetJobPriority changes a job's order among the account's jobs of its lane, from -100 to 100. If
// the job has ended, it returns a CONFLICT error.
func (c *Client) SetJobPriority(ctx context.Context, id string, priority int) (*Job, error) {
	data, err := setJobPriority(ctx, repeater{c}, id, priority)
	if err != nil {
		return nil, err
	}
	return &data.SetJobPriority, nil
}

// DecideSubmit ends the wait of a job whose submit a hosted provider did not answer: it is submitted again, which may
// be paid twice, or it fails.
func (c *Client) DecideSubmit(ctx context.Context, id string, decision SubmitDecision) (*Job, error) {
	data, err := decideSubmit(ctx, caller{c}, id, decision)
	if err != nil {
		return nil, err
	}
	return &data.DecideSubmit, nil
}

// ResetProvider closes the circuit of a pool's hosted provider and ends its pause.
func (c *Client) ResetProvider(ctx context.Context, poolID string) (*Pool, error) {
	data, err := resetProvider(ctx, repeater{c}, poolID)
	if err != nil {
		return nil, err
	}
	return &data.ResetProvider, nil
}

// DeadLetterFilter selects dead letters. Its zero value selects the open ones that operators
// must act on.
type DeadLetterFilter struct {
	Fingerprint string
	Class       FailureClass
	Model       string
	// Audience is who must act. Without one it is OPERATOR, or both if Fingerprint or Class is
	// set.
	Audience []DeadLetterAudience
	// Resolved selects the resolved ones instead of the open ones.
	Resolved bool
}

// DeadLetters returns one page of the dead letters, newest first; first and after are those of
// Jobs. It needs an operator's key, as everything about dead letters.
func (c *Client) DeadLetters(ctx context.Context, f DeadLetterFilter, first int, after string) (*DeadLetterPage, error) {
	data, err := deadLetters(ctx, repeater{c}, Optional(f.Fingerprint), Optional(f.Class), Optional(f.Model), f.Audience, &f.Resolved,
		Optional(first), Optional(after))
	if err != nil {
		return nil, err
	}
	return &data.DeadLetters, nil
}

// DeadLetter returns a dead letter, or a NOT_FOUND error.
func (c *Client) DeadLetter(ctx context.Context, id string) (*DeadLetter, error) {
	data, err := deadLetter(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	if data.Node != nil {
		if letter, ok := (*data.Node).(*deadLetterNodeDeadLetter); ok {
			return &letter.DeadLetter, nil
		}
	}
	return found[DeadLetter](nil, "dead letter", id)
}

// DeadLetterGroups returns the causes of dead letters, the most frequent first.
func (c *Client) DeadLetterGroups(ctx context.Context, audience []DeadLetterAudience, resolved bool) ([]DeadLetterGroup, error) {
	data, err := deadLetterGroups(ctx, repeater{c}, audience, &resolved)
	if err != nil {
		return nil, err
	}
	return data.DeadLetterGroups, nil
}

// RedriveDeadLetter starts the next run of a dead letter's job, in the lane CRITICAL. With other
// params (all of them, as JSON) or another prompt it starts from scratch. Repeated calls return
// the same job.
func (c *Client) RedriveDeadLetter(ctx context.Context, id string, params []byte, prompt string) (*Job, error) {
	var raw *json.RawMessage
	if len(params) > 0 {
		raw = new(json.RawMessage(params))
	}
	data, err := redriveDeadLetter(ctx, repeater{c}, id, raw, Optional(prompt))
	if err != nil {
		return nil, err
	}
	return &data.RedriveDeadLetter, nil
}

// RedriveDeadLetters starts a bulk operation that redrives at most limit of the dead letters of a
// filter (0 means 1,000), the first canary ones before the others, perMinute at a time (0 means
// 600). It returns their number.
func (c *Client) RedriveDeadLetters(ctx context.Context, f DeadLetterFilter, limit, perMinute, canary int) (int, error) {
	data, err := redriveDeadLetters(ctx, caller{c}, Optional(f.Fingerprint), Optional(f.Class), Optional(f.Model), f.Audience, Optional(limit),
		Optional(perMinute), Optional(canary))
	if err != nil {
		return 0, err
	}
	return data.RedriveDeadLetters, nil
}

// DiscardDeadLetter resolves a dead letter without another run. The note can be "".
func (c *Client) DiscardDeadLetter(ctx context.Context, id, note string) (*DeadLetter, error) {
	data, err := discardDeadLetter(ctx, repeater{c}, id, Optional(note))
	if err != nil {
		return nil, err
	}
	return &data.DiscardDeadLetter, nil
}

// BulkInput is an action on many jobs.
type BulkInput struct {
	Action BulkAction
	// Filter selects the jobs. IDs, up to 5,000, narrow it; one of the two is needed.
	Filter *JobFilter
	IDs    []string
	// Tier is the tier of SET_TIER.
	Tier Tier
	// Priority is the priority of SET_PRIORITY, from -100 to 100, and nil for other actions.
	Priority *int
	// Eligible leaves out the jobs whose status rules the action out, which fail otherwise.
	Eligible bool
	// PerMinute is the rate, 1 to 60,000. Canary is how many jobs go first.
	PerMinute, Canary int
	// Key makes a repeated call return the operation of the first.
	Key string
}

// StartBulk starts a bulk operation. If dryRun is true, it only counts the jobs.
func (c *Client) StartBulk(ctx context.Context, in BulkInput, dryRun bool) (*BulkOperation, error) {
	var via graphql.Client = caller{c}
	if dryRun || in.Key != "" {
		via = repeater{c}
	}
	data, err := startBulkOperation(ctx, via, in.Action, in.Filter, Optional(in.Tier), &dryRun, Optional(in.PerMinute), Optional(in.Canary),
		in.IDs, &in.Eligible, Optional(in.Key), in.Priority)
	if err != nil {
		return nil, err
	}
	return &data.StartBulkOperation, nil
}

// BulkOperation returns a bulk operation, or a NOT_FOUND error.
func (c *Client) BulkOperation(ctx context.Context, id string) (*BulkOperation, error) {
	data, err := bulkOperation(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	return found(data.BulkOperation, "bulk operation", id)
}

// BulkOperations returns one page of the bulk operations, newest first, or only those that have
// not ended; first and after are those of Jobs.
func (c *Client) BulkOperations(ctx context.Context, open bool, first int, after string) (*BulkPage, error) {
	data, err := bulkOperations(ctx, repeater{c}, &open, Optional(first), Optional(after))
	if err != nil {
		return nil, err
	}
	return &data.BulkOperations, nil
}

// PauseBulk pauses a bulk operation.
func (c *Client) PauseBulk(ctx context.Context, id string) (*BulkOperation, error) {
	data, err := pauseBulkOperation(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.PauseBulkOperation, nil
}

// ResumeBulk continues a bulk operation that was paused, or that paused by itself because its
// canary failed.
func (c *Client) ResumeBulk(ctx context.Context, id string) (*BulkOperation, error) {
	data, err := resumeBulkOperation(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.ResumeBulkOperation, nil
}

// CancelBulk ends a bulk operation after its current jobs.
func (c *Client) CancelBulk(ctx context.Context, id string) (*BulkOperation, error) {
	data, err := cancelBulkOperation(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.CancelBulkOperation, nil
}

// DiscardDeadLetters resolves the open dead letters with a fingerprint without another run, at
// most 10,000, and returns how many it resolved. The note can be "".
func (c *Client) DiscardDeadLetters(ctx context.Context, fingerprint, note string) (int, error) {
	data, err := discardDeadLetters(ctx, caller{c}, fingerprint, Optional(note))
	if err != nil {
		return 0, err
	}
	return data.DiscardDeadLetters, nil
}
