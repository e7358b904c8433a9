package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/reelay/reelay/bench/procfs"
	"github.com/reelay/reelay/bench/wire"
	"github.com/reelay/reelay/client"
	"golang.org/x/sync/errgroup"
)

const (
	// socketsPerKey is below the number of sockets that an api allows per key.
	socketsPerKey = 900
	// opening is how many sockets are opened at once.
	opening = 8
	// eventLimit is how long an event can take to reach all listeners.
	eventLimit = 60 * time.Second
	// spareFiles is how many files a process has open besides sockets.
	spareFiles = 500
)

// subscriptions measures the delivery of one event to many listeners.
func subscriptions() Measurement {
	return Measurement{
		Name: "subscriptions", Title: "one event to many subscriptions, each on a socket of its own", Unit: "events",
		Targets: []Target{
			{Name: "memory of a subscription, KiB, against bare gqlgen", Figure: "KiB each", Against: "gqlgen", Bound: 0.65, AtMost: true},
			{Name: "last delivery of an event, ms, against bare gqlgen", Figure: "last ms", Against: "gqlgen", Bound: 0.6, AtMost: true},
		},
		Note: "Times are from the event's own time, which for ours is PostgreSQL's before the commit, until the client has read the event without decoding its JSON. Memory is the growth of the server's RSS while the sockets open, divided by their number, without a forced garbage collection.",
		Prepare: func(ctx context.Context, s *Site) ([]Contestant, error) {
			n := s.n(4000, 20)
			if err := enoughFiles(n); err != nil {
				return nil, err
			}
			own, err := s.listeners(ctx, n)
			if err != nil {
				return nil, err
			}
			all := []Contestant{{Name: reelay, Role: Ours, Round: own.round}}
			if err := enoughFiles(2 * n); err != nil { // this process holds the sockets of both audiences
				s.Lacks("gqlgen", err)
				return all, nil
			}
			bare, err := s.bareListeners(ctx, n)
			if err != nil {
				s.Lacks("gqlgen", err)
				return all, nil
			}
			return append(all, Contestant{Name: "gqlgen", Role: Peer, Differs: "no key, no database, nothing but the event in memory",
				Round: bare.round}), nil
		},
	}
}

// enoughFiles returns an error if this process cannot have this many sockets open.
func enoughFiles(sockets int) error {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("read how many files a process may have open: %w", err)
	}
	// Go has raised the soft limit to the hard one.
	if need := sockets + spareFiles; files.Max < uint64(need) {
		return fmt.Errorf("a process may have %d files open here, and %d sockets take %d: raise the hard limit (ulimit -Hn %d as root, "+
			"LimitNOFILE= of a systemd unit, --ulimit nofile= of a container), or lower --n", files.Max, sockets, need, need)
	}
	return nil
}

// audience is the listeners of one server and the way to cause an event there.
type audience struct {
	crowd   *crowd
	server  procfs.Process
	happen  func(ctx context.Context) error
	each    float64 // KiB
	members int
	hear    int // how many members receive the event
}

// round causes one event.
func (a *audience) round(ctx context.Context) (Figures, error) {
	before, err := a.server.CPU()
	if err != nil {
		return nil, err
	}
	a.crowd.expect(a.hear)
	if err := a.happen(ctx); err != nil {
		return nil, err
	}
	if err := wait(ctx, a.crowd.all, "an event reached not everybody who follows its job"); err != nil {
		return nil, err
	}
	f := percentiles(a.crowd.late)
	f["last ms"] = float64(a.crowd.late[len(a.crowd.late)-1].Microseconds()) / 1000
	f["KiB each"] = a.each
	if err := pause(ctx, time.Second); err != nil { // until the system is idle again
		return nil, err
	}
	after, err := a.server.CPU()
	if err != nil {
		return nil, err
	}
	f["CPU s"] = (after - before).Seconds()
	_, peak, err := a.server.Memory()
	f["peak MB"] = float64(peak) / 1e6
	return f, err
}

