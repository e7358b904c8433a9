package servers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/adapters/blob"
	"github.com/reelay/reelay/adapters/metrics"
	"github.com/reelay/reelay/adapters/moderation"
	"github.com/reelay/reelay/adapters/rate"
	"github.com/reelay/reelay/adapters/ready"
	"github.com/reelay/reelay/adapters/remote"
	"github.com/reelay/reelay/adapters/tasks"
	"github.com/reelay/reelay/cmd/reelay/internal/front"
	"github.com/reelay/reelay/cmd/reelay/internal/settings"
	"github.com/reelay/reelay/features/alert"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/features/erase"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/pricebook"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/region"
	"github.com/reelay/reelay/features/registry"
	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/features/upkeep"
	"github.com/reelay/reelay/features/video"
	"github.com/reelay/reelay/features/webhook"
	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/gpu/provider/command"
	"github.com/reelay/reelay/gpu/provider/gce"
	"github.com/reelay/reelay/gpu/provider/kubernetes"
	"github.com/reelay/reelay/gpu/provider/local"
	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/redisurl"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/internal/tracing"
	"github.com/reelay/reelay/internal/version"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/checkpoints"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/alerts"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/costs"
	"github.com/reelay/reelay/models/postgres"
	"github.com/reelay/reelay/models/regions"
	"github.com/reelay/reelay/web/videos"
	"github.com/uptrace/bun"
)

// stack is the domain and its stores, shared by api, control and up.
type stack struct {
	cfg       settings.Config
	guard     *region.Guard // nil if there is only one region
	db        *bun.DB
	workers   *bun.DB // the same database, over connections of their own
	redis     redis.UniversalClient
	redisAt   *redisurl.Address
	queue     tasks.Queue
	objects   *blob.Store
	sealer    *seal.Sealer
	linkKeys  func() [][]byte
	catalogue *catalogue.Catalogue
	registry  *registry.Registry
	metrics   *metrics.Metrics
	refusals  *jobs.Refusals
	notifier  *change.Notifier
	// videoModels maps the model names of the Videos API to those of the catalogue.
	videoModels videos.Models
	estimates   *estimate.Estimator
	checkpoints *checkpoints.Plans
	clock       *jobs.Clock
	reads       *query.Shares
	rates       *rate.Limiter
	// moderation is nil if no hook decides on the content of jobs.
	moderation *moderation.Hook
	graphql    *graph.API // once its handler is made
	// stopServing ends the HTTP server of an api process; nil if another does.
	stopServing func()

	closers []func()
}

// openStack connects to all stores, once this region is the primary. Links to objects start with publicURL.
func openStack(ctx context.Context, cfg settings.Config, publicURL string) (*stack, error) {
	return openGuarded(ctx, cfg, publicURL, nil)
}

// openGuarded is openStack with the guard of a process that answers meanwhile; without one, it makes its own.
func openGuarded(ctx context.Context, cfg settings.Config, publicURL string, guard *region.Guard) (_ *stack, err error) {
	cfg.Outbound = cfg.Outbound.Except(front.HostPort(publicURL), front.HostPort(cfg.DatabaseURL)).Except(cfg.RedisHosts()...).
		Except(cfg.Objects.Hosts()...).Except(front.HostPort(cfg.Moderation.URL)).Except(cfg.Own...)
	s := &stack{cfg: cfg}
	stopTracing, err := tracing.SetUp(ctx, "reelay", version.Current().String())
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, stopTracing)
	s.metrics = metrics.New(s.sources())
	s.moderation = cfg.Moderation.Hook(s.metrics.Moderated)
	s.notifier = &change.Notifier{Waiters: &jobs.Waiters{}, Observer: s.metrics}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	secrets, err := seal.OpenFile(cfg.SecretsFile)
	if err != nil {
		return nil, err
	}
	s.sealer = secrets.Sealer()
	if s.guard = guard; guard == nil {
		s.guard = cfg.Guard(secrets.LinkKeys)
	}
	folder, known, err := cfg.LoadModels()
	if err != nil {
		return nil, err
	}
	s.catalogue = catalogue.Of(known)
	s.catalogue.Guard(cfg.Outbound)
	if s.videoModels, err = videos.ReadModels(cfg.VideoModels); err != nil {
		return nil, fmt.Errorf("REELAY_VIDEO_MODELS: %w", err)
	}
	if err := s.openDatabase(ctx); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	if err := s.openRedis(); err != nil {
		return nil, err
	}
	s.notifier.DB = s.db
	s.refusals = &jobs.Refusals{Observer: s.metrics, DB: s.db}
	s.registry = &registry.Registry{DB: s.db, Catalogue: s.catalogue, Folder: folder, Notifications: s.notifier.Notifications}
	if err := s.registry.Pass(ctx); err != nil { // the next pass reads it again
		slog.WarnContext(ctx, "the catalogue was not read", "error", err)
	}
	if unknown := s.videoModels.Unknown(s.catalogue.Current()); unknown != "" {
		slog.WarnContext(ctx, "REELAY_VIDEO_MODELS names a model that is not a video model of the catalogue", "model", unknown)
	}
	s.clock = &jobs.Clock{DB: s.workers}
	if err := s.clock.Pass(ctx); err != nil { // the next pass reads it again
		slog.WarnContext(ctx, "PostgreSQL's clock was not read", "error", err)
	}
	s.linkKeys = secrets.LinkKeys
	s.objects, err = cfg.Objects.Open(ctx, secrets.LinkKeys, s.clock.Now, s.metrics.ObjectCall)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, func() { s.objects.Close() })
	conns := divided(cfg)
	s.reads = query.NewShares(conns.ordinary/2, conns.reads)
	s.estimates = &estimate.Estimator{DB: s.db, Catalogue: s.catalogue, LateAfter: jobs.LateAfter()}
	s.checkpoints = &checkpoints.Plans{DB: s.db}
	// With another keyset every leased job would fail. Other errors, such as a missing
	// schema, do not matter here.
	if err := s.readers().Jobs.CheckKeyset(ctx); errors.Is(err, seal.ErrWrongKey) {
		return nil, err
	}
	return s, nil
}

