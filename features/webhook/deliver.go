package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/reelay/reelay/features/wire"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/periodic"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/internal/tracing"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/uptrace/bun"
)

// Post is one signed POST.
type Post struct {
	URL string
	// ID is the event's id, the same at every try.
	ID models.WebhookEventID
	// At is the time of sending, by PostgreSQL's clock.
	At   time.Time
	Body []byte
	// Secrets are the keys of the signatures, one signature for each.
	Secrets [][]byte
	// Traceparent is that of the job, or "".
	Traceparent string
}

// Answer is the result of one try.
type Answer struct {
	// StatusCode is 0 if there was no answer.
	StatusCode int
	// Error tells the receiver's owner what went wrong. It is empty if nothing did.
	Error string
	// RetryAfter is what the receiver requested, from 0 to 24 hours.
	RetryAfter time.Duration
	Duration   time.Duration
}

// status is nil if there was no answer.
func (a Answer) status() *int {
	if a.StatusCode == 0 {
		return nil
	}
	return &a.StatusCode
}

// Poster sends a POST to a URL that a customer chose.
type Poster interface {
	Send(ctx context.Context, post Post) Answer
}

// Deliverer sends webhooks. Any number of processes may deliver at once: a process claims each
// delivery in PostgreSQL, and if it dies, the delivery is due again when the claim expires.
type Deliverer struct {
	DB        *bun.DB
	Sealer    *seal.Sealer
	Summaries *wire.Summaries
	Sender    Poster
	// PublicURL is the address at which receivers reach this server. Links in webhooks start
	// with it.
	PublicURL string
	// Observe, if not nil, is told how each try ended: delivered, failed or given_up.
	Observe func(outcome string)
	// Objects are what is copied into Buckets, the buckets of accounts.
	Objects jobs.InputObjects
	Buckets Buckets

	wake periodic.Wake
	// extendEvery is how often the claim of a copy in progress is extended. A copy may take longer than a
	// claim.
	extendEvery time.Duration
}

// NewDeliverer makes a deliverer.
func NewDeliverer(db *bun.DB, sealer *seal.Sealer, summaries *wire.Summaries, sender Poster, publicURL string) *Deliverer {
	return &Deliverer{DB: db, Sealer: sealer, Summaries: summaries, Sender: sender, PublicURL: publicURL, wake: periodic.NewWake(),
		extendEvery: deliveryClaim / 3}
}

const (
	// deliverySlots is how many tries a process has in progress. They wait most of the time,
	// and hold no connection to PostgreSQL meanwhile.
	deliverySlots = 128
	// deliveryClaim is longer than a try takes.
	deliveryClaim = 45 * time.Second
	// deliverDrain is how long tries may take to finish when the process ends.
	deliverDrain = 5 * time.Second
)

// Only one try at a time goes to a failing endpoint, so that its timeouts occupy few slots.
// All endpoints of one account together have only a part of the slots.
var webhookBounds = webhooks.Bounds{PerEndpoint: 8, PerAccount: 16, Failing: 1}

// Wake makes Run look for due deliveries now.
func (d *Deliverer) Wake() { d.wake.Send() }

// Run delivers what is due until ctx ends, whenever Wake is called. It then lets running tries finish.
func (d *Deliverer) Run(ctx context.Context) error {
	work, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(deliverDrain, cut) })()
	var tries sync.WaitGroup
	defer tries.Wait()
	busy := make(chan struct{}, deliverySlots)
	log := periodic.Log{Name: "deliver webhooks"}
	for d.wake.Wait(ctx) {
		claimed, err := d.claim(work, deliverySlots-len(busy))
		log.Note(ctx, err)
		for _, delivery := range claimed {
			busy <- struct{}{}
			tries.Go(func() {
				d.report(work, d.deliver(work, delivery))
				<-busy
				d.Wake() // its endpoint may have more
			})
		}
	}
	return nil
}

// Pass makes one try of each delivery that is due now, and returns how many there were.
func (d *Deliverer) Pass(ctx context.Context) (int, error) {
	claimed, err := d.claim(ctx, deliverySlots)
	if err != nil {
		return 0, err
	}
	errs := make([]error, len(claimed))
	var tries sync.WaitGroup
	for i, delivery := range claimed {
		tries.Go(func() { errs[i] = d.deliver(ctx, delivery) })
	}
	tries.Wait()
	return len(claimed), errors.Join(errs...)
}

