package shell

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/jobs"
)

// CookieName has a prefix that binds the cookie to this host and path. Browsers support
// it only over HTTPS.
func (c *Shell) CookieName() string {
	if c.Secure {
		return "__Host-reelay"
	}
	return "reelay"
}

// Principal returns the operator or viewer who is logged in, or apierror.ErrUnauthenticated.
func (c *Shell) Principal(r *http.Request) (jobs.Principal, error) {
	cookie, err := r.Cookie(c.CookieName())
	if err != nil {
		return jobs.Principal{}, apierror.ErrUnauthenticated
	}
	p, err := c.Keys.Session(r.Context(), cookie.Value)
	if err == nil {
		httpguard.ConnOf(r.Context()).MarkKnown()
	}
	return p.From(r.RemoteAddr), err
}

// SetSession gives the browser the token of a session. An empty token ends it.
func (c *Shell) SetSession(w http.ResponseWriter, token string) {
	cookie := &http.Cookie{
		Name: c.CookieName(), Value: token, Path: "/",
		HttpOnly: true, Secure: c.Secure, SameSite: http.SameSiteLaxMode,
	}
	if token == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// asksForPage reports whether a person sees the response, so that it can be the login
// page.
func asksForPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		!strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// checkLoginsEvery is the interval at which the login of an open stream is checked, so
// that the stream ends within 5 seconds after its key was revoked.
const checkLoginsEvery = 4 * time.Second

// loginEnds waits until the request's login ends, and returns true. It returns false if
// ctx ends first.
func (c *Shell) loginEnds(ctx context.Context, r *http.Request) bool {
	cookie, err := r.Cookie(c.CookieName())
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
	if next = LocalPath(next); next == Home() {
		return "/login"
	}
	return "/login?next=" + url.QueryEscape(next)
}

// LocalPath returns next if it is the address of a page of this console, and otherwise
// the address of the first page. Browsers read a backslash as a slash and drop control
// characters.
func LocalPath(next string) string {
	u, err := url.Parse(next)
	bad := err != nil || u.IsAbs() || u.Host != "" || u.User != nil || u.Opaque != "" ||
		!strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") ||
		strings.ContainsFunc(next, func(r rune) bool { return r == '\\' || r < ' ' || r == 0x7f })
	if bad || strings.HasPrefix(next, "/login") || strings.HasPrefix(next, "/logout") || next == "/" {
		return Home()
	}
	return next
}

// Origin is the address of this Reelay, as the browser has it.
func (c *Shell) Origin(r *http.Request) string {
	if c.Secure || r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}
