package access

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
)

// meView is the page of the person who is logged in.
type meView struct {
	jobs.Principal
	// Member is nil for the login of a key.
	Member   *access.Member
	Sessions []*access.Session
	Errors   map[string]string
	Now      time.Time
}

func (c *controller) me(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return c.showMe(w, r, p, http.StatusOK, nil)
}

func (c *controller) showMe(w http.ResponseWriter, r *http.Request, p jobs.Principal, status int, problems map[string]string) error {
	v := &meView{Principal: p, Errors: problems, Now: time.Now()}
	if p.Member != nil {
		var err error
		if v.Member, err = c.Members.Self(r.Context(), p); err != nil {
			return err
		}
		if v.Sessions, err = c.Members.Sessions(r.Context(), p); err != nil {
			return err
		}
	}
	return shell.Render(w, r, status, mePage(v))
}

// changePassword replaces the member's own password and all of its logins.
func (c *controller) changePassword(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	if problems := differ(r); problems != nil {
		return c.showMe(w, r, p, http.StatusUnprocessableEntity, problems)
	}
	token, err := c.Members.ChangePassword(r.Context(), p, r.PostForm.Get("old"), r.PostForm.Get("password"), visitorOf(r))
	var refused *apierror.Error
	if errors.As(err, &refused) && refused.Field != "" {
		return c.showMe(w, r, p, http.StatusUnprocessableEntity, map[string]string{refused.Field: refused.Message})
	}
	if err != nil {
		return err
	}
	c.SetSession(w, token)
	return c.Done(w, r, "/me", "Your password is changed, and all your other logins are ended.")
}

// differ returns the problem of a form whose two new passwords differ.
func differ(r *http.Request) map[string]string {
	if r.PostForm.Get("password") == r.PostForm.Get("again") {
		return nil
	}
	return map[string]string{"again": "This is not the same password as above."}
}

func (c *controller) logOutEverywhere(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := c.Members.LogOutEverywhere(r.Context(), p, ""); err != nil {
		return err
	}
	c.SetSession(w, "")
	return c.Done(w, r, "/login", "All your logins are ended.")
}

// join shows the form behind an invitation.
func (c *controller) join(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	member, err := c.Members.Invited(r.Context(), r.PathValue("token"))
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, joinPage(&joinView{Token: r.PathValue("token"), Email: member.Email}))
}

// joined sets the password of an invited member and logs it in.
func (c *controller) joined(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxLoginForm)
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	token := r.PathValue("token")
	member, err := c.Members.Invited(r.Context(), token)
	if err != nil {
		return err
	}
	v := &joinView{Token: token, Email: member.Email, Errors: differ(r)}
	if v.Errors == nil {
		session, err := c.Members.Accept(r.Context(), token, r.PostForm.Get("password"), visitorOf(r))
		var refused *apierror.Error
		switch {
		case err == nil:
			return c.enter(w, r, session, shell.Home())
		case !errors.As(err, &refused) || refused.Field == "":
			return err
		}
		v.Errors = map[string]string{"password": refused.Message}
	}
	return shell.Render(w, r, http.StatusUnprocessableEntity, joinPage(v))
}

// isHere reports whether a login is the one of this request, whose use is the newest.
func (v *meView) isHere(i int) bool { return i == 0 }

// browsers are names in User-Agent headers. Most browsers also claim to be a later one.
var browsers = []struct{ sign, name string }{
	{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"}, {"curl/", "curl"},
}

// browserOf names a browser in one word, or returns the whole User-Agent header.
func browserOf(agent string) string {
	for _, browser := range browsers {
		if strings.Contains(agent, browser.sign) {
			return browser.name
		}
	}
	return cmp.Or(agent, ui.Unknown)
}
