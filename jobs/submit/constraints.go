package submit

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
)

const (
	// MaxMaxPreemptions bounds maxPreemptions. No job survives so many losses within a year.
	MaxMaxPreemptions = 1000
	// MaxPricePerHour bounds MaxPricePerHour, in USD.
	MaxPricePerHour = 10_000
)

// constraints returns the capacity limits of the request for its digest, or nil if none is set.
func (in *Submission) constraints() any {
	if in.MaxPreemptions == nil && in.FinishBy == nil && in.MaxPricePerHour == nil {
		return nil
	}
	return map[string]any{"maxPreemptions": in.MaxPreemptions, "finishBy": utc(in.FinishBy), "maxPricePerHour": in.MaxPricePerHour}
}

// validConstraints checks what does not depend on the clock.
func (in *Submission) validConstraints() error {
	if n := in.MaxPreemptions; n != nil && (*n < 0 || *n > MaxMaxPreemptions) {
		return apierror.Invalid("maxPreemptions",
			"maxPreemptions must be from 0 to %d; it is %d. With 0 the job never runs on spot capacity.", MaxMaxPreemptions, *n)
	}
	if limit := in.MaxPricePerHour; limit != nil && !(*limit >= 0 && *limit <= MaxPricePerHour) { // also if it is NaN
		return apierror.Invalid("maxPricePerHour", "maxPricePerHour must be from 0 to %d USD; it is %g.", MaxPricePerHour, *limit)
	}
	return nil
}

// setConstraints copies the capacity limits to the job.
func (in *Submission) setConstraints(job *models.Job, steps *priceSteps) {
	job.MaxPreemptions, job.MaxPricePerHour = in.MaxPreemptions, in.MaxPricePerHour
	job.Needs = models.NewNeeds(job.Spent(), steps.at(in.MaxPricePerHour))
}

// beginFinish checks the deadline against PostgreSQL's clock, after the start time. A job that
// cannot meet its deadline is late, but it runs.
func beginFinish(c *change.Change, finish *time.Time) error {
	if finish == nil {
		return nil
	}
	by := finish.Truncate(time.Microsecond)
	switch {
	case !by.After(c.Now):
		return apierror.Invalid("finishBy", "finishBy is in the past. Give a future time, or omit it.")
	case by.After(c.Now.Add(maxAhead)):
		return apierror.Invalid("finishBy", "finishBy may be %.0f days ahead at most.", maxAhead.Hours()/24)
	case !by.After(c.Job.RunAt):
		return apierror.Invalid("finishBy", "finishBy must be after runAt: the job could never be complete by then.")
	}
	c.Job.FinishBy = by
	return nil
}

// priceSteps keeps the number of different price limits small, since each limit in use is a queue
// that workers read. Limits are rounded down to three significant digits, and to two after too many
// different ones within an hour.
type priceSteps struct {
	mu    sync.Mutex
	since time.Time
	seen  map[float64]bool
}

const (
	fineDigits, coarseDigits = 3, 2
	// maxPriceSteps is how many different limits a process accepts exactly within priceStepsSpan.
	// Clients of a fleet usually need few.
	maxPriceSteps  = 100
	priceStepsSpan = time.Hour
)

// at returns the step of a price limit; nil stays nil.
func (s *priceSteps) at(limit *float64) *float64 {
	if limit == nil {
		return nil
	}
	fine := roundDown(*limit, fineDigits)
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.since) > priceStepsSpan {
		s.since, s.seen = time.Now(), map[float64]bool{}
	}
	if !s.seen[fine] && len(s.seen) >= maxPriceSteps {
		return new(roundDown(*limit, coarseDigits))
	}
	s.seen[fine] = true
	return &fine
}

// roundDown keeps the first digits of a price, which is not negative.
func roundDown(price float64, digits int) float64 {
	if price == 0 {
		return 0
	}
	// The shortest text that reads as the price, such as 2.57e+00, has the digits that were meant.
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(price, 'e', -1, 64), "e")
	rounded, _ := strconv.ParseFloat(mantissa[:min(len(mantissa), digits+1)]+"e"+exponent, 64)
	return rounded
}
