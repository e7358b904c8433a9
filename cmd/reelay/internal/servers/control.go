package servers

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/reelay/reelay/adapters/blob"
	"github.com/reelay/reelay/adapters/metrics"
	"github.com/reelay/reelay/adapters/tasks"
	"github.com/reelay/reelay/cmd/reelay/internal/settings"
	"github.com/reelay/reelay/features/alert"
	"github.com/reelay/reelay/features/erase"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/features/hosted"
	"github.com/reelay/reelay/features/prices"
	"github.com/reelay/reelay/features/upkeep"
	"github.com/reelay/reelay/features/webhook"
	"github.com/reelay/reelay/features/wire"
	"github.com/reelay/reelay/internal/periodic"
	"github.com/reelay/reelay/internal/version"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/pass"
	"github.com/reelay/reelay/models"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// ControlCommand returns `reelay control`.
func ControlCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "control",
		Short: "Run the background work: reaping, retries, the outbox",
		Long: "Runs the periodic passes and the asynq tasks. It is stateless: run two or more.\n" +
			"Needs DATABASE_URL, REDIS_URL, REELAY_STORE and REELAY_SECRETS_FILE; see docs/operators/configuration.md.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg := settings.Read()
			if err := cfg.Need(); err != nil {
				return err
			}
			if cfg.Objects.OwnLinks() && cfg.PublicURL == "" {
				return errors.New("REELAY_PUBLIC_URL is not set: the links in webhooks need it")
			}
			cfg.SetUpLog()
			health, err := openHealth(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			s, err := openStack(cmd.Context(), cfg, cfg.PublicURL)
			if err != nil {
				return err
			}
			defer s.Close()
			if health != nil {
				health.Open(s.metricsHandler())
			}
			slog.InfoContext(cmd.Context(), "control runs", "version", version.Current().String())
			return s.control(cmd.Context())
		},
	}
}

const (
	// reapEvery is short compared with a lease, so a pass that is lost because its process
	// was killed costs little.
	reapEvery    = 2 * time.Second
	silentEvery  = 15 * time.Second
	overdueEvery = 10 * time.Second
	expireEvery  = time.Second
	budgetsEvery = time.Second
	retryEvery   = time.Second
	sweepEvery   = 5 * time.Second
	mendEvery    = time.Second
	relayPause   = 200 * time.Millisecond
	// deliverPause bounds how often a process claims deliveries: there is work as long as some wait for
	// their next try, and others may announce much.
	deliverPause    = 50 * time.Millisecond
	scaleEvery      = time.Second
	scaleRest       = 10 * time.Second
	yieldEvery      = 5 * time.Second
	quarantineEvery = 5 * time.Second
	quarantineRest  = 15 * time.Second
	objectsEvery    = 10 * time.Second
	upkeepEvery     = time.Minute
	eventsEvery     = time.Hour
	bulkEvery       = time.Second
	bulkSweepEvery  = time.Minute
	promoteEvery    = 5 * time.Second
	rerouteEvery    = 5 * time.Second
	learnEvery      = 5 * time.Second
	learnRest       = time.Minute
	analyzeEvery    = 5 * time.Second
	analyzeRest     = time.Minute
)

