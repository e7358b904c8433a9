package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reelay/reelay/client"
)

// load simulates the customers: they submit, repeat requests, cancel and retry.
type load struct {
	stack    *stack
	ledger   *ledger
	counters *counters    // events that occurred
	answers  *counters    // refusals by their code
	open     func() int   // jobs that have not ended
	want     atomic.Int64 // jobs to have open
	brief    bool         // only jobs of seconds
	long     bool         // only jobs that last for minutes and do not misbehave
	calm     bool         // no job misbehaves, and no answer is lost
	calls    *calls       // of all customers

	callers map[*tenant]caller
	last    map[*tenant]*request // newest of each, that another may depend on
	wait    sync.WaitGroup
}

const (
	// askAgain is how long a customer repeats the same request.
	askAgain = 90 * time.Second
	// callLimit is how long a customer waits for one answer.
	callLimit = 10 * time.Second
)

func newLoad(s *stack, l *ledger, met *counters, brief, calm bool) *load {
	load := &load{stack: s, ledger: l, counters: met, answers: newCounters(), brief: brief, calm: calm, calls: &calls{},
		callers: map[*tenant]caller{}, last: map[*tenant]*request{}}
	share := 0.03
	switch {
	case calm:
		share = 0
	case brief:
		share = 0.1
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 32
	customers := &http.Client{Transport: &forgetful{transport, met, share}}
	for _, t := range s.tenants {
		load.callers[t] = caller{s.clientsAt, t.key, customers, load.calls}
	}
	return load
}

// forgetful is a transport that loses answers.
type forgetful struct {
	next     http.RoundTripper
	counters *counters
	share    float64
}

var errForgotten = errors.New("the answer was lost on purpose")

// RoundTrip waits until the server has answered before it loses the answer.
func (f *forgetful) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := f.next.RoundTrip(r)
	if err != nil || rand.Float64() >= f.share {
		return answer, err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	if err == nil && answer.StatusCode == http.StatusOK {
		f.counters.add(metAnswerLost, 1)
	}
	return nil, errForgotten
}

// run submits jobs until ctx ends, and then waits for the running requests.
func (l *load) run(ctx context.Context, random *rand.Rand) {
	defer l.wait.Wait()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	bound := make(chan struct{}, 64)
	burst := 0
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// From time to time all customers submit at once, and the lanes fill.
		want := int(l.want.Load())
		if random.IntN(1200) == 0 && !l.long {
			burst = 2 * want
		}
		if l.open()+len(bound) >= want+burst {
			burst = max(burst-1, 0)
			continue
		}
		select {
		case bound <- struct{}{}:
		default:
			continue
		}
		r := l.newRequest(random)
		choice := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
		l.wait.Go(func() {
			l.serve(ctx, r, choice, func() { <-bound })
		})
	}
}

// newRequest invents a job: usually a short one, sometimes one that takes longer than a
// lease, and rarely one that misbehaves.
func (l *load) newRequest(random *rand.Rand) *request {
	r := &request{Tenant: l.pick(random), Seed: random.Int64N(1 << 40), Steps: 2 + random.IntN(6), Millis: 100 + random.IntN(200)}
	switch kind := random.Float64(); {
	case l.brief || r.Tenant.narrow:
	case l.long:
		r.Steps, r.Millis = reclaimSteps+random.IntN(reclaimSteps/3), int(reclaimStep.Milliseconds())
		r.Every = reclaimInterval
	case l.calm:
		if kind < 0.5 {
			r.Steps, r.Millis, r.Every = 20+random.IntN(20), 500, 8
		}
	case kind < 0.012:
		r.Misdeed, r.Steps = "crash", 4
	case kind < 0.016:
		r.Misdeed, r.Steps = "hang", 4
	case kind < 0.022:
		r.Misdeed, r.Steps = "oom", 4
	case kind < 0.032:
		r.Steps, r.Millis, r.Every = 120+random.IntN(60), 500, 8
	case kind < 0.11:
		r.Steps, r.Millis, r.Every = 40+random.IntN(60), 500, 8
	}
	r.Prompt = fmt.Sprintf("a rehearsal, take %d, in %d colours", random.Uint32(), random.IntN(1000))
	if random.Float64() < 0.92 {
		r.Key = fmt.Sprintf("order-%016x", random.Uint64())
	}
	if before := l.last[r.Tenant]; before != nil && !l.long && random.Float64() < 0.05 {
		if id := before.job(); id != "" {
			r.After = []string{id}
		}
	}
	l.last[r.Tenant] = r
	l.ledger.add(r)
	return r
}

