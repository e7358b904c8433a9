package alert

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/alerts"
	"github.com/uptrace/bun"
)

const (
	maxSilence = 30 * 24 * time.Hour
	// maxListed is how many alerts a list has.
	maxListed = 200
)

// Desk is where operators see alerts and act on them.
type Desk struct {
	DB     *bun.DB
	Config *Config
	// URL is the address of the console, without a slash at the end, for links.
	URL string
}

// RunbookURL returns the address of the page about a rule.
func (d *Desk) RunbookURL(rule string) string { return d.URL + "/alerts/rules/" + rule }

// List returns the alerts that fire, or the newest 200 of all that fired.
func (d *Desk) List(ctx context.Context, p jobs.Principal, active bool) ([]*alerts.Alert, error) {
	return d.listed(ctx, p, "", active)
}

// Active returns the alerts that fire.
func (d *Desk) Active(ctx context.Context, p jobs.Principal) ([]*alerts.Alert, error) {
	return d.listed(ctx, p, "", true)
}

// Of returns the newest 200 alerts of a rule.
func (d *Desk) Of(ctx context.Context, p jobs.Principal, rule string) ([]*alerts.Alert, error) {
	return d.listed(ctx, p, rule, false)
}

func (d *Desk) listed(ctx context.Context, p jobs.Principal, rule string, active bool) ([]*alerts.Alert, error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	all, err := alerts.ListAlerts(ctx, d.DB, rule, active, maxListed)
	return all, apierror.Wrap(err, "list the alerts")
}

// Pending returns the alerts whose condition does not hold for long enough yet.
func (d *Desk) Pending(ctx context.Context, p jobs.Principal) ([]*alerts.Alert, error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	all, err := alerts.ListPendingAlerts(ctx, d.DB)
	return all, apierror.Wrap(err, "list the pending alerts")
}

// Get returns an alert that fired.
func (d *Desk) Get(ctx context.Context, p jobs.Principal, id models.AlertID) (*alerts.Alert, error) {
	if !p.May(access.RoleViewer) || !id.Valid() {
		return nil, apierror.NotFound("alert")
	}
	a, err := alerts.GetAlert(ctx, d.DB, id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, apierror.NotFound("alert")
	}
	return a, apierror.Wrap(err, "read alert %s", id)
}

// Notices returns the newest notices of an alert, or of all if id is "".
func (d *Desk) Notices(ctx context.Context, p jobs.Principal, id models.AlertID) ([]*alerts.Notice, error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	all, err := alerts.ListNotices(ctx, d.DB, id, maxListed)
	return all, apierror.Wrap(err, "list the notices of alerts")
}

// Acknowledge records that the caller is handling an alert, and notifies its receivers. It does nothing
// to an alert that was acknowledged before, and returns CONFLICT for one that is resolved.
func (d *Desk) Acknowledge(ctx context.Context, p jobs.Principal, id models.AlertID) (a *alerts.Alert, err error) {
	if err := p.RequireOperator(); err != nil {
		return nil, err
	}
	before, err := d.Get(ctx, p, id)
	switch {
	case err != nil:
		return nil, err
	case before.AcknowledgedAt != nil:
		return before, nil
	case before.ResolvedAt != nil:
		return nil, apierror.Conflict("This alert is resolved: there is nothing to acknowledge.")
	}
	err = jobs.InTx(ctx, d.DB, func(ctx context.Context, tx bun.Tx) error {
		if a, err = alerts.AcknowledgeAlert(ctx, tx, id, p.KeyID); err != nil {
			return err
		}
		if err := writeFurtherNotices(ctx, tx, a, alerts.NoticeAcknowledged); err != nil {
			return err
		}
		return p.Audit(ctx, tx, "acknowledgeAlert", string(id), jobs.Payload{"rule": a.Rule})
	})
	if errors.Is(err, sql.ErrNoRows) { // somebody else was faster, or it is resolved
		return d.Get(ctx, p, id)
	}
	return a, apierror.Wrap(err, "acknowledge alert %s", id)
}

