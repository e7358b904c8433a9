package main

import (
	"sync"
	"time"
)

// request is one job that the soak requested, under one key.
type request struct {
	N       int // also in the job's metadata, so that every job finds its request
	Tenant  *tenant
	Key     string // empty: no key, so that a lost answer cannot be recovered
	Prompt  string
	Seed    int64
	Steps   int
	Millis  int
	Every   int // steps between two checkpoints; 0: none
	Misdeed string
	After   []string // jobs that it depends on

	mu sync.Mutex
	// ids are the jobs that answers to this request named. More than one is an error.
	ids map[string]bool
	// cancelled is when a cancel of the job was acknowledged.
	cancelled time.Time
	// asked is when a cancel was sent.
	asked time.Time
	// reopened is true if a retry or a redrive was requested.
	reopened bool
}

// takes returns how long the job needs a worker.
func (r *request) takes() time.Duration {
	return time.Duration(r.Steps*r.Millis) * time.Millisecond
}

// acknowledged records that the API confirmed this job.
func (r *request) acknowledged(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids == nil {
		r.ids = map[string]bool{}
	}
	r.ids[id] = true
}

// job returns the job's id, or "" if no answer named it.
func (r *request) job() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.ids {
		return id
	}
	return ""
}

// ledger is the soak's own record of everything that it requested and that the API
// acknowledged.
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

func (l *ledger) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.requests)
}

func (l *ledger) all() []*request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*request(nil), l.requests...)
}
