package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// subscriptionsOptions is what `reelay bench subscriptions` may be told.
type subscriptionsOptions struct {
	n, jobs, events int
	data            string
	asJSON          bool
}

// Targets for 10,000 subscriptions.
const (
	subscriptionsTargetMemory = 500 * 1000 * 1000 // bytes
	subscriptionsTargetP99    = 500 * time.Millisecond
)

const (
	// benchSocketsPerKey is below what an api has open under one key.
	benchSocketsPerKey = 900
	// benchOpening sockets, or submits, are on their way at once.
	benchOpening = 8
	// benchWorkers hold the jobs that something happens to, if there are so many.
	benchWorkers = 10
	// benchIdle is how long the processor time without events is measured: some
	// rounds of pings and of looks for lost news.
	benchIdle = 20 * time.Second
	// benchPause lets what an event caused come to rest.
	benchPause = time.Second
	// benchEventLimit is how long an event may take to reach everybody.
	benchEventLimit = 60 * time.Second
	// spareFiles are those that a process has open besides sockets.
	spareFiles = 500
)

func benchSubscriptionsCommand() *cobra.Command {
	var o subscriptionsOptions
	cmd := &cobra.Command{
		Use:   "subscriptions",
		Short: "Measure what many open subscriptions cost, and how fast an event reaches them",
		Long: "Opens sockets to one api process of a stack of its own, each with one jobEvents subscription, then has\n" +
			"workers report progress, and measures how long each event takes from the time that it bears, which\n" +
			"PostgreSQL took before the commit, until each listener has it. With --jobs the sockets follow so many\n" +
			"jobs, as evenly as can be; events happen to ten of them at most. Memory is that of the api process as\n" +
			"Linux counts it. PostgreSQL, Redis, the api and all listeners share this machine.",
		Example: "  reelay bench subscriptions\n  reelay bench subscriptions --n 10000 --jobs 10000 --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return &usageError{cmd, err}
			}
			return o.run(cmd)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.n, "n", 10_000, "how many subscriptions, each on a socket of its own")
	f.IntVar(&o.jobs, "jobs", 1, "how many jobs they follow")
	f.IntVar(&o.events, "events", 20, "how many events happen")
	f.StringVar(&o.data, "data", "", "folder for the data of its stack, which is kept (default: a temporary one)")
	f.BoolVar(&o.asJSON, "json", false, "print one JSON document")
	return cmd
}

func (o *subscriptionsOptions) check() error {
	switch {
	case o.n < 1 || o.n > 25_000:
		return fmt.Errorf("--n is %d: it must be from 1 to 25000, since one address has no more ports", o.n)
	case o.jobs < 1 || o.jobs > o.n:
		return fmt.Errorf("--jobs is %d: it must be from 1 to --n, which is %d", o.jobs, o.n)
	case o.events < 1 || o.events > 10_000:
		return fmt.Errorf("--events is %d: it must be from 1 to 10000", o.events)
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("read how many files a process may have open: %w", err)
	}
	// Go has raised the soft limit to the hard one, here and in the api process.
	if need := o.n + spareFiles; files.Max < uint64(need) {
		return fmt.Errorf("a process may have %d files open here, and %d sockets take %d: raise the hard limit (ulimit -Hn %d as root, "+
			"LimitNOFILE= of a systemd unit, --ulimit nofile= of a container), or lower --n", files.Max, o.n, need, need)
	}
	return nil
}

func (o *subscriptionsOptions) run(cmd *cobra.Command) (err error) {
	ctx := cmd.Context()
	stack, err := startSubstack(ctx, o.data, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stack.stop()) }()
	b := &subscriptions{o: o, keys: stack.credentials, display: newDisplay(cmd.ErrOrStderr())}
	if b.api, err = findAPI(stack.data); err != nil {
		return err
	}
	result, err := b.measure(ctx)
	if err != nil {
		return apiError(err)
	}
	if o.asJSON {
		return printJSON(cmd.OutOrStdout(), result)
	}
	return result.print(cmd.OutOrStdout())
}

// subscriptions is the bench.
type subscriptions struct {
	o       *subscriptionsOptions
	keys    credentials
	api     apiProcess
	display *display
	result  subscriptionsResult
}

func (b *subscriptions) measure(ctx context.Context) (*subscriptionsResult, error) {
	r := &b.result
	r.Subscriptions, r.Jobs, r.Events = b.o.n, b.o.jobs, b.o.events
	account, err := newBenchAccount(ctx, b.keys)
	if err != nil {
		return nil, err
	}
	ids, err := b.submit(ctx, account)
	if err != nil {
		return nil, err
	}
	if r.Memory.Before, _, err = b.api.memory(); err != nil {
		return nil, err
	}
	// What ends the sockets, or fails on one of them, ends all of it.
	group, ctx := errgroup.WithContext(ctx)
	over, end := context.WithCancel(ctx)
	crowd := newCrowd(b.o.n)
	group.Go(func() error {
		defer end()
		if err := b.open(over, account, ids, crowd, group); err != nil {
			return err
		}
		if err := b.idle(ctx); err != nil {
			return err
		}
		return b.happen(ctx, account, ids, crowd)
	})
	return r, group.Wait()
}

