package operate

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Answer is an answer to an approval.
type Answer struct {
	Decision models.Decision
	// Pick is the candidate that is approved: the key of its node, or the id of its job. It can be ""
	// if only one is complete.
	Pick string
	// Note says why, for the owner and for operators: up to 200 characters, or "".
	Note string
	// Run is the run of the job that was asked about; 0 means the newest.
	Run int
	// By says for people who answers, if that is not the caller.
	By string
}

// MaxNoteRunes bounds the note of an answer, in characters.
const MaxNoteRunes = 200

// Answer approves or rejects a node that waits for that. A repeated answer changes nothing. Answer
// returns INVALID_INPUT for a candidate that does not exist or is not complete, and CONFLICT for a node
// that is no approval, does not wait for an answer, or has another one.
func (w *WorkflowOperator) Answer(ctx context.Context, p jobs.Principal, id models.WorkflowID, key string, a Answer) (*models.Workflow,
	error) {
	if a.Note = strings.TrimSpace(a.Note); !text.Valid(a.Note, 0, MaxNoteRunes) {
		return nil, apierror.Invalid("note", "The note can have up to %d printable characters.", MaxNoteRunes)
	}
	if a.By == "" {
		a.By = p.Actor()
	}
	after, err := w.change(ctx, p, id, func(ctx context.Context, tx bun.Tx, _ *models.Workflow) ([]*change.Change, error) {
		_, c, err := lockNode(ctx, tx, id, key)
		if err != nil {
			return nil, err
		}
		asked, picked, err := openQuestion(ctx, c, id, key, a)
		if err != nil || asked == nil {
			return nil, err
		}
		action := lo.Ternary(a.Decision == models.Approved, "approveWorkflowJob", "rejectWorkflowJob")
		more := jobs.Payload{"node": key, "job": c.Job.ID, "by": a.By}
		if picked != nil {
			more["picked"] = picked.ID
		}
		if err := p.Audit(ctx, tx, action, string(id), more); err != nil {
			return nil, err
		}
		if err := w.decide(ctx, c, asked, picked, a); err != nil {
			return nil, err
		}
		return []*change.Change{c}, c.Save(ctx)
	})
	return after, apierror.Wrap(err, "answer for the node %s of workflow %s", key, id)
}

// openQuestion returns the question of a locked node to which a is the first answer, and the candidate
// that a picks. It returns nil if a was given before.
func openQuestion(ctx context.Context, c *change.Change, id models.WorkflowID, key string, a Answer) (*models.Approval, *models.Job, error) {
	if !c.Job.Approval() {
		return nil, nil, apierror.Conflict("The node %s is no approval: only a node with the model %s is approved or rejected.", key,
			models.TypeApproval)
	}
	asked, err := models.GetApproval(ctx, c.Tx, c.Job.ID, c.Job.Run)
	known := !errors.Is(err, sql.ErrNoRows)
	if err != nil && known {
		return nil, nil, fmt.Errorf("read the question: %w", err)
	}
	if a.Run != 0 && a.Run != c.Job.Run {
		return nil, nil, apierror.Conflict("This question was asked again: use the link of run %d.", c.Job.Run)
	}
	switch {
	case known && !asked.DecidedAt.IsZero():
		same, err := sameAnswer(ctx, c.Tx, id, asked, a)
		if err != nil || same {
			return nil, nil, err
		}
		return nil, nil, apierror.Conflict("The node %s was %s by %s: an answer is final.", key, strings.ToLower(string(asked.Decision)),
			asked.DecidedBy)
	case c.Job.Status != models.JobBlocked:
		return nil, nil, apierror.Conflict("The node %s is %s: it does not wait for an answer.", key, c.Job.Status)
	case !known:
		return nil, nil, apierror.Conflict("The node %s does not wait for an answer yet: its candidates have not ended.", key)
	case !asked.ExpiresAt.After(c.Now):
		return nil, nil, apierror.Conflict("The time for an answer ended at %s: onTimeout applies.", text.Moment(asked.ExpiresAt.UTC(), c.Now))
	}
	w, err := models.GetWorkflow(ctx, c.Tx, id)
	if err == nil && !w.CancelRequestedAt.IsZero() {
		err = apierror.Conflict("This workflow is being cancelled: none of its nodes can start.")
	}
	if err != nil || a.Decision == models.Rejected {
		return asked, nil, err
	}
	picked, err := pick(ctx, c, id, a.Pick)
	return asked, picked, err
}

// sameAnswer reports whether an answer is the one that was given before.
func sameAnswer(ctx context.Context, tx bun.Tx, id models.WorkflowID, asked *models.Approval, a Answer) (bool, error) {
	if asked.Decision != a.Decision || a.Decision == models.Rejected || a.Pick == "" || a.Pick == string(asked.Picked) {
		return asked.Decision == a.Decision, nil
	}
	keys, err := models.NodeKeys(ctx, tx, id, []models.JobID{asked.Picked})
	return keys[asked.Picked] == a.Pick, apierror.Wrap(err, "read the key of the candidate")
}

