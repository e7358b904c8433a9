package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reelay/reelay/bench/wire"
	"github.com/reelay/reelay/client"
	"golang.org/x/sync/errgroup"
)

// The daily load: the rates at which a million videos a day are made.
const (
	dailyJobs          = 3600
	dailySubmits       = 20.0 // a second, and as many jobs end
	dailyHeartbeats    = 360.0
	dailyReports       = 720.0
	dailyCheckpoints   = 120.0
	dailyReads         = 1200.0
	dailySubscriptions = 500
)

// dailyWarming is how long the load runs before it is measured.
const dailyWarming = 10 * time.Second

const statusQuery = "query job($id: ID!) { job(id: $id) { id status progress { percent phase etaSeconds } } }"

// daily measures the mixed load of a usual day.
func daily() Measurement {
	return Measurement{
		Name: "daily", Title: "the daily load at once", Unit: "requests", Rounds: 1,
		Targets: []Target{
			{Name: "daily load: submit p99, ms", Figure: "submit p99", Bound: 50, AtMost: true},
			{Name: "daily load: status read p99, ms", Figure: "status p99", Bound: 50, AtMost: true},
			{Name: "daily load: leases lost", Figure: "leases lost", Bound: 0, AtMost: true},
		},
		Note: "Light agents hold 3,600 running jobs of one account over HTTP (--n changes the number, and the rates in proportion). Per second: 20 submits and 20 ends with leaseNext, 360 heartbeats, 720 progress reports, 120 checkpoints (each requestUpload, PUT, commit), 1,200 status reads; 500 subscriptions. Calls of each kind are independent of each other (Poisson processes). The measurement starts after ten seconds of load. Times count from when a call was due.",
		Prepare: func(ctx context.Context, s *Site) ([]Contestant, error) {
			d, err := s.newDay(ctx, s.n(dailyJobs, 18))
			if err != nil {
				return nil, err
			}
			return []Contestant{{Name: reelay, Role: Ours, Round: func(ctx context.Context) (Figures, error) {
				return d.round(ctx, time.Duration(s.Effort.Minutes*float64(time.Minute)))
			}}}, nil
		},
	}
}

// day is a site under the daily load.
type day struct {
	site  *Site
	key   string // of the customer
	watch string // of the reader
	host  string
	share float64 // of the full load
	held  []*dayHolder
	lost  atomic.Int64
	later atomic.Int64
}

// dayHolder is a worker with a job, one call at a time.
type dayHolder struct {
	mu sync.Mutex
	holder
	hand *hand
	step int
	job  atomic.Value // the job's id; atomic so that readers do not wait for calls
}

// newDay prepares the daily load, scaled to n running jobs.
func (s *Site) newDay(ctx context.Context, n int) (*day, error) {
	f, err := s.newFloor(ctx, 0, 1)
	if err != nil {
		return nil, err
	}
	if err := f.fill(ctx, n+200); err != nil {
		return nil, err
	}
	host, err := s.host()
	if err != nil {
		return nil, err
	}
	// an operator key, since the workers also lease the jobs of other accounts of a given stack
	watch, err := s.key(ctx, s.house, client.RoleOperator)
	if err != nil {
		return nil, err
	}
	d := &day{site: s, key: f.keys[0], watch: watch, host: host, share: float64(n) / dailyJobs}
	s.Say("  giving each worker a job")
	held, err := s.holding(ctx, n)
	if err != nil {
		return nil, err
	}
	for _, h := range held {
		c := wire.NewConn(host, h.token)
		hand, err := newHand(c, h.id)
		if err != nil {
			return nil, err
		}
		hand.held = h.lease
		s.later(func(context.Context) error { c.Close(); return nil })
		one := &dayHolder{holder: h, hand: hand}
		one.job.Store(h.lease.job)
		d.held = append(d.held, one)
	}
	return d, nil
}

// stream is one kind of call at a fixed rate per second.
type stream struct {
	name    string
	rate    float64
	callers int
	do      func(caller int) error
}

// round runs the load for a time.
func (d *day) round(ctx context.Context, span time.Duration) (Figures, error) {
	d.lost.Store(0)
	d.later.Store(0)
	streams, err := d.streams(ctx)
	if err != nil {
		return nil, err
	}
	listening, stop := context.WithCancel(ctx)
	defer stop()
	heard, err := d.subscribe(listening)
	if err != nil {
		return nil, err
	}
	// A process that has just started still plans its statements, which delays the calls of
	// the first seconds. They are not measured.
	if _, err := d.load(ctx, streams, min(span, dailyWarming)); err != nil {
		return nil, err
	}
	heard.Store(0)
	figures, err := d.load(ctx, streams, span)
	stop()
	figures["leases lost"], figures["refused"] = float64(d.lost.Load()), float64(d.later.Load())
	figures["events heard"] = float64(heard.Load())
	return figures, err
}

// load makes the calls of all streams for the time span.
func (d *day) load(ctx context.Context, streams []stream, span time.Duration) (Figures, error) {
	figures := Figures{}
	var mu sync.Mutex
	group, running := errgroup.WithContext(ctx)
	for _, one := range streams {
		group.Go(func() error {
			f, err := atPace(running, independently(one.rate*d.share), span, one.callers,
				func(caller int) error { return d.tolerate(one.do(caller)) })
			mu.Lock()
			defer mu.Unlock()
			for _, name := range []string{"p50", "p99", "rate"} {
				figures[one.name+" "+name] = f[name]
			}
			return err
		})
	}
	group.Go(func() error { return d.tell(running, span) })
	return figures, group.Wait()
}

