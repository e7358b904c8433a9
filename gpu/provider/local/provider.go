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

	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/jobs/fleet"
	"github.com/reelay/reelay/models"
)

// Name is the provider's name, in pools and at registration.
const Name = "local"

// keepReclaimed is how many instances that were taken away stay known.
const keepReclaimed = 1000

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

// Provider runs instances until its Run ends. It implements [fleet.Provider].
type Provider struct {
	config Config

	mu        sync.Mutex
	closed    bool
	instances map[string]*instance
	reclaimed []string // the newest that have ended, oldest first
	watching  sync.WaitGroup
}

// instance is one agent, the leader of its process group. process is a handle
// that never refers to another process, even if the kernel reuses the id.
type instance struct {
	child     *localstack.Child
	process   *os.Process
	reclaimed bool
	notices   []*time.Timer
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

// Create implements [fleet.Provider]. An id must be a plain file name that no
// running instance has.
func (p *Provider) Create(_ context.Context, pool *models.Pool, instanceIDs []string) map[string]error {
	p.mu.Lock()
	defer p.mu.Unlock()
	failed := map[string]error{}
	for _, id := range instanceIDs {
		if err := p.create(pool, id); err != nil {
			failed[id] = fmt.Errorf("create instance %q: %w", id, err)
		}
	}
	return failed
}

// create boots one instance. The caller holds mu.
func (p *Provider) create(pool *models.Pool, instanceID string) error {
	switch {
	case p.closed:
		return fleet.ErrProviderGone
	case instanceID == "" || instanceID != filepath.Base(instanceID):
		return fmt.Errorf("%w: its id must be a plain file name", fleet.ErrInvalidInstance)
	case p.instances[instanceID] != nil:
		return fmt.Errorf("%w: another one with this id is running", fleet.ErrInvalidInstance)
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

func (p *Provider) boot(pool *models.Pool, instanceID string) (*instance, error) {
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
	return &instance{child: child, process: process}, nil
}

func (p *Provider) arguments(pool *models.Pool, instanceID string) []string {
	return []string{
		"--provider", Name,
		"--instance-id", instanceID,
		"--pool", string(pool.ID),
		"--region", pool.Region,
		"--gpu-type", pool.GPUType,
		"--capacity-class", string(pool.CapacityClass),
		"--models", strings.Join(pool.Models, ","),
		"--work-dir", filepath.Join(p.config.Dir, "work"),
	}
}

// watch waits until the instance ends, then cleans up and reports it.
func (p *Provider) watch(instanceID string, i *instance) {
	<-i.child.Done()
	p.mu.Lock()
	delete(p.instances, instanceID)
	if i.reclaimed {
		p.reclaimed = append(p.reclaimed, instanceID)
		p.reclaimed = p.reclaimed[max(0, len(p.reclaimed)-keepReclaimed):]
	}
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

// List implements [fleet.Provider]: it returns the instances that run, and the
// newest 1,000 that were preempted or killed through the provider and have ended.
func (p *Provider) List(context.Context) ([]fleet.Instance, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fleet.ErrProviderGone
	}
	var all []fleet.Instance
	for id, i := range p.instances {
		all = append(all, fleet.Instance{ID: id, Reclaimed: i.reclaimed})
	}
	for _, id := range p.reclaimed {
		if p.instances[id] == nil {
			all = append(all, fleet.Instance{ID: id, Ended: true, Reclaimed: true})
		}
	}
	slices.SortFunc(all, func(a, b fleet.Instance) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// Preempt implements [fleet.Provider]: the notice is a SIGTERM.
func (p *Provider) Preempt(_ context.Context, instanceID string, notice time.Duration) error {
	i, err := p.reclaim(instanceID)
	if err != nil {
		return fmt.Errorf("preempt instance %s: %w", instanceID, err)
	}
	if err := i.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("preempt instance %s: %w", instanceID, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// If the instance has ended by then, Kill does nothing.
	i.notices = append(i.notices, time.AfterFunc(notice, i.child.Kill))
	return nil
}

// Kill implements [fleet.Provider]: it also ends every process that the instance
// started.
func (p *Provider) Kill(_ context.Context, instanceID string) error {
	i, err := p.reclaim(instanceID)
	if err != nil {
		return fmt.Errorf("kill instance %s: %w", instanceID, err)
	}
	i.child.Kill()
	return nil
}

// reclaim finds an instance and marks it as taken away by the provider.
func (p *Provider) reclaim(instanceID string) (*instance, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.instances[instanceID]
	if i == nil {
		return nil, fleet.ErrNoInstance
	}
	i.reclaimed = true
	return i, nil
}
