package alert

import (
	"context"
	"time"

	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/alerts"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

const (
	// Every is the interval of evaluations.
	Every = 15 * time.Second
	// clearFor is how long a condition must not hold before its alert is resolved, so that a value
	// near the threshold does not send a message every few seconds.
	clearFor = time.Minute
	// staleAfter is how old the last evaluation of a pending alert may be: after a longer
	// pause, the condition must hold for its whole time again.
	staleAfter = 3 * time.Minute
	// stall is how long a job may render without progress, as the agents have it.
	stall = 5 * time.Minute
	// maxDeadLetters bounds how many dead letters are counted.
	maxDeadLetters = 10_000
)

// Evaluator evaluates the rules.
type Evaluator struct {
	DB      *bun.DB
	History *history.Timeline
	Config  *Config
	// Regions says how the regions stand; nil if there is only one.
	Regions func(context.Context) (Regions, error)
}

// Pass evaluates all rules, and returns how many alerts fired or were resolved.
func (e *Evaluator) Pass(ctx context.Context) (changed int, err error) {
	now, err := postgres.Now(ctx, e.DB)
	if err != nil {
		return 0, apierror.Wrap(err, "read the time for alerts")
	}
	state, err := e.state(ctx, now)
	if err != nil {
		return 0, apierror.Wrap(err, "read what alerts are about")
	}
	err = jobs.InTx(ctx, e.DB, func(ctx context.Context, tx bun.Tx) (err error) {
		changed, err = e.apply(ctx, tx, state, now)
		return err
	})
	return changed, apierror.Wrap(err, "evaluate the alerts")
}

// state reads what the rules look at.
func (e *Evaluator) state(ctx context.Context, now time.Time) (s *State, err error) {
	s = new(State)
	if s.Now, err = alerts.ReadHealth(ctx, e.DB, stall, maxDeadLetters); err != nil {
		return nil, err
	}
	if s.Webhooks, err = alerts.CountWebhooks(ctx, e.DB, time.Hour); err != nil {
		return nil, err
	}
	if s.Refused, err = alerts.CountRefusals(ctx, e.DB, time.Hour); err != nil {
		return nil, err
	}
	if s.Full, err = alerts.FleetAtMaximum(ctx, e.DB); err != nil {
		return nil, err
	}
	if e.Regions != nil {
		if s.Regions, err = e.Regions(ctx); err != nil {
			return nil, err
		}
	}
	ago := func(long, back time.Duration) history.Window {
		to := now.Add(-back)
		return history.Window{From: to.Add(-long), To: to}
	}
	// Gauges are sampled once a minute: the last sample can be as old.
	windows, err := e.History.Windows(ctx, ago(2*time.Minute, 0), ago(5*time.Minute, 0), ago(10*time.Minute, 0), ago(30*time.Minute, 0),
		ago(time.Hour, 0), ago(6*time.Hour, 0), ago(24*time.Hour, 0), ago(10*time.Minute, time.Hour))
	if err != nil {
		return nil, err
	}
	for i, into := range []**history.Figures{&s.Minute, &s.Five, &s.Ten, &s.HalfHour, &s.Hour, &s.SixHours, &s.Day, &s.Before} {
		*into = windows[i]
	}
	return s, nil
}

// apply changes the alerts to what the state says.
func (e *Evaluator) apply(ctx context.Context, tx bun.Tx, s *State, now time.Time) (changed int, err error) {
	open, err := alerts.LockOpenAlerts(ctx, tx)
	if err != nil {
		return 0, err
	}
	byRule := map[string]*alerts.Alert{}
	for _, a := range open {
		byRule[a.Rule] = a
	}
	for _, r := range e.Config.Rules {
		a := byRule[r.Name]
		delete(byRule, r.Name)
		event, err := e.follow(ctx, tx, r, a, s, now)
		if err != nil {
			return changed, err
		}
		if event != "" {
			changed++
		}
	}
	for _, a := range byRule { // its rule is gone or off
		if err := e.end(ctx, tx, a, now); err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// follow brings the open alert of a rule up to date, and opens one if the condition begins to
// hold. a is nil if there is none. event is what happened, or "".
func (e *Evaluator) follow(ctx context.Context, tx bun.Tx, r *Rule, a *alerts.Alert, s *State, now time.Time) (event alerts.NoticeEvent,
	err error) {
	if r.Off {
		if a == nil {
			return "", nil
		}
		return "", e.end(ctx, tx, a, now)
	}
	value := r.Value(s)
	switch {
	case value == nil: // unknown is neither
		return "", nil
	case !r.holds(*value):
		if a == nil {
			return "", nil
		}
		return e.clear(ctx, tx, a, now)
	case a == nil:
		a = &alerts.Alert{ID: models.NewAlertID(), Rule: r.Name, Since: now}
		r.set(a, *value, now)
		if added, err := alerts.InsertAlert(ctx, tx, a); err != nil || !added || r.For > 0 {
			return "", err
		}
	case a.FiredAt == nil && now.Sub(a.HeldAt) > staleAfter:
		a.Since = now
	}
	r.set(a, *value, now)
	if a.FiredAt == nil && now.Sub(a.Since) >= r.For {
		a.FiredAt, event = &now, alerts.NoticeFired
	}
	if err := alerts.UpdateAlert(ctx, tx, a); err != nil || event == "" {
		return event, err
	}
	return event, e.writeNotices(ctx, tx, a, event)
}

// set writes what holds into an alert.
func (r *Rule) set(a *alerts.Alert, value float64, now time.Time) {
	a.Severity, a.Message, a.Value, a.Threshold = r.Severity, r.message(value), value, r.Threshold
	a.HeldAt, a.ClearSince = now, nil
}

// clear is called while the condition of an open alert does not hold.
func (e *Evaluator) clear(ctx context.Context, tx bun.Tx, a *alerts.Alert, now time.Time) (alerts.NoticeEvent, error) {
	switch {
	case a.FiredAt == nil:
		return "", alerts.DeleteAlert(ctx, tx, a.ID)
	case a.ClearSince == nil:
		a.ClearSince = &now
		return "", alerts.UpdateAlert(ctx, tx, a)
	case now.Sub(*a.ClearSince) < clearFor:
		return "", nil
	}
	return alerts.NoticeResolved, e.end(ctx, tx, a, now)
}

// end resolves an alert that fired, and forgets one that did not.
func (e *Evaluator) end(ctx context.Context, tx bun.Tx, a *alerts.Alert, now time.Time) error {
	if a.FiredAt == nil {
		return alerts.DeleteAlert(ctx, tx, a.ID)
	}
	a.ResolvedAt = &now
	if err := alerts.UpdateAlert(ctx, tx, a); err != nil {
		return err
	}
	return e.writeNotices(ctx, tx, a, alerts.NoticeResolved)
}

// writeNotices writes the notices of an event to all receivers of its severity, unless a silence covers it.
// Receivers of the first notice also get the one that the alert is resolved, even during a silence.
func (e *Evaluator) writeNotices(ctx context.Context, tx bun.Tx, a *alerts.Alert, event alerts.NoticeEvent) error {
	if event == alerts.NoticeFired {
		silences, err := alerts.ListSilences(ctx, tx)
		if err != nil {
			return err
		}
		for _, s := range silences {
			if s.Covers(a.Rule) {
				return nil
			}
		}
		return alerts.InsertNotices(ctx, tx, e.Config.notices(a, event))
	}
	return writeFurtherNotices(ctx, tx, a, event)
}

// writeFurtherNotices writes notices of an event to the receivers that were notified when the alert fired.
func writeFurtherNotices(ctx context.Context, tx bun.Tx, a *alerts.Alert, event alerts.NoticeEvent) error {
	before, err := alerts.ListNotices(ctx, tx, a.ID, maxRoutes*3)
	if err != nil {
		return err
	}
	var all []*alerts.Notice
	for _, n := range before {
		if n.Event == alerts.NoticeFired {
			all = append(all, &alerts.Notice{ID: models.NewNoticeID(), AlertID: a.ID, Event: event, Route: n.Route})
		}
	}
	return alerts.InsertNotices(ctx, tx, all)
}
