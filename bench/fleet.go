package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/bench/wire"
	"github.com/reelay/reelay/client"
	"golang.org/x/sync/errgroup"
)

// The fleet: how many workers are registered, how many of them hold a job, and how often they call.
const (
	fleetWorkers = 4000
	fleetBusy    = 3600
	fleetBeat    = 10 * time.Second
	fleetReport  = 5 * time.Second
	fleetJob     = 3 * time.Minute // the mean of an exponential distribution
)

// Fleet is the name of the measurement, which needs the debug log of its stack.
const Fleet = "fleet"

const fleetPool = "bench-fleet"

// machineList is the file that tells the scaler which machines run. The program of the pool prints
// it; see fleetProgram.
const machineList = "machines.jsonl"

// fleetProgram is the provider of the pool: it lists the machines and creates none.
const fleetProgram = `#!/bin/sh
case $1 in
list) exec cat "$(dirname "$0")/../` + machineList + `" ;;
*) exit 14 ;; # not known
esac
`

const directivesQuery = "subscription workerDirectives($workerId: ID!) { workerDirectives(workerId: $workerId) { action reason deadline jobId } }"

// WritePrograms writes the programs of measured pools into a new folder, for REELAY_PROVIDERS.
func WritePrograms(dir string) error {
	err := os.Mkdir(dir, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, fleetPool), []byte(fleetProgram), 0o755)
	}
	if err != nil {
		return fmt.Errorf("write the providers of the measurements: %w", err)
	}
	return nil
}

// fleet measures what thousands of workers ask of one api and one control process.
func fleet() Measurement {
	return Measurement{
		Name: Fleet, Title: "a fleet at work", Unit: "requests", Rounds: 1,
		Targets: []Target{
			{Name: "fleet: heartbeat p99, ms", Figure: "heartbeat p99", Bound: 250, AtMost: true},
			{Name: "fleet: leases lost", Figure: "leases lost", Bound: 0, AtMost: true},
			{Name: "fleet: round of the scaler p99, ms", Figure: "scaler round p99", Bound: 200, AtMost: true},
		},
		Note: "4,000 workers of one pool, each with connections of its own: a socket for directives, and one for its calls. 3,600 hold a job: a heartbeat every 10 s, progress every 5 s, an end after 3 minutes on average, with leaseNext. The others wait for a job, 20 s a request. For each job that ends one is submitted. " +
			"Each second the scaler reads all workers, and every few seconds the 4,000 machines that the provider lists. --n changes the number of busy workers, and the others in proportion. The measurement starts after ten seconds. Times count from when a call was due. \"cores\" is processor time per second; bench is the load itself.",
		Prepare: func(ctx context.Context, s *Site) ([]Contestant, error) {
			c, err := s.newCrew(ctx, s.n(fleetBusy, 18))
			if err != nil {
				return nil, err
			}
			return []Contestant{{Name: reelay, Role: Ours, Round: c.round}}, nil
		},
	}
}

// crew is all workers of a fleet.
type crew struct {
	site      *Site
	busy      int // how many hold a job
	endpoint  *url.URL
	hands     []*member
	sellers   []*wire.Conn
	ended     chan struct{} // receives for each job that has ended
	measuring atomic.Bool
	lost      atomic.Int64
	later     atomic.Int64
	ends      atomic.Int64
	broken    atomic.Int64
	holding   atomic.Int64 // workers that have a job
	beats     times
	reports   times
}

// times collects how long calls took.
type times struct {
	mu  sync.Mutex
	all []time.Duration
}

// add records a call that has taken from this time until now.
func (t *times) add(from time.Time) {
	took := time.Since(from)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, took)
}