// open opens the sockets and returns when each has received its first event.
func (a *audience) open(ctx context.Context, s *Site, endpoint *url.URL, key func(i int) (string, error), job func(i int) string) error {
	before, _, err := a.server.Memory()
	if err != nil {
		return err
	}
	a.crowd = newCrowd(a.members)
	living, end := context.WithCancel(context.WithoutCancel(ctx))
	listening, failed := errgroup.WithContext(living)
	s.later(func(context.Context) error {
		end()
		return listening.Wait()
	})
	group, opens := errgroup.WithContext(ctx)
	group.SetLimit(opening)
	for i := range a.members {
		secret, err := key(i)
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		group.Go(func() error {
			l, err := wire.OpenEvents(opens, endpoint, secret, job(i))
			if err != nil {
				return err
			}
			heard := a.crowd.hears()
			listening.Go(func() error {
				defer context.AfterFunc(living, func() { l.Conn.Close() })()
				if err := l.Listen(heard); living.Err() == nil {
					return err
				}
				return nil
			})
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := wait(failed, a.crowd.all, "the first event reached not everybody"); err != nil {
		return err
	}
	if err := pause(ctx, 2*time.Second); err != nil {
		return err
	}
	after, _, err := a.server.Memory()
	a.each = float64(after-before) / 1024 / float64(a.members)
	s.Say(fmt.Sprintf("  %d sockets are open: %d MB before, %d MB now", a.members, before/1_000_000, after/1_000_000))
	return err
}

// followed returns the endpoint for sockets and a customer whose jobs they follow.
func (s *Site) followed(ctx context.Context) (*url.URL, *client.Client, error) {
	if s.Staff["api-1"] == 0 {
		return nil, nil, errors.New("the api process must run on this machine: let the bench start a stack, or name one with --data")
	}
	endpoint, err := url.Parse(s.Admin.Endpoint())
	if err != nil {
		return nil, nil, err
	}
	customers, err := s.customers(ctx, 1)
	if err != nil {
		return nil, nil, err
	}
	return endpoint, s.Admin.WithKey(customers[0]), nil
}

// listeners returns an audience that follows one job of Reelay, whose worker reports
// progress.
func (s *Site) listeners(ctx context.Context, n int) (*audience, error) {
	endpoint, owner, err := s.followed(ctx)
	if err != nil {
		return nil, err
	}
	submitted, err := owner.SubmitJob(ctx, client.SubmitJobInput{Type: new(noop), Model: noop})
	if err != nil {
		return nil, err
	}
	workers, err := s.workers(ctx, 1, noop)
	if err != nil {
		return nil, err
	}
	w := workers[0]
	answer, err := w.LeaseJob(ctx, client.LeaseJobInput{WorkerId: w.id, WaitSeconds: new(20)})
	if err != nil || answer.Lease == nil {
		return nil, errors.Join(err, errors.New("the worker got no job"))
	}
	hold, turn := answer.Lease.Fence(), 0
	s.keepLease(ctx, w, hold)
	report := func(ctx context.Context) error {
		turn++ // differs enough from the last report to be an event
		_, err := w.ReportProgress(ctx, client.ProgressInput{
			AttemptId: hold.AttemptID, FencingToken: hold.FencingToken, Percent: float64(10 + 10*(turn%9)), Phase: client.PhaseRendering,
		})
		return err
	}
	a := &audience{server: s.Staff["api-1"], members: n, hear: n, happen: report}
	return a, a.open(ctx, s, endpoint, s.socketKeys(ctx), func(int) string { return submitted.Job.Id })
}

// socketKeys returns the key of each socket. At most socketsPerKey sockets share a key.
func (s *Site) socketKeys(ctx context.Context) func(i int) (string, error) {
	var secret string
	return func(i int) (_ string, err error) {
		if i%socketsPerKey == 0 {
			secret, err = s.key(ctx, s.house, client.RoleClient)
		}
		return secret, err
	}
}

// keepLease renews a lease until the measurement has ended.
func (s *Site) keepLease(ctx context.Context, w worker, hold client.Fence) {
	living, end := context.WithCancel(context.WithoutCancel(ctx))
	s.later(func(context.Context) error { end(); return nil })
	go func() {
		for pause(living, 8*time.Second) == nil {
			if _, err := w.Heartbeat(living, client.HeartbeatInput{AttemptId: hold.AttemptID, FencingToken: hold.FencingToken}); err != nil {
				return // the next report returns the error
			}
		}
	}()
}

// bareListeners returns an audience of a bare gqlgen server.
func (s *Site) bareListeners(ctx context.Context, n int) (*audience, error) {
	server, err := s.startGqlgen(ctx)
	if err != nil {
		return nil, err
	}
	publish := func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.endpoint.JoinPath("publish").String(), nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}
	a := &audience{server: server.process, members: n, hear: n, happen: publish}
	return a, a.open(ctx, s, server.endpoint, func(int) (string, error) { return "none", nil }, func(int) string { return "job_1" })
}

// wait waits for done. After eventLimit it returns an error that begins with otherwise.
func wait(ctx context.Context, done <-chan struct{}, otherwise string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, eventLimit, fmt.Errorf("%s within %v", otherwise, eventLimit))
	defer cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
