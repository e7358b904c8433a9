package shell

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/reelay/reelay/internal/version"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/ui"
)

// visit is what every page knows of the request that it is shown for. Templates get it with
// visitOf.
type visit struct {
	// Principal is who is logged in. It is empty on pages that need no login.
	Principal jobs.Principal
	// formKey is the secret of the session's form tokens. It is nil for strangers, and where
	// several viewers share what is rendered.
	formKey []byte
	// Instance is the name of this installation, or "".
	Instance string
	// Theme is dark or light if the person chose one, and otherwise "".
	Theme string
	// forget removes the cookie of the flash.
	forget func(http.ResponseWriter)
	// Halts are what operators have halted.
	Halts []models.Halt
	// Flash is what the previous action did, or "". It is shown once.
	Flash string
}

type visitKey struct{}

// visitOf returns the visit of a page.
func visitOf(ctx context.Context) visit {
	v, _ := ctx.Value(visitKey{}).(visit)
	return v
}

// visited returns the request with its visit, for pages and their templates.
func (c *Shell) visited(r *http.Request, p jobs.Principal) *http.Request {
	v := visit{Principal: p, Instance: c.Name, Flash: c.flash(r), forget: func(w http.ResponseWriter) { c.setFlash(w, "") }}
	if theme, err := r.Cookie("theme"); err == nil && (theme.Value == "dark" || theme.Value == "light") {
		v.Theme = theme.Value
	}
	if cookie, err := r.Cookie(c.CookieName()); err == nil && p.Role != "" {
		v.formKey = formKeyOf(cookie.Value)
	}
	return r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
}

// visitedBy is visited for a person who is logged in. Pages begin with what is halted.
func (c *Shell) visitedBy(r *http.Request, p jobs.Principal) (_ *http.Request, err error) {
	r = c.visited(r, p)
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") || !p.May(access.RoleViewer) {
		return r, nil
	}
	v := visitOf(r.Context())
	v.Halts, err = c.Reads.Queues.Halts(r.Context(), p)
	return r.WithContext(context.WithValue(r.Context(), visitKey{}, v)), err
}

// who names the person who is logged in.
func (v visit) who() string {
	role := ui.Words(string(v.Principal.Role))
	if v.Principal.Member != nil {
		return v.Principal.Member.Email + " (" + role + ")"
	}
	return role
}

// versionShort is the version that the navigation shows.
func versionShort() string { return version.Current().Version }

// versionLong is the version with its commit.
func versionLong() string { return version.Current().String() }

// maxFlash bounds a message, in bytes.
const maxFlash = 500

// Done redirects to a page after an action, which the page says once: "Draining wrk_…". The
// message travels in a cookie and is shown as plain text. If another host of this domain
// forges it, a person reads a wrong sentence, and nothing else happens.
func (c *Shell) Done(w http.ResponseWriter, r *http.Request, path, message string) error {
	for len(message) > maxFlash || !utf8.ValidString(message) {
		message = message[:min(maxFlash, len(message)-1)]
	}
	c.setFlash(w, base64.RawURLEncoding.EncodeToString([]byte(message)))
	http.Redirect(w, r, path, http.StatusSeeOther)
	return nil
}

func (c *Shell) setFlash(w http.ResponseWriter, value string) {
	cookie := &http.Cookie{Name: c.CookieName() + "-flash", Value: value, Path: "/", MaxAge: 60, HttpOnly: true, Secure: c.Secure,
		SameSite: http.SameSiteLaxMode}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// flash returns the message of the previous action, or "".
func (c *Shell) flash(r *http.Request) string {
	cookie, err := r.Cookie(c.CookieName() + "-flash")
	if err != nil {
		return ""
	}
	message, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil || len(message) > maxFlash || !utf8.Valid(message) {
		return ""
	}
	return string(message)
}