// enter waits until this region is the primary.
func (s *stack) enter(ctx context.Context) error {
	if s.guard != nil {
		return s.guard.Enter(ctx, s.workers)
	}
	newest, err := regions.Newest(ctx, s.workers)
	if err == nil && newest.Epoch > 0 {
		return fmt.Errorf("the database knows regions (%s is the primary): set REELAY_REGION, so that this process serves only in the primary one. See "+
			"docs/operators/regions.md", newest.Region)
	}
	return nil // an outage shows later
}

// sources are what the gauges of the metrics are read from.
func (s *stack) sources() metrics.Sources {
	return metrics.Sources{
		Queues:  func(ctx context.Context) ([]backlog.QueueCount, error) { return s.readers().Queues.Counts(ctx) },
		Plans:   func() []checkpoints.PoolPlan { return s.checkpoints.All() },
		GPUs:    func(ctx context.Context) ([]models.PoolGPUs, error) { return s.readers().Fleet.PoolGPUs(ctx) },
		Pools:   func(ctx context.Context) ([]*query.PoolStatus, error) { return s.readers().Fleet.Pools(ctx) },
		Drafts:  func(ctx context.Context) (models.DraftUsage, error) { return s.readers().Jobs.RecentDrafts(ctx) },
		Paid:    func(ctx context.Context) ([]*models.PaidTotal, error) { return s.readers().History.PaidTotals(ctx) },
		Spent:   func(ctx context.Context) ([]*costs.Row, error) { return s.readers().Costs.Today(ctx) },
		Drains:  func(ctx context.Context) (*estimate.Drains, error) { return s.readers().Queues.Drains(ctx) },
		Workers: func(ctx context.Context) ([]alerts.WorkerCount, error) { return s.readers().Fleet.WorkerCounts(ctx) },
		Region: func(ctx context.Context) (*region.Report, error) {
			if read := s.region(); read != nil {
				return read(ctx)
			}
			return nil, nil
		},
		Health: func(ctx context.Context) (*alerts.Health, error) { return s.readers().History.Health(ctx) },
	}
}

// connections says how a process divides its connections to PostgreSQL.
type connections struct{ workers, reads, ordinary int }

// divided reserves half of the connections for workers, so that many submits cannot delay a heartbeat,
// and an eighth for large reads, so that reads cannot delay a submit.
func divided(c settings.Config) connections {
	all := connections{workers: c.DatabaseMax / 2, reads: c.DatabaseMax / 8}
	all.ordinary = c.DatabaseMax - all.workers - all.reads
	return all
}

// openDatabase connects to PostgreSQL and waits until it is available: processes may be
// started in any order.
func (s *stack) openDatabase(ctx context.Context) error {
	conns := divided(s.cfg)
	for _, pool := range []struct {
		db           **bun.DB
		conns, reads int
	}{{&s.db, conns.ordinary, conns.reads}, {&s.workers, conns.workers, 0}} {
		opened, closeDB, err := awaitDatabase(ctx, s.cfg.NewestDatabaseURL, pool.conns, pool.reads, s.guard.Follow)
		if err != nil {
			return err
		}
		*pool.db = opened
		s.closers = append(s.closers, closeDB)
	}
	return nil
}

const (
	// awaitEvery is the interval between tries while PostgreSQL is unavailable, and
	// sayEvery the interval between the log lines about it.
	awaitEvery = 250 * time.Millisecond
	sayEvery   = 10 * time.Second
)

