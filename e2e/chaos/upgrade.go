package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"text/tabwriter"
	"time"
)

// upgrade goes from the release before to this one, and back, in the order of
// docs/operators/deployment.md.
func (s *soak) upgrade(ctx context.Context) error {
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go s.watch.run(watching)
	loading, unload := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { s.load.run(loading, s.random(1)) })
	running.Go(func() { s.load.reopen(loading, s.random(2)) })
	running.Go(func() { s.load.read(loading, s.random(5)) })
	running.Go(func() { s.load.follow(loading, s.random(6)) })
	running.Go(func() { s.printProgress(loading) })
	defer running.Wait()
	defer unload()

	mixed := time.Duration(s.Minutes * float64(time.Minute))
	steady := mixed / 20 // before the upgrade, and after each way
	stay := func(d time.Duration) func(context.Context) error {
		return func(ctx context.Context) error { sleep(ctx, d); return ctx.Err() }
	}
	half := func(n int) int { return (n + 1) / 2 }
	for _, p := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"starting", func(ctx context.Context) error {
			return s.await(ctx, "half of the agents hold jobs", func() (bool, error) { return s.watch.last().Running >= s.Agents/2, nil })
		}},
		{"the release before", stay(steady)},
		{"migrating", func(ctx context.Context) error {
			_, err := s.stack.command(ctx, s.Bin, "migrate")
			return err
		}},
		{"replacing half", func(ctx context.Context) error {
			s.stack.programs.switchTo("reelay", s.Bin)
			if err := s.replaceServers(ctx, s.stack.controls[:half(controls)], s.stack.apis[:half(apis)]); err != nil {
				return err
			}
			return s.replaceAgents(ctx, s.Bin, half(s.Agents))
		}},
		{"mixed", stay(mixed)},
		{"replacing the rest", func(ctx context.Context) error {
			if err := s.replaceServers(ctx, s.stack.controls[half(controls):], s.stack.apis[half(apis):]); err != nil {
				return err
			}
			return s.replaceAgents(ctx, s.Bin, s.Agents)
		}},
		{"the new release", stay(steady)},
		{"rolling back", func(ctx context.Context) error {
			if err := s.replaceAgents(ctx, s.Upgrade, s.Agents); err != nil {
				return err
			}
			s.stack.programs.switchTo("reelay", s.Upgrade)
			return s.replaceServers(ctx, s.stack.apis, s.stack.controls)
		}},
		{"the release before, again", stay(steady)},
	} {
		fmt.Fprintf(os.Stderr, "chaos: %5s %s\n", rounded(time.Since(s.began)), p.name)
		if err := s.phase(ctx, p.name, p.do); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	s.faultsEnded = time.Now()
	return nil
}

// phase runs one part of the upgrade and records it.
func (s *soak) phase(ctx context.Context, name string, do func(context.Context) error) error {
	began, before := time.Now(), s.watch.last().Completed
	s.load.calls.take()
	if err := do(ctx); err != nil {
		return err
	}
	now, err := s.watch.look(ctx)
	if err != nil {
		return err
	}
	p := s.load.calls.take()
	p.Name, p.Seconds, p.Completed = name, time.Since(began).Seconds(), now.Completed-before
	s.phases = append(s.phases, p)
	return nil
}

// replaceServers replaces groups of servers, one process after the other.
func (s *soak) replaceServers(ctx context.Context, groups ...[]*process) error {
	for _, group := range groups {
		for _, p := range group {
			if err := p.replace(ctx); err != nil {
				return err
			}
			s.met.add(metNewServers, 1)
			if err := s.await(ctx, "all apis are ready", func() (bool, error) { return s.stack.balancer.ready(ctx), nil }); err != nil {
				return fmt.Errorf("replace %s: %w", p.name, err)
			}
		}
	}
	return nil
}

// agentsAtOnce is how many agents stop together.
const agentsAtOnce = 4

// replaceAgents replaces up to n agents of other releases by those in a folder.
func (s *soak) replaceAgents(ctx context.Context, release string, n int) error {
	s.stack.programs.switchTo("reelay-agent", release)
	random := s.random(7)
	for n > 0 {
		var stopping sync.WaitGroup
		for range min(agentsAtOnce, n) {
			others := s.fleet.not(release)
			if len(others) == 0 {
				n = 0
				break
			}
			m := s.fleet.claim(random, others)
			if m == nil { // the last ones are already stopping
				n = 0
				break
			}
			n--
			s.met.add(metNewAgents, 1)
			stopping.Go(m.preempt)
		}
		stopping.Wait()
		if err := s.await(ctx, "every agent was replaced", func() (bool, error) { return s.fleet.size() == s.Agents, nil }); err != nil {
			return err
		}
	}
	return nil
}

// examine runs the doctor of the new release, and keeps what it found.
func (s *soak) examine(ctx context.Context) {
	found, err := s.stack.command(ctx, s.Bin, "doctor", "--full", "--hash")
	if s.doctor = found; err != nil {
		s.doctor = err.Error()
		s.sick = true
	}
}

// judgeUpgrade collects why an upgrade failed.
func (s *soak) judgeUpgrade(r *report) {
	for _, p := range r.Phases {
		if p.Failed > 0 {
			r.Failures = append(r.Failures, fmt.Sprintf("%s: %d calls of customers failed", p.Name, p.Failed))
		}
	}
	for _, why := range s.load.calls.reasons() {
		r.Failures = append(r.Failures, "a call failed: "+why)
	}
	if n := r.Met[badEventGap]; n > 0 {
		r.Failures = append(r.Failures, fmt.Sprintf("%d %s", n, badEventGap))
	}
	if n := r.Failed - r.FailedBy["DEPENDENCY_FAILED"]; n > 0 { // of a job that a customer cancelled
		r.Failures = append(r.Failures, fmt.Sprintf("%d jobs failed: %v", n, r.FailedBy))
	}
	if r.AgentsDied > 0 {
		r.Failures = append(r.Failures, fmt.Sprintf("%d agents ended by themselves", r.AgentsDied))
	}
	for _, p := range s.stack.processes() {
		if n := len(p.away()); p != s.stack.postgres && p != s.stack.redis && n > 2 {
			r.Failures = append(r.Failures, fmt.Sprintf("%s ended %d times by itself", p.name, n-2))
		}
	}
	if s.sick {
		r.Failures = append(r.Failures, "the doctor found: "+s.doctor)
	}
}

// printPhases writes what the customers saw in each phase of an upgrade.
func (r *report) printPhases(out io.Writer) {
	if len(r.Phases) == 0 {
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n| phase\t| seconds\t| calls\t| failed\t| p50 ms\t| p99 ms\t| jobs completed\t|\n")
	fmt.Fprintf(w, "| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t|\n")
	for _, p := range r.Phases {
		fmt.Fprintf(w, "| %s\t| %.0f\t| %d\t| %d\t| %.1f\t| %.1f\t| %d\t|\n", p.Name, p.Seconds, p.Calls, p.Failed, p.P50, p.P99, p.Completed)
	}
	w.Flush()
	fmt.Fprintf(out, "\ndoctor --full --hash:\n%s", r.Doctor)
}
