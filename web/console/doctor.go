package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/doctor"
)

// examineWithin bounds an examination.
const examineWithin = time.Minute

var errExamining = apierror.Conflict("This API process is running the checks already. Try again in a minute.")

// examination is the view of the doctor's page.
type examination struct {
	// Ran is false before the checks were run.
	Ran      bool
	Findings []doctor.Finding // the worst first
	At       time.Time
	Took     time.Duration
	// Problem is why the checks could not be run, or "".
	Problem string
}

func (c *console) doctor(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	return render(w, r, http.StatusOK, doctorPage(&examination{}))
}

// doctorRun runs the checks and shows what they found. One examination at a time runs in each
// process.
func (c *console) doctorRun(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	if c.Examine == nil {
		return errNoPage
	}
	if !c.examining.TryLock() {
		return errExamining
	}
	defer c.examining.Unlock()
	ctx, cancel := context.WithTimeout(r.Context(), examineWithin)
	defer cancel()
	v := &examination{Ran: true, At: time.Now()}
	found, err := c.Examine(ctx)
	v.Took = time.Since(v.At)
	if err != nil {
		v.Problem = err.Error()
	}
	order := []doctor.Level{doctor.LevelBroken, doctor.LevelUnknown, doctor.LevelAdvice, doctor.LevelOK}
	v.Findings = slices.SortedStableFunc(slices.Values(found), func(a, b doctor.Finding) int {
		return cmp.Compare(slices.Index(order, a.Level), slices.Index(order, b.Level))
	})
	return render(w, r, http.StatusOK, doctorPage(v))
}

// passed counts the checks that found nothing.
func (v *examination) passed() (n int) {
	for _, f := range v.Findings {
		if f.Level == doctor.LevelOK {
			n++
		}
	}
	return n
}