// submit submits the jobs that will be followed.
func (b *subscriptions) submit(ctx context.Context, account *benchAccount) ([]string, error) {
	b.display.note(fmt.Sprintf("submitting %s", several(b.o.jobs, "job")))
	key, err := account.key(ctx)
	if err != nil {
		return nil, err
	}
	ids := make([]string, b.o.jobs)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(benchOpening)
	for i := range ids {
		group.Go(func() error {
			submission, err := account.admin.WithKey(key).SubmitJob(ctx, client.SubmitJobInput{Model: "testcard", Prompt: new("a crowd that looks on")})
			if err == nil {
				ids[i] = submission.Job.Id
			}
			return err
		})
	}
	return ids, group.Wait()
}

// open opens the sockets, which listen in the group until ctx ends, and returns
// when each of them has had its job's first event.
func (b *subscriptions) open(ctx context.Context, account *benchAccount, ids []string, crowd *crowd, listening *errgroup.Group) error {
	endpoint, err := url.Parse(b.keys.Endpoint)
	if err != nil {
		return err
	}
	began := time.Now()
	opening, opens := errgroup.WithContext(ctx)
	opening.SetLimit(benchOpening)
	var key string
	for i := range b.o.n {
		if i%benchSocketsPerKey == 0 {
			if key, err = account.key(ctx); err != nil {
				return errors.Join(err, opening.Wait())
			}
		}
		if i > 0 && i%1000 == 0 {
			b.display.note(fmt.Sprintf("%d of %d open after %.1f s", i, b.o.n, time.Since(began).Seconds()))
		}
		secret := key
		opening.Go(func() error {
			l, err := openListener(opens, endpoint, secret, ids[i%len(ids)])
			if err != nil {
				return err
			}
			listening.Go(func() error {
				defer context.AfterFunc(ctx, func() { l.conn.Close() })()
				if err := l.listen(crowd.hears()); ctx.Err() == nil {
					return err
				}
				return nil
			})
			return nil
		})
	}
	if err := opening.Wait(); err != nil {
		return err
	}
	if err := wait(ctx, crowd.all, "the first event reached not everybody"); err != nil {
		return err
	}
	b.result.OpenSeconds = time.Since(began).Seconds()
	return nil
}

func several(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// wait waits for done, within benchEventLimit.
func wait(ctx context.Context, done <-chan struct{}, otherwise string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, benchEventLimit, fmt.Errorf("%s within %v", otherwise, benchEventLimit))
	defer cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// idle measures what subscriptions cost while nothing happens.
func (b *subscriptions) idle(ctx context.Context) error {
	b.display.note(fmt.Sprintf("all open after %.1f s; nothing happens for %v", b.result.OpenSeconds, benchIdle))
	before, err := b.api.cpu()
	if err != nil {
		return err
	}
	if err := sleep(ctx, benchIdle); err != nil {
		return err
	}
	after, err := b.api.cpu()
	if err != nil {
		return err
	}
	b.result.CPU.Idle = (after - before).Seconds() / benchIdle.Seconds()
	b.result.Memory.Open, _, err = b.api.memory()
	return err
}

// happen has workers take jobs and report progress, one after the other.
func (b *subscriptions) happen(ctx context.Context, account *benchAccount, ids []string, crowd *crowd) error {
	workers, err := b.lease(ctx, account, ids)
	if err != nil {
		return err
	}
	before, err := b.api.cpu()
	if err != nil {
		return err
	}
	var all, last []time.Duration
	for i := range b.o.events {
		w := workers[i%len(workers)]
		if err := sleep(ctx, benchPause); err != nil {
			return err
		}
		// far enough from the last one to be an event
		progress := client.ProgressInput{
			AttemptId: w.hold.AttemptID, FencingToken: w.hold.FencingToken,
			Percent: float64(10 + 10*(i/len(workers)%9)), Phase: client.PhaseRendering,
		}
		crowd.expect(w.listeners)
		if _, err := w.client.ReportProgress(ctx, progress); err != nil {
			return err
		}
		if err := wait(ctx, crowd.all, "an event reached not everybody"); err != nil {
			return err
		}
		all, last = append(all, crowd.late...), append(last, crowd.late[len(crowd.late)-1])
		b.display.note(fmt.Sprintf("event %d reached the last of %d after %.0f ms", i+1, w.listeners, milliseconds(last[i])))
	}
	after, err := b.api.cpu()
	if err != nil {
		return err
	}
	b.result.CPU.PerEvent = (after-before).Seconds()/float64(b.o.events) - b.result.CPU.Idle*benchPause.Seconds()
	return b.conclude(all, last)
}

func (b *subscriptions) conclude(all, last []time.Duration) (err error) {
	r := &b.result
	r.Late, r.Last = percentilesOf(all), percentilesOf(last)
	if r.Memory.After, r.Memory.Peak, err = b.api.memory(); err != nil {
		return err
	}
	r.PerSubscription = (r.Memory.Open - r.Memory.Before) / int64(r.Subscriptions)
	r.Targets.Memory, r.Targets.P99 = subscriptionsTargetMemory, milliseconds(subscriptionsTargetP99)
	r.Met = r.Memory.Peak <= r.Targets.Memory && r.Late.P99 <= r.Targets.P99
	return nil
}

// busyWorker holds a job that some listeners follow.
type busyWorker struct {
	client    *client.Client
	hold      client.Hold
	listeners int
}

// lease has workers take jobs.
func (b *subscriptions) lease(ctx context.Context, account *benchAccount, ids []string) ([]busyWorker, error) {
	place := map[string]int{}
	for i, id := range ids {
		place[id] = i
	}
	var workers []busyWorker
	for range min(len(ids), benchWorkers) {
		c, id, err := enrolBenchWorker(ctx, account.admin.WithKey(b.keys.WorkerKey))
		if err != nil {
			return nil, err
		}
		answer, err := c.LeaseJob(ctx, client.LeaseJobInput{WorkerId: id, WaitSeconds: new(20)})
		if err != nil {
			return nil, err
		}
		if answer.Lease == nil {
			return nil, errors.New("a worker got no job within 20 s")
		}
		at := place[answer.Lease.Job.Id]
		workers = append(workers, busyWorker{c, answer.Lease.Hold(), (b.o.n - at + len(ids) - 1) / len(ids)})
	}
	return workers, nil
}

// crowd counts who has heard of an event. Before the first one everybody is
// expected to hear something.
type crowd struct {
	all chan struct{} // closed when all who were expected have heard

	mu       sync.Mutex
	expected int
	first    int
	late     []time.Duration
}

func newCrowd(n int) *crowd { return &crowd{first: n, all: make(chan struct{})} }

// expect begins an event that so many will hear of. Nobody is on the way.
func (c *crowd) expect(listeners int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all, c.expected, c.late = make(chan struct{}), listeners, nil
}

// hears returns what one listener calls with each event.
func (c *crowd) hears() func(progress bool, late time.Duration) {
	first := true
	return func(progress bool, late time.Duration) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if first {
			if first, c.first = false, c.first-1; c.first == 0 {
				close(c.all)
			}
		}
		if progress {
			if c.late = append(c.late, late); len(c.late) == c.expected {
				close(c.all)
			}
		}
	}
}

