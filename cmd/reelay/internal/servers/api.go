package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/reelay/reelay/adapters/identity"
	"github.com/reelay/reelay/adapters/metrics"
	"github.com/reelay/reelay/adapters/peers"
	"github.com/reelay/reelay/cmd/reelay/internal/front"
	"github.com/reelay/reelay/cmd/reelay/internal/settings"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/budget"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/hosted"
	"github.com/reelay/reelay/features/region"
	"github.com/reelay/reelay/features/watch"
	"github.com/reelay/reelay/features/webhook"
	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/internal/periodic"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/internal/version"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/checkpoints"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/migrations"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/web/comfyapi"
	"github.com/reelay/reelay/web/console"
	"github.com/reelay/reelay/web/console/apidocs"
	"github.com/reelay/reelay/web/console/system"
	"github.com/reelay/reelay/web/door"
	"github.com/reelay/reelay/web/hooks"
	"github.com/reelay/reelay/web/rest"
	"github.com/reelay/reelay/web/videos"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/uptrace/bun"
	"golang.org/x/sync/errgroup"
)

// errNoQuery is the error of `reelay api` with a query, as other tools take it.
var errNoQuery = errors.New("`reelay api` runs the server: send a query with `reelay graphql`")

// APICommand returns `reelay api`.
func APICommand() *cobra.Command {
	cfg := settings.Read()
	cmd := &cobra.Command{
		Use:   "api",
		Short: "Serve the API and the console",
		Long: "Serves GraphQL, the console and links to objects. It is stateless: run as many processes as you need.\n" +
			"On SIGTERM it serves on for REELAY_STOP_DELAY_SECONDS. Then it finishes open requests and ends streams, so that clients\n" +
			"reconnect elsewhere, within 10 s.\n" +
			"Needs DATABASE_URL, REDIS_URL, REELAY_STORE and REELAY_SECRETS_FILE; see docs/operators/configuration.md.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return errNoQuery
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cfg.Need(); err != nil {
				return err
			}
			cfg.SetUpLog()
			listener, err := front.Listen(cfg.Listen)
			if err != nil {
				return err
			}
			publicURL := cfg.PublicURL
			if publicURL == "" {
				publicURL = cfg.TLS.Scheme() + front.Reachable(listener.Addr())
			}
			slog.InfoContext(cmd.Context(), "api runs", "address", listener.Addr().String(), "url", publicURL, "version", version.Current().String())
			return openAPI(cmd.Context(), cfg, listener, publicURL)
		},
	}
	cfg.TLS.AddFlags(cmd.Flags())
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if _, unknown := errors.AsType[*pflag.NotExistError](err); unknown {
			return terminal.UsageError(cmd, fmt.Errorf("%w; %w", terminal.FlagError(cmd, err), errNoQuery))
		}
		return cmd.Parent().FlagErrorFunc()(cmd, err)
	})
	return cmd
}

// openAPI serves the API until ctx ends. Until its stores are available it answers that
// it is not ready.
func openAPI(ctx context.Context, cfg settings.Config, listener net.Listener, publicURL string) error {
	gate, guard := front.NewGate(ctx), (*region.Guard)(nil)
	if cfg.Region != "" {
		secrets, err := seal.OpenFile(cfg.SecretsFile)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		guard = cfg.Guard(secrets.LinkKeys)
		gate.Why, gate.Outside = guard.Why, map[string]http.Handler{peers.Path: peers.Handler(guard, secrets.LinkKeys)}
	}
	ctx, stop := gate.Later(cfg.StopDelay)
	defer stop()
	served := make(chan error, 1)
	go func() {
		defer stop()
		served <- front.Serve(ctx, listener, cfg.TLS, gate)
	}()
	cfg.Own = append(cfg.Own, front.AddressesOf(listener.Addr())...)
	s, err := openGuarded(ctx, cfg, publicURL, guard)
	if err != nil {
		stop()
		return errors.Join(err, <-served)
	}
	defer s.Close()
	gate.Open(s.handler(publicURL))
	s.stopServing = stop
	return s.api(ctx, served)
}