func (l *load) pick(random *rand.Rand) *tenant {
	sum := 0
	for _, t := range l.stack.tenants {
		sum += t.share
	}
	at := random.IntN(sum)
	for _, t := range l.stack.tenants {
		if at -= t.share; at < 0 && l.long && t.narrow {
			return l.pick(random)
		} else if at < 0 {
			return t
		}
	}
	panic("unreachable")
}

// input returns the input of the submit, the same each time.
func (r *request) input() map[string]any {
	params := map[string]any{"steps": r.Steps, "stepMillis": r.Millis, "seed": r.Seed}
	if r.Every > 0 {
		params["checkpointEvery"] = r.Every
	}
	if r.Misdeed != "" {
		params["misbehave"], params["misbehaveAt"] = r.Misdeed, 1
	}
	in := map[string]any{"model": "drill", "prompt": r.Prompt, "params": params, "metadata": map[string]any{"n": r.N}}
	if r.Key != "" {
		in["idempotencyKey"] = r.Key
	}
	if len(r.After) > 0 {
		in["dependsOn"] = r.After
	}
	switch r.Misdeed {
	case "crash":
		in["maxAttempts"] = 3
	case "hang":
		in["maxAttempts"], in["timeoutSeconds"] = 2, 6
	case "oom":
		in["maxAttempts"] = 2
	}
	return in
}

// serve acts as one customer with one request. It calls sent once the request was answered.
func (l *load) serve(ctx context.Context, r *request, random *rand.Rand, sent func()) {
	at := random.Float64()
	var others sync.WaitGroup
	if r.Key != "" && at < 0.06 { // an impatient customer sends it several times at once
		for range 2 {
			l.counters.add(metDuplicateSubmit, 1)
			others.Go(func() { l.submit(ctx, r) })
		}
	}
	accepted := l.submit(ctx, r)
	others.Wait()
	sent()
	if !accepted {
		return
	}
	switch {
	case r.Key != "" && at >= 0.06 && at < 0.12:
		sleep(ctx, time.Duration(random.IntN(20_000))*time.Millisecond)
		l.counters.add(metDuplicateSubmit, 1)
		l.submit(ctx, r)
	case r.Key != "" && at >= 0.12 && at < 0.14:
		l.submitOther(ctx, r)
	case at >= 0.14 && at < 0.16:
		l.cancel(ctx, r)
	case at >= 0.16 && at < 0.22: // at about the time when the job ends
		sleep(ctx, time.Duration(float64(r.takes())*(0.7+0.5*random.Float64()))+time.Duration(random.IntN(300))*time.Millisecond)
		l.cancel(ctx, r)
	}
}

const submitMutation = `mutation($in: SubmitJobInput!) { submitJob(input: $in) { job { id } deduplicated } }`

// submit repeats the submit until there is an answer, and reports whether it succeeded. A
// customer without a key sends it once, since a second submit could create a second job.
func (l *load) submit(ctx context.Context, r *request) bool {
	err := l.insist(ctx, r.Key != "", func(ctx context.Context) error {
		var answer struct {
			SubmitJob struct {
				Job          struct{ ID string }
				Deduplicated bool
			}
		}
		err := l.callers[r.Tenant].ask(ctx, submitMutation, map[string]any{"in": r.input()}, &answer)
		if err == nil {
			r.acknowledged(answer.SubmitJob.Job.ID)
			if answer.SubmitJob.Deduplicated {
				l.counters.add(metDeduplicated, 1)
			}
		}
		return err
	})
	return err == nil
}

