package access

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/features/erase"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/erasure"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
)

// deletionView is the view of the deletion of an account.
type deletionView struct {
	*erase.Report
	Now time.Time
}

func deletionPath(id models.AccountID) string { return "/accounts/" + string(id) + "/deletion" }

func (v deletionView) state() string {
	if v.Finished() {
		return "COMPLETED"
	}
	return "RUNNING"
}

// left says what is left to do.
func (v deletionView) left() string {
	switch {
	case v.Finished():
		return "Nothing is left."
	case v.Unfinished > 0:
		return text.Count(v.JobsLeft, "job") + " left. " + text.Count(v.Unfinished, "job") +
			" must end first: a cancelled job ends when its worker has stopped."
	case v.JobsLeft > 0:
		return text.Count(v.JobsLeft, "job") + " left."
	}
	return "All jobs are deleted. The rest follows."
}

// live is the address of the stream of the page, or "" at the end.
func (v deletionView) live() string {
	if v.Finished() {
		return ""
	}
	return deletionPath(v.AccountID) + "/live"
}

// keptWhy says why rows of a kind stay.
var keptWhy = map[erasure.Kind]string{
	erasure.Ledger: "What its jobs cost, without users and prompts.",
	erasure.Audit:  "What operators did to the account. The log is never changed.",
	erasure.Pools:  "Pools that are dedicated to it. They get no workers now: change or delete them.",
}

// dataName returns the name of a kind of data for people.
func dataName(kind erasure.Kind) string {
	switch kind {
	case erasure.Users:
		return "Entries of the ledger without their user"
	case erasure.Cancelled:
		return "Jobs that were cancelled first"
	case erasure.Objects:
		return "Files of jobs"
	}
	words := ui.Words(string(kind))
	return strings.ToUpper(words[:1]) + words[1:]
}

// accountDeletion is the view of the page that asks before an account is deleted.
type accountDeletion struct {
	Account *models.Account
	Problem string
}

func (c *controller) accountConfirm(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	account, err := c.Accounts.Get(r.Context(), p, models.AccountID(r.PathValue("id")))
	if err != nil {
		return err
	}
	if !account.ClosedAt.IsZero() {
		http.Redirect(w, r, deletionPath(account.ID), http.StatusSeeOther)
		return nil
	}
	return shell.Render(w, r, http.StatusOK, accountDeletePage(&accountDeletion{Account: account}))
}

func (c *controller) accountDelete(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	account, err := c.Accounts.Get(r.Context(), p, models.AccountID(r.PathValue("id")))
	if err != nil {
		return err
	}
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	_, err = c.Eraser.Start(r.Context(), p, account.ID, strings.TrimSpace(r.PostForm.Get("name")))
	var refused *apierror.Error
	switch {
	case err == nil:
		return c.Done(w, r, deletionPath(account.ID), "The account is closed. It is being deleted.")
	case errors.As(err, &refused) && (refused.Code == apierror.CodeInvalidInput || refused.Code == apierror.CodeConflict):
		return shell.Render(w, r, http.StatusUnprocessableEntity, accountDeletePage(&accountDeletion{Account: account, Problem: refused.Message}))
	}
	return err
}

func (c *controller) deletionShow(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	report, err := c.Eraser.Get(r.Context(), p, models.AccountID(r.PathValue("id")))
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, deletionPage(deletionView{report, time.Now()}))
}

func (c *controller) deletionLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	id := models.AccountID(r.PathValue("id"))
	return c.Refresh(w, r, p, deletionPath(id), func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component, error) {
		report, err := c.Eraser.Get(ctx, p, id)
		if err != nil {
			return nil, err
		}
		return func(now time.Time) templ.Component { return deletionProgress(deletionView{report, now}) }, nil
	})
}
