package web

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/reelay/reelay/jobs"
)

// loginView is the login page's view.
type loginView struct {
	Next  string
	Error string
}

func (c *console) loginForm(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	next := localPath(r.URL.Query().Get("next"))
	if _, err := c.principal(r); err == nil {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return nil
	}
	return render(w, r, http.StatusOK, loginPage(loginView{Next: next}))
}

const maxLoginForm = 4 << 10

func (c *console) logIn(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxLoginForm)
	if err := readForm(r); err != nil {
		return err
	}
	next := localPath(r.PostForm.Get("next"))
	caller := address(r)
	if !c.attempts.allowed(caller, time.Now()) {
		w.Header().Set("Retry-After", "60")
		return render(w, r, http.StatusTooManyRequests, loginPage(loginView{Next: next, Error: "Too many wrong keys came from your address: wait a minute, then try again."}))
	}
	token, err := c.Keys.LogIn(r.Context(), r.PostForm.Get("key"), r.RemoteAddr)
	var refused *jobs.Error
	if errors.As(err, &refused) {
		c.attempts.failed(caller)
		slog.WarnContext(r.Context(), "a login to the console was refused", "address", caller, "code", refused.Code)
		return render(w, r, statuses[refused.Code], loginPage(loginView{Next: next, Error: refusal(refused)}))
	}
	if err != nil {
		return err
	}
	c.setSession(w, token)
	http.Redirect(w, r, next, http.StatusSeeOther)
	return nil
}

func refusal(err *jobs.Error) string {
	if err.Code == jobs.CodeUnauthenticated {
		return "This is not a valid key. An operator's key begins with rl_live_; reelay up and reelay keys create print one."
	}
	return err.Message
}

func (c *console) logOut(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	if cookie, err := r.Cookie(c.cookieName()); err == nil {
		if err := c.Keys.LogOut(r.Context(), cookie.Value); err != nil {
			return err
		}
	}
	c.setSession(w, "")
	http.Redirect(w, r, "/login", http.StatusSeeOther)
	return nil
}

func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// maxFailedLogins is how many wrong keys one address may try in a minute. Keys
// have 256 random bits: this spares the database, not the keys.
const maxFailedLogins = 20

// attempts counts the failed logins of this minute by address.
type attempts struct {
	mu    sync.Mutex
	since time.Time
	count map[string]int
}

func (a *attempts) allowed(address string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.since) > time.Minute {
		a.since, a.count = now, map[string]int{}
	}
	return a.count[address] < maxFailedLogins
}

func (a *attempts) failed(address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count[address]++
}
