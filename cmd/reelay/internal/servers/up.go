package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"

	"github.com/reelay/reelay/cmd/reelay/internal/credentials"
	"github.com/reelay/reelay/cmd/reelay/internal/fakes"
	"github.com/reelay/reelay/cmd/reelay/internal/front"
	"github.com/reelay/reelay/cmd/reelay/internal/settings"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/seal"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// upOptions are the flags of `reelay up`.
type upOptions struct {
	data        string
	api         int
	control     int
	agents      int
	agentsMax   int
	idleSeconds int
	selfSigned  bool
	store       string   // local, s3, or a place
	runtimes    []string // of the agents, besides the built-in ones
	models      []string // of the agents
	engines     []string // addresses that an agent of their own drives
	engineKind  string
	fakes       []string // names of hosted providers whose fakes are to run
}

// UpCommand returns `reelay up`.
func UpCommand() *cobra.Command {
	var o upOptions
	var listenAt string
	cfg := settings.Read()
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run all of Reelay on this machine",
		Long: "Runs everything in one process tree: a private PostgreSQL and Redis, an object store on disk, the\n" +
			"API with its console, control, and a pool of agents. They serve the testcard, http.call and, with ffmpeg,\n" +
			"video.stitch and video.thumbnail; with --runtime and --models also models of your own. A process that ends unexpectedly is " +
			"restarted.\n\n" +
			"Ctrl-C stops everything; the data stay in --data for the next start. If DATABASE_URL, REDIS_URL or\n" +
			"REELAY_STORE is set, that store is used instead.",
		Example: "  reelay up\n  reelay up --agents 2 --agents-max 4\n  reelay up --api 3 --control 2\n" +
			"  reelay up --listen 127.0.0.1:0 --data /tmp/try\n  reelay up --tls-self-signed\n" +
			"  reelay up --store s3\n  reelay up --store 's3://clips?endpoint=https://minio.example:9000'\n" +
			"  reelay up --engine http://127.0.0.1:8188 --engine-kind comfyui\n" +
			"  reelay up --runtime 'diffusers=python3 -m reelay_diffusers' --models testcard,wan-1.3b",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("listen") {
				cfg.Listen = listenAt
			}
			if err := o.choose(&cfg.Objects); err != nil {
				return err
			}
			if err := errors.Join(cfg.Check(), o.check(cmd.Flags().Changed("agents-max"), cfg)); err != nil {
				return err
			}
			cfg.SetUpLog()
			return up(cmd.Context(), cfg, o, func(r running) { r.print(cmd.OutOrStdout()) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&listenAt, "listen", "127.0.0.1:8080", "address to serve on; port 0 picks a free port")
	flags.StringVar(&o.data, "data", ".reelay", "folder for all data")
	flags.IntVar(&o.api, "api", 1, "API processes, all at the same address")
	flags.IntVar(&o.control, "control", 1, "control processes")
	flags.IntVar(&o.agents, "agents", 2, "minimum number of agents; 0 runs none")
	flags.IntVar(&o.agentsMax, "agents-max", 0, "maximum number of agents when many jobs wait (default: the value of --agents)")
	flags.IntVar(&o.idleSeconds, "agents-idle", 60, "seconds after which an idle agent above --agents is stopped")
	flags.StringArrayVar(&o.runtimes, "runtime", nil, "another runtime of the agents, as 'name=command …'; may be repeated")
	flags.StringSliceVar(&o.models, "models", nil,
		"models that the agents serve, which must be in the catalogue (default: those of the built-in runtimes)")
	flags.StringArrayVar(&o.engines, "engine", nil, "address of a server that renders, such as ComfyUI; may be repeated")
	flags.StringVar(&o.engineKind, "engine-kind", "", "what the engines are: "+engine.List())
	flags.StringSliceVar(&o.fakes, "fake-providers", nil,
		"run fakes of hosted providers, all or those named, such as veo,kling; the models and pools are named fake-veo and so on")
	flags.Lookup("fake-providers").NoOptDefVal = "all"
	flags.StringVar(&o.store, "store", "",
		"object store: local (a folder in --data), s3 (a versitygw of its own on that folder), or s3://BUCKET… or gs://BUCKET… "+
			"(default: REELAY_STORE, or else local)")
	cfg.TLS.AddFlags(flags)
	flags.BoolVar(&o.selfSigned, "tls-self-signed", false, "serve HTTPS with a self-signed certificate in --data, for trying it out")
	return cmd
}

// Stores of `up` itself.
const (
	storeLocal = "local"
	storeS3    = "s3"
)

// choose applies --store to the settings of the environment.
func (o *upOptions) choose(objects *settings.Objects) error {
	switch {
	case o.store == "":
	case o.store == storeLocal || o.store == storeS3:
		*objects = settings.Objects{}
	case strings.Contains(o.store, "://"):
		objects.Store, objects.Bucket = o.store, ""
	default:
		return fmt.Errorf("--store is %q: it must be local, s3, s3://BUCKET or gs://BUCKET", o.store)
	}
	return nil
}

const (
	maxAgents    = 64
	maxProcesses = 16
)

func (o *upOptions) check(maxGiven bool, cfg settings.Config) error {
	if !maxGiven {
		o.agentsMax = o.agents
	}
	switch {
	case o.api < 1 || o.api > maxProcesses:
		return fmt.Errorf("--api is %d: it must be from 1 to %d", o.api, maxProcesses)
	case o.control < 1 || o.control > maxProcesses:
		return fmt.Errorf("--control is %d: it must be from 1 to %d", o.control, maxProcesses)
	case o.agents < 0 || o.agents > maxAgents:
		return fmt.Errorf("--agents is %d: it must be from 0 to %d", o.agents, maxAgents)
	case o.agentsMax < o.agents || o.agentsMax > maxAgents:
		return fmt.Errorf("--agents-max is %d: it must be from --agents (%d) to %d", o.agentsMax, o.agents, maxAgents)
	case o.idleSeconds < 0:
		return fmt.Errorf("--agents-idle is %d: it must be 0 or more", o.idleSeconds)
	case o.selfSigned && cfg.TLS.Used():
		return errors.New("--tls-self-signed and --tls-cert are both set: use one of them")
	case o.data == "":
		return errors.New("--data is empty: it must be a folder")
	case len(o.engines) > 0 && o.engineKind == "":
		return errors.New("--engine-kind is missing: say what the engines are, comfyui, videos-api or cog")
	case len(o.engines) == 0 && o.engineKind != "":
		return errors.New("--engine is missing: give the address of an engine, such as http://127.0.0.1:8188")
	}
	if o.agents == 0 {
		o.agentsMax = 0
	}
	var err error
	o.fakes, err = fakes.Names(o.fakes)
	return err
}

// running is what `up` prints once everything answers.
type running struct {
	credentials.Keys
	// invitation is the link with which the first member chooses a password; "" after the first
	// start.
	invitation string
	// elsewhere are the other addresses of this machine at which the API is served, if no
	// public URL is set.
	elsewhere []string
	// made reports whether a key is new. Keys are printed only once, because the output of
	// `up` often ends up in a log.
	made bool
	file string // of the credentials
}

func (r running) print(out io.Writer) {
	fmt.Fprintf(out, "ready %s\n", r.Endpoint)
	fmt.Fprintf(out, "  console   %s (log in with the operator key, or as a member)\n", r.Endpoint)
	if r.invitation != "" {
		fmt.Fprintf(out, "  member    %s (%s: choose a password; valid once, for 3 days)\n", r.invitation, firstMember)
	}
	for _, address := range r.elsewhere {
		fmt.Fprintf(out, "  also at   %s\n", address)
	}
	if r.made {
		fmt.Fprintf(out, "  operator  %s\n  client    %s\n  worker    %s\n", r.OperatorKey, r.ClientKey, r.WorkerKey)
	}
	fmt.Fprintf(out, "  keys      %s\n", r.file)
	if r.CAFile != "" {
		fmt.Fprintf(out, "  trust     %s\n  SHA-256   %s\n", r.CAFile, front.Fingerprint(r.CAFile))
	}
	if len(r.elsewhere) > 0 {
		fmt.Fprintf(out, "Other machines reach this API, but links in webhooks begin with %s.\n"+
			"Set REELAY_PUBLIC_URL to the address that they use.\n", r.Endpoint)
	}
}

// up runs everything until ctx ends. It calls isReady once everything answers.
func up(ctx context.Context, cfg settings.Config, o upOptions, isReady func(running)) error {
	listener, err := front.Listen(cfg.Listen) // first, so that a failure leaves nothing behind
	if err != nil {
		return err
	}
	defer listener.Close()
	lock, err := localstack.LockDir(o.data)
	if err != nil {
		return err
	}
	defer lock.Release()
	own, err := startOwn(ctx, &cfg, o.data, o.store == storeS3)
	defer own.stop()
	if err != nil {
		return err
	}
	if own.postgres != nil {
		cfg.DatabaseMax = min(cfg.DatabaseMax, postgresConnections/(o.api+o.control))
	}
	if cfg.SecretsFile == "" {
		cfg.SecretsFile = filepath.Join(o.data, "secrets.json")
		if _, err := seal.LoadOrCreate(cfg.SecretsFile); err != nil {
			return err
		}
	}
	ready := running{file: filepath.Join(o.data, credentials.FileName)}
	if cfg.PublicURL == "" {
		ready.elsewhere = front.Elsewhere(cfg.TLS.Used() || o.selfSigned, listener.Addr())
	}
	caFile, err := serveAt(&cfg, listener, o)
	if err != nil {
		return err
	}
	cfg.Own = append(cfg.Own, front.AddressesOf(listener.Addr())...)
	if err := writeStores(cfg, o.data); err != nil {
		return err
	}
	hosted, err := fakes.Start(o.fakes, o.data)
	if err != nil {
		return err
	}
	defer hosted.Close()
	if ready.Keys, ready.made, ready.invitation, err = prepare(ctx, cfg, o, hosted, caFile); err != nil {
		return err
	}
	roster := newRoster(filepath.Join(o.data, rosterFile))
	defer roster.close()
	own.list(roster)
	address := cfg.TLS.Scheme() + front.Reachable(listener.Addr())
	agents, err := openAgents(cfg, o, agentsEndpoint(cfg, address), ready.Keys, roster)
	if err != nil {
		return err
	}
	cfg.LocalProvider = agents.socket.Path()
	socket, err := front.Inheritable(listener)
	if err != nil {
		return errors.Join(fmt.Errorf("hand the listening socket down: %w", err), agents.close())
	}
	defer socket.Close()
	endpoint := agentsEndpoint(cfg, address)
	processes := newProcesses(cfg, o, socket, roster, drivers(o, endpoint, ready.Keys, hosted))
	t := &tree{own: own, agents: agents, processes: processes, roster: roster}
	return t.run(ctx, address, func() { isReady(ready) })
}

// serveAt decides the address and the certificate of the API. It returns the file of the
// certificate if it is self-signed.
func serveAt(c *settings.Config, listener net.Listener, o upOptions) (caFile string, err error) {
	if c.VideoModels == "" {
		c.VideoModels = upVideoModels
	}
	host, _, _ := net.SplitHostPort(front.Reachable(listener.Addr()))
	if o.selfSigned {
		dir, err := filepath.Abs(o.data)
		if err != nil {
			return "", err
		}
		if c.TLS, err = front.SelfSigned(dir, append(front.MachineAddresses(listener.Addr()), host)...); err != nil {
			return "", err
		}
		caFile = c.TLS.Cert
	}
	if c.PublicURL == "" {
		c.PublicURL = c.TLS.Scheme() + front.Reachable(listener.Addr())
		if c.TLS.Used() && c.TLS.Covers(host) != nil {
			return "", fmt.Errorf(
				"REELAY_TLS_CERT (--tls-cert) %q is not valid for %s: set REELAY_PUBLIC_URL to an https address that it is valid for", c.TLS.Cert,
				host,
			)
		}
	}
	return caFile, nil
}

// upVideoModels are the model names that clients of the Videos API use.
const upVideoModels = "sora-2=testcard,sora-2-pro=testcard"

// agentsEndpoint returns the URL of the API for local agents. With TLS it is an address
// that the certificate is valid for.
func agentsEndpoint(c settings.Config, address string) string {
	if c.TLS.Used() {
		return c.PublicURL
	}
	return address
}

// postgresConnections is how many connections to our own PostgreSQL the api and control
// processes share. It is a little below the limit of the server.
const postgresConnections = 180

// prepare migrates the database and creates the keys, the pool and, once, the first member of
// `up`.
func prepare(ctx context.Context, cfg settings.Config, o upOptions, hosted *fakes.Fakes, caFile string) (
	keys credentials.Keys, made bool, invitation string, err error,
) {
	if _, err := migrate(ctx, cfg.DatabaseURL); err != nil {
		return keys, false, "", err
	}
	s, err := openStack(ctx, cfg, cfg.PublicURL)
	if err != nil {
		return keys, false, "", err
	}
	defer s.Close()
	if keys, made, err = s.credentials(ctx, filepath.Join(o.data, credentials.FileName), cfg.PublicURL, caFile); err != nil {
		return keys, made, "", err
	}
	if invitation, err = s.firstMember(ctx, cfg.PublicURL); err != nil {
		return keys, made, "", err
	}
	return keys, made, invitation, errors.Join(s.localPool(ctx, o), s.enginePool(ctx, o), hosted.Apply(ctx, s.registry, s.pools()))
}

// tree is everything that `up` runs.
type tree struct {
	own       *ownServices
	agents    *localAgents
	processes *processes
	roster    *roster
}

// run runs the API, control and the pool, and restarts what ends, until ctx ends or a
// restart fails for good. Then it stops the agents first, while the API still answers, so
// that they can release their jobs.
func (t *tree) run(ctx context.Context, address string, isReady func()) error {
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	kept, keeping := errgroup.WithContext(keeping)
	kept.Go(func() error { return t.own.keep(keeping, t.roster) })
	err := t.processes.start(ctx, address)
	if err == nil {
		kept.Go(func() error { return t.processes.keep(keeping) })
		isReady()
		select {
		case <-ctx.Done():
		case <-keeping.Done():
		}
	}
	if ctx.Err() != nil {
		err = nil // a start that the stop interrupted is not a failure
	}
	slog.InfoContext(ctx, "stopping; the data stay for the next start")
	t.agents.stop()
	stop()
	return errors.Join(err, kept.Wait(), t.processes.stop(), t.agents.close())
}
