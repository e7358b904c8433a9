package agent

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/agent/health"
	"github.com/reelay/reelay/gpu/agent/host"
	"github.com/reelay/reelay/gpu/runtime"
)

// Config is the configuration of one agent. A zero duration means its default.
type Config struct {
	// Client calls with an enrolment key. After registration the agent calls with the
	// token that it received.
	Client *client.Client

	// Identity returns a new proof of which machine this is, with which the agent registers
	// instead of a key. Nil means that Client has a key.
	Identity func(ctx context.Context) (string, error)

	Provider   string
	InstanceID string
	// Slot is the number of this worker on its machine, from 0.
	Slot int
	// Devices are the names of the worker's GPUs, for CUDA_VISIBLE_DEVICES and
	// ROCR_VISIBLE_DEVICES. Nil means all that the agent sees.
	Devices       []string
	PoolID        string // or the name of the pool; optional
	Region        string
	Zone          string // optional
	GPUType       string
	CapacityClass client.CapacityClass
	// Models limits the models that the agent serves; empty means all that its
	// runtimes offer.
	Models   []string
	Runtimes []host.Command
	// WorkDir holds the files of the current attempt.
	WorkDir string
	Version string

	// Notices receives when the machine is about to go away.
	Notices <-chan Notice
	// Notice is how long the machine is expected to exist after a notice.
	Notice time.Duration

	// ExitWhenIdle is how long the worker waits for a job before it leaves. 0 means for ever.
	ExitWhenIdle time.Duration
	// Probes learns when the worker is ready; optional.
	Probes *health.Probes

	// ProgressEvery is the shortest time between two reports of progress.
	ProgressEvery time.Duration
	// HangTimeout is how long a render may go without progress.
	HangTimeout time.Duration
	// LoadTimeout is how long a model may take to load.
	LoadTimeout time.Duration
	// GiveUp is how long the agent continues a render without renewing its lease.
	GiveUp time.Duration
	// StopGrace is how long a runtime may take to stop before it is killed.
	StopGrace time.Duration
	// UncheckedVideos means that videos are delivered without a check of their quality.
	UncheckedVideos bool

	// CheckpointCompression is CompressAuto, CompressOff or CompressZstd.
	CheckpointCompression string

	// Engine is the server on which the worker renders, see gpu/agent/engines. Nil means that its
	// runtimes render.
	Engine Engine

	// GPUs returns the GPUs' newest state, which heartbeats report. It must not wait.
	GPUs func() []client.GpuSample

	Log *slog.Logger
}

// Engine is what a worker asks and tells about the server on which it renders.
type Engine interface {
	// Ready returns why the engine takes no job now, or nil. The worker leaves if there is a reason.
	Ready(ctx context.Context) error
	// Leave is closed when the worker must take no more jobs.
	Leave() <-chan struct{}
	// Unfit records that the engine could not do a job, before the job goes back to the queue.
	Unfit(ctx context.Context, model string, failure *runtime.Failure)
	// Completed tells that the job that a handle names is complete: its remote copy may be deleted.
	Completed(ctx context.Context, handle string)
}

// Notice says that the machine will be gone at the deadline.
type Notice struct {
	Reason   string
	Deadline time.Time
	// Announced means that the machine's provider announces it. The signal that then comes as
	// the machine stops is the first one.
	Announced bool
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
	c.CheckpointCompression = cmp.Or(c.CheckpointCompression, CompressAuto)
	if c.GPUs == nil {
		c.GPUs = func() []client.GpuSample { return nil }
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

// check returns an error about the first invalid setting.
func (c Config) check() error {
	for _, setting := range []struct{ name, value string }{
		{"provider", c.Provider}, {"instance id", c.InstanceID}, {"region", c.Region}, {"GPU type", c.GPUType},
	} {
		if strings.TrimSpace(setting.value) == "" {
			return fmt.Errorf("the %s is empty: it must say where this worker runs", setting.name)
		}
	}
	if c.InstanceID != filepath.Base(c.InstanceID) {
		return fmt.Errorf("the instance id is %q: it must not contain a path", c.InstanceID)
	}
	if !slices.Contains(compressions, c.CheckpointCompression) {
		return fmt.Errorf("--checkpoint-compression is %q: it must be auto, off or zstd", c.CheckpointCompression)
	}
	if len(c.Runtimes) == 0 {
		return fmt.Errorf("no runtime is configured: give the command of at least one")
	}
	for _, r := range c.Runtimes {
		if len(r.Command) == 0 {
			return fmt.Errorf("the runtime %q has no command", r.Name)
		}
	}
	return nil
}

// gpuCount is how many GPUs the worker says it has.
func (c Config) gpuCount() int { return max(1, len(c.Devices)) }

// folder is the name of the worker's folder in WorkDir.
func (c Config) folder() string {
	if c.Slot == 0 {
		return c.InstanceID
	}
	return c.InstanceID + "+" + strconv.Itoa(c.Slot)
}