// newCrew registers the workers of a pool, of which busy get a job.
func (s *Site) newCrew(ctx context.Context, busy int) (*crew, error) {
	if _, err := os.Stat(s.log()); s.Data == "" || err != nil {
		return nil, errors.New("the log and the provider of the stack are not known: let the bench start one")
	}
	n := busy * fleetWorkers / fleetBusy
	names := make([]string, n)
	for i := range names {
		names[i] = fleetPool + "-" + strings.ReplaceAll(uuid.NewString(), "-", "")
	}
	pool, err := s.fleetPool(ctx, names)
	if err != nil {
		return nil, err
	}
	s.Say(fmt.Sprintf("  registering %d workers", n))
	workers, err := s.enrol(ctx, n, func(i int) client.RegisterWorkerInput {
		return client.RegisterWorkerInput{
			Provider: "command", ProviderInstanceId: names[i], PoolId: &pool, Region: "local", GpuType: "any",
			CapacityClass: client.CapacityClassSpot, Models: []string{noop}, AgentVersion: "bench",
		}
	})
	if err != nil {
		return nil, err
	}
	f, err := s.newFloor(ctx, 0, 1)
	if err != nil {
		return nil, err
	}
	c := &crew{site: s, busy: busy, ended: make(chan struct{}, n)}
	if c.endpoint, err = url.Parse(s.Admin.Endpoint()); err != nil {
		return nil, err
	}
	if c.sellers, err = s.conns(8, f.keys); err != nil {
		return nil, err
	}
	conns, err := s.conns(n, []string{""})
	if err != nil {
		return nil, err
	}
	for i, w := range workers {
		conns[i].Head = wire.Head(c.endpoint.Host, w.token)
		hand, err := newHand(conns[i], w.id)
		if err != nil {
			return nil, err
		}
		c.hands = append(c.hands, &member{crew: c, worker: w, hand: hand})
	}
	// As many jobs as are to run, and no more, since all workers would lease them.
	whole := busy - busy%fillEach
	for range busy - whole {
		c.ended <- struct{}{}
	}
	return c, f.fill(ctx, whole)
}

// fleetPool makes the pool, whose provider lists these machines, and returns its id.
func (s *Site) fleetPool(ctx context.Context, names []string) (string, error) {
	list := ""
	for _, name := range names {
		list += `{"id":"` + name + `","state":"RUNNING"}` + "\n"
	}
	if err := os.WriteFile(filepath.Join(s.Data, machineList), []byte(list), 0o600); err != nil {
		return "", fmt.Errorf("write the machines of the fleet: %w", err)
	}
	file := fmt.Sprintf(`pools: [{name: %s, provider: command, region: local, gpuType: any, capacityClass: SPOT, models: [%s],
		maxWorkers: %d, scaleDownCooldownSeconds: 86400, settings: {program: %[1]s}}]`, fleetPool, noop, len(names))
	if _, err := s.Admin.ApplyPools(ctx, "bench", file, false); err != nil {
		return "", err
	}
	pools, err := s.Admin.Pools(ctx)
	if err != nil {
		return "", err
	}
	for _, p := range pools {
		if p.Name == fleetPool {
			s.later(func(ctx context.Context) error { return s.Admin.DeletePool(ctx, p.Id) })
			return p.Id, nil
		}
	}
	return "", errors.New("the pool of the fleet is gone")
}