// submitOther submits a different job under the same key, which must be refused.
func (l *load) submitOther(ctx context.Context, r *request) {
	in := r.input()
	in["prompt"] = r.Prompt + ", but different"
	err := l.insist(ctx, true, func(ctx context.Context) error {
		return l.callers[r.Tenant].ask(ctx, submitMutation, map[string]any{"in": in}, nil)
	})
	switch {
	case client.ErrorCode(err) == client.CodeIdempotencyConflict:
		l.counters.add(metKeyConflict, 1)
	case err == nil:
		l.counters.add(badKeyReused, 1)
	}
}

// cancel repeats the cancel until there is an answer.
func (l *load) cancel(ctx context.Context, r *request) {
	id := r.job()
	r.mu.Lock()
	r.asked = time.Now()
	r.mu.Unlock()
	err := l.insist(ctx, true, func(ctx context.Context) error {
		return l.callers[r.Tenant].ask(ctx, `mutation($id: ID!) { cancelJob(id: $id) { id } }`, map[string]any{"id": id}, nil)
	})
	switch {
	case err == nil:
		r.mu.Lock()
		r.cancelled = time.Now()
		r.mu.Unlock()
		l.counters.add(metCancelled, 1)
	case client.ErrorCode(err) == client.CodeConflict:
		l.counters.add(metCancelTooLate, 1)
	}
}

// insist repeats a call unchanged until it is answered or refused.
func (l *load) insist(ctx context.Context, again bool, call func(context.Context) error) error {
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), askAgain)
	defer cancel()
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 3*time.Second) {
		ctx, cancel := context.WithTimeout(limit, callLimit)
		err := call(ctx)
		cancel()
		if err == nil {
			return nil
		}
		var e *client.Error
		if !errors.As(err, &e) {
			return err
		}
		switch e.Code {
		case client.CodeUnavailable:
		case client.CodeInternal:
			l.answers.add(string(e.Code), 1)
		default:
			l.answers.add(string(e.Code), 1)
			return err
		}
		if !again || limit.Err() != nil {
			return err
		}
		sleep(limit, pause/2+rand.N(pause))
	}
}

// reopen retries failed jobs and redrives dead letters.
func (l *load) reopen(ctx context.Context, random *rand.Rand) {
	for ; ctx.Err() == nil; sleep(ctx, 4*time.Second) {
		l.retryOne(ctx, random)
		l.redriveOne(ctx)
	}
}

// retryOne retries one job that is known to have failed.
func (l *load) retryOne(ctx context.Context, random *rand.Rand) {
	all := l.ledger.all()
	for range 200 {
		if len(all) == 0 {
			return
		}
		r := all[random.IntN(len(all))]
		r.mu.Lock()
		fit := !r.reopened && (!r.cancelled.IsZero() || r.Misdeed != "" && time.Since(r.asked) > time.Minute)
		r.mu.Unlock()
		if id := r.job(); fit && id != "" {
			l.reopenJob(ctx, r, `mutation($id: ID!) { retryJob(id: $id) { id } }`, map[string]any{"id": id}, metRetried)
			return
		}
	}
}

func (l *load) reopenJob(ctx context.Context, r *request, mutation string, variables map[string]any, met string) {
	r.mu.Lock()
	r.reopened = true // before it is sent: an answer may be lost
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if err := l.stack.direct(l.stack.operator).ask(ctx, mutation, variables, nil); err == nil {
		l.counters.add(met, 1)
	}
}

// redriveOne sends the newest dead letter back.
func (l *load) redriveOne(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	var answer struct {
		DeadLetters struct {
			Edges []struct {
				Node struct {
					ID  string
					Job struct {
						ID       string
						Metadata struct{ N int }
					}
				}
			}
		}
	}
	err := l.stack.direct(l.stack.operator).ask(limited,
		`{deadLetters(resolved: false, first: 5) {edges {node {id job {id metadata}}}}}`, nil, &answer)
	if err != nil {
		return
	}
	all := l.ledger.all()
	for _, edge := range answer.DeadLetters.Edges {
		n := edge.Node.Job.Metadata.N
		if n < 1 || n > len(all) || all[n-1].reopenedBefore() {
			continue
		}
		l.reopenJob(ctx, all[n-1], `mutation($id: ID!) { redriveDeadLetter(id: $id) { id } }`, map[string]any{"id": edge.Node.ID}, metRedriven)
		return
	}
}

func (r *request) reopenedBefore() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reopened
}
