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
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// Name is the provider's name, in pools and at registration.
const Name = "local"

// ErrNoInstance means that no instance of that id runs.
var ErrNoInstance = errors.New("no such instance runs here")

// Config is how instances are run.
type Config struct {
	// Command is the agent's program and first arguments, such as reelay agent.
	Command []string
	// Endpoint and Key are how its agents reach the API and enrol.
	Endpoint, Key string
	// CAFile holds certificates that they trust besides the system's, or is "":
	// then those of the environment.
	CAFile string
	// Dir gets a folder logs, with a file per instance, and a folder work.
	Dir string
	// Grace is how long the agents may take to leave when all are stopped.
	Grace time.Duration
	// Started, if not nil, is told of each instance that runs.
	Started func(instanceID string, pid int)
	// Exited, if not nil, is told of each instance that has ended. err is nil if
	// it left by itself in good order, or was killed through the provider.
	Exited func(instanceID string, err error)
}

// Provider runs instances until its Run ends.
type Provider struct {
	config Config

	mu        sync.Mutex
	closed    bool
	instances map[string]*instance
	reclaimed ring
	watching  sync.WaitGroup
}

// instance is one agent, the leader of its process group. process is a handle
// that cannot come to mean another one.
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

// Run waits for ctx's end, then stops all instances, gently for as long as the
// configuration's grace, and returns when none is left. Nothing can be started
// from then on.
func (p *Provider) Run(ctx context.Context) error {
	<-ctx.Done()
	p.mu.Lock()
	p.closed = true
	var stopping sync.WaitGroup
	for _, i := range p.instances {
		stopping.Go(func() { _ = i.child.Stop(context.Background()) }) // a kill is as good
	}
	p.mu.Unlock()
	stopping.Wait()
	p.watching.Wait()
	return nil
}

// Start boots one worker of the pool. It returns an error if the program does
// not start, or if the id is taken.
func (p *Provider) Start(_ context.Context, pool *models.Pool, instanceID string) error {
	if instanceID == "" || instanceID != filepath.Base(instanceID) {
		return fmt.Errorf("start instance %q: an instance id must be a plain name", instanceID)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return fmt.Errorf("start instance %s: the provider is shutting down", instanceID)
	}
	if p.instances[instanceID] != nil {
		return fmt.Errorf("start instance %s: it runs already", instanceID)
	}
	i, err := p.boot(pool, instanceID)
	if err != nil {
		return fmt.Errorf("start instance %s: %w", instanceID, err)
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
	// the key is not for ps to show
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

// watch tells of the instance's end.
func (p *Provider) watch(instanceID string, i *instance) {
	<-i.child.Done()
	p.mu.Lock()
	delete(p.instances, instanceID)
	if i.reclaimed {
		p.reclaimed.add(instanceID)
	}
	p.pruneLogs()
	for _, notice := range i.notices {
		notice.Stop()
	}
	p.mu.Unlock()
	// a released handle refuses signals, and that is all it can do
	_ = i.process.Release()
	var err error
	if i.child.ExitCode() != 0 {
		err = i.child.Err()
	}
	p.config.Exited(instanceID, err)
}

// Instances lists the ids of those that run now.
func (p *Provider) Instances(context.Context) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, jobs.ErrProviderGone
	}
	ids := make([]string, 0, len(p.instances))
	for id := range p.instances {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, nil
}

// Preempt gives the instance notice and returns; when the notice is over, what
// is left of it is killed. It returns ErrNoInstance if it does not run.
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
	// after the end there is nothing to kill, and Kill does nothing
	i.notices = append(i.notices, time.AfterFunc(notice, i.child.Kill))
	return nil
}

// Kill ends the instance and all that it started, now. It returns ErrNoInstance
// if it does not run.
func (p *Provider) Kill(_ context.Context, instanceID string) error {
	i, err := p.reclaim(instanceID)
	if err != nil {
		return fmt.Errorf("kill instance %s: %w", instanceID, err)
	}
	i.child.Kill()
	return nil
}

// Reclaimed tells whether the instance was preempted or killed through the
// provider, also after it has ended. Of those that ended it knows the newest
// 1,000; of any other it says no.
func (p *Provider) Reclaimed(_ context.Context, instanceID string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := p.instances[instanceID]; i != nil {
		return i.reclaimed, nil
	}
	return p.reclaimed.has(instanceID), nil
}

// reclaim finds an instance and notes that it is taken away.
func (p *Provider) reclaim(instanceID string) (*instance, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.instances[instanceID]
	if i == nil {
		return nil, ErrNoInstance
	}
	i.reclaimed = true
	return i, nil
}

// ring holds the newest ids that were added to it.
type ring struct {
	ids  [1000]string
	next int
}

func (r *ring) add(id string) {
	r.ids[r.next] = id
	r.next = (r.next + 1) % len(r.ids)
}

func (r *ring) has(id string) bool { return id != "" && slices.Contains(r.ids[:], id) }