// control runs the passes and the handlers of the lanes until ctx ends. All control processes can
// run every pass, and share the work.
func (s *stack) control(ctx context.Context) error {
	reaper := &lease.Reaper{DB: s.db, Notifier: s.notifier, Catalogue: s.catalogue}
	presence := presenceOf(s.db, models.ProcessControl)
	releaser := &pass.Releaser{DB: s.db, Notifier: s.notifier, Catalogue: s.catalogue}
	readier := &pass.Readier{DB: s.db, Notifier: s.notifier}
	bulk := s.bulk()
	promoter := &pass.Promoter{DB: s.db, Notifier: s.notifier}
	rerouter := &pass.Rerouter{DB: s.db, Notifier: s.notifier, Catalogue: s.catalogue}
	scaler := &fleet.Scaler{DB: s.db, Notifier: s.notifier, Providers: s.cfg.Providers(), Policy: s.cfg.Scaling}
	quarantiner := &fleet.Quarantiner{DB: s.db, Notifier: s.notifier, Providers: s.cfg.Providers()}
	yielder := &fleet.Yielder{DB: s.db, Notifier: s.notifier, Catalogue: s.catalogue}

	adviser := &fleet.Adviser{DB: s.db, Providers: scaler.Providers}
	applier := &hosted.Applier{DB: s.db, Limits: s.cfg.Limits}
	follower := &prices.Follower{DB: s.db, Sources: s.cfg.PriceSources, Claim: (&periodic.Periods{DB: s.db}).Claim}
	upkeep := &upkeep.Upkeep{DB: s.db, Objects: s.objects, Keep: s.cfg.Retention}

	publisher := tasks.NewPublisher(s.queue)
	defer publisher.Close()
	deliverer := webhook.NewDeliverer(s.db, s.sealer, wire.New(s.readers()), webhook.NewSender(s.cfg.Outbound), s.cfg.PublicURL)
	deliverer.Observe, deliverer.Objects, deliverer.Buckets = s.metrics.Webhook, s.objects, blob.Customers{Policy: s.cfg.Outbound}
	relay := &pass.Relay{DB: s.db, Publish: publisher.Publish}

	notifier := &alert.Sender{Desk: s.alerts(), History: &history.Timeline{DB: s.db}}

	if err := readier.Sweep(ctx); err != nil {
		slog.WarnContext(ctx, "the ready index could not be built yet", "error", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer presence.End(context.WithoutCancel(ctx))
		return periodic.Every(ctx, "presence", lease.PresenceEvery, presence.Pass)
	})
	group.Go(func() error { return s.guard.Watch(ctx, s.workers) })
	group.Go(func() error { return periodic.Every(ctx, "clock", jobs.ClockEvery, s.clock.Pass) })
	group.Go(func() error { return s.registry.Follow(ctx) })
	group.Go(func() error { return periodic.Every(ctx, "metrics", metrics.RefreshEvery, s.metrics.Refresh) })
	group.Go(func() error { return periodic.Every(ctx, "mend", mendEvery, readier.Mend) })
	group.Go(func() error { return deliverer.Run(ctx) })
	schedules := s.schedules(s.submitter())
	workflows := s.workflows(s.submitter())
	fetcher := &inputs.InputFetcher{Inputs: s.inputs(), Notifier: s.notifier, Catalogue: s.catalogue}
	fetches := periodic.NewWake()
	group.Go(func() error { return fetcher.Run(ctx, fetches) })
	group.Go(func() error { return tasks.Run(ctx, tasks.Config{Redis: s.queue, Ready: readier.Ready}) })
	settler := &change.Settler{DB: s.db, Notifier: s.notifier}
	timeline := &history.Timeline{DB: s.db}
	agenda := &pass.Agenda{DB: s.db, Notifications: s.notifier.Notifications, Passes: []pass.Pass{
		{Name: "due", On: models.WorkDelayed, Run: releaser.Due},
		{Name: "settle", On: models.WorkUnsettled, Run: settler.Settle},
		// Apart, so that slow submits never delay the decision on slots.
		{Name: "decide on slots", On: models.WorkSchedules, Run: schedules.Decide},
		{Name: "fire slots", On: models.WorkSlots, Run: schedules.Fire},
		{Name: "approvals", On: models.WorkApprovals, Run: workflows.Approvals},
		{Name: "deliver webhooks", On: models.WorkWebhooks, Pause: deliverPause, Run: woken(deliverer.Wake)},
		{Name: "fetch images", On: models.WorkFetches, Run: woken(fetches.Send)},
		{Name: "relay the outbox", On: models.WorkOutbox, Pause: relayPause, Run: relay.Pass},

		{Name: "reap", On: models.WorkLeases, Every: reapEvery, Run: reaper.Reap},
		{Name: "overdue", On: models.WorkLeases, Every: overdueEvery, Run: reaper.Overdue},
		{Name: "expire", On: models.WorkExpiring, Every: expireEvery, Run: releaser.Expire},
		{Name: "slack", On: models.WorkSlack, Every: expireEvery, Run: releaser.Slack},
		{Name: "budgets", On: models.WorkBudgets, Every: budgetsEvery, Run: (&pass.Purser{DB: s.db, Notifier: s.notifier}).Pass},
		{Name: "retry parents", On: models.WorkParents, Every: retryEvery, Run: workflows.RetryParents},
		{Name: "finish cancels", On: models.WorkCancels, Every: retryEvery, Run: workflows.FinishCancels},
		{Name: "bulk", On: models.WorkBulk, Every: bulkEvery, Run: bulk.Pass},
		{Name: "delete accounts", On: models.WorkErasures, Every: erase.Every, Run: s.eraser().Pass},
		{Name: "alert notices", On: models.WorkNotices, Every: alert.NotifyEvery, Run: notifier.Pass},
		{Name: "delete objects", On: models.WorkDeletions, Every: objectsEvery, Run: upkeep.DeleteObjects},
		{Name: "promote", On: models.WorkQueue, Every: promoteEvery, Run: promoter.Promote},
		{Name: "reroute", On: models.WorkQueue, Every: rerouteEvery, Run: rerouter.Reroute},
		{Name: "yield", On: models.WorkQueue, Every: yieldEvery, Run: yielder.Yield},
		{Name: "learn", On: models.WorkJobs, Every: learnEvery, Rest: learnRest, Run: (&lease.Learner{DB: s.db}).Learn},
		{Name: "analyze", On: models.WorkJobs, Every: analyzeEvery, Rest: analyzeRest, Run: upkeep.Analyze},
		{Name: "scale", On: models.WorkFleet, Every: scaleEvery, Rest: scaleRest, Run: uncounted(scaler.Scale)},
		{Name: "quarantine", On: models.WorkFleet, Every: quarantineEvery, Rest: quarantineRest, Run: quarantiner.Pass},

		{Name: "sweep", Every: sweepEvery, Run: uncounted(readier.Sweep)},
		{Name: "silent", Every: silentEvery, Run: reaper.Silent},
		{Name: "reconcile", Every: tasks.ReconcileEvery, Run: publisher.Reconcile},
		{Name: "advice", Every: fleet.AdviseEvery, Run: uncounted(adviser.Pass)},
		{Name: "provider limits", Every: hosted.LimitsEvery, Run: uncounted(applier.Pass)},
		{Name: "prices", Every: prices.Every, Run: uncounted(follower.Pass)},
		{Name: "find orphans", Every: objectsEvery, Run: upkeep.FindOrphans},
		{Name: "review artifacts", Every: objectsEvery, Run: upkeep.ReviewArtifacts},
		{Name: "delete videos", Every: objectsEvery, Run: s.videos(s.submitter()).Sweep},
		{Name: "review inputs", Every: upkeepEvery, Run: upkeep.ReviewInputs},
		{Name: "forget uploads", Every: upkeepEvery, Run: upkeep.ForgetUploads},
		{Name: "forget jobs", Every: upkeepEvery, Run: upkeep.ForgetJobs},
		{Name: "sum up days of the ledger", Every: upkeepEvery, Run: upkeep.CloseDays},
		{Name: "forget the rest", Every: upkeepEvery, Run: upkeep.ForgetRest},
		{Name: "keep events", Every: eventsEvery, Run: upkeep.KeepEvents},
		{Name: "history", Every: history.Every, Run: (&history.Recorder{DB: s.db, Catalogue: s.catalogue}).Pass},
		{Name: "alerts", Every: alert.Every, Run: (&alert.Evaluator{DB: s.db, History: timeline, Config: s.cfg.Alerts, Regions: s.regionTroubles()}).Pass},
		{Name: "alert digest", Every: upkeepEvery, Run: notifier.Digest},
		{Name: "forget alerts", Every: eventsEvery, Run: notifier.Forget},
		{Name: "forget slots", Every: upkeepEvery, Run: schedules.Forget},
		{Name: "forget workflows", Every: upkeepEvery, Run: func(ctx context.Context) (int, error) {
			return workflows.Forget(ctx, s.cfg.Retention.Jobs)
		}},
		{Name: "bulk sweep", Every: bulkSweepEvery, Run: bulk.Sweep},
	}}
	group.Go(func() error { return agenda.Run(ctx) })
	err := group.Wait()
	scaler.Stop()
	return err
}

// uncounted is a pass that does not count what it did.
func uncounted(pass func(context.Context) error) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) { return 0, pass(ctx) }
}

// woken is a pass that wakes a loop, which does the work.
func woken(wake func()) func(context.Context) (int, error) {
	return uncounted(func(context.Context) error {
		wake()
		return nil
	})
}