// pick returns the candidate of an approval under its node's key or its job's id, or the only one that
// can be picked if that is "".
func pick(ctx context.Context, c *change.Change, id models.WorkflowID, which string) (*models.Job, error) {
	all := c.Job.Question().Candidates
	can, err := candidates(ctx, c)
	if err != nil {
		return nil, err
	}
	keys, err := models.NodeKeys(ctx, c.Tx, id, all)
	if err != nil {
		return nil, fmt.Errorf("read the keys of the candidates: %w", err)
	}
	named := func(id models.JobID) bool { return string(id) == which || keys[id] == which && which != "" }
	options := strings.Join(lo.Map(can, func(j *models.Job, _ int) string { return lo.CoalesceOrEmpty(keys[j.ID], string(j.ID)) }), ", ")
	switch found := slices.IndexFunc(can, func(j *models.Job) bool { return named(j.ID) }); {
	case found >= 0:
		return can[found], nil
	case len(can) == 0:
		return nil, apierror.Conflict("None of the candidates can be picked any more: reject them, or cancel the workflow.")
	case slices.ContainsFunc(all, named):
		return nil, apierror.Conflict("The candidate %s is not COMPLETED, is no longer kept, or is continued by another job. Pick one of: %s.",
			text.Clip(text.Printable(which), 100), options)
	case which != "":
		return nil, apierror.Invalid("pick", "There is no candidate %q. Pick one of: %s.", text.Clip(text.Printable(which), 100), options)
	case len(can) > 1:
		return nil, apierror.Invalid("pick", "There are %d candidates. Pick one of: %s.", len(can), options)
	}
	return can[0], nil
}

// candidates returns the candidates of an approval that can be picked now, in their order: those with
// videos, or the drafts that can be continued.
func candidates(ctx context.Context, c *change.Change) ([]*models.Job, error) {
	question := c.Job.Question()
	found, err := models.GetJobs(ctx, c.Tx, question.Candidates)
	if err != nil {
		return nil, fmt.Errorf("read the candidates: %w", err)
	}
	found = lo.Filter(found, func(j *models.Job, _ int) bool {
		if j.AccountID != c.Job.AccountID || j.Status != models.JobCompleted {
			return false
		}
		return j.ResultID != "" || question.Drafts > 0 && submit.Continuable(j, c.Now) == nil
	})
	slices.SortFunc(found, func(a, b *models.Job) int {
		return slices.Index(question.Candidates, a.ID) - slices.Index(question.Candidates, b.ID)
	})
	return found, nil
}

// decide writes the answer to an open question, and ends its job, which is saved later. A picked draft
// goes to the node that continues it.
func (w *WorkflowOperator) decide(ctx context.Context, c *change.Change, asked *models.Approval, picked *models.Job, a Answer) error {
	asked.Decision, asked.DecidedAt, asked.DecidedBy, asked.Note = a.Decision, c.Now, a.By, a.Note
	if a.Decision == models.Rejected {
		if err := models.SaveDecision(ctx, c.Tx, asked); err != nil {
			return fmt.Errorf("write the answer: %w", err)
		}
		return c.Failed(models.FailRejected, "rejected by "+a.By+lo.Ternary(a.Note == "", "", ": "+a.Note))
	}
	if picked.DraftSteps > 0 {
		if err := submit.Pick(ctx, c.Tx, w.Sealer, w.Catalogue.Current(), c.Job.ID, picked.ID); err != nil {
			return err
		}
	}
	asked.Picked = picked.ID
	if err := models.SaveDecision(ctx, c.Tx, asked); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	thumbnails, err := models.HasThumbnails(ctx, c.Tx, []models.JobID{picked.ID})
	if err != nil {
		return fmt.Errorf("look for the thumbnail: %w", err)
	}
	output, err := json.Marshal(map[string]any{
		"picked": picked.ID, "number": slices.Index(c.Job.Question().Candidates, picked.ID) + 1, "by": a.By, "note": a.Note,
	})
	if err != nil {
		return err
	}
	c.Thumbnail = len(thumbnails) > 0
	c.Job.BlockedBy, c.Job.ResultID, c.Job.Output = 0, picked.ResultID, output
	if err := c.Move(models.JobCompleted); err != nil {
		return err
	}
	c.Note(models.EventCompleted, jobs.Payload{"gpuSeconds": 0, "picked": picked.ID, "by": a.By})
	c.Over()
	c.Job.Progress.Percent = 100
	return nil
}

