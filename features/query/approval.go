package query

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

// Approval is a node with a question, and the answer once it is given.
type Approval struct {
	models.Approval
	// Asked is what its params say.
	Asked models.Question
	// Candidates are those of Asked, in their order.
	Candidates []Candidate
	// Link is the path of a page to answer without a login; "" unless an answer is awaited and the caller
	// could give it.
	Link jobs.Link
}

// Candidate is a job whose result an approval can have. Key is that of its node, or "".
type Candidate struct {
	Key string
	Job models.JobID
}

// Name is what an answer calls the candidate.
func (c Candidate) Name() string { return lo.CoalesceOrEmpty(c.Key, string(c.Job)) }

// PickedName returns the name of the candidate that was picked, or "".
func (a *Approval) PickedName() string {
	for _, c := range a.Candidates {
		if c.Job == a.Picked && a.Picked != "" {
			return c.Name()
		}
	}
	return ""
}

// Open reports whether an answer is awaited.
func (a *Approval) Open() bool { return !a.AskedAt.IsZero() && a.DecidedAt.IsZero() }

// Approvals returns the approvals of the workflows, by their jobs.
func (e WorkflowEdges) Approvals(ctx context.Context) (map[models.WorkflowID]map[models.JobID]*Approval, error) {
	if len(e.rows) == 0 {
		return nil, nil
	}
	nodes, err := models.ListApprovalNodes(ctx, e.workflows.db, e.ids())
	if err != nil || len(nodes) == 0 {
		return nil, apierror.Wrap(err, "read the approvals of workflows")
	}
	asked, err := models.ListApprovals(ctx, e.workflows.db, lo.Map(nodes, func(n *models.ApprovalNode, _ int) models.JobID { return n.ID }))
	if err != nil {
		return nil, apierror.Wrap(err, "read the questions of workflows")
	}
	byJob := lo.KeyBy(asked, func(a *models.Approval) models.JobID { return a.JobID })
	found := map[models.WorkflowID]map[models.JobID]*Approval{}
	for of, nodes := range lo.GroupBy(nodes, func(n *models.ApprovalNode) models.WorkflowID { return n.NodeOf }) {
		var candidates []models.JobID
		for _, n := range nodes {
			candidates = append(candidates, n.Question().Candidates...)
		}
		keys, err := models.NodeKeys(ctx, e.workflows.db, of, lo.Uniq(candidates))
		if err != nil {
			return nil, apierror.Wrap(err, "read the keys of candidates")
		}
		found[of] = map[models.JobID]*Approval{}
		for _, n := range nodes {
			a := &Approval{Asked: n.Question()}
			for _, id := range a.Asked.Candidates {
				a.Candidates = append(a.Candidates, Candidate{keys[id], id})
			}
			if row := byJob[n.ID]; row != nil && row.Run == n.Run {
				a.Approval = *row
			}
			if n.Status == models.JobBlocked && a.Open() && e.caller.RequireChange() == nil {
				a.Link = e.workflows.links.path(&a.Approval)
			}
			found[of][n.ID] = a
		}
	}
	return found, nil
}

// approvalLinks signs links to the pages of approvals, with an HMAC-SHA256 over the job, its run and the
// time at which its default applies.
type approvalLinks struct {
	// keys returns the keys: the first one signs, all of them verify. nil signs nothing.
	keys func() [][]byte
}

// ApprovalPath is where the pages of approvals are.
const ApprovalPath = "/approve/"

func (l approvalLinks) path(a *models.Approval) jobs.Link {
	if l.keys == nil {
		return ""
	}
	terms := fmt.Sprintf("%s.%d.%d", a.JobID, a.Run, a.ExpiresAt.Unix())
	return jobs.Link(ApprovalPath + terms + "." + base64.RawURLEncoding.EncodeToString(approvalMAC(l.keys()[0], terms)))
}

func approvalMAC(key []byte, terms string) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "reelay approval link:%s", terms)
	return mac.Sum(nil)
}

// errNoApproval is the answer for a link that was altered, and for one of a deleted node.
var errNoApproval = apierror.NotFound("approval")

// Question is an approval with what a page shows of it.
type Question struct {
	Workflow *models.Workflow
	Key      string
	Job      *models.Job
	*Approval
	// Videos are the videos of the candidates, or the previews of drafts, in their order. One without a
	// link cannot be picked.
	Videos []Shown
	// Stale means that the link has expired, or was for an earlier run.
	Stale bool
}

// Shown is a video or a picture. Link is "" if there is none.
type Shown struct {
	Link  jobs.Link
	Moves bool
}

// videosTTL is how long the links to the videos of a page are valid.
const videosTTL = time.Hour

