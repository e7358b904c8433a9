package workflows

import (
	"fmt"
	"net/http"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
)

func (c *controller) workflowCancelAsk(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	found, err := c.Workflows.Get(r.Context(), p, workflowID(r))
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, workflowCancelPage(found))
}

func (c *controller) workflowCancel(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	_, err := c.Workflows.Cancel(r.Context(), p, workflowID(r), r.PostForm.Get("reason"))
	return c.workflowDone(w, r, err, "The workflow is being cancelled.")
}

func (c *controller) workflowRetry(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	_, err := c.Workflows.Retry(r.Context(), p, workflowID(r), false)
	return c.workflowDone(w, r, err, "What failed runs again.")
}

func (c *controller) workflowSkip(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	key := r.PostForm.Get("key")
	_, err := c.Workflows.Skip(r.Context(), p, workflowID(r), key)
	return c.workflowDone(w, r, err, "The node "+text.Clip(text.Printable(key), 100)+" is skipped.")
}

func (c *controller) workflowOverride(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	key, parent := r.PostForm.Get("key"), r.PostForm.Get("parent")
	_, err := c.Workflows.Override(r.Context(), p, workflowID(r), key, parent)
	return c.workflowDone(w, r, err, fmt.Sprintf("The node %s does not wait for %s any more.", text.Clip(text.Printable(key), 100),
		text.Clip(text.Printable(parent), 100)))
}

// workflowDone returns to the workflow's page. A refusal is told there: a second click, or a node
// that has gone on, is no error of the page.
func (c *controller) workflowDone(w http.ResponseWriter, r *http.Request, err error, told string) error {
	if apierror.HasCode(err, apierror.CodeConflict) {
		told = err.Error()
	} else if err != nil {
		return err
	}
	return c.Done(w, r, address.Workflow(workflowID(r)), told)
}
