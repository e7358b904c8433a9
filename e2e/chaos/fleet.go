package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/reelay/reelay/internal/localstack"
)

// fleet keeps a number of agents running. Like a provider, it replaces an agent that ended
// by another machine.
type fleet struct {
	stack *stack
	ctx   context.Context
	stop  context.CancelFunc
	wait  sync.WaitGroup

	mu     sync.Mutex
	agents map[string]*machine // by instance
	made   int
	died   int // agents that ended by themselves
	gone   []*machine
}

// machine is one agent on a simulated machine.
type machine struct {
	instance string
	group    int
	release  string // folder of its program
	child    *localstack.Child
	instead  time.Time // when the machine ended that it replaces, or zero

	mu     sync.Mutex
	doomed bool // a fault is about to hit it, or has hit it
	notice time.Time
	killed time.Time
	sameAs string // the instance that came back, if this is one
}

func startFleet(ctx context.Context, s *stack, size int) (*fleet, error) {
	f := &fleet{stack: s, agents: map[string]*machine{}}
	f.ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	for range size {
		if err := f.add("", 0, time.Time{}); err != nil {
			return f, err
		}
	}
	return f, nil
}

// add starts an agent on a new instance, or on one that existed before. It replaces a machine
// that ended at a moment, or none.
func (f *fleet) add(instance string, group int, instead time.Time) error {
	f.mu.Lock()
	f.made++
	if instance == "" {
		instance, group = fmt.Sprintf("m%05d", f.made), f.made%agentGroups
	}
	f.mu.Unlock()

	work := filepath.Join(f.stack.dir, "work")
	if err := os.MkdirAll(work, 0o711); err != nil {
		return err
	}
	release, agent := f.stack.programs.next("reelay-agent")
	env := append(plainEnvironment(),
		"REELAY_API_KEY="+f.stack.enrolment, "REELAY_ENDPOINT="+f.stack.agentsAt[group], "GOGC=50")
	child, err := localstack.StartChild(localstack.ChildConfig{
		Name: instance, Path: agent, Env: env, Grace: 5 * time.Second,
		Log: filepath.Join(f.stack.dir, fmt.Sprintf("agents-%d.log", group)),
		Args: []string{
			"--instance-id", instance, "--gpu-type", "any", "--work-dir", work, "--log", "json",
			"--notice", noticeTime.String(), "--runtime", "drill=" + agent + " runtime drill",
		},
	})
	if err != nil {
		return fmt.Errorf("start agent %s: %w", instance, err)
	}
	m := &machine{instance: instance, group: group, release: release, child: child, instead: instead}
	f.mu.Lock()
	f.agents[instance] = m
	f.mu.Unlock()
	f.wait.Go(func() { f.follow(m) })
	return nil
}

// noticeTime is how long a machine lives after its notice.
const noticeTime = 10 * time.Second

// follow waits for the end of a machine and replaces it.
func (f *fleet) follow(m *machine) {
	select {
	case <-m.child.Done():
	case <-f.ctx.Done():
		_ = syscall.Kill(m.child.Pid(), syscall.SIGCONT)
		m.child.Kill()
	}
	ended := time.Now()
	os.RemoveAll(filepath.Join(f.stack.dir, "work", m.instance))
	m.mu.Lock()
	doomed, same := m.doomed, m.sameAs
	m.mu.Unlock()
	f.mu.Lock()
	delete(f.agents, m.instance)
	f.gone = append(f.gone, m)
	if !doomed && f.ctx.Err() == nil {
		f.died++
	}
	f.mu.Unlock()
	if f.ctx.Err() != nil {
		return
	}
	// A new machine takes a moment; an agent that only crashed restarts at once.
	delay := 500*time.Millisecond + rand.N(2*time.Second)
	if same != "" {
		delay = 200 * time.Millisecond
	}
	sleep(f.ctx, delay)
	if f.ctx.Err() == nil {
		if err := f.add(same, m.group, ended); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// claim picks a machine that no fault is hitting and marks it. If wanted is not empty, it
// picks one of these instances.
func (f *fleet) claim(random *rand.Rand, wanted map[string]bool) *machine {
	f.mu.Lock()
	defer f.mu.Unlock()
	var candidates []*machine
	for _, m := range f.agents {
		if m.mu.Lock(); !m.doomed && (len(wanted) == 0 || wanted[m.instance]) {
			candidates = append(candidates, m)
		}
		m.mu.Unlock()
	}
	if len(candidates) == 0 {
		return nil
	}
	// The order of a map is random, so the seed does not determine this choice.
	m := candidates[random.IntN(len(candidates))]
	m.mu.Lock()
	m.doomed = true
	m.mu.Unlock()
	return m
}

// spare unmarks a claimed machine that was not changed.
func (m *machine) spare() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.doomed = false
}

// kill ends a machine without notice.
func (m *machine) kill() {
	m.mu.Lock()
	m.killed = time.Now()
	m.mu.Unlock()
	m.child.Kill()
}

// preempt gives a machine notice and kills it when the notice ends.
func (m *machine) preempt() {
	m.mu.Lock()
	m.notice = time.Now()
	m.mu.Unlock()
	_ = syscall.Kill(m.child.Pid(), syscall.SIGTERM)
	timer := time.NewTimer(noticeTime)
	defer timer.Stop()
	select {
	case <-m.child.Done():
	case <-timer.C:
		m.kill()
	}
}

// lostAt returns when the machine got its notice or, without one, was killed.
func (m *machine) lostAt() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.notice.IsZero() {
		return m.notice
	}
	return m.killed
}

// killRuntime kills the runtime of a machine, if there is one.
func (m *machine) killRuntime() bool {
	killed := false
	for _, pid := range childrenOf(m.child.Pid()) {
		killed = syscall.Kill(pid, syscall.SIGKILL) == nil || killed
	}
	return killed
}

// freeze stops a machine for a while and then continues it.
func (m *machine) freeze(ctx context.Context, lasting time.Duration) {
	_ = syscall.Kill(m.child.Pid(), syscall.SIGSTOP)
	sleep(ctx, lasting)
	_ = syscall.Kill(m.child.Pid(), syscall.SIGCONT)
}

// size returns how many agents run.
func (f *fleet) size() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.agents)
}

// not returns the machines that run now and are not of the release in a folder.
func (f *fleet) not(release string) map[string]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := map[string]bool{}
	for _, m := range f.agents {
		if m.release != release {
			found[m.instance] = true
		}
	}
	return found
}

// booted returns the machines that run now and replace those that ended after a moment.
func (f *fleet) booted(after time.Time) map[string]*machine {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := map[string]*machine{}
	for _, m := range f.agents {
		if m.instead.After(after) {
			found[m.instance] = m
		}
	}
	return found
}

// history returns all machines that have ended.
func (f *fleet) history() []*machine {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*machine(nil), f.gone...)
}

// close kills the remaining machines.
func (f *fleet) close() {
	f.stop()
	f.wait.Wait()
}