// presenceOf returns what records that this process is alive.
func presenceOf(db *bun.DB, kind models.ProcessKind) *lease.Presence {
	host, _ := os.Hostname() // operators see that it is unknown
	return &lease.Presence{DB: db, Kind: kind, Version: version.Current().String(), Host: host,
		Settings: settings.Safe()}
}

// lookEvery is how often waiting lease calls look for queued jobs without a hint from Redis: within a
// second after an operator resumes leases.
const lookEvery = 900 * time.Millisecond

// proveSoon is how soon an api process tries again whether the buckets enforce the terms of links, while
// one does not answer.
const proveSoon = 10 * time.Second

// api runs the background work of an API process until ctx ends.
func (s *stack) api(ctx context.Context, served <-chan error) error {
	defer context.AfterFunc(ctx, s.notifier.Waiters.Dismiss)()
	group, ctx := errgroup.WithContext(ctx)
	if s.stopServing != nil { // also when a part of it fails
		defer context.AfterFunc(ctx, s.stopServing)()
	}
	presence := presenceOf(s.workers, models.ProcessAPI)
	group.Go(func() error {
		defer presence.End(context.WithoutCancel(ctx))
		return periodic.Every(ctx, "presence", lease.PresenceEvery, presence.Pass)
	})
	group.Go(func() error { return s.guard.Watch(ctx, s.workers) })
	group.Go(func() error { return periodic.Every(ctx, "clock", jobs.ClockEvery, s.clock.Pass) })
	group.Go(func() error { return periodic.Every(ctx, "object store", proveSoon, s.objects.ProvePass) })
	group.Go(func() error { return s.registry.Follow(ctx) })
	group.Go(func() error { return periodic.Every(ctx, "estimates", estimate.RefreshEvery, s.estimates.Pass) })
	group.Go(func() error {
		return periodic.Every(ctx, "checkpoint plans", checkpoints.RefreshEvery, s.checkpoints.Pass)
	})
	group.Go(func() error { return periodic.Every(ctx, "metrics", metrics.RefreshEvery, s.metrics.Refresh) })
	group.Go(func() error {
		defer func() { _ = s.refusals.Pass(context.WithoutCancel(ctx)) }()
		return periodic.Every(ctx, "refused submits", jobs.RefusalsEvery, s.refusals.Pass)
	})
	group.Go(func() error { return <-served })
	group.Go(func() error {
		<-ctx.Done()
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), front.DrainTime)
		defer cancel()
		_ = s.graphql.Close(drain) // streams that do not end are cut off
		return nil
	})
	group.Go(func() error {
		return s.notifier.Index.Wakes(ctx, func(queue models.Queue, of models.AccountID) { s.notifier.Waiters.Wake(queue, of) })
	})
	group.Go(func() error {
		return periodic.Every(ctx, "look for work", lookEvery, s.lookForWork)
	})
	return group.Wait()
}

// lookForWork has waiting lease calls look for jobs, if there are both.
func (s *stack) lookForWork(ctx context.Context) error {
	if s.notifier.Waiters.Waiting() == 0 {
		return nil
	}
	queued, err := backlog.HasQueuedJobs(ctx, s.workers)
	if queued {
		s.notifier.Waiters.Look()
	}
	return err
}

const (
	// largeAtOnce bounds the memory that large requests over GraphQL and REST use together: a
	// body has up to httpguard.LargeBody, and takes about ten times its size once decoded.
	largeAtOnce = 4
	largeEach   = 2 // of one account
	largeWait   = 5 * time.Second
)

