package access

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/erase"
	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
)

// accountList is the view of the accounts.
type accountList struct {
	Rows []*models.Account
	// Slots are how many slots the schedules of each account have.
	Slots map[models.AccountID]*schedule.Usage
	// Deletions are the newest deletions of accounts, on the first page.
	Deletions []*erase.Report
	// Older is the address of the next page, or "".
	Older string
	Now   time.Time
}

func (c *controller) accountList(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	found, err := c.Accounts.List(r.Context(), p, paging.Request{First: shell.ListSize, After: r.URL.Query().Get("after")})
	if err != nil {
		return err
	}
	ids := make([]models.AccountID, len(found.Items))
	for i, a := range found.Items {
		ids[i] = a.ID
	}
	slots, err := c.Schedules.Usages(r.Context(), ids)
	if err != nil {
		return err
	}
	v := &accountList{Rows: found.Items, Slots: slots, Now: time.Now()}
	if r.URL.Query().Get("after") == "" {
		if v.Deletions, err = c.Eraser.List(r.Context(), p); err != nil {
			return err
		}
	}
	if found.More {
		v.Older = "/accounts?after=" + url.QueryEscape(found.End)
	}
	return shell.Render(w, r, http.StatusOK, accountListPage(v))
}

// accountForm is the view of the form of an account.
type accountForm struct {
	// Account is nil for a new one.
	Account *models.Account
	Values  url.Values
	Errors  map[string]string
}

func (f *accountForm) path() string {
	if f.Account == nil {
		return "/accounts/new"
	}
	return "/accounts/" + string(f.Account.ID) + "/edit"
}

func (f *accountForm) title() string {
	if f.Account == nil {
		return "New account"
	}
	return f.Account.Name
}

// accountField is a number of the form.
type accountField struct {
	name, label, hint string
	// admin fields only an ADMIN may change.
	admin bool
}

var accountFields = []accountField{
	{name: "maxQueued", label: "Maximum waiting jobs", hint: "Further submits are refused."},
	{name: "maxRunning", label: "Maximum running jobs", hint: "Further jobs wait."},
	{name: "submitsPerMinute", label: "Submits per minute", hint: "0 refuses all."},
	{name: "weight", label: "Weight", hint: "Its share of each lane, relative to the other accounts: 0.01 to 100."},
	{name: "draftsKeptHours", label: "Drafts kept, in hours", hint: "For drafts that complete from now on: 1 to 2,160.", admin: true},
}

func accountValues(a *models.Account) url.Values {
	return url.Values{
		"name": {a.Name}, "tier": {string(a.Tier)}, "maxQueued": {strconv.Itoa(a.MaxQueued)}, "maxRunning": {strconv.Itoa(a.MaxRunning)},
		"submitsPerMinute": {strconv.Itoa(a.SubmitsPerMinute)}, "weight": {strconv.FormatFloat(a.Weight, 'g', -1, 64)},
		"draftsKeptHours": {strconv.Itoa(a.DraftsKeptHours)},
	}
}

func (c *controller) accountNew(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	return shell.Render(w, r, http.StatusOK, accountFormPage(&accountForm{Values: url.Values{"id": {string(models.NewAccountID())},
		"tier": {string(models.TierPro)}}}))
}

func (c *controller) accountEdit(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	account, err := c.Accounts.Get(r.Context(), p, models.AccountID(r.PathValue("id")))
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, accountFormPage(&accountForm{Account: account, Values: accountValues(account)}))
}

func (c *controller) accountCreate(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return c.saveAccount(w, r, &accountForm{}, func(in auth.AccountInput) (string, error) {
		in.ID = models.AccountID(r.PostForm.Get("id")) // so that a form that is sent twice makes one account
		account, err := c.Accounts.Create(r.Context(), p, in)
		if err != nil {
			return "", err
		}
		return "Created the account " + account.Name + ".", nil
	})
}

func (c *controller) accountUpdate(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	account, err := c.Accounts.Get(r.Context(), p, models.AccountID(r.PathValue("id")))
	if err != nil {
		return err
	}
	return c.saveAccount(w, r, &accountForm{Account: account}, func(in auth.AccountInput) (string, error) {
		_, err := c.Accounts.Update(r.Context(), p, account.ID, in)
		return "Saved the account " + account.Name + ".", err
	})
}

// saveAccount reads the form of an account, saves it, and shows the form again with what was
// refused.
func (c *controller) saveAccount(w http.ResponseWriter, r *http.Request, f *accountForm, save func(auth.AccountInput) (message string,
	err error)) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	in, problems := readAccount(r.PostForm, f.Account)
	f.Values, f.Errors = r.PostForm, problems
	if len(problems) == 0 {
		message, err := save(in)
		var refused *apierror.Error
		switch {
		case err == nil:
			return c.Done(w, r, "/accounts", message)
		case !errors.As(err, &refused) || refused.Field == "":
			return err
		}
		f.Errors = map[string]string{refused.Field: refused.Message}
	}
	return shell.Render(w, r, http.StatusUnprocessableEntity, accountFormPage(f))
}

// readAccount reads what differs from the account, if there is one.
func readAccount(form url.Values, old *models.Account) (in auth.AccountInput, problems map[string]string) {
	var was url.Values
	if old != nil {
		was = accountValues(old)
	}
	problems = map[string]string{}
	changed := func(name string) (string, bool) {
		value := strings.TrimSpace(form.Get(name))
		return value, value != "" && value != was.Get(name)
	}
	if name, ok := changed("name"); ok {
		in.Name = &name
	}
	if tier, ok := changed("tier"); ok {
		t := models.Tier(tier)
		in.Tier = &t
	}
	for name, to := range map[string]**int{
		"maxQueued": &in.MaxQueued, "maxRunning": &in.MaxRunning, "submitsPerMinute": &in.SubmitsPerMinute,
		"draftsKeptHours": &in.DraftsKeptHours,
	} {
		if value, ok := changed(name); ok {
			n, err := strconv.Atoi(value)
			if err != nil {
				problems[name] = "This must be a whole number."
			}
			*to = &n
		}
	}
	if value, ok := changed("weight"); ok {
		weight, err := strconv.ParseFloat(value, 64)
		if err != nil {
			problems["weight"] = "This must be a number."
		}
		in.Weight = &weight
	}
	return in, problems
}

// limitText names a limit.
func limitText(limit int) string {
	if shell.Unlimited(limit) {
		return "no limit"
	}
	return ui.Count(limit, 0)
}
