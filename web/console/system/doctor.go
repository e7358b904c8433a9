package system

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/console/shell"
)

const (
	// examineWithin bounds an examination.
	examineWithin = time.Minute
	// examinedFor is how long the page shows what was found instead of examining again. It bounds
	// what reloads can cost.
	examinedFor = time.Minute
)

// examination is the view of the doctor's page: the checks as they run, or what they found.
type examination struct {
	At time.Time
	// Done of Of checks are done, and Next is what is checked now. Of is 0 before the first.
	Done, Of int
	Next     string
	// Over is true once the checks ended, after Took.
	Over     bool
	Took     time.Duration
	Findings []doctor.Finding // the worst first
	// Problem is why the checks could not be run, or "".
	Problem string
	// Live is the address of the stream that keeps the page current, or "".
	Live string
	Now  time.Time
}

// exams shares the examinations of this process between those who look: one at a time runs, and
// it goes on without them.
type exams struct {
	mu     sync.Mutex
	newest *examination
	// changed is closed when there is more to show.
	changed chan struct{}
}

// look returns the newest examination, which is nil before the first, and what is closed once it is
// not the newest state any more.
func (e *exams) look() (*examination, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.changed == nil {
		e.changed = make(chan struct{})
	}
	return e.newest, e.changed
}

// begin starts an examination unless one runs, or one that began after the given time is current.
func (e *exams) begin(after time.Time, examine func(context.Context, func(done, of int, next string)) ([]doctor.Finding, error)) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if old := e.newest; old != nil && (!old.Over || !old.At.Before(after) && now.Sub(old.At.Add(old.Took)) < examinedFor) {
		return
	}
	began := examination{At: now}
	e.change(began)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), examineWithin)
		defer cancel()
		ended := began
		defer func() {
			if broken := recover(); broken != nil { // no server recovers from it here
				ended.Findings, ended.Problem = nil, fmt.Sprintf("panic: %v", broken)
			}
			ended.Over, ended.Took = true, time.Since(began.At)
			e.publish(ended)
		}()
		found, err := examine(ctx, func(done, of int, next string) {
			e.publish(examination{At: began.At, Done: done, Of: of, Next: next})
		})
		if err != nil {
			ended.Problem = err.Error()
		}
		ended.Findings = worstFirst(found)
	}()
}

// publish makes a state the newest.
func (e *exams) publish(v examination) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.change(v)
}

// change is publish for callers that hold the mutex.
func (e *exams) change(v examination) {
	e.newest = &v
	if e.changed != nil {
		close(e.changed)
	}
	e.changed = make(chan struct{})
}

func worstFirst(found []doctor.Finding) []doctor.Finding {
	order := []doctor.Level{doctor.LevelBroken, doctor.LevelUnknown, doctor.LevelAdvice, doctor.LevelOK}
	return slices.SortedStableFunc(slices.Values(found), func(a, b doctor.Finding) int {
		return cmp.Compare(slices.Index(order, a.Level), slices.Index(order, b.Level))
	})
}

// examined returns the newest examination for a viewer. If the viewer may run the checks, they are
// started unless their result is current.
func (c *controller) examined(r *http.Request, p jobs.Principal) (*examination, <-chan struct{}) {
	if c.Examine != nil && p.May(access.RoleOperator) {
		c.exams.begin(askedAfter(r), c.Examine)
	}
	found, changed := c.exams.look()
	if found == nil {
		return &examination{}, changed
	}
	v := *found
	v.Now = time.Now()
	if !v.Over {
		v.Live = "/doctor/live?" + url.Values{"after": {strconv.FormatInt(askedAfter(r).UnixMilli(), 10)}}.Encode()
	}
	return &v, changed
}

// askedAfter is when the viewer asked to run the checks again: an older result is not current. It
// is in the address, because another process may serve the next request.
func askedAfter(r *http.Request) time.Time {
	milliseconds, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	if err != nil || milliseconds > time.Now().UnixMilli() {
		return time.UnixMilli(0)
	}
	return time.UnixMilli(milliseconds)
}

// doctor runs the checks, and shows how far they are or what they found.
func (c *controller) doctor(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, _ := c.examined(r, p)
	return shell.Render(w, r, http.StatusOK, doctorPage(v))
}

func (c *controller) doctorLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return c.Follow(w, r, func(ctx context.Context, s *shell.Stream) error {
		for {
			v, changed := c.examined(r, p)
			if err := s.SendPart(ctx, "", doctorNow(v)); err != nil {
				return err
			}
			if v.Live == "" {
				return s.End()
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-changed:
			}
		}
	})
}

// doctorRun runs the checks again.
func (c *controller) doctorRun(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	if c.Examine == nil {
		return shell.ErrNoPage
	}
	after := time.Now().UnixMilli()
	c.exams.begin(time.UnixMilli(after), c.Examine)
	http.Redirect(w, r, fmt.Sprintf("/doctor?after=%d", after), http.StatusSeeOther)
	return nil
}

// percent is how far the checks are.
func (v *examination) percent() float64 { return 100 * float64(v.Done) / float64(max(v.Of, 1)) }

// passed counts the checks that found nothing.
func (v *examination) passed() (n int) {
	for _, f := range v.Findings {
		if f.Level == doctor.LevelOK {
			n++
		}
	}
	return n
}