// Question returns the approval under a key in the workflow, or NOT_FOUND if the node is none.
func (e WorkflowEdges) Question(ctx context.Context, key string) (*Question, error) {
	if !text.Valid(key, 1, maxNodeKey) || len(e.rows) != 1 {
		return nil, errNoApproval
	}
	nodes, err := models.GetWorkflowNodes(ctx, e.workflows.db, e.rows[0].ID, key)
	if err != nil {
		return nil, apierror.Wrap(err, "read a node")
	}
	if len(nodes) == 0 {
		return nil, errNoApproval
	}
	return e.question(ctx, key, nodes[0].JobID)
}

// maxNodeKey bounds the key of a node.
const maxNodeKey = 100

func (e WorkflowEdges) question(ctx context.Context, key string, job models.JobID) (*Question, error) {
	w := e.rows[0]
	approvals, err := e.Approvals(ctx)
	if err != nil {
		return nil, err
	}
	found, err := models.GetJob(ctx, e.workflows.db, job)
	if err != nil {
		return nil, apierror.Wrap(apierror.OrNotFound(err, "approval"), "read the job of an approval")
	}
	q := &Question{Workflow: w, Key: key, Job: found, Approval: approvals[w.ID][job]}
	if q.Approval == nil || !found.DeletedAt.IsZero() {
		return nil, errNoApproval
	}
	q.Videos = make([]Shown, len(q.Candidates))
	if !q.Open() {
		return q, nil
	}
	ids := lo.Map(q.Candidates, func(c Candidate, _ int) models.JobID { return c.Job })
	videos, err := models.ListArtifacts(ctx, e.workflows.db, ids, models.ArtifactFinalVideo)
	if q.Asked.Drafts > 0 {
		videos, err = e.previews(ctx, ids)
	}
	if err != nil {
		return nil, apierror.Wrap(err, "read the videos of candidates")
	}
	for _, video := range videos {
		link, err := e.workflows.objects.LinkDownload(ctx, video.ObjectKey, Filename(video), videosTTL)
		if err != nil {
			return nil, jobs.StoreAway(ctx, fmt.Errorf("link the video of a candidate: %w", err))
		}
		q.Videos[slices.Index(ids, video.JobID)] = Shown{link, strings.HasPrefix(video.ContentType, "video/")}
	}
	return q, nil
}

// previews returns the previews of those of these drafts that can be continued.
func (e WorkflowEdges) previews(ctx context.Context, drafts []models.JobID) ([]*models.Artifact, error) {
	found, err := models.GetJobs(ctx, e.workflows.db, drafts)
	if err != nil {
		return nil, err
	}
	now := e.workflows.clock.Now()
	return models.GetArtifacts(ctx, e.workflows.db, lo.FilterMap(found, func(j *models.Job, _ int) (models.ArtifactID, bool) {
		return j.PreviewID, j.PreviewID != "" && submit.Continuable(j, now) == nil
	}))
}

// Linked returns the approval to which the token of a link leads, and the run that the link is for. The
// token proves the right to see it and to answer. Linked returns NOT_FOUND for a token that was altered,
// or whose node no longer exists.
func (r *Workflows) Linked(ctx context.Context, token string) (q *Question, run int, err error) {
	job, run, expires, err := r.links.read(token)
	if err != nil {
		return nil, 0, err
	}
	node, err := models.GetNodeOf(ctx, r.db, job)
	if err != nil {
		return nil, 0, apierror.Wrap(apierror.OrNotFound(err, "approval"), "read the node of an approval")
	}
	w, err := models.GetWorkflow(ctx, r.db, node.WorkflowID)
	if err != nil {
		return nil, 0, apierror.Wrap(apierror.OrNotFound(err, "approval"), "read the workflow of an approval")
	}
	edges, err := r.Of(jobs.Host, w)
	if err != nil {
		return nil, 0, err
	}
	if q, err = edges.question(ctx, node.Key, job); err != nil {
		return nil, 0, err
	}
	q.Stale = run != q.Job.Run || !r.clock.Now().Before(expires)
	return q, run, nil
}

// read returns what a token was signed for.
func (l approvalLinks) read(token string) (job models.JobID, run int, expires time.Time, err error) {
	terms, signature, _ := cutLast(token)
	mac, bad := base64.RawURLEncoding.Strict().DecodeString(signature)
	signed := l.keys != nil && slices.ContainsFunc(l.keys(), func(key []byte) bool { return hmac.Equal(mac, approvalMAC(key, terms)) })
	parts := strings.Split(terms, ".")
	if bad != nil || !signed || len(parts) != 3 {
		return "", 0, expires, errNoApproval
	}
	run, bad = strconv.Atoi(parts[1])
	seconds, worse := strconv.ParseInt(parts[2], 10, 64)
	if errors.Join(bad, worse) != nil { // this server has signed it
		return "", 0, expires, errNoApproval
	}
	return models.JobID(parts[0]), run, time.Unix(seconds, 0), nil
}

func cutLast(token string) (before, after string, found bool) {
	i := strings.LastIndexByte(token, '.')
	if i < 0 {
		return token, "", false
	}
	return token[:i], token[i+1:], true
}
