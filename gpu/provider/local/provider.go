// Package local runs workers as processes of this machine. It treats them as a
// cloud treats spot machines: they can be given notice, and killed.
package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// Name is the provider's name, in pools and at registration.
const Name = "local"

// keepEnded is how many instances that have ended stay known.
const keepEnded = 1000

// Config says how instances are run.
type Config struct {
	// Command is the agent's program and first arguments, such as reelay agent.
	Command []string
	// Endpoint and Key are what the agents reach the API and enrol with.
	Endpoint, Key string
	// CAFile holds certificates that the agents trust besides the system's. If it is
	// empty, the agents inherit the setting of this process's environment.
	CAFile string
	// Dir receives a folder logs with one file per instance, and a folder work.
	Dir string
	// Grace is how long the agents may take to exit when Run ends.
	Grace time.Duration
	// Started, if not nil, is called for each instance that runs.
	Started func(instanceID string, pid int)
	// Exited, if not nil, is called for each instance that has ended. err is nil if
	// the instance exited with status 0 or was killed through the provider.
	Exited func(instanceID string, err error)
}

// Provider runs instances until its Run ends. It implements [fleet.Preemptor].
type Provider struct {
	config Config

	mu        sync.Mutex
	closed    bool
	instances map[string]*instance
	ended     []ended // the newest that have ended, oldest first
	watching  sync.WaitGroup
}

// instance is one agent, the leader of its process group. process is a handle
// that never refers to another process, even if the kernel reuses the id.
type instance struct {
	pool      models.PoolID
	created   time.Time
	child     *localstack.Child
	process   *os.Process
	reclaimed bool
	notices   []*time.Timer
}

// ended is an instance that was taken away, or that ended by itself, and why.
type ended struct {
	id        string
	pool      models.PoolID
	reclaimed bool
	cause     string
}

// New returns a provider without instances.
func New(config Config) *Provider {
	if config.Started == nil {
		config.Started = func(string, int) {}
	}
	if config.Exited == nil {
		config.Exited = func(string, error) {}
	}
	return &Provider{config: config, instances: map[string]*instance{}}
}

// Run waits until ctx ends, asks all instances to exit, and kills those that
// still run after the configured grace. It returns when none is left. From then
// on nothing can be created.
func (p *Provider) Run(ctx context.Context) error {
	<-ctx.Done()
	p.mu.Lock()
	p.closed = true
	var stopping sync.WaitGroup
	for _, i := range p.instances {
		stopping.Go(func() { _ = i.child.Stop(context.Background()) }) // if it fails, the child was killed
	}
	p.mu.Unlock()
	stopping.Wait()
	p.watching.Wait()
	return nil
}

// Create implements [fleet.Provider]. An id must be a plain file name.
func (p *Provider) Create(_ context.Context, pool *capacity.Pool, _ string, ids []string) []fleet.Created {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []fleet.Created
	for _, id := range ids {
		result := fleet.Created{ID: id}
		if err := p.create(pool, id); err != nil {
			result.Err = fmt.Errorf("create instance %q: %w", id, err)
		}
		all = append(all, result)
	}
	return all
}

// create boots one instance. The caller holds mu.
func (p *Provider) create(pool *capacity.Pool, instanceID string) error {
	switch {
	case p.closed:
		return fleet.ErrProviderGone
	case instanceID == "" || instanceID != filepath.Base(instanceID):
		return fleet.Refuse(fleet.Invalid, "its id must be a plain file name")
	case p.instances[instanceID] != nil && p.instances[instanceID].pool != pool.ID:
		return fleet.Refuse(fleet.Invalid, "an instance of another pool has this id")
	case p.instances[instanceID] != nil:
		return nil
	}
	i, err := p.boot(pool, instanceID)
	if err != nil {
		return err
	}
	p.instances[instanceID] = i
	p.config.Started(instanceID, i.child.Pid())
	p.watching.Go(func() { p.watch(instanceID, i) })
	return nil
}

