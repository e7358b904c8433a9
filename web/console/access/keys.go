package access

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/samber/lo"
)

// keyList is the view of the API keys.
type keyList struct {
	Rows []*access.APIKey
	// Owners has the names of the accounts.
	Owners map[models.AccountID]string
	Now    time.Time
}

// keyForm is the view of the form of a new key.
type keyForm struct {
	// ID is that of the new key. It makes a form that is sent twice create one key.
	ID       models.KeyID
	Accounts []*models.Account
	Values   url.Values
	Errors   map[string]string
}

var keyRoles = []access.Role{access.RoleClient, access.RoleWorker, access.RoleViewer, access.RoleOperator, access.RoleAdmin}

func (c *controller) keyList(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	account := models.AccountID(r.URL.Query().Get("account"))
	keys, err := c.Keys.List(r.Context(), p, account)
	if err != nil {
		return err
	}
	ids := lo.Uniq(lo.Map(keys, func(k *access.APIKey, _ int) models.AccountID { return k.AccountID }))
	owners, err := c.Reads.Directory.Accounts(r.Context(), ids)
	if err != nil {
		return err
	}
	v := &keyList{Rows: keys, Owners: map[models.AccountID]string{}, Now: time.Now()}
	for _, owner := range owners {
		if owner != nil {
			v.Owners[owner.ID] = owner.Name
		}
	}
	return shell.Render(w, r, http.StatusOK, keyListPage(v))
}

func (c *controller) keyNew(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	f := &keyForm{ID: models.NewKeyID(), Values: url.Values{"account": {string(p.AccountID)}, "role": {string(access.RoleClient)}}}
	return c.showKeyForm(w, r, p, http.StatusOK, f)
}

// maxAccountsOffered bounds the accounts that the form of a key offers.
const maxAccountsOffered = 200

func (c *controller) showKeyForm(w http.ResponseWriter, r *http.Request, p jobs.Principal, status int, f *keyForm) error {
	found, err := c.Accounts.List(r.Context(), p, paging.Request{First: maxAccountsOffered})
	if err != nil {
		return err
	}
	f.Accounts = found.Items
	return shell.Render(w, r, status, keyFormPage(f))
}

// keyCreate makes a key and shows its secret, once.
func (c *controller) keyCreate(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	form := r.PostForm
	f := &keyForm{ID: models.KeyID(form.Get("id")), Values: form, Errors: map[string]string{}}
	if !f.ID.Valid() {
		f.ID = models.NewKeyID()
	}
	in := auth.NewKey{ID: f.ID, AccountID: models.AccountID(form.Get("account")), Role: access.Role(form.Get("role")), Name: form.Get("name")}
	if days := form.Get("days"); days != "" {
		n, err := strconv.Atoi(days)
		if err != nil || n < 1 || n > 3650 {
			f.Errors["days"] = "This must be a whole number from 1 to 3650, or empty."
			return c.showKeyForm(w, r, p, http.StatusUnprocessableEntity, f)
		}
		ends := time.Now().Add(time.Duration(n) * 24 * time.Hour)
		in.ExpiresAt = &ends
	}
	key, secret, err := c.Keys.Create(r.Context(), p, in)
	var refused *apierror.Error
	if errors.As(err, &refused) && refused.Field != "" {
		f.Errors[refused.Field] = refused.Message
		return c.showKeyForm(w, r, p, http.StatusUnprocessableEntity, f)
	}
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, keySecretPage(key, secret))
}

func (c *controller) keyConfirm(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	keys, err := c.Keys.List(r.Context(), p, "")
	if err != nil {
		return err
	}
	key, ok := lo.Find(keys, func(k *access.APIKey) bool { return string(k.ID) == r.PathValue("id") })
	if !ok {
		return apierror.NotFound("key")
	}
	return shell.Render(w, r, http.StatusOK, keyConfirmPage(key, time.Now()))
}

func (c *controller) keyRevoke(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := c.Keys.Revoke(r.Context(), p, models.KeyID(r.PathValue("id"))); err != nil {
		return err
	}
	return c.Done(w, r, "/keys", "Revoked the key. It stops working everywhere within 5 seconds.")
}

// keyState says whether a key is valid.
func keyState(k *access.APIKey, now time.Time) string {
	switch {
	case !k.RevokedAt.IsZero():
		return "REVOKED"
	case !k.ExpiresAt.IsZero() && !k.ExpiresAt.After(now):
		return "EXPIRED"
	}
	return "ACTIVE"
}
