package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// soak is one run.
type soak struct {
	options
	dir         string
	stack       *stack
	fleet       *fleet
	load        *load
	ledger      *ledger
	graph       *graph // nil: none
	zombies     *zombies
	faults      *faults
	watch       *watcher
	met         *counters
	began       time.Time
	faultsEnded time.Time
	waves       []*wave
	phases      []*phase
	doctor      string // what `reelay doctor` found at the end of an upgrade
	sick        bool   // whether that is more than advice
}

// brief reports whether the run is too short to wait until leases expire.
func (o options) brief() bool { return o.Minutes < 1 }

// kinds returns the faults to inject and the gap between them: at least 500 faults in half
// an hour, and each kind even in a run of seconds.
func (o options) kinds() (kinds []fault, gap time.Duration) {
	if !o.brief() {
		return allFaults, 2200 * time.Millisecond
	}
	for _, fault := range allFaults {
		if fault.brief {
			kinds = append(kinds, fault)
		}
	}
	return kinds, time.Duration(o.Minutes * float64(time.Minute) / float64(len(kinds)+2))
}

// must returns the counters that the run has to meet.
func (s *soak) must() []string {
	switch {
	case s.Reclaim > 0:
		return mustReclaim
	case s.Upgrade != "":
		return mustUpgrade
	case s.Minutes < 3:
		return mustSoon
	}
	return must
}