func (p *Provider) boot(pool *capacity.Pool, instanceID string) (*instance, error) {
	logs := filepath.Join(p.config.Dir, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return nil, err
	}
	// The key is passed in the environment: ps shows arguments to every user.
	env := append(os.Environ(), "REELAY_ENDPOINT="+p.config.Endpoint, "REELAY_API_KEY="+p.config.Key)
	if p.config.CAFile != "" {
		env = append(env, "REELAY_CA_FILE="+p.config.CAFile)
	}
	child, err := localstack.StartChild(localstack.ChildConfig{
		Name:  "agent " + instanceID,
		Path:  p.config.Command[0],
		Args:  append(slices.Clone(p.config.Command[1:]), p.arguments(pool, instanceID)...),
		Env:   env,
		Log:   filepath.Join(logs, logName(instanceID)),
		Grace: p.config.Grace,
	})
	if err != nil {
		return nil, err
	}
	process, err := os.FindProcess(child.Pid())
	if err != nil {
		child.Kill()
		return nil, err
	}
	return &instance{pool: pool.ID, created: time.Now(), child: child, process: process}, nil
}

func (p *Provider) arguments(pool *capacity.Pool, instanceID string) []string {
	return append(fleet.AgentArguments(Name, pool, instanceID), "--work-dir", filepath.Join(p.config.Dir, "work"))
}

// watch waits until the instance ends, then cleans up and reports it.
func (p *Provider) watch(instanceID string, i *instance) {
	<-i.child.Done()
	p.mu.Lock()
	delete(p.instances, instanceID)
	over := ended{id: instanceID, pool: i.pool, reclaimed: i.reclaimed}
	if !i.reclaimed {
		over.cause = causeOf(i.child)
	}
	p.ended = append(p.ended, over)
	p.ended = p.ended[max(0, len(p.ended)-keepEnded):]
	p.pruneLogs()
	for _, notice := range i.notices {
		notice.Stop()
	}
	p.mu.Unlock()
	// A released handle refuses signals. There is nothing else to handle.
	_ = i.process.Release()
	var err error
	if i.child.ExitCode() != 0 {
		err = i.child.Err()
	}
	p.config.Exited(instanceID, err)
}

// causeOf says why an instance has ended: its exit status, and its last line.
func causeOf(child *localstack.Child) string {
	cause := "its agent was killed"
	if status := child.ExitCode(); status >= 0 {
		cause = fmt.Sprintf("its agent exited with status %d", status)
	}
	if line := child.LastLine(); line != "" {
		cause += ": " + line
	}
	return cause
}

// List implements [fleet.Provider]: it returns the instances that run, and the newest 1,000 that have
// ended, with the reason.
func (p *Provider) List(_ context.Context, pool *capacity.Pool) ([]fleet.Instance, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fleet.ErrProviderGone
	}
	var all []fleet.Instance
	for id, i := range p.instances {
		if i.pool == pool.ID {
			all = append(all, fleet.Instance{ID: id, State: fleet.InstanceRunning, CreatedAt: i.created, Reclaimed: i.reclaimed})
		}
	}
	for _, e := range p.ended {
		if e.pool == pool.ID && p.instances[e.id] == nil {
			all = append(all, fleet.Instance{ID: e.id, State: fleet.InstanceEnded, Reclaimed: e.reclaimed, Cause: e.cause})
		}
	}
	slices.SortFunc(all, func(a, b fleet.Instance) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// Preempt implements [fleet.Preemptor]: the notice is a SIGTERM.
func (p *Provider) Preempt(_ context.Context, _ *capacity.Pool, of fleet.Instance, notice time.Duration) error {
	i := p.reclaim(of.ID)
	if i == nil {
		return fmt.Errorf("preempt instance %s: %w", of.ID, fleet.ErrNoInstance)
	}
	if err := i.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("preempt instance %s: %w", of.ID, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// If the instance has ended by then, Kill does nothing.
	i.notices = append(i.notices, time.AfterFunc(notice, i.child.Kill))
	return nil
}

// Delete implements [fleet.Provider]: it also ends every process that the instances
// started.
func (p *Provider) Delete(_ context.Context, _ *capacity.Pool, instances []fleet.Instance) map[string]error {
	for _, of := range instances {
		if i := p.reclaim(of.ID); i != nil {
			i.child.Kill()
		}
	}
	return nil
}

// reclaim finds an instance and marks it as taken away by the provider. It returns nil
// if the instance is not running.
func (p *Provider) reclaim(instanceID string) *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.instances[instanceID]
	if i != nil {
		i.reclaimed = true
	}
	return i
}
