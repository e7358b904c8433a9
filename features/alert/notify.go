package alert

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/alerts"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

const (
	// NotifyEvery is the interval at which due notices are looked for.
	NotifyEvery = 2 * time.Second
	// noticeLease is how long a process has a notice that it claimed for itself: longer than a try.
	noticeLease = 3 * sendTimeout
	noticeBatch = 50
	// maxTries bounds the tries, which with the pauses between them take about two hours.
	maxTries = 12
	maxPause = 15 * time.Minute
	// Kept is how long resolved alerts are kept.
	Kept        = 90 * 24 * time.Hour
	forgetBatch = 1000
)

// Sender sends notices to the receivers.
type Sender struct {
	Desk    *Desk
	History *history.Timeline
}

func (n *Sender) db() *bun.DB { return n.Desk.DB }

// Pass sends the notices that are due, all at the same time, and returns how many.
func (n *Sender) Pass(ctx context.Context) (int, error) {
	due, err := alerts.ClaimNotices(ctx, n.db(), noticeBatch, noticeLease)
	if err != nil {
		return 0, apierror.Wrap(err, "claim the notices of alerts")
	}
	failures := make(chan error, len(due))
	var sending sync.WaitGroup
	for _, notice := range due {
		sending.Go(func() { failures <- n.send(ctx, notice) })
	}
	sending.Wait()
	close(failures)
	for failure := range failures {
		if err == nil {
			err = failure
		}
	}
	return len(due), apierror.Wrap(err, "send the notices of alerts")
}

// send makes one try of a notice. Its failure is recorded; an error is one of the database.
func (n *Sender) send(ctx context.Context, notice *alerts.Notice) error {
	m, err := n.compose(ctx, notice)
	if err != nil {
		return err
	}
	failure, again := "", pause(notice.Tries)
	if route := n.Desk.Config.route(notice.Route); route == nil {
		failure, again = "The configuration has no such receiver any more.", 0
	} else if err := route.send(ctx, m); err != nil {
		failure = text.Clip(strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\x00", ""), "?"), 500)
	}
	if ctx.Err() != nil { // the try was cut off: another process repeats it
		return nil
	}
	return alerts.SettleNotice(ctx, n.db(), notice.ID, failure, again)
}

func (n *Sender) compose(ctx context.Context, notice *alerts.Notice) (*message, error) {
	if notice.Event == alerts.NoticeDigest {
		return &message{ID: string(notice.ID), Event: notice.Event, At: notice.CreatedAt, Title: "Reelay: the last 24 hours", Body: notice.Body,
			Link: n.Desk.URL + "/overview"}, nil
	}
	a, err := alerts.GetAlert(ctx, n.db(), notice.AlertID)
	if err != nil {
		return nil, fmt.Errorf("read alert %s: %w", notice.AlertID, err)
	}
	return n.Desk.about(notice, a), nil
}

// pause is how long to wait after so many tries: 5 s, 10 s, … up to 15 min; 0 for no more.
func pause(tries int) time.Duration {
	if tries >= maxTries {
		return 0
	}
	return min(5*time.Second<<max(tries-1, 0), maxPause)
}

// Digest writes the digest of the day, if its time has come, and nobody has.
func (n *Sender) Digest(ctx context.Context) (written int, err error) {
	digest := n.Desk.Config.Digest
	if digest == nil {
		return 0, nil
	}
	now, err := postgres.Now(ctx, n.db())
	if err != nil {
		return 0, apierror.Wrap(err, "read the time for the digest")
	}
	local := now.In(digest.location)
	if late := local.Hour()*60 + local.Minute() - digest.minute; late < 0 || late > digestLate {
		return 0, nil
	}
	body, err := n.digest(ctx, now)
	if err != nil {
		return 0, apierror.Wrap(err, "write the digest")
	}
	err = jobs.InTx(ctx, n.db(), func(ctx context.Context, tx bun.Tx) error {
		written = 0
		mine, err := alerts.ClaimDigest(ctx, tx, local.Format(time.DateOnly))
		if err != nil || !mine {
			return err
		}
		var all []*alerts.Notice
		for _, route := range digest.Routes {
			all = append(all, &alerts.Notice{ID: models.NewNoticeID(), Event: alerts.NoticeDigest, Route: route, Body: body})
		}
		written = len(all)
		return alerts.InsertNotices(ctx, tx, all)
	})
	return written, apierror.Wrap(err, "write the digest")
}

// digestLate is for how many minutes after its time a digest is still written, if control was
// down.
const digestLate = 6 * 60

// digest is what the last 24 hours were like. Unknown figures are n/a.
func (n *Sender) digest(ctx context.Context, now time.Time) (string, error) {
	f, err := n.History.Window(ctx, now.Add(-24*time.Hour), now)
	if err != nil {
		return "", err
	}
	health, err := alerts.ReadHealth(ctx, n.db(), stall, maxDeadLetters)
	if err != nil {
		return "", err
	}
	fired, err := alerts.CountAlerts(ctx, n.db(), now.Add(-24*time.Hour))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-16s "+format+"\n", append([]any{name + ":"}, args...)...)
	}
	figure := func(value *float64, unit history.Unit) string {
		if value == nil {
			return "n/a"
		}
		return Show(*value, unit)
	}
	line("Jobs", "%d submitted, %d completed, %d failed, %d cancelled", f.Submitted(), f.Completed(), f.Failed(), f.Cancelled())
	line("Failure rate", "%s (without failures that customers caused)", figure(f.FailureRate(), history.Share))
	line("Wait", "median %s, p95 %s", figure(f.Wait(0.5), history.Seconds), figure(f.Wait(0.95), history.Seconds))
	line("Render time", "median %s, p95 %s", figure(f.Render(0.5), history.Seconds), figure(f.Render(0.95), history.Seconds))
	line("GPU time", "%s, of which %s wasted", figure(f.GPUHours(), history.GPUHours), figure(f.WastedGPUHours(), history.GPUHours))
	line("Cost", "%s on average", figure(f.CostPerHour(), history.Dollars))
	line("Preemptions", "%d", f.Preempted())
	line("Dead letters", "%d wait for an operator", health.DeadLetters)
	line("Alerts", "%d P1, %d P2, %d P3", fired[alerts.SeverityP1], fired[alerts.SeverityP2], fired[alerts.SeverityP3])
	return b.String(), nil
}

// Forget deletes what is older than Kept.
func (n *Sender) Forget(ctx context.Context) (int, error) {
	count, err := alerts.ForgetAlerts(ctx, n.db(), Kept, forgetBatch)
	return count, apierror.Wrap(err, "forget old alerts")
}
