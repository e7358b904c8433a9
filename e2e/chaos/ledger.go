package main

import (
	"sync"
	"time"
)

// request is one thing that the soak asked for: a job, under one key.
type request struct {
	N       int // also in the job's metadata, so that every job finds its request
	Tenant  *tenant
	Key     string // empty: none, so that an answer that is lost leaves us in the dark
	Prompt  string
	Seed    int64
	Steps   int
	Millis  int
	Misdeed string
	After   []string // jobs that it depends on

	mu sync.Mutex
	// ids are the jobs that answers to this request named: one, or something is
	// wrong.
	ids map[string]bool
	// cancelled is when a cancel of the job was acknowledged.
	cancelled time.Time
	// asked is when a cancel was sent.
	asked time.Time
	// reopened tells that a retry or a redrive was asked for.
	reopened bool
}

// takes is how long the job needs a worker.
func (r *request) takes() time.Duration {
	return time.Duration(r.Steps*r.Millis) * time.Millisecond
}

// acknowledged notes that the API said that this job exists.
func (r *request) acknowledged(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids == nil {
		r.ids = map[string]bool{}
	}
	r.ids[id] = true
}

// job is the job's id, if it was ever told.
func (r *request) job() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.ids {
		return id
	}
	return ""
}

// ledger is what the soak knows by itself: everything it asked for, and all that
// was acknowledged.
type ledger struct {
	mu       sync.Mutex
	requests []*request
}

func (l *ledger) add(r *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.N = len(l.requests) + 1
	l.requests = append(l.requests, r)
}

func (l *ledger) all() []*request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*request(nil), l.requests...)
}
