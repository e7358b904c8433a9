package workflows

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
)

// answerView is the view of the page on which a node is answered.
type answerView struct {
	*query.Question
	// Action is the address of the form. Back is that of the workflow's page, or "" for a visitor with a
	// link.
	Action, Back string
	// Problem says why an answer was refused, or "".
	Problem string
}

// ended says why no answer is awaited, or "".
func (v *answerView) ended() string {
	switch {
	case v.Decision == models.Approved:
		return "Approved by " + v.DecidedBy + ": " + v.PickedName() + "."
	case v.Decision == models.Rejected:
		return "Rejected by " + v.DecidedBy + "."
	case v.Job.Status != models.JobBlocked:
		return "The node is " + string(v.Job.Status) + ": it does not wait for an answer."
	case v.Stale:
		return "This link has expired. Open the workflow's page, or ask for a new link."
	case !v.Open():
		return "The candidates have not ended yet: the question comes afterwards."
	}
	return ""
}

// afterwards says what happens without an answer.
func (v *answerView) afterwards() string {
	switch v.Asked.OnTimeout {
	case models.TimeoutApprove:
		return "it is approved."
	case models.TimeoutFirst:
		return "the first candidate is picked."
	}
	return "it is rejected."
}

// verb is on the button of a candidate: a draft is picked to be continued.
func (v *answerView) verb() string {
	if v.Asked.Drafts > 0 {
		return "Pick"
	}
	return "Approve"
}

// without says why a candidate cannot be picked.
func (v *answerView) without() string {
	if v.Asked.Drafts > 0 {
		return "cannot be continued"
	}
	return "has no video"
}

// requires are the attributes of buttons: whoever has the link may answer.
func (v *answerView) requires(ctx context.Context) templ.Attributes {
	if v.Back == "" {
		return nil
	}
	return shell.Requires(ctx, access.RoleOperator)
}

func answerPath(id models.WorkflowID, key string) string {
	return address.Workflow(id) + "/answer?" + url.Values{"key": {key}}.Encode()
}

// question reads the node of an answer by a logged-in caller.
func (c *controller) question(r *http.Request, p jobs.Principal, key string) (*answerView, error) {
	w, err := c.Workflows.Get(r.Context(), p, workflowID(r))
	if err != nil {
		return nil, err
	}
	edges, err := c.Reads.Workflows.Of(p, w)
	if err != nil {
		return nil, err
	}
	q, err := edges.Question(r.Context(), key)
	if err != nil {
		return nil, err
	}
	return &answerView{Question: q, Action: address.Workflow(w.ID) + "/answer", Back: address.Workflow(w.ID)}, nil
}

func (c *controller) answerAsk(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.question(r, p, r.URL.Query().Get("key"))
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, answerPage(v))
}

// answerOf reads an answer from a form: a candidate's button has its name, and the other one rejects.
func answerOf(r *http.Request) (operate.Answer, error) {
	if err := shell.ReadForm(r); err != nil {
		return operate.Answer{}, err
	}
	a := operate.Answer{Decision: models.Rejected, Note: r.PostForm.Get("note")}
	if r.PostForm.Get("reject") == "" {
		a.Decision, a.Pick = models.Approved, r.PostForm.Get("pick")
		if a.Pick == "" {
			return a, apierror.Invalid("pick", "Pick a candidate, or reject them: nothing was chosen.")
		}
	}
	return a, nil
}

func (c *controller) answer(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	a, err := answerOf(r)
	key := r.PostForm.Get("key")
	if err == nil {
		_, err = c.Workflows.Answer(r.Context(), p, workflowID(r), key, a)
	}
	if apierror.HasCode(err, apierror.CodeInvalidInput) {
		v, found := c.question(r, p, key)
		if found != nil {
			return found
		}
		v.Problem = err.Error()
		return shell.Render(w, r, http.StatusUnprocessableEntity, answerPage(v))
	}
	return c.workflowDone(w, r, err, "The node "+text.Clip(text.Printable(key), 100)+" is answered.")
}

// byLink is who answers by a link.
const byLink = "the link"

// linked is the page behind a link. It needs no login: the link is the proof.
func (c *controller) linked(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	return c.showLinked(w, r, http.StatusOK, "")
}

func (c *controller) showLinked(w http.ResponseWriter, r *http.Request, status int, problem string) error {
	q, _, err := c.Reads.Workflows.Linked(r.Context(), r.PathValue("token"))
	if err != nil {
		return err
	}
	return shell.Render(w, r, status, answerPage(&answerView{Question: q, Action: query.ApprovalPath + r.PathValue("token"), Problem: problem}))
}

func (c *controller) answerLinked(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	q, run, err := c.Reads.Workflows.Linked(r.Context(), r.PathValue("token"))
	if err != nil {
		return err
	}
	a, err := answerOf(r)
	if err == nil {
		a.Run, a.By = run, byLink
		_, err = c.Workflows.Answer(r.Context(), jobs.Host.From(r.RemoteAddr), q.Workflow.ID, q.Key, a)
	}
	var refused *apierror.Error
	switch {
	case errors.As(err, &refused) && refused.Code == apierror.CodeConflict:
		return c.showLinked(w, r, http.StatusConflict, refused.Message)
	case errors.As(err, &refused) && refused.Code == apierror.CodeInvalidInput:
		return c.showLinked(w, r, http.StatusUnprocessableEntity, refused.Message)
	case err != nil:
		return err
	}
	return c.showLinked(w, r, http.StatusOK, "")
}
