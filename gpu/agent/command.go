package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/agent/health"
	"github.com/reelay/reelay/gpu/agent/host"
	"github.com/reelay/reelay/gpu/agent/instance"
	"github.com/reelay/reelay/gpu/metadata"
	"github.com/reelay/reelay/internal/tracing"
	"github.com/spf13/cobra"
)

// settings are the values of the agent's flags.
type settings struct {
	endpoint, key, caFile, data                           string
	provider, instanceID, pool, region, zone, gpuType, as string
	models, runtimes, outboundExcept                      []string
	outboundLoopback                                      bool
	workDir, log, qualityGate, compression, notices       string
	audience, engineSecrets                               string
	enginePatience                                        time.Duration
	workers, gpusPerWorker                                int
	health                                                string
	notice, grace, exitWhenIdle                           time.Duration
	stopGrace, hangTimeout, loadTimeout, giveUp           time.Duration
}

// Command is `reelay agent` and the whole of reelay-agent. The worker registers with
// version.
func Command(version string) *cobra.Command {
	var s settings
	command := &cobra.Command{
		Use:   "agent",
		Short: "Run a worker: lease jobs, render them and upload the results",
		Long: `agent registers this machine as a worker, leases one job at a time and renders it
with a runtime. If its pool lists engines, the agent drives them instead: one worker for
each. On SIGTERM, SIGINT, a notice of preemption or a drain it saves a
checkpoint, releases the job so that another worker can continue it, and exits. A second
signal makes it exit at once.

Each flag can also be set in the environment, as REELAY_AGENT_ and its name, such as
REELAY_AGENT_WORK_DIR. Without an endpoint or a key, the agent takes those of the running
'reelay up' in --data, as the other commands do. The endpoint, the key, the file of certificates, the quality gate
and the outbound flags are REELAY_ENDPOINT, REELAY_API_KEY, REELAY_CA_FILE,
REELAY_QUALITY_GATE, REELAY_OUTBOUND_LOOPBACK and REELAY_OUTBOUND_EXCEPT.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	flags := command.Flags()
	flags.StringVar(&s.endpoint, "endpoint", "", "URL of the Reelay API (default: that of the running 'reelay up', else "+defaultEndpoint+")")
	flags.StringVar(&s.key, "key", "", "key with the role WORKER (prefer REELAY_API_KEY: other users can see this flag)")
	flags.StringVar(&s.data, "data", ".reelay", "data folder of the running 'reelay up'")
	flags.StringVar(&s.caFile, "ca-file", "", "PEM file of certificates to trust besides the system's")
	flags.StringVar(&s.provider, "provider", staticProvider, "provider of this machine")
	flags.StringVar(&s.instanceID, "instance-id", "",
		"id of this machine at its provider (default: the host name and digits that no other machine or pod has; with gce the host name)")
	flags.StringVar(&s.pool, "pool", "", "name or id of the pool that the worker belongs to; the agent waits until it exists")
	flags.StringVar(&s.region, "region", "local", "region of the machine")
	flags.StringVar(&s.zone, "zone", "", "zone of the machine")
	flags.StringVar(&s.gpuType, "gpu-type", "none", "type of the machine's GPU")
	flags.IntVar(&s.workers, "workers", 1, "how many workers this machine runs, each with GPUs of its own, 1 to 64")
	flags.IntVar(&s.gpusPerWorker, "gpus-per-worker", 1, "how many GPUs each worker has, 1 to 64; with one worker, 1 means all that it sees")
	flags.StringVar(&s.as, "capacity-class", "SPOT", "SPOT if the machine can be preempted, else ON_DEMAND")
	flags.StringSliceVar(&s.models, "models", nil, "models to serve (default: all that the runtimes offer)")
	flags.StringArrayVar(&s.runtimes, "runtime", nil, "a runtime as 'name=command …'; may be repeated (default: those built in)")
	flags.StringVar(&s.engineSecrets, "engine-secrets", "", "YAML file of the headers and certificates that the pool's engines need")
	flags.DurationVar(&s.enginePatience, "engine-patience", 2*time.Minute, "how long an engine may not answer before its job goes elsewhere")
	flags.StringVar(&s.workDir, "work-dir", filepath.Join(os.TempDir(), "reelay-agent"), "folder for the files of the current job")
	flags.StringVar(&s.log, "log", "text", "format of the log: text or json")
	flags.StringVar(&s.qualityGate, "quality-gate", "on", "whether to check videos before delivery, with ffmpeg: on or off")
	flags.BoolVar(&s.outboundLoopback, "outbound-loopback", false, "allow http.call to call this machine, for a laptop")
	flags.StringSliceVar(&s.outboundExcept, "outbound-except", nil, "addresses of Reelay itself, as host:port, which http.call must not call")
	flags.StringVar(&s.compression, "checkpoint-compression", CompressAuto,
		"whether to compress checkpoints: auto (where it saves time), off or zstd (always)")
	flags.StringVar(&s.audience, "identity-audience", "",
		"what the machine's identity token is for, where a machine of gce registers without a key (default: the endpoint)")
	flags.StringVar(&s.notices, "notices", metadata.Auto,
		"whose metadata server gives notice of a preemption: auto (found out), gce, ec2 or off")
	flags.DurationVar(&s.notice, "notice", 30*time.Second, "how long the machine exists after SIGTERM, or after a notice that does not say it")
	flags.DurationVar(&s.grace, "grace", 0,
		"how long after SIGTERM this process is killed, such as terminationGracePeriodSeconds of Kubernetes; "+
			"compared with --notice at the start (default: unknown)")
	flags.DurationVar(&s.exitWhenIdle, "exit-when-idle", 0,
		"how long the worker waits for a job before it drains and exits with status 0 (default: for ever)")
	flags.StringVar(&s.health, "health", "", "address such as :8081 at which the agent serves /healthz and /readyz (default: none)")
	flags.DurationVar(&s.stopGrace, "stop-grace", defaultStopGrace, "how long a runtime may take to stop before it is killed")
	flags.DurationVar(&s.hangTimeout, "hang-timeout", defaultHangTimeout, "how long a render may go without progress")
	flags.DurationVar(&s.loadTimeout, "load-timeout", defaultLoadTimeout, "how long a model may take to load")
	flags.DurationVar(&s.giveUp, "give-up", defaultGiveUp, "how long to continue a render while the control plane is unreachable")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := fromEnvironment(command, os.LookupEnv); err != nil {
			return err
		}
		if err := s.find(); err != nil {
			return err
		}
		config, err := s.config(version)
		if err != nil {
			return err
		}
		layout, err := newLayout(s.workers, s.gpusPerWorker)
		if err != nil {
			return err
		}
		if config.InstanceID == "" {
			release, err := config.findInstance()
			if err != nil {
				return err
			}
			defer release()
		}
		ctx, stop := context.WithCancel(command.Context())
		defer stop()
		stopTracing, err := tracing.SetUp(ctx, "reelay-agent", version)
		if err != nil {
			return err
		}
		defer stopTracing()
		if err := config.check(); err != nil {
			return err
		}
		if s.health != "" {
			config.Probes = health.New(layout.workers)
			if err := config.Probes.Serve(ctx, s.health, config.Log); err != nil {
				return fmt.Errorf("--health is %s: it must be a free address of this machine such as :8081: %w", s.health, err)
			}
		}
		config.Notices = s.watch(ctx, config)
		if driven, err := s.drive(ctx, config); driven || err != nil {
			return err
		}
		return runAll(ctx, config, layout)
	}
	return command
}

// findInstance sets the instance id of an agent that was given none, which it keeps until release is called.
func (c *Config) findInstance() (release func(), err error) {
	if err := os.MkdirAll(c.WorkDir, 0o700); err != nil {
		return nil, fmt.Errorf("make the work directory: %w", err)
	}
	machine := instance.This(c.WorkDir)
	if c.Provider == metadata.GCE {
		c.InstanceID = machine.Host // its identity says so, too
		return func() {}, nil
	}
	c.InstanceID, release, err = machine.Claim()
	return release, err
}

// fromEnvironment sets the flags that were not given.
func fromEnvironment(command *cobra.Command, lookup func(string) (string, bool)) error {
	flags := command.Flags()
	var failed error
	fill := func(flag, variable string) {
		value, ok := lookup(variable)
		if !ok || value == "" || flags.Changed(flag) {
			return
		}
		if err := flags.Set(flag, value); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s is %q: %w", variable, value, err))
		}
	}
	fill("endpoint", "REELAY_ENDPOINT")
	fill("key", "REELAY_API_KEY")
	fill("ca-file", "REELAY_CA_FILE")
	fill("quality-gate", "REELAY_QUALITY_GATE")
	fill("outbound-loopback", "REELAY_OUTBOUND_LOOPBACK")
	fill("outbound-except", "REELAY_OUTBOUND_EXCEPT")
	for _, flag := range []string{
		"data", "provider", "instance-id", "pool", "region", "zone", "gpu-type", "workers", "gpus-per-worker", "capacity-class", "models",
		"runtime", "work-dir", "log", "engine-secrets", "engine-patience",
		"identity-audience", "notices", "notice", "grace", "exit-when-idle", "health", "stop-grace", "hang-timeout", "load-timeout", "give-up",
	} {
		fill(flag, "REELAY_AGENT_"+strings.ToUpper(strings.ReplaceAll(flag, "-", "_")))
	}
	return failed
}

// config checks the settings. Its errors name the flag, its value and the allowed
// values.
func (s settings) config(version string) (Config, error) {
	config := Config{
		Provider: s.provider, InstanceID: s.instanceID, PoolID: s.pool,
		Region: s.region, Zone: s.zone, GPUType: s.gpuType, CapacityClass: client.CapacityClass(s.as),
		Models: s.models, WorkDir: s.workDir, Notice: s.notice, Version: version,
		ExitWhenIdle: s.exitWhenIdle, StopGrace: s.stopGrace, HangTimeout: s.hangTimeout, LoadTimeout: s.loadTimeout, GiveUp: s.giveUp,
		UncheckedVideos: s.qualityGate == "off", CheckpointCompression: s.compression,
	}
	var err error
	trust, err := client.TrustFile(s.caFile)
	if err != nil {
		return config, fmt.Errorf("--ca-file: %w", err)
	}
	if config.Client, err = client.New(s.endpoint, s.key, trust); err != nil {
		return config, fmt.Errorf("--endpoint: %w", err)
	}
	if s.key == "" && s.provider != metadata.GCE {
		return config, errors.New("--key is empty: set REELAY_API_KEY to a key with the role WORKER, or name the folder of the running `reelay up` with --data")
	}
	if s.key == "" {
		audience := cmp.Or(s.audience, strings.TrimSuffix(s.endpoint, "/"))
		config.Identity = func(ctx context.Context) (string, error) { return metadata.Identity(ctx, audience) }
	}
	if config.CapacityClass != client.CapacityClassSpot && config.CapacityClass != client.CapacityClassOnDemand {
		return config, fmt.Errorf("--capacity-class is %q: it must be SPOT or ON_DEMAND", s.as)
	}
	if s.qualityGate != "on" && s.qualityGate != "off" {
		return config, fmt.Errorf("--quality-gate is %q: it must be on or off", s.qualityGate)
	}
	if !slices.Contains(metadata.Sources, s.notices) {
		return config, fmt.Errorf("--notices is %q: it must be auto, gce, ec2 or off", s.notices)
	}
	if err := s.checkTimes(); err != nil {
		return config, err
	}
	if config.Log, err = logger(s.log); err != nil {
		return config, err
	}
	if _, ok := os.LookupEnv("KUBERNETES_SERVICE_HOST"); ok && s.grace == 0 && s.notice+lastCalls > podGrace {
		config.Log.Warn("a pod is killed 30 s after SIGTERM unless its terminationGracePeriodSeconds says otherwise: set both it and --grace",
			"least", s.notice+lastCalls)
	}
	if config.WorkDir, err = filepath.Abs(s.workDir); err != nil {
		return config, fmt.Errorf("--work-dir is %q: %w", s.workDir, err)
	}
	if len(s.runtimes) == 0 {
		config.Runtimes, err = builtInRuntimes(s.httpFlags())
	} else {
		config.Runtimes, err = parseRuntimes(s.runtimes)
	}
	return config, err
}

func (s settings) checkTimes() error {
	for _, t := range []struct {
		flag        string
		value       time.Duration
		least, most string
	}{
		{"notice", s.notice, "1s", "1h"},
		{"grace", cmp.Or(s.grace, time.Minute), "1s", "24h"},
		{"exit-when-idle", cmp.Or(s.exitWhenIdle, time.Minute), "1s", "24h"},
		{"stop-grace", s.stopGrace, "100ms", "5m"},
		{"hang-timeout", s.hangTimeout, "1s", "5h"},
		{"load-timeout", s.loadTimeout, "1s", "5h"},
		{"give-up", s.giveUp, "1s", "24h"},
		{"engine-patience", cmp.Or(s.enginePatience, 2*time.Minute), "1s", "1h"},
	} {
		least, _ := time.ParseDuration(t.least)
		most, _ := time.ParseDuration(t.most)
		if t.value < least || t.value > most {
			return fmt.Errorf("--%s is %s: it must be from %s to %s", t.flag, t.value, t.least, t.most)
		}
	}
	if least := s.notice + lastCalls; s.grace != 0 && s.grace < least {
		return fmt.Errorf("--grace is %s: it must be at least %s, which is --notice (%s) for the checkpoint and its upload, "+
			"and %s to release the job and to deregister. In Kubernetes set terminationGracePeriodSeconds to %.0f or more "+
			"and --grace to the same, or lower --notice",
			s.grace, least, s.notice, lastCalls, math.Ceil(least.Seconds()))
	}
	return nil
}

const (
	// lastCalls is how long the calls of an agent can take that come after the notice.
	lastCalls = 2 * farewellTimeout
	// podGrace is the terminationGracePeriodSeconds of a pod that has none.
	podGrace = 30 * time.Second
)

func logger(format string) (*slog.Logger, error) {
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(os.Stderr, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(os.Stderr, nil)), nil
	}
	return nil, fmt.Errorf("--log is %q: it must be text or json", format)
}

// parseRuntimes reads name=command lines.
func parseRuntimes(lines []string) ([]host.Command, error) {
	var runtimes []host.Command
	for _, line := range lines {
		name, command, ok := strings.Cut(line, "=")
		if words := strings.Fields(command); ok && name != "" && len(words) > 0 {
			runtimes = append(runtimes, host.Command{Name: strings.TrimSpace(name), Command: words})
			continue
		}
		return nil, fmt.Errorf("--runtime is %s: it must be name=command, such as 'wan=python3 wan.py'", strconv.Quote(line))
	}
	return runtimes, nil
}
