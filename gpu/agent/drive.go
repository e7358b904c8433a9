package agent

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/google/uuid"
	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/agent/engines"
	"github.com/reelay/reelay/gpu/agent/host"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/gpu/runtimes/remote/kinds"
	"github.com/reelay/reelay/internal/engine"
)

// drive drives the engines of the agent's pool until it must leave. It reports false, and does
// nothing, if the pool has none.
func (s settings) drive(ctx context.Context, config Config) (bool, error) {
	if s.pool == "" || s.key == "" || len(s.models) > 0 || len(s.runtimes) > 0 || s.workers != 1 || s.provider != staticProvider {
		return false, nil
	}
	targets, err := remote.NewTargets(s.engineSecrets)
	if err != nil {
		return false, err
	}
	self, err := os.Executable()
	if err != nil {
		return false, fmt.Errorf("find this program for its runtime of engines: %w", err)
	}
	fleet := &engines.Fleet{
		API: config.Client, Pool: s.pool, Log: config.Log,
		Waiting: func(why string) {
			config.Probes.Set(0, func() string { return "it is not registered: " + why })
		},
		Open: func(kind engine.Kind, url string) (remote.Engine, error) {
			return kinds.New(kind, targets.Target(url), nil)
		},
	}
	asking, asked := context.WithCancel(ctx)
	leaving := make(chan bool, 1)
	go func() {
		select {
		case <-config.Notices: // before there is anything to hand over
			leaving <- true
			asked()
		case <-asking.Done():
			leaving <- false
		}
	}()
	kind, err := fleet.Kind(asking)
	asked()
	if <-leaving {
		return true, nil
	}
	if err != nil || kind == "" {
		return false, err
	}
	work := &crew{config: config, command: []string{self, "runtime", "remote", "--kind", string(kind),
		"--secrets", s.engineSecrets, "--patience", s.enginePatience.String()}, kind: kind}
	if kind.Hosted() != nil { // its runtime asks the control plane before each call
		work.command = append(work.command, "--pool", s.pool, "--endpoint", s.endpoint, "--ca-file", s.caFile)
		work.env = []string{"REELAY_API_KEY=" + s.key}
		work.instance = s.pool + "@" + string(kind) + "#" + uuid.NewString()[:8]
	}
	fleet.Work = work.run
	config.Probes.Set(0, func() string { return "" }) // an engine that is away is no reason to end this process
	go work.pass(ctx, fleet.Stop)
	return true, fleet.Run(ctx)
}

// staticProvider is the provider of agents that nothing has started for Reelay.
const staticProvider = "static"

// crew runs the workers of engines. All of them get the machine's notices.
type crew struct {
	config  Config
	command []string // of the runtime, without the engines
	env     []string // of the runtime
	kind    engine.Kind
	// instance is the machine of the workers of a hosted provider, which is this process; "" for engines.
	instance string

	mu      sync.Mutex
	notices map[chan Notice]bool
}

// run runs the worker of an engine.
func (c *crew) run(ctx context.Context, d *engines.Driver, others []string) error {
	config := c.config
	config.Provider, config.InstanceID, config.Slot = engine.Provider, cmp.Or(c.instance, engine.Instance(d.URL)), d.Slot
	config.CapacityClass = client.CapacityClassOnDemand
	config.GPUType, config.Engine, config.Models, config.Probes = engineGPU, d, nil, nil
	config.Log = config.Log.With("engine", d.URL, "slot", d.Slot)
	command := append([]string{}, c.command...)
	for _, url := range append([]string{d.URL}, others...) {
		command = append(command, "--engine", url)
	}
	config.Runtimes = []host.Command{{Name: string(c.kind), Command: command, BuiltIn: true, Any: true, Env: c.env}}
	notices := make(chan Notice, 8)
	config.Notices = notices
	c.mu.Lock()
	if c.notices == nil {
		c.notices = map[chan Notice]bool{}
	}
	c.notices[notices] = true
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.notices, notices)
		c.mu.Unlock()
	}()
	return Run(ctx, config)
}

// engineGPU is the type of the GPU of a worker whose engine does not tell it.
const engineGPU = "engine"

// pass passes the machine's notices on to all workers, and calls stop with the first: no worker is
// started any more.
func (c *crew) pass(ctx context.Context, stop func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case n, ok := <-c.config.Notices:
			if !ok {
				return
			}
			stop()
			c.mu.Lock()
			for notices := range c.notices {
				select {
				case notices <- n:
				default: // a worker that has ended takes none
				}
			}
			c.mu.Unlock()
		}
	}
}
