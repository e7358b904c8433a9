package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/reelay/reelay/bench/wire"
	"github.com/reelay/reelay/client"
	"golang.org/x/sync/errgroup"
)

// The quiet tenants: how many they are, and how many calls per second all of them make.
const (
	quietTenants = 8
	quietSubmits = 20.0
	quietShifts  = 10.0 // of the workers: a lease and two ends each
	quietPages   = 10.0
	quietConsole = 2.0
	quietCallers = 32 // of each kind, far more than concurrent calls
	// quietWaiting is how many jobs of each tenant wait, so that each lease finds one.
	quietWaiting = 500
)

const pageQuery = "query { jobs(first: 50) { edges { node { id status model tier createdAt } } pageInfo { hasNextPage endCursor } } }"

// Names of the steps.
const (
	neighbourAway = "alone"
	neighbourHere = "beside the neighbour"
)

// neighbours measures by how much one account slows the others.
func neighbours() Measurement {
	slower := func(kind string) Target {
		return Target{Name: "noisy neighbour: " + kind + " p95 against alone", Figure: kind + " p95", Of: neighbourHere,
			Against: neighbourAway, Bound: 1.5, AtMost: true}
	}
	return Measurement{
		Name: "neighbour", Title: "noisy neighbour: calls of quiet tenants, alone and beside one busy account", Unit: "calls",
		InTurn: true, Rounds: 1,
		Targets: []Target{slower("submit"), slower("lease"), slower("end"), slower("page"),
			{Name: "noisy neighbour: calls of quiet tenants that are refused", Figure: "refused", Of: neighbourHere, Bound: 0, AtMost: true}},
		Note: "Eight quiet accounts make 20 submits and 10 reads of their first page of jobs per second, and an operator opens 2 pages of jobs in the console. Workers lease 10 jobs and end 20 per second, every other with leaseNext. Calls of each kind are independent of each other (Poisson processes); each phase lasts --minutes, after ten seconds without the neighbour. " +
			"The neighbour is an account of the same tier, with the tier's limits and a queue for three workflows. One loop submits a workflow of 10,000 nodes, cancels it, retries it, and cancels it again; one submits another, and sets the priority of its jobs and cancels them by bulk operations; two read all its jobs in pages of 100; 500 sockets each follow a job; two create 1,000 schedules of a slot a minute, and then change them. " +
			"All loops start their next call at once, and wait as long as a refusal asks for. --n changes the number of nodes, and the sockets and schedules in proportion. \"cores\" is processor time per second; bench is the load itself.",
		Prepare: func(ctx context.Context, s *Site) ([]Contestant, error) {
			q, err := s.newQuiet(ctx)
			if err != nil {
				return nil, err
			}
			n, err := s.newNeighbour(ctx, min(s.n(maxNodes, 40), maxNodes))
			if err != nil {
				return nil, err
			}
			return []Contestant{
				{Name: neighbourAway, Role: Peer, Round: func(ctx context.Context) (Figures, error) { return q.round(ctx, nil) }},
				{Name: neighbourHere, Role: Ours, Round: func(ctx context.Context) (Figures, error) { return q.round(ctx, n) }},
			}, nil
		},
	}
}

// quiet is the tenants that a neighbour should not slow, and the workers that run their jobs.
type quiet struct {
	site    *Site
	hands   []*hand
	conns   []*wire.Conn // those that submit, and then those that read
	submit  []byte
	page    []byte
	browser *http.Client
	console string // a page

	measuring atomic.Bool
	refused   atomic.Int64
	lost      atomic.Int64
	empty     atomic.Int64
	took      map[string]*times
}

func (s *Site) newQuiet(ctx context.Context) (*quiet, error) {
	f, err := s.newFloor(ctx, quietCallers, quietTenants)
	if err != nil {
		return nil, err
	}
	if err := f.fill(ctx, s.sized(quietTenants*quietWaiting, 1)); err != nil {
		return nil, err
	}
	q := &quiet{site: s, hands: f.hands, took: map[string]*times{}}
	for _, h := range f.hands {
		h.hasty = true // a job always waits
	}
	for _, kind := range []string{"submit", "lease", "end", "page", "console"} {
		q.took[kind] = &times{}
	}
	if q.conns, err = s.conns(2*quietCallers, f.keys); err != nil {
		return nil, err
	}
	for text, of := range map[*[]byte]struct {
		query     string
		variables any
	}{&q.submit: {noopQuery, noopSubmission()}, &q.page: {pageQuery, nil}} {
		b, err := newBody(of.query, of.variables, "")
		if err != nil {
			return nil, err
		}
		*text = b.text
	}
	return q, q.logIn(ctx)
}

