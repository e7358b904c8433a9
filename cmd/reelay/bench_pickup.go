package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/spf13/cobra"
)

// pickupOptions is what `reelay bench pickup` may be told.
type pickupOptions struct {
	data   string
	n      int
	asJSON bool
}

// Targets for the time from submit's answer to a worker's lease.
const (
	pickupTargetP50 = 5 * time.Millisecond
	pickupTargetP99 = 50 * time.Millisecond
)

const (
	pickupWorkers = 2
	// pickupWarmUp jobs are not counted: they open connections and plan queries.
	pickupWarmUp = 10
	// pickupPause lets the workers' next lease calls arrive, so that they wait.
	pickupPause = 20 * time.Millisecond
	pickupLimit = 30 * time.Second
)

func benchPickupCommand() *cobra.Command {
	var o pickupOptions
	cmd := &cobra.Command{
		Use:   "pickup",
		Short: "Measure the time from submit's answer to a worker's lease",
		Long: "Submits jobs one at a time to an idle stack whose workers wait, and measures how long each takes from\n" +
			"submitJob's answer to the lease in the worker's hand, as the two callers see it over HTTP. A lease that\n" +
			"arrives before the answer counts as 0. The time from QUEUED to ASSIGNED is PostgreSQL's own and includes\n" +
			"the commit.\n\n" +
			"The workers are its own; it starts a stack without agents, or takes the one that runs in --data.",
		Example: "  reelay bench pickup\n  reelay up --agents 0 & reelay bench pickup --data .reelay --n 1000 --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.n < 1 || o.n > 100_000 {
				return &usageError{cmd, fmt.Errorf("--n is %d: it must be from 1 to 100000", o.n)}
			}
			return o.run(cmd)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.data, "data", "", "data folder of a running `reelay up --agents 0` (default: starts a stack of its own)")
	f.IntVar(&o.n, "n", 200, "how many jobs to measure")
	f.BoolVar(&o.asJSON, "json", false, "print one JSON document")
	return cmd
}

func (o *pickupOptions) run(cmd *cobra.Command) (err error) {
	var keys credentials
	if o.data != "" {
		if keys, err = readCredentials(o.data); err != nil {
			return fmt.Errorf("no stack runs in %s: %w", o.data, err)
		}
	} else {
		stack, failed := startSubstack(cmd.Context(), "", 0)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, stack.stop()) }()
		keys = stack.credentials
	}
	bench, err := newPickup(cmd.Context(), keys)
	if err != nil {
		return apiError(err)
	}
	result, err := bench.measure(cmd.Context(), o.n)
	if err = errors.Join(err, bench.close(context.WithoutCancel(cmd.Context()))); err != nil {
		return apiError(err)
	}
	if o.asJSON {
		return printJSON(cmd.OutOrStdout(), result)
	}
	return result.print(cmd.OutOrStdout())
}

// pickup is the bench: a customer, and workers that wait.
type pickup struct {
	client  *client.Client
	workers []*pickupWorker
	leases  chan leased
	stop    context.CancelFunc
}

// leased is a lease in a worker's hand, or why there is none.
type leased struct {
	worker *pickupWorker
	lease  *client.Lease
	at     time.Time
	err    error
}

// pickupWorker is a worker that takes jobs and renders nothing.
type pickupWorker struct {
	client *client.Client
	id     string
	next   chan struct{} // its job is settled: it may ask for another
}

func newPickup(ctx context.Context, keys credentials) (*pickup, error) {
	c, err := newClient(keys.Endpoint, keys.OperatorKey, keys.CAFile)
	if err != nil {
		return nil, err
	}
	others, err := c.Workers(ctx, client.WorkerFilter{
		Status: []client.WorkerStatus{client.WorkerStatusBooting, client.WorkerStatusIdle, client.WorkerStatusBusy},
	}, 1, "")
	if err != nil {
		return nil, err
	}
	if others.TotalCount > 0 {
		return nil, fmt.Errorf("%d workers run there, which would take the jobs: start it with `reelay up --agents 0`", others.TotalCount)
	}
	account, err := newBenchAccount(ctx, keys)
	if err != nil {
		return nil, err
	}
	key, err := account.key(ctx)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	p := &pickup{client: c.WithKey(key), leases: make(chan leased, pickupWorkers), stop: stop}
	for range pickupWorkers {
		if err := p.addWorker(ctx, c.WithKey(keys.WorkerKey)); err != nil {
			return nil, errors.Join(err, p.close(context.WithoutCancel(ctx)))
		}
	}
	return p, nil
}

func (p *pickup) addWorker(ctx context.Context, enrol *client.Client) error {
	c, id, err := enrolBenchWorker(ctx, enrol)
	if err != nil {
		return err
	}
	w := &pickupWorker{client: c, id: id, next: make(chan struct{})}
	p.workers = append(p.workers, w)
	go w.work(ctx, p.leases)
	return nil
}

