package models

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Needs is what a job requires of a worker's capacity and price, and of the scaler, as one text:
// "" for nothing, or words with commas between them: "held", which no worker meets, while a budget is
// spent; "on-demand" or "cheap" capacity; "now", which
// has the scaler boot a worker for each job at once; "price<=0.5" in USD per hour, always the
// last. Queues are kept apart by it, so that jobs that a worker may not run are never in its way.
type Needs string

// HeldNeed is how the needs of a held job begin.
const HeldNeed = "held"

const (
	onDemandNeed = "on-demand"
	cheapNeed    = "cheap"
	nowNeed      = "now"
	priceNeed    = "price<="
)

// NewNeeds returns the needs of a job that runs on on-demand capacity only, or anywhere, and
// where a worker costs at most maxPrice; nil means that the price does not matter.
func NewNeeds(onDemand bool, maxPrice *float64) Needs {
	limit := Needs("")
	if maxPrice != nil {
		limit = Needs(priceNeed + strconv.FormatFloat(*maxPrice, 'g', -1, 64))
	}
	return limit.Also(onDemand)
}

// Held returns these needs of a price, and that no worker meets them.
func (n Needs) Held() Needs { return n.with(HeldNeed) }

// IsHeld reports whether no worker may run the job, since a budget is spent.
func (n Needs) IsHeld() bool { return strings.HasPrefix(string(n), HeldNeed) }

// OnDemand reports whether only on-demand capacity will do.
func (n Needs) OnDemand() bool { return strings.HasPrefix(string(n), onDemandNeed) }

// Cheap reports whether only spot capacity will do, or such that costs nothing.
func (n Needs) Cheap() bool { return strings.HasPrefix(string(n), cheapNeed) }

// Now reports whether a worker is to be booted for each job at once.
func (n Needs) Now() bool { return slices.Contains(strings.Split(string(n), ","), nowNeed) }

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

// Also returns these needs of a price, and on-demand capacity or none in particular.
func (n Needs) Also(onDemand bool) Needs {
	if onDemand {
		return n.with(onDemandNeed)
	}
	return n.with()
}

// WithSlack returns these needs of a price, and cheap capacity.
func (n Needs) WithSlack() Needs { return n.with(cheapNeed) }

// WithoutSlack returns Also, and a worker for each job at once.
func (n Needs) WithoutSlack(onDemand bool) Needs {
	if onDemand {
		return n.with(onDemandNeed, nowNeed)
	}
	return n.with(nowNeed)
}

// AtAnyPrice returns these needs without those of a price.
func (n Needs) AtAnyPrice() Needs {
	words, _, _ := strings.Cut(string(n), priceNeed)
	return Needs(strings.TrimSuffix(words, ","))
}

// with returns the words, and the price.
func (n Needs) with(words ...string) Needs {
	if at := strings.Index(string(n), priceNeed); at >= 0 {
		words = append(words, string(n)[at:])
	}
	return Needs(strings.Join(words, ","))
}

// Spent reports whether the run of a job has lost as many spot workers as it may, so that
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