// round lets the fleet work for the requested time.
func (c *crew) round(ctx context.Context) (Figures, error) {
	span := time.Duration(c.site.Effort.Minutes * float64(time.Minute))
	living, end := context.WithCancel(ctx)
	defer end()
	group, living := errgroup.WithContext(living)
	c.site.Say("  opening the sockets of the workers")
	if err := c.listen(living, group); err != nil {
		return nil, err
	}
	for _, seller := range c.sellers {
		group.Go(func() error { return c.sell(living, seller) })
	}
	for _, m := range c.hands {
		group.Go(func() error { return m.live(living) })
	}
	var figures Figures
	group.Go(func() (err error) {
		defer end()
		for c.holding.Load() < int64(c.busy)*98/100 {
			if err := pause(living, 100*time.Millisecond); err != nil {
				return err
			}
		}
		if err = pause(living, min(span, dailyWarming)); err == nil {
			figures, err = c.measure(living, span)
		}
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return figures, ctx.Err()
}

// measure measures for a while.
func (c *crew) measure(ctx context.Context, span time.Duration) (Figures, error) {
	log, err := os.Stat(c.site.log())
	if err != nil {
		return nil, err
	}
	c.lost.Store(0)
	c.later.Store(0)
	c.ends.Store(0)
	c.broken.Store(0)
	began, usage := time.Now(), c.site.usage()
	c.measuring.Store(true)
	if err := pause(ctx, span); err != nil {
		return nil, err
	}
	c.measuring.Store(false)
	took := time.Since(began).Seconds()
	f := Figures{"leases lost": float64(c.lost.Load()), "refused": float64(c.later.Load()), "connections lost": float64(c.broken.Load()),
		"jobs ended": float64(c.ends.Load()), "workers with a job": float64(c.holding.Load())}
	usage(f)
	for name, of := range map[string]*times{"heartbeat": &c.beats, "progress": &c.reports} {
		of.mu.Lock()
		all := percentiles(of.all)
		f[name+" p50"], f[name+" p99"], f[name+" rate"] = all["p50"], all["p99"], float64(len(of.all))/took
		of.mu.Unlock()
	}
	var rounds []time.Duration
	for ; len(rounds) == 0; err = pause(ctx, 100*time.Millisecond) { // a short trial can be between two
		if err != nil {
			return nil, err
		}
		if rounds, err = c.site.passes("scale", log.Size()); err != nil {
			return nil, err
		}
	}
	all := percentiles(rounds) // which it sorts
	f["scaler round p50"], f["scaler round p99"] = all["p50"], all["p99"]
	f["scaler round max ms"] = float64(rounds[len(rounds)-1].Microseconds()) / 1000
	return f, nil
}

// passes returns how long the runs of a pass took that the stack has logged since its log had this
// size.
func (s *Site) passes(name string, from int64) ([]time.Duration, error) {
	text, err := os.ReadFile(s.log())
	if err != nil {
		return nil, fmt.Errorf("read the log of the stack: %w", err)
	}
	var all []time.Duration
	for line := range strings.Lines(string(text[min(from, int64(len(text))):])) {
		if !strings.Contains(line, ` pass=`+name+` `) {
			continue
		}
		_, after, found := strings.Cut(line, " seconds=")
		if !found {
			continue
		}
		digits, _, _ := strings.Cut(strings.TrimSpace(after), " ")
		seconds, err := strconv.ParseFloat(digits, 64)
		if err != nil {
			return nil, fmt.Errorf("the log says of a pass: %q: %w", line, err)
		}
		all = append(all, time.Duration(seconds*float64(time.Second)))
	}
	return all, nil
}

func (s *Site) log() string { return filepath.Join(s.Data, "up.log") }

// listen opens a socket for the directives of each worker.
func (c *crew) listen(ctx context.Context, group *errgroup.Group) error {
	return atOnce(ctx, len(c.hands), func(opens context.Context, i int) error {
		m := c.hands[i]
		l, err := wire.OpenSocket(opens, c.endpoint, m.token, directivesQuery, map[string]any{"workerId": m.id})
		if err != nil {
			return err
		}
		group.Go(func() error {
			defer context.AfterFunc(ctx, func() { l.Conn.Close() })()
			for {
				text, err := l.Next()
				if err == nil && bytes.Contains(text, []byte(`"type":"ping"`)) {
					err = l.Send(wire.Pong)
				}
				if ctx.Err() != nil {
					return nil
				}
				if err != nil {
					return fmt.Errorf("the socket of a worker ended: %w", err)
				}
			}
		})
		return nil
	})
}

// sell submits a job for each that has ended.
func (c *crew) sell(ctx context.Context, to *wire.Conn) error {
	b, err := newBody(noopQuery, noopSubmission(), "")
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.ended:
		}
		for broken := 0; ; {
			_, err := to.Post(b.text)
			switch {
			case err == nil || ctx.Err() != nil:
			case errors.Is(err, wire.ErrLater):
				c.later.Add(1)
				_ = pause(ctx, time.Second)
				continue
			case asNetError(err) && broken < mostBroken:
				broken++
				c.broken.Add(1)
				continue
			default:
				return fmt.Errorf("submit a job: %w", err)
			}
			break
		}
	}
}
