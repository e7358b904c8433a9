package access

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/door"
)

// loginView is the view of the login page.
type loginView struct {
	Next  string
	Email string
	// Error is of the form with a password, KeyError of the one with a key, SSOError of
	// single sign-on.
	Error, KeyError, SSOError string
	// SSO is the address at which single sign-on begins; "" without it.
	SSO string
}

// loginView returns the view of the login page.
func (c *controller) loginView(next string) loginView {
	v := loginView{Next: next}
	if c.SSO != nil {
		v.SSO = "/login/sso?next=" + url.QueryEscape(next)
	}
	return v
}

func (c *controller) loginForm(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	next := shell.LocalPath(r.URL.Query().Get("next"))
	if _, err := c.Principal(r); err == nil {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return nil
	}
	return shell.Render(w, r, http.StatusOK, loginPage(c.loginView(next)))
}

// maxLoginForm bounds a login, in bytes: an e-mail address and a password of 256 characters.
const maxLoginForm = 8 << 10

// logIn opens a session for a member with a password, or for an operator's or viewer's key.
func (c *controller) logIn(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxLoginForm)
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	next := shell.LocalPath(r.PostForm.Get("next"))
	if r.PostForm.Has("email") {
		return c.logInMember(w, r, next)
	}
	caller := address(r)
	token, err := c.tryKey(r)
	var refused *apierror.Error
	if errors.As(err, &refused) {
		v := c.loginView(next)
		if c.attempts.failed(caller, time.Now()) > maxFailedLogins {
			w.Header().Set("Retry-After", "60")
			v.KeyError = "This key is invalid, and your address sent too many invalid keys. Wait a minute, then try again."
			return shell.Render(w, r, http.StatusTooManyRequests, loginPage(v))
		}
		slog.WarnContext(r.Context(), "a login to the console was refused", "address", caller, "code", refused.Code)
		v.KeyError = refusal(refused)
		return shell.Render(w, r, door.Status(refused.Code), loginPage(v))
	}
	if err != nil {
		return err
	}
	return c.enter(w, r, token, next)
}

func (c *controller) logInMember(w http.ResponseWriter, r *http.Request, next string) error {
	token, err := c.Members.LogIn(r.Context(), r.PostForm.Get("email"), r.PostForm.Get("password"), visitorOf(r))
	var refused *apierror.Error
	if errors.As(err, &refused) {
		slog.WarnContext(r.Context(), "a login to the console was refused", "address", address(r), "code", refused.Code)
		v := c.loginView(next)
		v.Email, v.Error = text.Clip(text.Printable(r.PostForm.Get("email")), 254), refused.Message
		return shell.Render(w, r, door.Status(refused.Code), loginPage(v))
	}
	if err != nil {
		return err
	}
	return c.enter(w, r, token, next)
}

// enter gives the browser a new session, and ends the one that it had.
func (c *controller) enter(w http.ResponseWriter, r *http.Request, token, next string) error {
	if old, err := r.Cookie(c.CookieName()); err == nil {
		if err := c.Keys.LogOut(r.Context(), old.Value); err != nil {
			return err
		}
	}
	c.SetSession(w, token)
	http.Redirect(w, r, next, http.StatusSeeOther)
	return nil
}

func visitorOf(r *http.Request) auth.Visitor {
	return auth.Visitor{Remote: r.RemoteAddr, Browser: r.UserAgent()}
}

func (c *controller) tryKey(r *http.Request) (token string, err error) {
	leave, err := c.attempts.enter(r.Context())
	if err != nil {
		return "", err
	}
	defer leave()
	return c.Keys.LogIn(r.Context(), r.PostForm.Get("key"), r.RemoteAddr)
}

func refusal(err *apierror.Error) string {
	if err.Code == apierror.CodeUnauthenticated {
		return "This key is invalid. An operator's key begins with rl_live_. The commands reelay up and reelay keys create print one."
	}
	return err.Message
}

func (c *controller) logOut(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	if cookie, err := r.Cookie(c.CookieName()); err == nil {
		if err := c.Keys.LogOut(r.Context(), cookie.Value); err != nil {
			return err
		}
	}
	c.SetSession(w, "")
	return c.Done(w, r, "/login", "You are logged out.")
}

func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

const (
	// maxFailedLogins is the number of wrong keys per address and minute that are logged
	// and get a full response. A valid key is accepted after any number of wrong ones:
	// strangers behind the same proxy must not lock out operators. Keys have 256 random
	// bits and cannot be guessed.
	maxFailedLogins = 20
	// maxLogins is the number of keys that are looked up at the same time.
	maxLogins = 4
	// maxAddresses bounds the memory of the counts.
	maxAddresses = 10_000
)

// attempts bounds the logins of this process and counts the failed ones by address,
// per minute.
type attempts struct {
	looking chan struct{}

	mu    sync.Mutex
	since time.Time
	count map[string]int
}

func newAttempts() *attempts {
	return &attempts{looking: make(chan struct{}, maxLogins), count: map[string]int{}}
}

// enter waits for a slot to look up a key. leave frees the slot.
func (a *attempts) enter(ctx context.Context) (leave func(), err error) {
	select {
	case a.looking <- struct{}{}:
		return func() { <-a.looking }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// failed counts a wrong key and returns the count of its address.
func (a *attempts) failed(address string, now time.Time) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.since) > time.Minute || len(a.count) >= maxAddresses {
		a.since, a.count = now, map[string]int{}
	}
	a.count[address]++
	return a.count[address]
}
