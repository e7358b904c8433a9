package servers

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/reelay/reelay/adapters/metrics"
	"github.com/reelay/reelay/adapters/tasks"
	"github.com/reelay/reelay/features/alert"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/features/prices"
	"github.com/reelay/reelay/features/registry"
	"github.com/reelay/reelay/features/schedule"
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
			"Needs DATABASE_URL, REDIS_URL, GCS_BUCKET and REELAY_SECRETS_FILE; see docs/operators/configuration.md.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg := readConfig()
			if err := cfg.need(); err != nil {
				return err
			}
			if cfg.emulatorHost != "" && cfg.publicURL == "" {
				return errors.New("REELAY_PUBLIC_URL is not set: the links in webhooks need it")
			}
			cfg.setUpLog()
			s, err := openStack(cmd.Context(), cfg, cfg.publicURL)
			if err != nil {
				return err
			}
			defer s.Close()
			slog.InfoContext(cmd.Context(), "control runs", "version", version.Current().String())
			return s.control(cmd.Context())
		},
	}
}

const (
	// reapEvery is short compared with a lease, so a pass that is lost because its process
	// was killed costs little.
	reapEvery       = 2 * time.Second
	silentEvery     = 15 * time.Second
	overdueEvery    = 10 * time.Second
	expireEvery     = time.Second
	retryEvery      = time.Second
	sweepEvery      = 5 * time.Second
	mendEvery       = time.Second
	relayEvery      = 200 * time.Millisecond
	scaleEvery      = time.Second
	yieldEvery      = 5 * time.Second
	quarantineEvery = 5 * time.Second
	objectsEvery    = 10 * time.Second
	upkeepEvery     = time.Minute
	eventsEvery     = time.Hour
	bulkEvery       = time.Second
	bulkSweepEvery  = time.Minute
	promoteEvery    = 5 * time.Second
	learnEvery      = 5 * time.Second
	analyzeEvery    = 5 * time.Second
)

