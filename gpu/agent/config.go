package agent

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
)

// Config is what one agent needs. Zero durations mean their defaults.
type Config struct {
	// Client calls with the key that workers enrol with; the agent calls with
	// the token it gets for it from then on.
	Client *client.Client

	Provider      string
	InstanceID    string
	PoolID        string // optional
	Region        string
	Zone          string // optional
	GPUType       string
	CapacityClass client.CapacityClass
	// Models limits what the agent takes; empty means all that its runtimes offer.
	Models   []string
	Runtimes []RuntimeCommand
	// WorkDir is where attempts keep their files while they last.
	WorkDir string
	Version string

	// Notices tell that the machine is going away.
	Notices <-chan Notice
	// Notice is how long a machine lives after its notice, as far as is known.
	Notice time.Duration

	// ProgressEvery is the shortest time between two reports of progress.
	ProgressEvery time.Duration
	// HangTimeout is how long a render may show no progress.
	HangTimeout time.Duration
	// LoadTimeout is how long a model may take to load.
	LoadTimeout time.Duration
	// GiveUp is how long an agent renders on without being able to renew.
	GiveUp time.Duration
	// StopGrace is how long a runtime may take to stop before it is killed.
	StopGrace time.Duration

	Log *slog.Logger
}

// RuntimeCommand is a program that speaks the runtime protocol.
type RuntimeCommand struct {
	Name    string
	Command []string
}

// Notice says that the machine will be gone at the deadline.
type Notice struct {
	Reason   string
	Deadline time.Time
}

const (
	defaultStopGrace   = 5 * time.Second
	defaultHangTimeout = 5 * time.Minute
	defaultLoadTimeout = 20 * time.Minute
	defaultGiveUp      = 10 * time.Minute
)

func (c Config) withDefaults() Config {
	c.CapacityClass = cmp.Or(c.CapacityClass, client.CapacityClassSpot)
	c.Notice = cmp.Or(c.Notice, 30*time.Second)
	c.ProgressEvery = cmp.Or(c.ProgressEvery, time.Second)
	c.HangTimeout = cmp.Or(c.HangTimeout, defaultHangTimeout)
	c.LoadTimeout = cmp.Or(c.LoadTimeout, defaultLoadTimeout)
	c.GiveUp = cmp.Or(c.GiveUp, defaultGiveUp)
	c.StopGrace = cmp.Or(c.StopGrace, defaultStopGrace)
	c.WorkDir = cmp.Or(c.WorkDir, filepath.Join(os.TempDir(), "reelay-agent"))
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

// check names the first setting that the agent cannot work with.
func (c Config) check() error {
	for _, setting := range []struct{ name, value string }{
		{"provider", c.Provider}, {"instance id", c.InstanceID}, {"region", c.Region}, {"GPU type", c.GPUType},
	} {
		if strings.TrimSpace(setting.value) == "" {
			return fmt.Errorf("the %s is empty: it must name where this worker runs", setting.name)
		}
	}
	if c.InstanceID != filepath.Base(c.InstanceID) {
		return fmt.Errorf("the instance id is %q: it must not hold a path", c.InstanceID)
	}
	if len(c.Runtimes) == 0 {
		return fmt.Errorf("there is no runtime: at least one command must be given that renders")
	}
	for _, r := range c.Runtimes {
		if len(r.Command) == 0 {
			return fmt.Errorf("the runtime %q has no command", r.Name)
		}
	}
	return nil
}