// Silence keeps alerts of a rule from being sent to anybody for that many minutes, 1 to 43,200 (30
// days). An empty rule means all. The alerts are still shown. A silence of the caller for the same
// rule and reason that is in force lasts longer instead, so a repeated call makes no second one.
func (d *Desk) Silence(ctx context.Context, p jobs.Principal, rule string, minutes int, reason string) (*alerts.Silence, error) {
	if err := p.RequireOperator(); err != nil {
		return nil, err
	}
	lasts := time.Duration(minutes) * time.Minute
	switch {
	case rule != "" && d.Config.Rule(rule) == nil:
		return nil, apierror.Invalid("rule", "There is no rule %q. Leave rule out for all, or name one of the list of rules.",
			text.Clip(rule, 64))
	case minutes < 1 || minutes > int(maxSilence.Minutes()):
		return nil, apierror.Invalid("minutes", "minutes must be from 1 to %.0f.", maxSilence.Minutes())
	case !text.Valid(reason, 1, lease.MaxMessageBytes):
		return nil, apierror.Invalid("reason", "reason must have 1 to %d printable characters.", lease.MaxMessageBytes)
	}
	s := &alerts.Silence{ID: models.NewSilenceID(), Rule: rule, Reason: reason, CreatedBy: p.KeyID}
	err := jobs.InTx(ctx, d.DB, func(ctx context.Context, tx bun.Tx) error {
		err := alerts.ExtendSilence(ctx, tx, s, lasts)
		if errors.Is(err, sql.ErrNoRows) {
			err = alerts.InsertSilence(ctx, tx, s, lasts)
		}
		if err != nil {
			return err
		}
		return p.Audit(ctx, tx, "silenceAlerts", string(s.ID), jobs.Payload{"rule": rule, "minutes": minutes, "reason": reason})
	})
	return s, apierror.Wrap(err, "silence the alerts")
}

// EndSilence ends a silence now.
func (d *Desk) EndSilence(ctx context.Context, p jobs.Principal, id models.SilenceID) (s *alerts.Silence, err error) {
	if err := p.RequireOperator(); err != nil {
		return nil, err
	}
	if !id.Valid() {
		return nil, apierror.NotFound("silence")
	}
	err = jobs.InTx(ctx, d.DB, func(ctx context.Context, tx bun.Tx) error {
		if s, err = alerts.EndSilence(ctx, tx, id); err != nil {
			return err
		}
		return p.Audit(ctx, tx, "endSilence", string(id), jobs.Payload{"rule": s.Rule})
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, apierror.NotFound("silence that is not over")
	}
	return s, apierror.Wrap(err, "end silence %s", id)
}

// Silences returns the silences that are not over.
func (d *Desk) Silences(ctx context.Context, p jobs.Principal) ([]*alerts.Silence, error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	all, err := alerts.ListSilences(ctx, d.DB)
	return all, apierror.Wrap(err, "list the silences")
}

// Rules returns all rules.
func (d *Desk) Rules(p jobs.Principal) ([]*Rule, error) {
	return d.Config.Rules, p.RequireViewer()
}

// Routes returns the receivers. Their addresses are secrets.
func (d *Desk) Routes(p jobs.Principal) ([]*Route, error) {
	return d.Config.Routes, p.RequireViewer()
}

// TestRoute sends a message to a receiver now, and returns why that failed, or "".
func (d *Desk) TestRoute(ctx context.Context, p jobs.Principal, name string) (failure string, err error) {
	if err := p.RequireOperator(); err != nil {
		return "", err
	}
	route := d.Config.route(name)
	if route == nil {
		return "", apierror.NotFound("receiver")
	}
	if err := p.Audit(ctx, d.DB, "testAlertRoute", name, jobs.Payload{}); err != nil {
		return "", err
	}
	if err := route.send(ctx, trial(d.URL)); err != nil {
		return err.Error(), nil
	}
	return "", nil
}
