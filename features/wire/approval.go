package wire

import (
	"context"
	"strings"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

// Approval is the question of a node and its answer, as REST and webhooks show them.
type Approval struct {
	Question   string              `json:"question"`
	Candidates []ApprovalCandidate `json:"candidates" nullable:"false" doc:"The jobs that can be picked, in the order of the params."`
	AskedAt    *time.Time          `json:"asked_at" doc:"When the question was asked. Null while candidates have not ended."`
	ExpiresAt  *time.Time          `json:"expires_at" doc:"When on_timeout applies if there is no answer."`
	OnTimeout  string              `json:"on_timeout" doc:"reject, approve or first."`
	URL        *string             `json:"url" doc:"A page that shows the candidates, with buttons to answer. Whoever has this link can answer, once, without a login. Null unless an answer is awaited."`
	Decision   *string             `json:"decision" enum:"approved,rejected"`
	DecidedAt  *time.Time          `json:"decided_at"`
	DecidedBy  *string             `json:"decided_by" doc:"Who answered: a key, a member, the link, or timeout."`
	Note       *string             `json:"note"`
	Picked     *string             `json:"picked" doc:"The picked candidate: its key in the workflow, or the id of its job."`
}

// ApprovalCandidate is a job whose result an approval can have.
type ApprovalCandidate struct {
	Key   *string      `json:"key" doc:"Its key in the workflow. Null if it is no node of it."`
	JobID models.JobID `json:"job_id"`
}

// OfApproval returns what REST and webhooks show of an approval; nil for nil. Its link begins with base.
func OfApproval(a *query.Approval, base string) *Approval {
	if a == nil {
		return nil
	}
	w := &Approval{
		Question: a.Asked.Question, OnTimeout: string(a.Asked.OnTimeout), AskedAt: moment(a.AskedAt), ExpiresAt: moment(a.ExpiresAt),
		DecidedAt: moment(a.DecidedAt), DecidedBy: lo.EmptyableToPtr(a.DecidedBy), Note: lo.EmptyableToPtr(a.Note),
		Decision: lo.EmptyableToPtr(strings.ToLower(string(a.Decision))), Picked: lo.EmptyableToPtr(a.PickedName()),
		Candidates: lo.Map(a.Candidates, func(c query.Candidate, _ int) ApprovalCandidate {
			return ApprovalCandidate{lo.EmptyableToPtr(c.Key), c.Job}
		}),
	}
	if a.Link != "" {
		w.URL = new(a.Link.At(base))
	}
	return w
}

// Approval returns the key of a node of a workflow that waits for an answer, and what webhooks show of it. Both are
// empty if the node was deleted.
func (r *Summaries) Approval(ctx context.Context, w *models.Workflow, job models.JobID, base string) (string, *Approval, error) {
	edges, err := r.Workflows.Of(jobs.Host, w)
	if err != nil {
		return "", nil, err
	}
	found, err := edges.Approvals(ctx)
	if err != nil {
		return "", nil, err
	}
	nodes, err := edges.Nodes(ctx)
	for _, n := range nodes {
		if n.JobID == job {
			return n.Key, OfApproval(found[w.ID][job], base), err
		}
	}
	return "", nil, err
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}