func (s *stack) handler(publicURL string) http.Handler {
	reads, base := s.readers(), s.cfg.Hosts.Base(publicURL)
	watcher := &watch.Watcher{DB: s.db, Jobs: reads.Jobs, Notifications: s.notifier.Notifications}
	submitter := s.submitter()
	submitter.Admission = submit.Admission{Rates: s.rates, Estimates: s.estimates, Observer: s.refusals}
	canceller := &operate.Canceller{DB: s.db, Notifier: s.notifier}
	operator := s.operator()
	leaser := lease.NewLeaser(s.workers, s.notifier, s.catalogue)
	leaser.Checkpoints, leaser.Estimates = s.checkpoints, s.estimates

	pages := console.New(console.Config{
		Members: s.members(), Accounts: &auth.Accounts{DB: s.db, Notifier: s.notifier}, Budgets: &budget.Budgets{DB: s.db},
		Eraser: s.eraser(),
		SSO:    s.cfg.SSO.Provider(publicURL),
		Keys:   s.keys(), Reads: reads, Watcher: watcher, Submitter: submitter, Canceller: canceller, Deleter: s.deleter(), Operator: operator,
		Registry: s.registry, Fleet: s.fleetOperator(), Pools: s.pools(), Engines: s.engines(), Providers: &hosted.Accounts{DB: s.db},
		Prices:      s.prices(),
		DeadLetters: s.deadLetters(), Bulk: s.bulk(), Alerts: s.alerts(), Logs: s.objects, Retrier: s.retrier(), Webhooks: s.webhooks(),
		Schedules: s.schedules(submitter), Workflows: s.workflows(submitter),
		Monitor: s.monitor(), OpenAPI: rest.OpenAPI(), Examine: s.watchedExamination, Redis: s.redisState, Region: s.region(), Name: s.cfg.ConsoleName,
		ObjectsOrigin: s.objects.Origin(), Secure: strings.HasPrefix(publicURL, "https:"),
	})

	webhooks := &hosted.Webhooks{DB: s.db, Notifications: s.notifier.Notifications, Keys: s.linkKeys, URL: publicURL,
		Observe: s.metrics.ProviderWebhook}
	keys := &auth.KeyWatch{Authenticate: (&auth.KeyCache{Authenticate: s.keys().Authenticate}).Get}
	large := httpguard.NewLargeBodies(largeAtOnce, largeEach, largeWait)
	restAPI := rest.New(rest.Config{
		Keys: keys, Submitter: submitter, Canceller: canceller, Inputs: s.inputs(), Reads: reads, Watcher: watcher, Pools: s.pools(),
		Budgets:  &budget.Budgets{DB: s.db},
		Operator: operator, Schedules: s.schedules(submitter), Workflows: s.workflows(submitter), Alerts: s.alerts(),
		Region: s.region(), Base: base, Large: large,
	})
	videosAPI := videos.New(videos.Config{
		Authenticate: keys.Authenticate, Videos: s.videos(submitter), Shares: reads.Shares, Models: s.videoModels,
		VideosKept: s.cfg.Retention.Videos, Inputs: s.inputs(),
	})
	comfyAPI := comfyapi.New(comfyapi.Config{
		Keys: keys, Submitter: submitter, Canceller: canceller, Inputs: s.inputs(), Reads: reads, Watcher: watcher, Base: base,
		OutputsKept: s.cfg.Retention.Videos,
	})
	s.graphql = graph.New(&graph.Resolver{
		Submitter: submitter, Canceller: canceller, Reads: reads, Watcher: watcher, Operator: operator, Fleet: s.fleetOperator(),
		Pools: s.pools(), Engines: s.engines(), Providers: &hosted.Accounts{DB: s.db}, Prices: s.prices(), ProviderWebhooks: webhooks, Leaser: leaser,
		Deleter:   s.deleter(),
		Attempts:  lease.NewAttempts(s.workers, s.objects, s.catalogue, leaser),
		Retrier:   s.retrier(),
		Registrar: &fleet.Registrar{DB: s.workers, Catalogue: s.catalogue, Notifier: s.notifier},
		Keys:      s.keys(), Members: s.members(), Accounts: &auth.Accounts{DB: s.db, Notifier: s.notifier}, Budgets: &budget.Budgets{DB: s.db},
		Eraser:   s.eraser(),
		Registry: s.registry, DeadLetters: s.deadLetters(), Bulk: s.bulk(), Webhooks: s.webhooks(), Inputs: s.inputs(), Alerts: s.alerts(),
		Schedules: s.schedules(submitter), Workflows: s.workflows(submitter),
		Examine: s.examine, RedisVersion: s.redisVersion, Region: s.region(),
	}, keys, graph.Options{HideSchema: s.cfg.Introspection == "off", Shared: s.cfg.Origins.Include, Base: base, Large: large,
		Machines: s.machines(publicURL)})

	shared := s.cfg.Origins.Share
	mux := http.NewServeMux()
	mux.Handle("/graphql", explored(pages, shared(s.graphql)))
	mux.Handle("/objects/", s.objects.Handler())
	mux.Handle(hooks.Pattern, hooks.Handler(webhooks))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET /metrics", s.scraped(s.metrics.Handler()))
	mux.Handle("/", pages)
	all := byPrefix(shared(restAPI), shared(videosAPI), shared(comfyAPI), mux)
	return s.metrics.Timed(routeOf, s.cfg.Hosts.Only(publicURL, traced(noLoop(all))))
}

