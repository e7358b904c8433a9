package access

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/signon"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/door"
)

// ssoAttempt is a login that has begun at the OpenID provider. The browser keeps it in a
// cookie, so that only the browser that began a login can finish it.
type ssoAttempt struct {
	signon.Attempt
	Next string
}

// ssoBegin sends a person to the OpenID provider.
func (c *controller) ssoBegin(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	if c.SSO == nil {
		return shell.ErrNoPage
	}
	next := shell.LocalPath(r.URL.Query().Get("next"))
	address, attempt, err := c.SSO.Begin(r.Context())
	if err != nil {
		return c.ssoFailed(w, r, next, err)
	}
	data, err := json.Marshal(ssoAttempt{attempt, next})
	if err != nil {
		return err
	}
	c.setAttempt(w, base64.RawURLEncoding.EncodeToString(data), 600)
	http.Redirect(w, r, address, http.StatusSeeOther)
	return nil
}

func (c *controller) setAttempt(w http.ResponseWriter, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: c.CookieName() + "-sso", Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, Secure: c.Secure, SameSite: http.SameSiteLaxMode,
	})
}

// ssoFinish logs in a person whom the OpenID provider sends back.
func (c *controller) ssoFinish(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	if c.SSO == nil {
		return shell.ErrNoPage
	}
	var attempt ssoAttempt
	if cookie, err := r.Cookie(c.CookieName() + "-sso"); err == nil {
		if data, err := base64.RawURLEncoding.DecodeString(cookie.Value); err == nil {
			_ = json.Unmarshal(data, &attempt) // an empty attempt is refused
		}
	}
	c.setAttempt(w, "", -1)
	next, query := shell.LocalPath(attempt.Next), r.URL.Query()
	if said := query.Get("error"); said != "" && query.Get("state") == attempt.State {
		slog.WarnContext(r.Context(), "the OpenID provider refused a login", "error", said, "description", query.Get("error_description"))
		return c.ssoRefused(w, r, next, "Your single sign-on refused the login. Try again, or log in another way.")
	}
	claims, err := c.SSO.Finish(r.Context(), attempt.Attempt, query.Get("state"), query.Get("code"))
	if err != nil {
		return c.ssoFailed(w, r, next, err)
	}
	token, err := c.Members.LogInIdentity(r.Context(), auth.Identity(*claims), visitorOf(r))
	var refused *apierror.Error
	if errors.As(err, &refused) {
		v := c.loginView(next)
		v.SSOError = refused.Message
		return shell.Render(w, r, door.Status(refused.Code), loginPage(v))
	}
	if err != nil {
		return err
	}
	return c.enter(w, r, token, next)
}

// ssoFailed shows the login page with the other ways to log in.
func (c *controller) ssoFailed(w http.ResponseWriter, r *http.Request, next string, err error) error {
	if errors.Is(err, signon.ErrRefused) {
		slog.WarnContext(r.Context(), "a single sign-on was refused", "address", address(r), "error", err)
		return c.ssoRefused(w, r, next, "This login could not be verified, or took longer than 10 minutes. Begin again.")
	}
	if !errors.Is(err, signon.ErrDown) {
		return err
	}
	slog.ErrorContext(r.Context(), "the OpenID provider does not answer", "error", err)
	v := c.loginView(next)
	v.SSOError = "Your single sign-on does not answer right now. Log in another way, or try again later."
	return shell.Render(w, r, http.StatusServiceUnavailable, loginPage(v))
}

func (c *controller) ssoRefused(w http.ResponseWriter, r *http.Request, next, message string) error {
	v := c.loginView(next)
	v.SSOError = message
	return shell.Render(w, r, http.StatusForbidden, loginPage(v))
}