// control runs the periodic passes and the handlers of the lanes until ctx ends. All
// control processes can run every pass; each tick goes to one of them. Loops that wait for their work run in each.
func (s *stack) control(ctx context.Context) error {
	reaper := &lease.Reaper{DB: s.db, Notifier: s.notifier, Catalogue: s.catalogue}
	presence := presenceOf(s.db, models.ProcessControl)
	scheduler := &pass.Releaser{DB: s.db, Notifier: s.notifier, Catalogue: s.catalogue}
	readier := &pass.Readier{DB: s.db, Notifier: s.notifier}
	bulk := s.bulk()
	promoter := &pass.Promoter{DB: s.db, Notifier: s.notifier}
	scaler := &fleet.Scaler{DB: s.db, Notifier: s.notifier, Providers: s.cfg.providers(), Policy: s.cfg.scaling}
	quarantiner := &fleet.Quarantiner{DB: s.db, Notifier: s.notifier, Providers: s.cfg.providers()}
	yielder := &fleet.Yielder{DB: s.db, Notifier: s.notifier, Catalogue: s.catalogue}

	adviser := &fleet.Adviser{DB: s.db, Providers: scaler.Providers}
	follower := &prices.Follower{DB: s.db, Sources: s.cfg.priceSources, Claim: (&periodic.Periods{DB: s.db}).Claim}
	upkeep := &upkeep.Upkeep{DB: s.db, Objects: s.objects, Keep: s.cfg.retention}

	publisher := tasks.NewPublisher(s.asynq)
	defer publisher.Close()
	deliverer := webhook.NewDeliverer(s.db, s.sealer, wire.New(s.readers()), webhook.NewSender(s.cfg.outbound), s.cfg.publicURL)
	deliverer.Observe = s.metrics.Webhook
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
	group.Go(func() error { return periodic.Every(ctx, "clock", jobs.ClockEvery, s.clock.Pass) })
	group.Go(func() error { return periodic.Every(ctx, "catalogue", registry.FollowEvery, s.registry.Pass) })
	group.Go(func() error { return periodic.Every(ctx, "relay the outbox", relayEvery, counted(relay.Pass)) })
	group.Go(func() error { return periodic.Every(ctx, "metrics", metrics.RefreshEvery, s.metrics.Refresh) })
	group.Go(func() error { return s.serveMetrics(ctx) })
	group.Go(func() error { return deliverer.Run(ctx) })
	group.Go(func() error { return scheduler.Run(ctx) })
	group.Go(func() error { return (&change.Settler{DB: s.db, Notifier: s.notifier}).Run(ctx) })
	schedules := s.schedules(s.submitter())
	// Apart, so that slow submits never delay the decision on slots.
	group.Go(func() error { return periodic.Every(ctx, "decide on slots", schedule.Every, counted(schedules.Decide)) })
	group.Go(func() error { return periodic.Every(ctx, "fire slots", schedule.Every, counted(schedules.Fire)) })
	workflows := s.workflows(s.submitter())
	fetcher := &inputs.InputFetcher{Inputs: s.inputs(), Notifier: s.notifier, Catalogue: s.catalogue}
	group.Go(func() error { return fetcher.Run(ctx) })
	group.Go(func() error {
		return tasks.Run(ctx, tasks.Config{
			Redis: s.asynq,
			Ready: readier.Ready, Deliver: deliverer.Wake,
			Claim: (&periodic.Periods{DB: s.db}).Claim,
			Passes: []tasks.Pass{
				{Name: "reap", Every: reapEvery, Run: counted(reaper.Reap)},
				{Name: "silent", Every: silentEvery, Run: counted(reaper.Silent)},
				{Name: "overdue", Every: overdueEvery, Run: counted(reaper.Overdue)},
				{Name: "expire", Every: expireEvery, Run: counted(scheduler.Expire)},
				{Name: "slack", Every: expireEvery, Run: counted(scheduler.Slack)},
				{Name: "retry parents", Every: retryEvery, Run: counted(workflows.RetryParents)},
				{Name: "finish cancels", Every: retryEvery, Run: counted(workflows.FinishCancels)},
				{Name: "sweep", Every: sweepEvery, Run: readier.Sweep},
				{Name: "promote", Every: promoteEvery, Run: counted(promoter.Promote)},
				{Name: "learn", Every: learnEvery, Run: counted((&lease.Learner{DB: s.db}).Learn)},
				{Name: "mend", Every: mendEvery, Run: readier.Mend},
				{Name: "advice", Every: fleet.AdviseEvery, Run: adviser.Pass},
				{Name: "prices", Every: prices.Every, Run: follower.Pass},
				{Name: "scale", Every: scaleEvery, Run: scaler.Scale},
				{Name: "quarantine", Every: quarantineEvery, Run: counted(quarantiner.Pass)},
				{Name: "yield", Every: yieldEvery, Run: counted(yielder.Yield)},
				{Name: "analyze", Every: analyzeEvery, Run: counted(upkeep.Analyze)},
				{Name: "delete objects", Every: objectsEvery, Run: counted(upkeep.DeleteObjects)},
				{Name: "find orphans", Every: objectsEvery, Run: counted(upkeep.FindOrphans)},
				{Name: "review artifacts", Every: objectsEvery, Run: counted(upkeep.ReviewArtifacts)},
				{Name: "review inputs", Every: upkeepEvery, Run: counted(upkeep.ReviewInputs)},
				{Name: "forget uploads", Every: upkeepEvery, Run: counted(upkeep.ForgetUploads)},
				{Name: "forget jobs", Every: upkeepEvery, Run: counted(upkeep.ForgetJobs)},
				{Name: "forget the rest", Every: upkeepEvery, Run: counted(upkeep.ForgetRest)},
				{Name: "keep events", Every: eventsEvery, Run: counted(upkeep.KeepEvents)},
				{Name: "history", Every: history.Every, Run: counted((&history.Recorder{DB: s.db, Catalogue: s.catalogue}).Pass)},
				{Name: "alerts", Every: alert.Every,
					Run: counted((&alert.Evaluator{DB: s.db, History: &history.Timeline{DB: s.db}, Config: s.cfg.alerts}).Pass)},
				{Name: "alert notices", Every: alert.NotifyEvery, Run: counted(notifier.Pass)},
				{Name: "alert digest", Every: upkeepEvery, Run: counted(notifier.Digest)},
				{Name: "forget alerts", Every: eventsEvery, Run: counted(notifier.Forget)},
				{Name: "bulk", Every: bulkEvery, Run: counted(bulk.Pass)},
				{Name: "delete videos", Every: objectsEvery, Run: counted(s.videos(s.submitter()).Sweep)},
				{Name: "forget slots", Every: upkeepEvery, Run: counted(schedules.Forget)},
				{Name: "forget workflows", Every: upkeepEvery, Run: counted(func(ctx context.Context) (int, error) {
					return workflows.Forget(ctx, s.cfg.retention.Jobs)
				})},
				{Name: "bulk sweep", Every: bulkSweepEvery, Run: counted(bulk.Sweep)},
			},
		})
	})
	err := group.Wait()
	scaler.Stop()
	return err
}

// counted turns a pass that returns a count into one that does not.
func counted(pass func(context.Context) (int, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := pass(ctx)
		return err
	}
}