func (d *Deliverer) claim(ctx context.Context, slots int) ([]*webhooks.ClaimedDelivery, error) {
	if slots == 0 {
		return nil, nil
	}
	claimed, err := webhooks.ClaimDeliveries(ctx, d.DB, webhookBounds, slots, deliveryClaim)
	return claimed, apierror.Wrap(err, "claim webhook deliveries")
}

// report logs an internal error. The delivery is due again when its claim expires.
func (d *Deliverer) report(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		slog.ErrorContext(ctx, "webhook delivery could not be tried", "error", err)
	}
}

// deliver makes one try of a claimed delivery, and records the result.
func (d *Deliverer) deliver(ctx context.Context, c *webhooks.ClaimedDelivery) error {
	err := d.try(ctx, c)
	return apierror.Wrap(err, "deliver %s", c.ID)
}

func (d *Deliverer) try(ctx context.Context, c *webhooks.ClaimedDelivery) error {
	endpoint, err := webhooks.GetEndpoint(ctx, d.DB, c.EndpointID)
	if err != nil {
		return err
	}
	event, job, err := webhooks.GetEventJob(ctx, d.DB, c.EventID)
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return err
	case !endpoint.DeletedAt.IsZero():
		return d.giveUp(ctx, c, reasonDeleted)
	case endpoint.Disabled():
		return d.giveUp(ctx, c, reasonDisabled)
	case err != nil:
		return d.giveUp(ctx, c, "The job was deleted.")
	}
	if endpoint.Format == webhooks.FormatBucket {
		return d.tryBucket(ctx, c, endpoint, event, job)
	}
	post := Post{URL: c.URL, ID: c.EventID, At: c.Now}
	if post.Body, err = d.webhookBody(ctx, &c.Delivery, endpoint.Format, event, job); err != nil {
		return fmt.Errorf("make the body: %w", err)
	}
	if post.Secrets, err = openSecrets(d.Sealer, endpoint, c.Now); err != nil {
		return fmt.Errorf("open the secrets of %s: %w", endpoint.ID, err)
	}
	if job != nil {
		ctx = tracing.Adopt(ctx, job.Traceparent)
	}
	ctx, done := tracing.Start(ctx, "webhook", tracing.String("reelay.event", c.EventID), tracing.String("reelay.delivery", c.ID))
	post.Traceparent = tracing.Parent(ctx)
	answer := d.Sender.Send(ctx, post)
	done(failed(answer))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return d.settle(ctx, c, answer)
}

// failed returns an error for a try that failed.
func failed(answer Answer) error {
	if answer.Error == "" {
		return nil
	}
	return errors.New(answer.Error)
}

// How tries end, for Observe.
const (
	outcomeDelivered = "delivered"
	outcomeFailed    = "failed"
	outcomeGivenUp   = "given_up"
)

func (d *Deliverer) observe(outcome string, err error) {
	if d.Observe != nil && err == nil && outcome != "" {
		d.Observe(outcome)
	}
}

// outcomeOf says how a try ended that left the delivery as it is.
func outcomeOf(delivery *webhooks.Delivery, answer Answer) string {
	switch {
	case answer.Error == "":
		return outcomeDelivered
	case delivery.State == webhooks.DeliveryGivenUp:
		return outcomeGivenUp
	}
	return outcomeFailed
}

const (
	reasonDeleted  = "The endpoint was deleted."
	reasonDisabled = "The endpoint was disabled."
)

// giveUp ends a delivery without a try.
func (d *Deliverer) giveUp(ctx context.Context, c *webhooks.ClaimedDelivery, why string) error {
	outcome := ""
	err := jobs.InTx(ctx, d.DB, func(ctx context.Context, tx bun.Tx) error {
		delivery, err := webhooks.LockDelivery(ctx, tx, c.ID)
		if err != nil || !delivery.ClaimedUntil.Equal(c.ClaimedUntil) {
			return orGone(err)
		}
		delivery.LastError = why
		end(delivery)
		outcome = outcomeGivenUp
		return webhooks.UpdateDelivery(ctx, tx, delivery, 0)
	})
	d.observe(outcome, err)
	return err
}