// awaitDatabase waits until PostgreSQL can be written to. Follow, if it is not nil, is called while it is a standby.
func awaitDatabase(ctx context.Context, dsn func() string, conns, reads int, follow func(context.Context, *bun.DB)) (*bun.DB, func(), error) {
	var said time.Time
	for {
		db, closeDB, err := postgres.OpenShared(ctx, dsn, conns, reads)
		if err == nil {
			if err = postgres.Writable(ctx, db); err != nil {
				if follow != nil && postgres.IsStandby(err) {
					follow(ctx, db)
				}
				closeDB()
			}
		}
		if err == nil || !postgres.IsOutage(err) || postgres.IsMisconfigured(err) || ctx.Err() != nil {
			return db, closeDB, err
		}
		if time.Since(said) >= sayEvery {
			said = time.Now()
			slog.WarnContext(ctx, "waiting for PostgreSQL", "error", err)
		}
		select {
		case <-time.After(awaitEvery):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

func (s *stack) openRedis() error {
	address, err := redisurl.Follow(s.cfg.NewestRedisURL)
	if err != nil {
		return fmt.Errorf("REDIS_URL is malformed: %w", err)
	}
	if s.metrics != nil { // the doctor has none
		address.Observe = s.metrics.RedisCall
	}
	s.redisAt, s.redis, s.queue = address, ready.NewClient(address), tasks.Queue{Address: address}
	index, news := ready.New(s.redis, redisPrefix), ready.NewNotifications(s.redis, redisPrefix)
	s.notifier.Index, s.notifier.Notifications = index, news
	s.rates = rate.New(s.redis, redisPrefix)
	s.closers = append(s.closers, func() { news.Close(); s.redis.Close() })
	return nil
}

// redisPrefix is the prefix of all our keys except asynq's.
const redisPrefix = "reelay"

// redisExaminer is the doctor's part for Redis.
func (s *stack) redisExaminer() *ready.Examiner {
	return &ready.Examiner{Address: s.redisAt, Client: s.redis, Prefix: redisPrefix}
}

// Close closes the connections, the newest first.
func (s *stack) Close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
	s.closers = nil
}

// keys are checked over the workers' connections: it takes the key to know who
// calls.
func (s *stack) keys() *auth.Keys { return auth.NewKeys(s.workers) }

func (s *stack) members() *auth.Members { return &auth.Members{DB: s.db, SSO: s.cfg.SSO.Policy()} }

func (s *stack) readers() *query.Reads {
	return query.New(query.Sources{
		DB: s.db, Sealer: s.sealer, Objects: s.objects, Catalogue: s.catalogue, Estimates: s.estimates, Checkpoints: s.checkpoints,
		Clock: s.clock, Shares: s.reads, LinkKeys: s.linkKeys, Keep: s.cfg.Retention.For,
	})
}

func (s *stack) retrier() *operate.Retrier {
	return &operate.Retrier{DB: s.db, Catalogue: s.catalogue, Sealer: s.sealer, Notifier: s.notifier, Estimates: s.estimates}
}

func (s *stack) deadLetters() *operate.DeadLetters {
	return &operate.DeadLetters{DB: s.db, Catalogue: s.catalogue, Sealer: s.sealer, Notifier: s.notifier, Inputs: s.inputs(), Estimates: s.estimates}
}

func (s *stack) inputs() *inputs.Inputs {
	return &inputs.Inputs{DB: s.db, Objects: s.objects, Remote: remote.New(s.cfg.Outbound)}
}

// bulk is used by api, which starts operations, and by control, which runs them.
func (s *stack) bulk() *bulk.Bulk {
	return &bulk.Bulk{DB: s.db, Verbs: bulk.Roles{
		Canceller: &operate.Canceller{DB: s.db, Notifier: s.notifier},
		Retrier:   s.retrier(), DeadLetters: s.deadLetters(), Deleter: s.deleter(), Operator: s.operator(),
	}.Verbs()}
}

// eraser is used by api, which starts deletions of accounts, and by control, which does them.
func (s *stack) eraser() *erase.Eraser {
	return &erase.Eraser{DB: s.db, Canceller: &operate.Canceller{DB: s.db, Notifier: s.notifier}, Notifier: s.notifier,
		ObjectsGone: upkeep.OrphansGone}
}

// schedules is used by api, which changes and triggers them, and by control, which fires them.
func (s *stack) schedules(submitter *submit.Submitter) *schedule.Schedules {
	return &schedule.Schedules{Runner: schedule.Runner{
		DB: s.db, Submitter: submitter, Canceller: &operate.Canceller{DB: s.db, Notifier: s.notifier}, Workflows: s.workflows(submitter),
		Sealer: s.sealer, Observe: s.metrics.Slot,
	}}
}

func (s *stack) workflows(submitter *submit.Submitter) *workflow.Workflows {
	return &workflow.Workflows{
		WorkflowOperator: operate.WorkflowOperator{DB: s.db, Catalogue: s.catalogue, Sealer: s.sealer, Notifier: s.notifier, Estimates: s.estimates},
		Submitter:        submitter}
}

func (s *stack) webhooks() *webhook.Endpoints {
	return &webhook.Endpoints{DB: s.db, Sealer: s.sealer, Outbound: s.cfg.Outbound, Buckets: blob.Customers{Policy: s.cfg.Outbound}}
}

// videos is used by api, and by control, which deletes videos whose jobs had to end
// first.
func (s *stack) videos(submitter *submit.Submitter) *video.Videos {
	return &video.Videos{
		DB: s.db, Jobs: s.readers().Jobs, Submitter: submitter,
		Canceller: &operate.Canceller{DB: s.db, Notifier: s.notifier}, Deleter: s.deleter(),
	}
}

func (s *stack) submitter() *submit.Submitter {
	return &submit.Submitter{
		DB: s.db, Catalogue: s.catalogue, Sealer: s.sealer, Notifier: s.notifier, Inputs: s.inputs(), Outbound: s.cfg.Outbound,
		UserShare: s.cfg.UserShare, Moderator: s.moderator(),
	}
}

// moderator returns the hook as submits need it.
func (s *stack) moderator() submit.Moderator {
	if s.moderation == nil { // a nil hook in an interface would not be nil
		return nil
	}
	return s.moderation
}

func (s *stack) deleter() *operate.Deleter { return &operate.Deleter{DB: s.db, Notifier: s.notifier} }

func (s *stack) operator() *operate.QueueOperator {
	return &operate.QueueOperator{DB: s.db, Notifier: s.notifier, Catalogue: s.catalogue}
}

func (s *stack) pools() *fleet.Pools {
	return &fleet.Pools{DB: s.db, Catalogue: s.catalogue, Notifier: s.notifier, Checks: poolChecks, Policy: s.cfg.Scaling,
		Doubts: s.cfg.Doubts}
}

func (s *stack) prices() *pricebook.Prices {
	return &pricebook.Prices{DB: s.db, Catalogue: s.catalogue}
}

func (s *stack) engines() *fleet.Engines { return &fleet.Engines{DB: s.db, Pools: s.pools()} }

// poolChecks has the providers that a pool may name. The api checks pools of all of them, also
// those with which it cannot start machines itself.
var poolChecks = map[string]func(*capacity.Pool) error{
	command.Name:    command.CheckPool,
	gce.Name:        gce.CheckPool,
	kubernetes.Name: kubernetes.CheckPool,
	local.Name:      fleet.NoSettings,
	fleet.Static:    fleet.NotScaled,
	engine.Provider: fleet.NotScaled,
}

func (s *stack) fleetOperator() *fleet.WorkerOperator {
	return &fleet.WorkerOperator{DB: s.db, Notifier: s.notifier, Providers: s.cfg.Providers()}
}

// region returns what reads how the regions stand, or nil if there is only one. The answers of the others are those that the guard
// got last.
func (s *stack) region() func(context.Context) (*region.Report, error) {
	if s.guard == nil {
		return nil
	}
	return func(ctx context.Context) (*region.Report, error) {
		standing, err := (&region.Promoter{Region: s.guard.Name, Peers: s.guard, DB: s.db}).Look(ctx)
		if err != nil {
			return nil, err
		}
		return standing.Report(), nil
	}
}

// rivalFor is how long an alert tells of a region that claimed to be the primary, too: it stops within seconds.
const rivalFor = 10 * time.Minute

// regionTroubles returns what reads what is wrong with other regions, for alerts, or nil if there is only one.
func (s *stack) regionTroubles() func(context.Context) (alert.Regions, error) {
	read := s.region()
	if read == nil {
		return nil
	}
	return func(ctx context.Context) (found alert.Regions, err error) {
		report, err := read(ctx)
		if err != nil {
			return found, err
		}
		for _, p := range report.Peers {
			switch p.Trouble {
			case region.TroubleSilent:
				found.Silent++
			case region.TroubleForeign:
				found.Foreign++
			case region.TroubleOvertaken:
				found.Overtaken++
			}
			if p.RivalAt != nil && time.Since(*p.RivalAt) < rivalFor {
				found.Serving++
			}
		}
		found.Alone = len(report.Peers) > 0 && len(report.Standbys) == 0
		if !slices.ContainsFunc(report.Standbys, func(s regions.Standby) bool { return s.State != "async" }) {
			found.Async = len(report.Standbys)
		}
		return found, nil
	}
}

// alerts is where operators see alerts.
func (s *stack) alerts() *alert.Desk {
	return &alert.Desk{DB: s.db, Config: s.cfg.Alerts, URL: s.cfg.PublicURL}
}