// approvalsLimit bounds the approvals of one pass.
const approvalsLimit = 200

// byTimeout is the name under which a default is recorded.
const byTimeout = "timeout"

// Approvals asks the questions of approvals that wait for nothing else, and applies the defaults of
// those whose time is over. It returns how many. Any number of processes may call it at once.
func (w *WorkflowOperator) Approvals(ctx context.Context) (int, error) {
	asking, err := models.ListAsking(ctx, w.DB, approvalsLimit)
	if err != nil {
		return 0, fmt.Errorf("find the approvals to ask for: %w", err)
	}
	unanswered, err := models.ListUnanswered(ctx, w.DB, approvalsLimit)
	if err != nil {
		return 0, fmt.Errorf("find the approvals without an answer: %w", err)
	}
	done := 0
	var failed []error
	each := func(id models.JobID, act func(*change.Change) error) error {
		changed, err := change.DoDue(ctx, w.DB, id, act)
		if changed != nil {
			done++
			w.Notifier.After(ctx, changed)
		}
		return apierror.Wrap(err, "approval %s", id)
	}
	for _, id := range asking {
		failed = append(failed, each(id, func(c *change.Change) error { return ask(ctx, c) }))
	}
	for _, asked := range unanswered {
		err := each(asked.JobID, func(c *change.Change) error { return w.applyDefault(ctx, c, asked, nil) })
		if refused := submit.Refusal(err); refused != nil { // the draft cannot be continued
			err = each(asked.JobID, func(c *change.Change) error { return w.applyDefault(ctx, c, asked, refused) })
		}
		failed = append(failed, err)
	}
	return done, errors.Join(failed...)
}

// ask begins to wait for an answer. Without a complete candidate there is nothing to ask.
func ask(ctx context.Context, c *change.Change) error {
	if !c.Asks() || c.Job.RunAt.After(c.Now) {
		return nil
	}
	if _, err := models.GetApproval(ctx, c.Tx, c.Job.ID, c.Job.Run); !errors.Is(err, sql.ErrNoRows) {
		return err // it was asked
	}
	complete, err := candidates(ctx, c)
	if err != nil {
		return err
	}
	if len(complete) == 0 {
		return c.Failed(models.FailDependency, "none of its candidates is complete")
	}
	question := c.Job.Question()
	wait := time.Duration(question.WaitSeconds) * time.Second
	if question.Drafts > 0 { // an answer must leave time to continue any of them
		for _, draft := range complete {
			wait = max(min(wait, draft.KeptUntil.Sub(c.Now)-keptMargin), 0)
		}
	}
	asked := &models.Approval{JobID: c.Job.ID, Run: c.Job.Run, OnTimeout: question.OnTimeout}
	if err := models.InsertApproval(ctx, c.Tx, asked, wait); err != nil {
		return fmt.Errorf("write the question: %w", err)
	}
	w, err := models.GetWorkflow(ctx, c.Tx, c.Job.WorkflowID)
	if err != nil {
		return fmt.Errorf("read the workflow: %w", err)
	}
	c.Job.BlockedBy--
	c.Note(models.EventApprovalRequested, jobs.Payload{"candidates": len(complete), "until": asked.ExpiresAt.UTC(), "onTimeout": question.OnTimeout})
	c.Due = true // there may be a webhook to send
	return change.AnnounceApproval(ctx, c.Tx, w, asked)
}

// keptMargin is how long before the first draft is deleted the question about it ends.
const keptMargin = 10 * time.Minute

// applyDefault answers a question whose time is over. It rejects if the default was refused before. A
// question of a run that ended otherwise, such as by a cancel, is dropped.
func (w *WorkflowOperator) applyDefault(ctx context.Context, c *change.Change, asked *models.Approval, refused *apierror.Error) error {
	if c.Job.Status != models.JobBlocked || c.Job.Run != asked.Run {
		return models.DropApproval(ctx, c.Tx, asked)
	}
	asked, err := models.GetApproval(ctx, c.Tx, c.Job.ID, c.Job.Run)
	if err != nil || !asked.DecidedAt.IsZero() || asked.ExpiresAt.After(c.Now) {
		return err
	}
	a := Answer{Decision: models.Rejected, By: byTimeout, Note: "no answer came in time"}
	can, err := candidates(ctx, c)
	if err != nil {
		return err
	}
	switch {
	case asked.OnTimeout == models.TimeoutReject:
	case refused != nil:
		a.Note = text.Clip(a.Note+", and the candidate cannot be picked: "+refused.Message, MaxNoteRunes)
	case len(can) == 0:
		a.Note += ", and no candidate is complete any more"
	default:
		a.Decision = models.Approved
	}
	return w.decide(ctx, c, asked, lo.FirstOrEmpty(can), a)
}