// soak runs everything and returns the report.
func (o options) soak(ctx context.Context) (_ *report, err error) {
	dir, err := os.MkdirTemp("", "rlchaos-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // PostgreSQL may run as another user
		return nil, err
	}
	s := &soak{options: o, dir: dir, met: newCounters(), ledger: &ledger{}, began: time.Now()}
	var result *report
	defer func() {
		s.close()
		if o.Keep || err != nil && !errors.Is(err, context.Canceled) || result != nil && len(result.Failures) > 0 {
			fmt.Fprintln(os.Stderr, "chaos: logs and data are in", dir)
			return
		}
		os.RemoveAll(dir)
	}()
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	switch {
	case o.Reclaim > 0:
		err = s.reclaim(ctx)
	case o.Upgrade != "":
		err = s.upgrade(ctx)
	default:
		s.trouble(ctx)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	drained := s.drain(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if o.Upgrade != "" {
		s.examine(ctx)
	}
	result, err = s.conclude(ctx)
	if result != nil && !drained {
		result.Failures = append(result.Failures, "not all jobs ended in time")
	}
	return result, err
}

func (s *soak) start(ctx context.Context) (err error) {
	p := &programs{newest: s.Bin, other: cmp.Or(s.Upgrade, s.Beside), upgrade: s.Upgrade != ""}
	if s.stack, err = startStack(ctx, s.dir, p); err != nil {
		return err
	}
	s.watch = &watcher{stack: s.stack, taken: map[int64]bool{}}
	if s.fleet, err = startFleet(ctx, s.stack, s.Agents); err != nil {
		return err
	}
	s.zombies = &zombies{stack: s.stack, counters: s.met}
	kinds, _ := s.kinds()
	s.faults = newFaults(s.stack, s.fleet, s.met, kinds)
	s.load = newLoad(s.stack, s.ledger, s.met, s.brief() && s.Upgrade == "", s.Upgrade != "")
	s.load.open = func() int { return s.watch.last().Open }
	if s.Reclaim > 0 { // nothing is lost on the way, and no job may be too many
		s.load.open = func() int {
			now := s.watch.last()
			return s.ledger.size() - now.Completed - now.Failed - now.Canceled
		}
	}
	s.load.want.Store(int64(max(2, s.Agents*8/10)))
	s.load.long = s.Reclaim > 0
	if s.Nodes > 0 && s.Reclaim == 0 && s.Upgrade == "" {
		s.graph = newGraph(s.Nodes, s.random(4))
	}
	return nil
}

// briefLimit limits a brief run, which ends once each fault has occurred.
const briefLimit = 3 * time.Minute

// trouble runs load and faults until the time is over.
func (s *soak) trouble(ctx context.Context) {
	limit := time.Duration(s.Minutes * float64(time.Minute))
	if s.brief() {
		limit = briefLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWatching()
	go s.watch.run(watching)

	if s.graph != nil { // before the faults, which a request of a megabyte may not survive for minutes
		s.graph.submit(ctx, s.load)
	}
	var running sync.WaitGroup
	running.Go(func() { s.load.run(ctx, s.random(1)) })
	running.Go(func() { s.load.reopen(ctx, s.random(2)) })
	if !s.brief() {
		running.Go(func() { s.zombies.run(ctx, max(1, s.Agents/12)) })
	}
	running.Go(func() {
		_, gap := s.kinds()
		sleep(ctx, 2*gap) // first let it run without faults
		s.faults.run(ctx, s.random(3), gap, s.brief())
		if s.brief() {
			cancel()
		}
	})
	running.Go(func() { s.printProgress(ctx) })
	running.Wait()
	s.faultsEnded = time.Now()
}

// printProgress prints the progress.
func (s *soak) printProgress(ctx context.Context) {
	for sleep(ctx, 5*time.Second); ctx.Err() == nil; sleep(ctx, 5*time.Second) {
		s.line("trouble")
	}
}

func (s *soak) line(phase string) {
	now := s.watch.last()
	fmt.Fprintf(os.Stderr, "chaos: %5s %s: %d faults, %d agents; jobs: %d submitted, %d open (%d queued, %d running), %d completed, %d failed, %d cancelled; %d nodes open; %d stale writes refused\n",
		rounded(time.Since(s.began)), phase, s.faults.total(), s.fleet.size(), len(s.ledger.all()),
		now.Open, now.Queued, now.Running, now.Completed, now.Failed, now.Canceled, now.Nodes, s.met.get(metStale))
}

// drainLimit is how long the last jobs can take after the last fault: a render of 90 s that
// is lost at the last moment, and retries with their backoff.
const drainLimit = 6 * time.Minute

// drain waits until every job has ended. It returns false after drainLimit.
func (s *soak) drain(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	for said := time.Now(); ctx.Err() == nil; sleep(ctx, 300*time.Millisecond) {
		now, err := s.watch.look(ctx)
		if err == nil && now.Open+now.Nodes == 0 {
			return true
		}
		if time.Since(said) > 5*time.Second {
			said = time.Now()
			s.watch.keep(now)
			s.line("draining")
		}
	}
	return false
}

// conclude stops the workers and verifies the result.
func (s *soak) conclude(ctx context.Context) (*report, error) {
	s.fleet.close()
	s.countFromLogs()
	if err := s.countFromHistory(ctx); err != nil {
		return nil, err
	}
	s.met.add(metRedelivered, s.watch.redelivered())
	verdict, err := s.verify(ctx)
	if err != nil {
		return nil, err
	}
	var recoveries []*recovery
	if s.Reclaim == 0 && s.Upgrade == "" { // otherwise the waves have their own, or there are no faults
		if recoveries, err = s.recoveries(ctx); err != nil {
			return nil, err
		}
	}
	for _, w := range s.waves {
		if err := s.measure(ctx, w); err != nil {
			return nil, err
		}
	}
	r := &report{
		Command: s.command(), Seed: s.Seed, Minutes: s.Minutes, Agents: s.Agents, Took: rounded(time.Since(s.began)),
		Faults: s.faults.total(), Injected: s.faults.injected.copy(), Met: s.met.copy(), Answers: s.load.answers.copy(),
		verdict: verdict, Recoveries: recoveries, AgentsDied: s.fleet.died, Waves: s.waves, Phases: s.phases, Doctor: s.doctor,
	}
	r.judge(s.must())
	if s.Upgrade != "" {
		s.judgeUpgrade(r)
	}
	r.Failures = append(r.Failures, s.zombies.strange...)
	return r, s.keepFaultLog()
}

// countFromLogs counts events that are recorded only in the logs of agents and servers.
func (s *soak) countFromLogs() {
	logs, _ := filepath.Glob(filepath.Join(s.dir, "*.log"))
	for _, path := range logs {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			line := lines.Bytes()
			switch {
			case bytes.Contains(line, []byte(`"job given up"`)) && bytes.Contains(line, []byte("the lease is lost")):
				s.met.add(metStale, 1)
			case bytes.Contains(line, []byte(`"level":"ERROR"`)) && !strings.HasPrefix(filepath.Base(path), "agents"):
				s.met.add("errors in the servers' logs", 1)
			case bytes.Contains(line, []byte(`"msg":"panic"`)):
				s.met.add("panics", 1)
			}
		}
		file.Close()
	}
}

// keepFaultLog writes the injected faults with their times beside the logs.
func (s *soak) keepFaultLog() error {
	data, err := json.MarshalIndent(s.faults.log, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.dir, "faults.json"), data, 0o600)
}

func (s *soak) close() {
	if s.fleet != nil {
		s.fleet.close()
	}
	if s.faults != nil {
		s.faults.redis.Close()
	}
	if s.stack != nil {
		s.stack.close()
	}
}
