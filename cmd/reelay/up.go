package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/reelay/reelay/gpu/provider/local"
	"github.com/reelay/reelay/internal/services"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/seal"
	"github.com/reelay/reelay/migrations"
	"github.com/reelay/reelay/models"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// upOptions is what `reelay up` may be told.
type upOptions struct {
	data        string
	agents      int
	agentsMax   int
	idleSeconds int
}

func upCommand() *cobra.Command {
	var o upOptions
	var listenAt string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run the whole of Reelay on this machine",
		Long: "Runs everything in one process tree: a private PostgreSQL and Redis, an object store on disk, the\n" +
			"API with its console, control, and a pool of agents with the testcard runtime.\n\n" +
			"Ctrl-C takes all of it down; the data stay in --data for the next time. With DATABASE_URL,\n" +
			"REDIS_URL or GCS_BUCKET set, those are used in place of its own.",
		Example: "  reelay up\n  reelay up --agents 2 --agents-max 4\n  reelay up --listen 127.0.0.1:0 --data /tmp/try",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg := readConfig()
			if cmd.Flags().Changed("listen") {
				cfg.listen = listenAt
			}
			if err := errors.Join(cfg.check(), o.check(cmd.Flags().Changed("agents-max"))); err != nil {
				return err
			}
			cfg.setUpLog()
			return up(cmd.Context(), cfg, o, func(endpoint string, c credentials) { printReady(cmd, endpoint, c, o.data) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&listenAt, "listen", "127.0.0.1:8080", "address to serve at; port 0 takes any that is free")
	flags.StringVar(&o.data, "data", ".reelay", "folder that keeps all data")
	flags.IntVar(&o.agents, "agents", 2, "agents to run at least; 0 runs none, ever")
	flags.IntVar(&o.agentsMax, "agents-max", 0, "agents to run at most when many jobs wait (default: as --agents)")
	flags.IntVar(&o.idleSeconds, "agents-idle", 60, "seconds after which an idle agent above --agents goes")
	return cmd
}

const maxAgents = 64

func (o *upOptions) check(maxGiven bool) error {
	if !maxGiven {
		o.agentsMax = o.agents
	}
	switch {
	case o.agents < 0 || o.agents > maxAgents:
		return fmt.Errorf("--agents is %d: it must be from 0 to %d", o.agents, maxAgents)
	case o.agentsMax < o.agents || o.agentsMax > maxAgents:
		return fmt.Errorf("--agents-max is %d: it must be from --agents (%d) to %d", o.agentsMax, o.agents, maxAgents)
	case o.idleSeconds < 0:
		return fmt.Errorf("--agents-idle is %d: it must be 0 or more", o.idleSeconds)
	case o.data == "":
		return errors.New("--data is empty: it must be a folder")
	}
	if o.agents == 0 {
		o.agentsMax = 0
	}
	return nil
}

func printReady(cmd *cobra.Command, endpoint string, c credentials, data string) {
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "ready %s\n", endpoint)
	fmt.Fprintf(out, "  console   %s (log in with the operator key)\n", endpoint)
	fmt.Fprintf(out, "  operator  %s\n  client    %s\n  worker    %s\n  admin     %s\n", c.OperatorKey, c.ClientKey, c.WorkerKey, c.AdminKey)
	fmt.Fprintf(out, "  also in   %s\n", filepath.Join(data, credentialsFile))
}

// up runs everything until ctx ends. isReady is called once all of it answers.
func up(ctx context.Context, cfg config, o upOptions, isReady func(endpoint string, c credentials)) error {
	lock, err := services.LockDir(o.data)
	if err != nil {
		return err
	}
	defer lock.Release()
	listener, err := listen(cfg.listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	own, err := startOwn(ctx, &cfg, o.data)
	defer own.stop()
	if err != nil {
		return err
	}
	if cfg.secretsFile == "" {
		cfg.secretsFile = filepath.Join(o.data, "secrets.json")
		if _, err := seal.LoadOrCreate(cfg.secretsFile); err != nil {
			return err
		}
	}
	endpoint := cfg.publicURL
	if endpoint == "" {
		endpoint = "http://" + reachable(listener.Addr())
	}
	s, err := openStack(ctx, cfg, endpoint)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := migrations.Run(ctx, s.db); err != nil {
		return err
	}
	keys, err := s.credentials(ctx, filepath.Join(o.data, credentialsFile), endpoint)
	if err != nil {
		return err
	}
	if err := s.localPool(ctx, o); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to run agents with: %w", err)
	}
	// No agent runs yet: what lies there is of agents that were killed.
	if err := os.RemoveAll(filepath.Join(o.data, "work")); err != nil {
		return fmt.Errorf("clear the agents' work folder: %w", err)
	}
	provider := local.New(local.Config{
		Command: []string{self, "agent"}, Endpoint: "http://" + reachable(listener.Addr()), Key: keys.WorkerKey,
		Dir: o.data, Grace: agentsGo,
	})
	return s.runUp(ctx, listener, endpoint, provider, own, func() { isReady(endpoint, keys) })
}

// runUp runs the API, control and the pool. When ctx ends the pool goes first,
// while the API still answers, so that agents hand their jobs back.
func (s *stack) runUp(ctx context.Context, listener net.Listener, endpoint string, provider *local.Provider, own *ownServices, isReady func()) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	providers := map[string]jobs.Provider{local.Name: provider}
	group, serving := errgroup.WithContext(serving)
	group.Go(func() error { return s.api(serving, listener, endpoint, providers) })
	group.Go(func() error { return s.control(serving, providers) })
	group.Go(func() error { return own.watch(serving) })
	isReady()

	agents, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(serving, cancel)()
	context.AfterFunc(agents, func() {
		slog.InfoContext(agents, "stopping; the data stay for the next time")
	})
	gone := provider.Run(agents)
	stop()
	return errors.Join(group.Wait(), gone)
}

// agentsGo is how long agents have to hand back their jobs when all goes down.
const agentsGo = 8 * time.Second

// reachable is the address by which this machine reaches a listener.
func reachable(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr.String()
}

// localPool writes the pool of local agents as the flags want it.
func (s *stack) localPool(ctx context.Context, o upOptions) error {
	pool := &models.Pool{
		ID: models.NewPoolID(), Name: "local", Provider: local.Name, Region: "local", GPUType: "any",
		CapacityClass: models.CapacitySpot, Models: []string{"testcard"},
		MinWorkers: o.agents, MaxWorkers: o.agentsMax, IdleSeconds: o.idleSeconds,
	}
	if err := models.UpsertPool(ctx, s.db, pool); err != nil {
		return fmt.Errorf("write the local pool: %w", err)
	}
	return nil
}
