package models

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Needs is what a job requires of a worker's capacity and price, as one text: "" for nothing,
// "on-demand", "price<=0.5" in USD per hour, or "on-demand,price<=0.5". Queues are kept apart
// by it, so that jobs that a worker may not run are never in its way.
type Needs string

const (
	onDemandNeed = "on-demand"
	priceNeed    = "price<="
)

// NewNeeds returns the needs of a job that runs on on-demand capacity only, or anywhere, and
// where a worker costs at most maxPrice; nil means that the price does not matter.
func NewNeeds(onDemand bool, maxPrice *float64) Needs {
	var parts []string
	if onDemand {
		parts = append(parts, onDemandNeed)
	}
	if maxPrice != nil {
		parts = append(parts, priceNeed+strconv.FormatFloat(*maxPrice, 'g', -1, 64))
	}
	return Needs(strings.Join(parts, ","))
}

// OnDemand reports whether only on-demand capacity will do.
func (n Needs) OnDemand() bool { return strings.HasPrefix(string(n), onDemandNeed) }

// MaxPrice returns the highest price of a worker, in USD per hour, or nil.
func (n Needs) MaxPrice() *float64 {
	_, text, limited := strings.Cut(string(n), priceNeed)
	if !limited {
		return nil
	}
	limit, err := strconv.ParseFloat(text, 64)
	if err != nil {
		limit = math.Inf(-1) // written by a newer release: nothing here is known to do
	}
	return &limit
}

// Also returns the needs with or without on-demand capacity.
func (n Needs) Also(onDemand bool) Needs { return NewNeeds(onDemand, n.MaxPrice()) }

// Spent reports whether the run of a job has lost as many spot workers as it can bear, so that
// it continues on on-demand capacity only.
func (j *Job) Spent() bool { return j.MaxPreemptions != nil && j.Preemptions >= *j.MaxPreemptions }

// Late reports whether a job missed its FinishBy, as known at a time.
func (j *Job) Late(now time.Time) bool {
	if j.FinishBy.IsZero() {
		return false
	}
	if !j.CompletedAt.IsZero() {
		now = j.CompletedAt
	}
	return now.After(j.FinishBy)
}

// WhyOnDemand returns why the job runs on on-demand capacity only, or "" if it does not.
func (j *Job) WhyOnDemand() string {
	switch {
	case !j.Needs.OnDemand():
		return ""
	case j.Spent() && j.Preemptions == 0:
		return "its maxPreemptions is 0"
	case j.Spent():
		return fmt.Sprintf("it was preempted %s, and its maxPreemptions is %d", times(j.Preemptions), *j.MaxPreemptions)
	}
	return "its finishBy leaves no slack"
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// LateNow is Late by the clock of this process, to show it.
func (j *Job) LateNow() bool { return j.Late(time.Now()) }

// OnDemandOnly reports whether the job runs on on-demand capacity only now.
func (j *Job) OnDemandOnly() bool { return j.Needs.OnDemand() }
