package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/reelay/reelay/client"
)

// Agent is one registered worker.
type Agent struct {
	config   Config
	api      *client.Client
	log      *slog.Logger
	dir      string
	going    *departure
	runtimes *host
	secrets  *redactor
	current  atomic.Pointer[attempt] // nil between jobs

	// Set by register before it closes registered.
	registered           chan struct{}
	worker               string
	heartbeat, leaseTime time.Duration
}

func newAgent(config Config, launch launcher) *Agent {
	return &Agent{
		config: config, api: config.Client, log: config.Log,
		dir:        filepath.Join(config.WorkDir, config.InstanceID),
		going:      newDeparture(config.Notice),
		registered: make(chan struct{}),
		secrets:    newRedactor(os.Environ()),
		runtimes:   &host{commands: config.Runtimes, launch: launch, loadTimeout: config.LoadTimeout, log: config.Log},
	}
}