// logIn opens a session of the console.
func (q *quiet) logIn(ctx context.Context) error {
	host, err := q.site.host()
	if err != nil {
		return err
	}
	key, err := q.site.key(ctx, q.site.house, client.RoleOperator)
	if err != nil {
		return err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	q.browser, q.console = &http.Client{Jar: jar}, "http://"+host+"/jobs"
	answer, err := q.browser.PostForm("http://"+host+"/login", url.Values{"key": {key}, "next": {"/jobs"}})
	if err != nil {
		return fmt.Errorf("log in to the console: %w", err)
	}
	return readPage(answer)
}

// readPage reads a page of the console to its end.
func readPage(answer *http.Response) error {
	_, err := io.Copy(io.Discard, answer.Body)
	switch err = errors.Join(err, answer.Body.Close()); {
	case answer.StatusCode == http.StatusTooManyRequests:
		return wire.ErrLater
	case answer.StatusCode != http.StatusOK:
		return errors.Join(err, fmt.Errorf("the console answered %s", answer.Status))
	}
	return err
}

// round measures the calls of the quiet tenants, and lets the neighbour work meanwhile, if there is
// one.
func (q *quiet) round(ctx context.Context, n *neighbour) (Figures, error) {
	span := time.Duration(q.site.Effort.Minutes * float64(time.Minute))
	if err := q.load(ctx, min(span, dailyWarming)); err != nil {
		return nil, err
	}
	f := Figures{}
	group, loading := errgroup.WithContext(ctx)
	loading, stop := context.WithCancel(loading)
	if n != nil {
		group.Go(func() error { return n.work(loading) })
	}
	group.Go(func() error {
		defer stop()
		return q.measure(loading, span, f)
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if n != nil {
		n.did.into(f)
	}
	return f, nil
}

func (q *quiet) measure(ctx context.Context, span time.Duration, f Figures) error {
	for _, of := range q.took {
		of.all = nil
	}
	for _, count := range []*atomic.Int64{&q.refused, &q.lost, &q.empty} {
		count.Store(0)
	}
	usage := q.site.usage()
	q.measuring.Store(true)
	defer q.measuring.Store(false)
	if err := q.load(ctx, span); err != nil {
		return err
	}
	usage(f)
	for kind, of := range q.took {
		slices.Sort(of.all)
		f[kind+" p50"], f[kind+" p95"] = percentile(of.all, 0.50), percentile(of.all, 0.95)
	}
	f["refused"], f["leases lost"], f["leases without a job"] = float64(q.refused.Load()), float64(q.lost.Load()), float64(q.empty.Load())
	return nil
}

// load makes the calls of the quiet tenants for the time span.
func (q *quiet) load(ctx context.Context, span time.Duration) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, one := range []stream{
		{"submit", quietSubmits, quietCallers, func(i int) error { _, err := q.conns[i].Post(q.submit); return err }},
		{"page", quietPages, quietCallers, func(i int) error { _, err := q.conns[quietCallers+i].Post(q.page); return err }},
		{"console", quietConsole, quietCallers, func(int) error {
			answer, err := q.browser.Get(q.console)
			if err != nil {
				return err
			}
			return readPage(answer)
		}},
	} {
		group.Go(func() error {
			return q.atPace(ctx, one.rate, span, func(i int) error { return q.time(one.name, func() error { return one.do(i) }) })
		})
	}
	group.Go(func() error {
		return q.atPace(ctx, quietShifts, span, func(i int) error { return q.shift(q.hands[i]) })
	})
	return group.Wait()
}

func (q *quiet) atPace(ctx context.Context, rate float64, span time.Duration, do func(caller int) error) error {
	_, err := atPace(ctx, independently(rate), span, quietCallers, func(caller int) error {
		err := do(caller)
		switch {
		case errors.Is(err, wire.ErrLater):
			q.refused.Add(1)
		case errors.Is(err, wire.ErrLost):
			q.lost.Add(1)
		case errors.Is(err, errNoMore):
			q.empty.Add(1)
		default:
			return err
		}
		return nil
	})
	return err
}

// time makes a call and records how long it took.
func (q *quiet) time(kind string, call func() error) error {
	began := time.Now()
	err := call()
	if err == nil && q.measuring.Load() {
		q.took[kind].add(began)
	}
	return err
}

// shift leases a job, ends it with leaseNext, and ends the next one.
func (q *quiet) shift(h *hand) error {
	if h.held == (lease{}) { // a refused end leaves the job
		if err := q.time("lease", h.take); err != nil {
			return err
		}
	}
	for _, next := range []bool{true, false} {
		if h.held == (lease{}) {
			return errNoMore
		}
		err := q.time("end", func() error { _, err := h.cycle(next); return err })
		if errors.Is(err, wire.ErrConflict) { // the neighbour has cancelled the job
			h.held = lease{}
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