// work asks for jobs, one after the other, until ctx ends or a call fails.
func (w *pickupWorker) work(ctx context.Context, leases chan<- leased) {
	for {
		answer, err := w.client.LeaseJob(ctx, client.LeaseJobInput{WorkerId: w.id, WaitSeconds: new(20)})
		at := time.Now()
		if err == nil && answer.Lease == nil {
			continue
		}
		l := leased{worker: w, at: at, err: err}
		if err == nil {
			l.lease = answer.Lease
		}
		select {
		case leases <- l:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
		select {
		case <-w.next:
		case <-ctx.Done():
			return
		}
	}
}

// measure submits jobs one at a time.
func (p *pickup) measure(ctx context.Context, n int) (*pickupResult, error) {
	var inHand, assigned []time.Duration
	for i := range pickupWarmUp + n {
		time.Sleep(pickupPause)
		hand, database, err := p.once(ctx)
		if err != nil {
			return nil, err
		}
		if i >= pickupWarmUp {
			inHand, assigned = append(inHand, hand), append(assigned, database)
		}
	}
	return newPickupResult(inHand, assigned), nil
}

// once measures one job and takes it away again.
func (p *pickup) once(ctx context.Context) (inHand, assigned time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, pickupLimit, fmt.Errorf("no worker got the job within %v", pickupLimit))
	defer cancel()
	submission, err := p.client.SubmitJob(ctx, client.SubmitJobInput{Model: "testcard", Prompt: new("a measure of time")})
	answered := time.Now()
	if err != nil {
		return 0, 0, err
	}
	select {
	case l := <-p.leases:
		if l.err != nil {
			return 0, 0, l.err
		}
		if l.lease.Job.Id != submission.Job.Id {
			return 0, 0, fmt.Errorf("a worker got %s, which is not of this bench: the stack is not idle", l.lease.Job.Id)
		}
		assigned, err = p.settle(ctx, l)
		return max(0, l.at.Sub(answered)), assigned, err
	case <-ctx.Done():
		return 0, 0, context.Cause(ctx)
	}
}

// settle ends the job without work, and reads from its events when PostgreSQL
// had it QUEUED and ASSIGNED.
func (p *pickup) settle(ctx context.Context, l leased) (time.Duration, error) {
	if _, err := p.client.CancelJob(ctx, l.lease.Job.Id); err != nil {
		return 0, err
	}
	if _, err := l.worker.client.ReleaseJob(ctx, l.lease.Hold(), client.FailureClassPreempted); err != nil {
		return 0, err
	}
	l.worker.next <- struct{}{}
	history, err := p.client.JobHistory(ctx, l.lease.Job.Id)
	if err != nil {
		return 0, err
	}
	at := map[client.JobEventType]time.Time{}
	for _, edge := range history.Events.Edges {
		at[edge.Node.Type] = edge.Node.CreatedAt
	}
	return at[client.JobEventTypeLeased].Sub(at[client.JobEventTypeQueued]), nil
}

// close deregisters the workers.
func (p *pickup) close(ctx context.Context) error {
	p.stop()
	var failed []error
	for _, w := range p.workers {
		failed = append(failed, w.client.DeregisterWorker(ctx, w.id))
	}
	return errors.Join(failed...)
}

// pickupResult is what came out.
type pickupResult struct {
	Jobs     int         `json:"jobs"`
	InHand   percentiles `json:"answerToLeaseMs"`
	Assigned percentiles `json:"queuedToAssignedMs"`
	Targets  struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
	} `json:"targetsMs"`
	Met bool `json:"met"`
}

// percentiles are in milliseconds.
type percentiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func newPickupResult(inHand, assigned []time.Duration) *pickupResult {
	r := &pickupResult{Jobs: len(inHand), InHand: percentilesOf(inHand), Assigned: percentilesOf(assigned)}
	r.Targets.P50, r.Targets.P99 = milliseconds(pickupTargetP50), milliseconds(pickupTargetP99)
	r.Met = r.InHand.P50 <= r.Targets.P50 && r.InHand.P99 <= r.Targets.P99
	return r
}

// percentilesOf takes the nearest rank: each figure is one that was measured.
func percentilesOf(times []time.Duration) percentiles {
	sorted := slices.Sorted(slices.Values(times))
	at := func(p float64) float64 {
		return milliseconds(sorted[max(0, int(math.Ceil(p*float64(len(sorted))))-1)])
	}
	return percentiles{P50: at(0.50), P90: at(0.90), P99: at(0.99), Max: at(1)}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (r *pickupResult) print(out io.Writer) error {
	rows := [][]string{}
	for _, row := range []struct {
		name string
		p    percentiles
	}{{"submit's answer → lease in hand", r.InHand}, {"QUEUED → ASSIGNED in PostgreSQL", r.Assigned}} {
		rows = append(rows, []string{row.name, fmt.Sprintf("%.1f", row.p.P50), fmt.Sprintf("%.1f", row.p.P90), fmt.Sprintf("%.1f", row.p.P99), fmt.Sprintf("%.1f", row.p.Max)})
	}
	if err := printTable(out, []string{fmt.Sprintf("%d jobs, milliseconds", r.Jobs), "p50", "p90", "p99", "max"}, rows); err != nil {
		return err
	}
	verdict := "met"
	if !r.Met {
		verdict = "NOT MET"
	}
	_, err := fmt.Fprintf(out, "targets for the first: p50 ≤ %.0f ms, p99 ≤ %.0f ms: %s\n", r.Targets.P50, r.Targets.P99, verdict)
	return err
}
