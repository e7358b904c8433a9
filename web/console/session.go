package console

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
)

// cookieName is bound to this host and path by its prefix, where browsers allow
// that: over HTTPS.
func (c *console) cookieName() string {
	if c.Secure {
		return "__Host-reelay"
	}
	return "reelay"
}

// principal returns who is logged in, who is an operator, or
// apierror.ErrUnauthenticated.
func (c *console) principal(r *http.Request) (jobs.Principal, error) {
	cookie, err := r.Cookie(c.cookieName())
	if err != nil {
		return jobs.Principal{}, apierror.ErrUnauthenticated
	}
	p, err := c.Keys.Session(r.Context(), cookie.Value)
	if err == nil {
		httpguard.ConnOf(r.Context()).MarkKnown()
	}
	return p.From(r.RemoteAddr), err
}

func (c *console) setSession(w http.ResponseWriter, token string) {
	cookie := &http.Cookie{
		Name: c.cookieName(), Value: token, Path: "/",
		HttpOnly: true, Secure: c.Secure, SameSite: http.SameSiteLaxMode,
	}
	if token == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// asksForPage tells whether an answer to this request is shown to a person, who
// can be sent to log in.
func asksForPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		!strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// checkLoginsEvery is how often the login of an open stream is checked again, so
// that one whose key is revoked is out within 5 seconds.
const checkLoginsEvery = 4 * time.Second

// loginEnds waits until the request's login ends, and returns true, or until ctx
// ends.
func (c *console) loginEnds(ctx context.Context, r *http.Request) bool {
	cookie, err := r.Cookie(c.cookieName())
	if err != nil {
		return false
	}
	ticker := time.NewTicker(c.CheckLoginsEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return false
		}
		if lives, err := c.Keys.SessionLives(ctx, cookie.Value); err == nil && !lives {
			return true
		}
	}
}

func loginPath(next string) string {
	if next = localPath(next); next == "/jobs" {
		return "/login"
	}
	return "/login?next=" + url.QueryEscape(next)
}

// localPath returns next if it leads to a page of this console, and else the
// first page. Browsers read a backslash as a slash and drop control characters.
func localPath(next string) string {
	u, err := url.Parse(next)
	bad := err != nil || u.IsAbs() || u.Host != "" || u.User != nil || u.Opaque != "" ||
		!strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") ||
		strings.ContainsFunc(next, func(r rune) bool { return r == '\\' || r < ' ' || r == 0x7f })
	if bad || strings.HasPrefix(next, "/login") || strings.HasPrefix(next, "/logout") || next == "/" {
		return "/jobs"
	}
	return next
}