// machines returns what verifies the identity of machines, or nil if none may register by it.
func (s *stack) machines(publicURL string) func(context.Context, string) (*jobs.Machine, error) {
	config := s.cfg.Machines
	if len(config.Projects) == 0 {
		return nil
	}
	config.Audience = cmp.Or(config.Audience, publicURL)
	return identity.New(config).Verify
}

// noLoop refuses webhooks sent by a Reelay, so that an endpoint that leads back here by
// an unknown address causes no loop.
func noLoop(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.UserAgent() == webhook.UserAgent && r.Header.Get("Webhook-Id") != "" {
			http.Error(w, "This is a webhook of Reelay that came to Reelay itself: let its endpoint be an address of yours.",
				http.StatusLoopDetected)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// byPrefix leads to the APIs for programs also what http.ServeMux would answer
// with a page and another address: //api/v1/jobs, /v1/x/../videos, /api. They say
// in their own words that there is no such path. The page about the REST API is the
// console's.
func byPrefix(restAPI, videosAPI, comfyAPI, others http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch first, _, _ := strings.Cut(strings.TrimLeft(r.URL.Path, "/"), "/"); {
		case r.URL.Path == "/api/docs":
			others.ServeHTTP(w, r)
		case front.OfComfy(r.URL.Path):
			comfyAPI.ServeHTTP(w, r)
		case first == "api":
			restAPI.ServeHTTP(w, r)
		case first == "v1":
			videosAPI.ServeHTTP(w, r)
		default:
			others.ServeHTTP(w, r)
		}
	})
}

// explored serves GraphiQL to browsers that open the URL of the GraphQL API.
func explored(pages, api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if apidocs.AsksForGraphiQL(r) {
			pages.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// scraped requires the key of an operator or viewer, unless the metrics are configured as open.
func (s *stack) scraped(inside http.Handler) http.Handler {
	if s.cfg.MetricsOpen {
		return inside
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, _, err := door.Admit(r, s.keys().Authenticate, access.RoleViewer); err != nil {
			door.PlainError(w, r, err)
			return
		}
		inside.ServeHTTP(w, r)
	})
}

// monitor serves asynqmon over its own connections.
func (s *stack) monitor() http.Handler {
	monitor := system.Monitor(s.queue)
	s.closers = append(s.closers, func() { monitor.Close() })
	return monitor
}

// ready tells a load balancer whether this process can serve requests: whether PostgreSQL
// answers and has the schema.
func (s *stack) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	missing, _, err := migrations.Compare(ctx, s.db)
	switch {
	case models.IsUndefinedTable(err), len(missing) > 0:
		http.Error(w, "The database lacks the schema of this version. Run `reelay migrate`.", http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, "PostgreSQL does not answer", http.StatusServiceUnavailable)
	default:
		w.Write([]byte("ready\n"))
	}
}