// subscriptionsResult is what came out.
type subscriptionsResult struct {
	Subscriptions int     `json:"subscriptions"`
	Jobs          int     `json:"jobs"`
	Events        int     `json:"events"`
	OpenSeconds   float64 `json:"openSeconds"`
	// Memory is in bytes: before the sockets were open, with all of them, after
	// the events, and at most.
	Memory struct {
		Before int64 `json:"before"`
		Open   int64 `json:"open"`
		After  int64 `json:"after"`
		Peak   int64 `json:"peak"`
	} `json:"apiMemoryBytes"`
	PerSubscription int64 `json:"bytesPerSubscription"`
	// CPU is that of the api process: how many processors it keeps busy while
	// nothing happens, and the seconds that an event takes besides.
	CPU struct {
		Idle     float64 `json:"idleProcessors"`
		PerEvent float64 `json:"secondsPerEvent"`
	} `json:"apiCpu"`
	Late    percentiles `json:"eventToListenerMs"`
	Last    percentiles `json:"eventToLastListenerMs"`
	Targets struct {
		Memory int64   `json:"memoryBytes"`
		P99    float64 `json:"p99Ms"`
	} `json:"targets"`
	Met bool `json:"met"`
}

func (r *subscriptionsResult) print(out io.Writer) error {
	row := func(name string, p percentiles) []string {
		return []string{name, fmt.Sprintf("%.0f", p.P50), fmt.Sprintf("%.0f", p.P90), fmt.Sprintf("%.0f", p.P99), fmt.Sprintf("%.0f", p.Max)}
	}
	title := fmt.Sprintf("%s on %s, %s, milliseconds", several(r.Subscriptions, "subscription"), several(r.Jobs, "job"), several(r.Events, "event"))
	if err := printTable(out, []string{title, "p50", "p90", "p99", "max"}, [][]string{
		row("event → listener", r.Late), row("event → its last listener", r.Last),
	}); err != nil {
		return err
	}
	verdict := "met"
	if !r.Met {
		verdict = "NOT MET"
	}
	mb := func(bytes int64) int64 { return bytes / 1_000_000 }
	_, err := fmt.Fprintf(out, "api process: %d MB before, %d MB with all open (%.1f KiB each), %d MB after the events, %d MB at most\n"+
		"api processor time: %.2f processors while nothing happens, %.2f s for an event; all open after %.1f s\n"+
		"targets: at most %d MB, p99 ≤ %.0f ms: %s\n",
		mb(r.Memory.Before), mb(r.Memory.Open), float64(r.PerSubscription)/1024, mb(r.Memory.After), mb(r.Memory.Peak),
		r.CPU.Idle, r.CPU.PerEvent, r.OpenSeconds, mb(r.Targets.Memory), r.Targets.P99, verdict)
	return err
}
