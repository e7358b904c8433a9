package servers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/cmd/reelay/internal/credentials"
	"github.com/reelay/reelay/cmd/reelay/internal/front"
	"github.com/reelay/reelay/cmd/reelay/internal/settings"
	"github.com/reelay/reelay/gpu/agent"
	"github.com/reelay/reelay/gpu/provider/local"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// localAgents runs the agents of the local pool, at the request of the api and control
// processes over its socket.
type localAgents struct {
	provider *local.Provider
	socket   *localstack.Socket
	served   chan error
}

// openAgents prepares agents for the API at endpoint with the worker key. It starts none.
func openAgents(cfg settings.Config, o upOptions, endpoint string, keys credentials.Keys, roster *roster) (*localAgents, error) {
	data := o.data
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to run agents with: %w", err)
	}
	// No agent runs yet, so these files are those of killed agents.
	if err := os.RemoveAll(filepath.Join(data, "work")); err != nil {
		return nil, fmt.Errorf("clear the agents' work folder: %w", err)
	}
	provider := local.New(local.Config{
		Command: agentCommand(cfg, self, o.runtimes), Endpoint: endpoint, Key: keys.WorkerKey, CAFile: keys.CAFile, Dir: data, Grace: agentsGo,
		Started: func(id string, pid int) { roster.set("agent "+id, pid) },
		Exited: func(id string, err error) {
			roster.remove("agent " + id)
			if err != nil {
				slog.Warn("an agent ended by itself", "instance", id, "error", err)
			}
		},
	})
	socket, err := localstack.ListenPrivate(data)
	if err != nil {
		return nil, fmt.Errorf("open the socket of the local provider: %w", err)
	}
	a := &localAgents{provider: provider, socket: socket, served: make(chan error, 1)}
	go func() { a.served <- local.Serve(socket, provider) }()
	return a, nil
}

// agentCommand returns the command of an agent with these runtimes and the built-in ones.
func agentCommand(cfg settings.Config, self string, runtimes []string) []string {
	// What jobs call is on the laptop, but the parts of Reelay are not theirs to call.
	own := strings.Join(slices.Concat(cfg.Own, []string{front.HostPort(cfg.DatabaseURL)}, cfg.RedisHosts(), cfg.Objects.Hosts()), ",")
	command := []string{self, "agent", "--outbound-loopback", "--outbound-except", own}
	if len(runtimes) == 0 {
		return command
	}
	command = append(command, "--runtime", "testcard="+self+" runtime testcard")
	for _, runtime := range runtimes {
		command = append(command, "--runtime", runtime)
	}
	// Last, because they accept any model, but understand only their own settings.
	return append(command, "--runtime", "command="+self+" runtime command",
		"--runtime", "http="+self+" runtime http --allow-loopback --except "+own)
}

// stop makes all agents leave. None is started afterwards.
func (a *localAgents) stop() {
	over, end := context.WithCancel(context.Background())
	end()
	_ = a.provider.Run(over)
}

// close stops serving other processes.
func (a *localAgents) close() error {
	return errors.Join(a.socket.Close(), <-a.served)
}

// agentsGo is how long agents may take to release their jobs when `up` stops.
const agentsGo = 8 * time.Second

// localPool writes the pool of local agents according to the flags. Their models must be in
// the catalogue: an agent that names another cannot register.
func (s *stack) localPool(ctx context.Context, o upOptions) error {
	if err := s.registry.Pass(ctx); err != nil {
		return err
	}
	served := o.models
	if len(served) == 0 {
		var err error
		if served, err = s.localModels(); err != nil {
			return err
		}
	}
	if err := s.catalogue.Current().Known("models", served); err != nil {
		return fmt.Errorf(
			"--models is %s: %w To add a model, put its entry into the models.yaml of a folder, and set REELAY_MODELS to the folder",
			strings.Join(o.models, ","), err,
		)
	}
	pool := &capacity.Pool{ID: models.NewPoolID(), PoolSpec: capacity.PoolSpec{
		Name: "local", Provider: local.Name, Region: "local", GPUType: "any",
		CapacityClass: models.CapacitySpot, Models: served,
		MinWorkers: o.agents, MaxWorkers: o.agentsMax, IdleSeconds: &o.idleSeconds,
	}}
	if err := capacity.UpsertPool(ctx, s.db, pool); err != nil {
		return fmt.Errorf("write the local pool: %w", err)
	}
	return nil
}

// localModels returns the models of the built-in runtimes, without those that an operator has
// removed from the catalogue.
func (s *stack) localModels() ([]string, error) {
	offered, err := agent.BuiltInModels()
	return slices.DeleteFunc(offered, func(name string) bool {
		_, err := s.catalogue.Current().Model(name)
		return err != nil
	}), err
}
