package submit

import (
	"context"
	"fmt"
	"slices"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/jobs/reference"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// readDrafts reads the drafts that nodes can continue and that are no new jobs of the graph.
func (g *Graph) readDrafts(ctx context.Context, db bun.IDB) error {
	own := lo.Keyify(lo.Map(g.jobs, func(n *GraphNode, _ int) models.JobID { return n.JobID }))
	approvals := lo.KeyBy(g.jobs, func(n *GraphNode) models.JobID { return n.JobID })
	var ids []models.JobID
	for _, n := range g.jobs {
		if approval := approvals[n.Continues]; n.Continues != "" && approval != nil {
			for _, id := range (&models.Job{Params: approval.Submission.Params}).Question().Candidates {
				if _, is := own[id]; !is && id.Valid() && len(ids) < maxPicked {
					ids = append(ids, id)
				}
			}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	found, err := models.GetJobs(ctx, db, lo.Uniq(ids))
	g.drafts = lo.KeyBy(found, func(j *models.Job) models.JobID { return j.ID })
	return apierror.Wrap(err, "read the drafts that nodes continue")
}

// maxPicked bounds the drafts of other requests that one workflow names.
const maxPicked = 10_000

// continuation returns the job of a node that continues what an approval picks. Until then it has no
// prompt and no params: those are the draft's. The time that it takes is known from the first candidate.
func (in *Submission) continuation(known *catalogue.Snapshot, call *submitCall, steps *priceSteps,
	outside outbound.Policy) (*models.Job, error) {
	approval, drafts, err := call.candidates(in.node.Continues)
	if err != nil {
		return nil, err
	}
	key := call.graph.keyOf(in.node.Continues)
	switch {
	case !approval.Approval():
		return nil, apierror.Invalid("continues", "%s is not an approval: name a node with the model %s.", key, models.TypeApproval)
	case approval.Question().Drafts == 0:
		return nil, apierror.Invalid("continues",
			"The candidates of %s are videos: use {{%s.video}}, or name drafts as candidates, as {{key.draft}}.", key, key)
	case in.Prompt != "":
		return nil, apierror.Invalid("prompt", "The node continues a draft, and has its prompt: leave out prompt.")
	case len(in.Params) > 0 && string(in.Params) != "{}" && string(in.Params) != "null":
		return nil, apierror.Invalid("params", "The node continues a draft, and has its params: leave them out.")
	case in.Draft != nil:
		return nil, apierror.Invalid("draft", "The node continues a draft to the whole video: leave out draft.")
	case in.Reuse:
		return nil, apierror.Invalid("reuse", "The node continues a draft: leave out reuse.")
	case len(drafts) == 0:
		return nil, inputs.NoInput("continues")
	}
	first := drafts[0]
	for _, other := range drafts {
		if other.Model != first.Model || other.ModelVersion != first.ModelVersion {
			return nil, apierror.Invalid("continues",
				"The drafts of %s are of different models, or of different versions of one: %s (version %d) and %s (version %d). "+
					"Name drafts of one model.", key, first.Model, first.ModelVersion, other.Model, other.ModelVersion)
		}
	}
	if in.Model != first.Model {
		return nil, apierror.Invalid("model", "The node continues a draft of the model %s: name that model.", first.Model)
	}
	model, err := known.Model(in.Model)
	if err != nil {
		return nil, err
	}
	if model.Version != first.ModelVersion {
		return nil, apierror.Conflict("The drafts of %s are of version %d of the model %s, which has changed since: submit new drafts.", key,
			first.ModelVersion, first.Model)
	}
	if in.Type != "" && in.Type != model.Type {
		return nil, apierror.Invalid("type", "The type of the model %s is %s, not %s.", model.Name, model.Type, text.Clip(in.Type, 64))
	}
	job, err := in.job(model, first.Params, outside, steps)
	if err != nil {
		return nil, err
	}
	job.Params, job.ReuseDigest, job.ReuseRefs = []byte("{}"), nil, nil
	if in.TimeoutSeconds == nil {
		for _, draft := range drafts {
			job.TimeoutSeconds = max(job.TimeoutSeconds, model.Timeout(draft.Params))
		}
	}
	job.EstimatedGPUSeconds = remaining(model, first)
	return job, nil
}

// candidates returns an approval of the call's graph, and those of its candidates that are drafts.
func (c *submitCall) candidates(id models.JobID) (approval *models.Job, drafts []*models.Job, err error) {
	found := map[models.JobID]*submission{}
	for i := range c.set {
		if one := &c.set[i]; one.in.node != nil {
			found[one.in.node.JobID] = one
		}
	}
	of := found[id]
	if of == nil { // an earlier workflow has it, with its answer
		return nil, nil, apierror.Conflict("%s was answered before: submit the workflow without reuse.", c.graph.keyOf(id))
	}
	if of.err != nil {
		return nil, nil, of.err
	}
	for _, candidate := range of.asked.Question().Candidates {
		draft := c.graph.drafts[candidate]
		if own := found[candidate]; own != nil {
			if own.err != nil {
				return nil, nil, own.err
			}
			draft = &own.asked
		}
		if draft != nil && draft.AccountID == c.account && draft.DraftSteps > 0 {
			drafts = append(drafts, draft)
		}
	}
	return &of.asked, drafts, nil
}

// remaining estimates the GPU seconds that a draft leaves to the job that continues it.
func remaining(model *catalogue.Model, draft *models.Job) float64 {
	seconds := model.EstimateGPUSeconds(draft.Params)
	if total := model.Steps(draft.Params); total > 0 {
		seconds *= 1 - float64(min(draft.DraftSteps, total-1))/float64(total)
	}
	return seconds
}

// Pick lets the node that continues an approval, if there is one, start from the draft that was picked.
// The approval is locked, and saved afterwards. Pick returns CONFLICT for a draft that cannot be continued.
func Pick(ctx context.Context, tx bun.Tx, sealer *seal.Sealer, known *catalogue.Snapshot, approval, picked models.JobID) error {
	draft, err := models.LockJob(ctx, tx, picked)
	if err != nil {
		return apierror.OrNotFound(err, "draft")
	}
	c, err := change.New(ctx, tx, draft)
	if err != nil {
		return err
	}
	if before, err := models.FindContinuations(ctx, tx, []models.JobID{picked}); err != nil {
		return fmt.Errorf("look for the continuation of the draft: %w", err)
	} else if len(before) > 0 {
		return apierror.Conflict("Job %s continues this draft already: pick another one.", before[0].ID)
	}
	if err := Continuable(draft, c.Now); err != nil {
		return err
	}
	job, err := models.LockPicking(ctx, tx, approval)
	if err != nil || job == nil {
		return apierror.Wrap(err, "lock the job that continues the draft")
	}
	if !job.DeletedAt.IsZero() {
		return nil
	}
	model := known.At(draft.Model, draft.ModelVersion)
	if model == nil {
		return apierror.Conflict("The model %s no longer exists, so this draft cannot be continued.", draft.Model)
	}
	taken, err := models.ListSources(ctx, tx, []models.JobID{picked})
	if err != nil {
		return fmt.Errorf("read what the draft takes from other jobs: %w", err)
	}
	job.Params, job.Continues, job.LatestCheckpointID = draft.Params, draft.ID, draft.LatestCheckpointID
	job.EstimatedGPUSeconds, job.TimeClass = remaining(model, draft), model.TimeClass(draft.Params)
	if err := models.SavePicked(ctx, tx, job); err != nil {
		return fmt.Errorf("write the request of the draft: %w", err)
	}
	if err := copyPrompt(ctx, tx, sealer, draft, job); err != nil {
		return err
	}
	if err := models.MoveDraftFiles(ctx, tx, draft.ID, job.ID); err != nil {
		return fmt.Errorf("hand over the draft: %w", err)
	}
	return inherited(ctx, tx, job, len(model.Inputs(draft.Params)), taken)
}

// copyPrompt seals the prompt of a draft for the job that continues it.
func copyPrompt(ctx context.Context, tx bun.Tx, sealer *seal.Sealer, draft, job *models.Job) error {
	prompt, err := OpenPrompt(ctx, tx, sealer, draft.ID)
	if err != nil || prompt == "" {
		return err
	}
	sealed, err := sealer.Seal([]byte(prompt), []byte(job.ID))
	if err != nil {
		return fmt.Errorf("seal the prompt of job %s: %w", job.ID, err)
	}
	return apierror.Wrap(models.InsertJobInput(ctx, tx, &models.SealedPrompt{
		JobID: job.ID, Run: job.Run, Ciphertext: sealed.Ciphertext, WrappedKey: sealed.WrappedKey,
	}), "write the prompt of job %s", job.ID)
}

// inherited checks that what a draft took from elsewhere exists for the job that continues it.
func inherited(ctx context.Context, tx bun.Tx, job *models.Job, files int, taken []models.JobSource) error {
	have, err := inputs.Of(ctx, tx, job)
	if err != nil {
		return err
	}
	if len(have) < files {
		return apierror.Conflict("An input file of this draft was deleted: submit a new job.")
	}
	lengths, err := models.MeasureOutputs(ctx, tx, change.OutputsIn(taken), nil)
	if err != nil {
		return fmt.Errorf("measure the values of outputs: %w", err)
	}
	for _, take := range change.OutputsIn(taken) {
		if reason := change.BadValue(take.JobID, reference.Take(take.Take), lengths); reason != "" {
			return apierror.Conflict("This draft cannot be continued because %s: submit a new job.", reason)
		}
	}
	return nil
}

// keyOf returns the key of a node by its job.
func (g *Graph) keyOf(id models.JobID) string {
	i := slices.IndexFunc(g.Nodes, func(n *GraphNode) bool { return n.JobID == id })
	if i < 0 {
		return string(id)
	}
	return g.Nodes[i].Key
}
