package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/reelay/reelay/client"
)

// calls records the calls of all customers.
type calls struct {
	mu     sync.Mutex
	took   []time.Duration
	failed int
	why    []string // of the first failures
}

// shownFailures is how many failed calls are described.
const shownFailures = 10

// add records one call. A refusal is an answer; that a customer has to repeat a call is a failure.
func (c *calls) add(took time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = append(c.took, took)
	if err == nil {
		return
	}
	e, ok := errors.AsType[*client.Error](err)
	if ok && e.Code != client.CodeUnavailable && e.Code != client.CodeInternal {
		return
	}
	c.failed++
	if len(c.why) < shownFailures {
		c.why = append(c.why, fmt.Sprintf("%s after %s: %v", time.Now().UTC().Format(time.TimeOnly), took.Round(time.Millisecond), err))
	}
}

// take returns the calls since the last take.
func (c *calls) take() *phase {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.took)
	p := &phase{Calls: len(c.took), Failed: c.failed}
	if n := len(c.took); n > 0 {
		p.P50, p.P99 = c.took[n/2].Seconds()*1000, c.took[n*99/100].Seconds()*1000
	}
	c.took, c.failed = nil, 0
	return p
}

func (c *calls) reasons() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.why)
}

// phase is a part of an upgrade, with what the customers saw meanwhile.
type phase struct {
	Name    string
	Seconds float64
	// Calls is how many calls the customers made, and Failed how many of them were not answered, or
	// by INTERNAL or UNAVAILABLE.
	Calls, Failed int
	P50, P99      float64 // milliseconds of a call
	Completed     int     // jobs
}