// end ends a delivery. A redelivery of a delivered event stays DELIVERED.
func end(delivery *webhooks.Delivery) {
	delivery.State, delivery.Once, delivery.ClaimedUntil = webhooks.DeliveryGivenUp, false, time.Time{}
	if delivery.Delivered() {
		delivery.State = webhooks.DeliveryDelivered
	}
}

// orGone ignores that a row was deleted with its job.
func orGone(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

// settle records a try and updates its delivery and its endpoint.
func (d *Deliverer) settle(ctx context.Context, c *webhooks.ClaimedDelivery, answer Answer) error {
	disabled, outcome := "", ""
	err := jobs.InTx(ctx, d.DB, func(ctx context.Context, tx bun.Tx) error {
		var err error
		if disabled, err = judgeEndpoint(ctx, tx, c.EndpointID, answer); err != nil {
			return fmt.Errorf("judge endpoint %s: %w", c.EndpointID, err)
		}
		delivery, err := webhooks.LockDelivery(ctx, tx, c.ID)
		if err != nil {
			return orGone(err)
		}
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		wait := tried(delivery, c, answer, now, disabled != "" || answer.StatusCode == statusGone)
		outcome = outcomeOf(delivery, answer)
		try := &webhooks.Try{
			DeliveryID: c.ID, TryNo: delivery.Tries, At: c.Now,
			StatusCode: answer.status(), Error: answer.Error, DurationMS: int(answer.Duration.Milliseconds()),
		}
		if err := webhooks.InsertTry(ctx, tx, try); err != nil {
			return fmt.Errorf("write the try: %w", err)
		}
		if err := webhooks.UpdateDelivery(ctx, tx, delivery, wait); err != nil || disabled == "" {
			return err
		}
		_, err = webhooks.GiveUpDeliveries(ctx, tx, c.EndpointID, reasonDisabled, webhookGiveUpMost)
		return err
	})
	d.observe(outcome, err)
	if err == nil && disabled != "" {
		slog.WarnContext(ctx, "webhook endpoint disabled", "endpoint", c.EndpointID, "account", c.AccountID, "reason", disabled)
	}
	return err
}

// tried counts a try on its locked delivery, and returns how long to wait before the next try,
// if there is one. A process whose claim expired may still report success, but decides nothing
// else.
func tried(delivery *webhooks.Delivery, c *webhooks.ClaimedDelivery, answer Answer, now time.Time, last bool) (wait time.Duration) {
	mine := delivery.ClaimedUntil.Equal(c.ClaimedUntil) && delivery.State == webhooks.DeliveryPending
	delivery.Tries++
	if delivery.FirstTryAt.IsZero() {
		delivery.FirstTryAt = c.Now
	}
	if answer.Error != "" && !mine {
		return 0
	}
	delivery.LastStatusCode, delivery.LastError = answer.status(), answer.Error
	if answer.Error == "" {
		if !delivery.Delivered() {
			delivery.DeliveredAt = now
		}
		end(delivery)
		return 0
	}
	wait, more := planRetry(delivery.Tries, now.Sub(delivery.FirstTryAt), answer.RetryAfter, 2*rand.Float64()-1)
	if last || delivery.Once || !more {
		end(delivery)
		return 0
	}
	delivery.ClaimedUntil = time.Time{}
	return wait
}

// judgeEndpoint records the result for the endpoint. It disables an endpoint that answered 410
// Gone or has failed for too long, and returns the reason.
func judgeEndpoint(ctx context.Context, tx bun.Tx, id models.WebhookEndpointID, answer Answer) (why string, err error) {
	if answer.Error == "" {
		return "", webhooks.PraiseEndpoint(ctx, tx, id)
	}
	endpoint, failing, err := webhooks.BlameEndpoint(ctx, tx, id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil // it is the account's callback endpoint
	}
	if err != nil {
		return "", err
	}
	switch {
	case answer.StatusCode == statusGone:
		why = "The endpoint responded with status 410 Gone."
	case exhausted(endpoint.FailedTries, failing):
		why = fmt.Sprintf("All of its %d tries failed for %.0f hours; the last: %s", endpoint.FailedTries, failing.Hours(), answer.Error)
	default:
		return "", nil
	}
	err = webhooks.DisableEndpoint(ctx, tx, id, why)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil // another process disabled it first
	}
	return why, err
}