// tolerate counts an expected error and returns nil; it returns other errors.
func (d *day) tolerate(err error) error {
	switch {
	case errors.Is(err, wire.ErrLost):
		d.lost.Add(1)
		return nil
	case errors.Is(err, wire.ErrLater):
		d.later.Add(1)
		return nil
	}
	return err
}

// tell reports progress from time to time.
func (d *day) tell(ctx context.Context, span time.Duration) error {
	const every = 30 * time.Second
	for began := time.Now(); time.Since(began)+every < span; {
		if err := pause(ctx, every); err != nil {
			return err
		}
		d.site.Say(time.Since(began).Round(time.Second).String() + " of " + span.String())
	}
	return nil
}

func (d *day) streams(ctx context.Context) ([]stream, error) {
	const callers = 128 // far more than concurrent calls, so that no agent waits for another
	submit, err := newBody(noopQuery, noopSubmission(), "")
	if err != nil {
		return nil, err
	}
	conns, err := d.site.conns(6*callers, []string{d.key})
	if err != nil {
		return nil, err
	}
	reader := wire.Head(d.host, d.watch)
	group := func(i int) []*wire.Conn { return conns[i*callers:] }
	each := func(pass *atomic.Int64, do func(h *dayHolder) error) error {
		h := d.held[int(pass.Add(1))%len(d.held)]
		h.mu.Lock()
		defer h.mu.Unlock()
		return do(h)
	}
	var beats, reports, saves, ends atomic.Int64
	ends.Store(int64(len(d.held) / 2))
	return []stream{
		{"submit", dailySubmits, callers, func(i int) error { _, err := group(0)[i].Post(submit.text); return err }},
		{"status", dailyReads, callers, func(i int) error {
			job := d.held[rand.IntN(len(d.held))].job.Load()
			b, err := newBody(statusQuery, map[string]any{"id": job}, "")
			if err == nil {
				_, err = group(1)[i].PostAs(reader, b.text)
			}
			return err
		}},
		{"heartbeat", dailyHeartbeats, callers, func(i int) error {
			return each(&beats, func(h *dayHolder) error { return d.call(group(2)[i], h, heartbeatQuery, nil) })
		}},
		{"progress", dailyReports, callers, func(i int) error {
			return each(&reports, func(h *dayHolder) error {
				h.step++
				return d.call(group(3)[i], h, progressQuery, map[string]any{"percent": float64(h.step % 100), "phase": "RENDERING"})
			})
		}},
		{"checkpoint", dailyCheckpoints, callers, func(i int) error {
			return each(&saves, func(h *dayHolder) error {
				h.step++
				h.lease = h.hand.held
				o, err := h.upload(ctx, client.ArtifactTypeCheckpoint, "application/octet-stream")
				if err != nil {
					return asRefusal(err)
				}
				return d.call(group(4)[i], h, checkpointQuery, map[string]any{"object": o, "step": h.step, "percent": 1})
			})
		}},
		{"end", dailySubmits, callers, func(int) error {
			return each(&ends, func(h *dayHolder) error {
				h.step = 0
				_, err := h.hand.cycle(true)
				if err == nil && h.hand.held == (lease{}) {
					err = h.hand.take()
				}
				h.job.Store(h.hand.held.job)
				return err
			})
		}},
	}, nil
}

// asRefusal converts an error of the Go client to that of the light client.
func asRefusal(err error) error {
	told, ok := errors.AsType[*client.Error](err)
	switch {
	case ok && told.Code == client.CodeLeaseLost:
		return wire.ErrLost
	case ok && told.RetryAfter > 0:
		return wire.ErrLater
	}
	return err
}

// call makes one call of a worker for the job that it holds.
func (d *day) call(c *wire.Conn, h *dayHolder, query string, more map[string]any) error {
	input := map[string]any{"attemptId": h.hand.held.attempt, "fencingToken": h.hand.held.token}
	for name, value := range more {
		input[name] = value
	}
	b, err := newBody(query, map[string]any{"input": input}, "")
	if err != nil {
		return err
	}
	_, err = c.PostAs(wire.Head(d.host, h.token), b.text)
	return err
}

// subscribe lets each listener follow a job, and another job when that one has ended.
func (d *day) subscribe(ctx context.Context) (*atomic.Int64, error) {
	endpoint, err := url.Parse(d.site.Admin.Endpoint())
	if err != nil {
		return nil, err
	}
	var heard atomic.Int64
	first := make(chan error, dailySubscriptions)
	n := d.site.sized(dailySubscriptions, 5)
	for range n {
		go func() {
			for told := false; ctx.Err() == nil; told = true {
				job := d.held[rand.IntN(len(d.held))].job.Load().(string)
				l, err := wire.OpenEvents(ctx, endpoint, d.watch, job)
				if !told {
					first <- err
				}
				if err != nil {
					if pause(ctx, time.Second) != nil {
						return
					}
					continue
				}
				stop := context.AfterFunc(ctx, func() { l.Conn.Close() })
				_ = l.Listen(func(bool, time.Duration) { heard.Add(1) }) // until the job has ended
				stop()
				l.Conn.Close()
			}
		}()
	}
	for range n {
		if err := <-first; err != nil {
			return nil, err
		}
	}
	return &heard, nil
}
