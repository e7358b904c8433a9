package alerts

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/features/alert"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/alerts"
	"github.com/reelay/reelay/web/console/shell"
)

// alertList is the view of the page with alerts.
type alertList struct {
	// History shows all alerts that fired, instead of those that fire.
	History  bool
	Alerts   []alertRow
	Pending  []alertRow
	Silences []silenceRow
	Routes   []*alert.Route
	// Failing are the newest notices that were not sent yet, or given up.
	Failing []*alerts.Notice
	Rules   []*alert.Rule
	Now     time.Time
}

type alertRow struct {
	*alerts.Alert
	Rule *alert.Rule
	// By is who acknowledged it.
	By string
}

type silenceRow struct {
	*alerts.Silence
	By string
}

// state is the state of an alert, as a badge shows it.
func (r alertRow) state() string {
	switch {
	case r.FiredAt == nil:
		return "PENDING"
	case r.ResolvedAt != nil:
		return "RESOLVED"
	case r.AcknowledgedAt != nil:
		return "ACKNOWLEDGED"
	}
	return "FIRING"
}

func (r silenceRow) what() string {
	if r.Rule == "" {
		return "all alerts"
	}
	return r.Rule
}

// fires returns when the condition will have held for long enough.
func (r alertRow) fires() time.Time { return r.Since.Add(r.Rule.For) }

func (c *controller) alertList(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readAlerts(r.Context(), p, r.URL.Query().Get("history") != "")
	if err != nil {
		return err
	}
	v.Now = time.Now()
	return shell.Render(w, r, http.StatusOK, alertListPage(v))
}

func (c *controller) alertListLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	all := r.URL.Query().Get("history") != ""
	return c.Refresh(w, r, p, alertsPath("/alerts/live", all), func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component,
		error) {
		v, err := c.readAlerts(ctx, p, all)
		if err != nil {
			return nil, err
		}
		return func(now time.Time) templ.Component {
			v.Now = now
			return alertTables(v)
		}, nil
	})
}

func alertsPath(page string, all bool) string {
	if all {
		return page + "?history=1"
	}
	return page
}

func (c *controller) readAlerts(ctx context.Context, p jobs.Principal, all bool) (*alertList, error) {
	v := &alertList{History: all, Rules: c.Alerts.Config.Rules, Routes: c.Alerts.Config.Routes}
	found, err := c.Alerts.List(ctx, p, !all)
	if err != nil {
		return nil, err
	}
	pending, err := c.Alerts.Pending(ctx, p)
	if err != nil {
		return nil, err
	}
	silences, err := c.Alerts.Silences(ctx, p)
	if err != nil {
		return nil, err
	}
	notices, err := c.Alerts.Notices(ctx, p, "")
	if err != nil {
		return nil, err
	}
	for _, n := range notices {
		if n.SentAt == nil && n.LastError != nil && len(v.Failing) < 5 {
			v.Failing = append(v.Failing, n)
		}
	}
	var keys []models.KeyID
	for _, a := range found {
		keys = append(keys, a.AcknowledgedBy)
	}
	for _, s := range silences {
		keys = append(keys, s.CreatedBy)
	}
	names, err := c.Reads.Directory.KeyNames(ctx, p, keys)
	if err != nil {
		return nil, err
	}
	v.Alerts, v.Pending = c.alertRows(found, names), c.alertRows(pending, names)
	for _, s := range silences {
		v.Silences = append(v.Silences, silenceRow{s, names[s.CreatedBy]})
	}
	return v, nil
}

func (c *controller) alertRows(all []*alerts.Alert, names map[models.KeyID]string) (rows []alertRow) {
	for _, a := range all {
		rule := c.Alerts.Config.Rule(a.Rule)
		if rule == nil { // of an older configuration
			rule = &alert.Rule{Name: a.Rule, Title: a.Rule}
		}
		rows = append(rows, alertRow{a, rule, names[a.AcknowledgedBy]})
	}
	return rows
}

func (c *controller) alertAcknowledge(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	a, err := c.Alerts.Acknowledge(r.Context(), p, models.AlertID(r.PathValue("id")))
	if err != nil {
		return err
	}
	return c.Done(w, r, "/alerts", "Acknowledged "+a.Rule+".")
}

// silenceForm is the view of the page that asks for how long and why.
type silenceForm struct {
	Rule            string
	Minutes, Reason string
	Rules           []*alert.Rule
	// Errors are messages by the name of the field.
	Errors map[string]string
}

func (c *controller) silenceAsk(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	return shell.Render(w, r, http.StatusOK, silencePage(&silenceForm{Rule: r.URL.Query().Get("rule"), Minutes: "60",
		Rules: c.Alerts.Config.Rules}))
}

func (c *controller) silenceStart(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	v := &silenceForm{Rule: r.PostForm.Get("rule"), Minutes: strings.TrimSpace(r.PostForm.Get("minutes")),
		Reason: strings.TrimSpace(r.PostForm.Get("reason")), Rules: c.Alerts.Config.Rules}
	minutes, _ := strconv.Atoi(v.Minutes) // 0 is refused
	_, err := c.Alerts.Silence(r.Context(), p, v.Rule, minutes, v.Reason)
	var refused *apierror.Error
	if errors.As(err, &refused) && refused.Code == apierror.CodeInvalidInput {
		v.Errors = map[string]string{refused.Field: refused.Message}
		return shell.Render(w, r, http.StatusUnprocessableEntity, silencePage(v))
	}
	if err != nil {
		return err
	}
	return c.Done(w, r, "/alerts", "The silence has begun.")
}

func (c *controller) silenceEnd(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if _, err := c.Alerts.EndSilence(r.Context(), p, models.SilenceID(r.PathValue("id"))); err != nil {
		return err
	}
	return c.Done(w, r, "/alerts", "The silence is over.")
}

func (c *controller) routeTest(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	name := r.PathValue("name")
	failure, err := c.Alerts.TestRoute(r.Context(), p, name)
	if err != nil {
		return err
	}
	if failure != "" {
		return c.Done(w, r, "/alerts", "The test of "+name+" failed: "+failure)
	}
	return c.Done(w, r, "/alerts", "The test message was sent to "+name+".")
}

// alertRule is the view of the page about a rule.
type alertRule struct {
	*alert.Rule
	Alerts []alertRow
	Now    time.Time
}

func (c *controller) alertRule(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	rule := c.Alerts.Config.Rule(r.PathValue("name"))
	if rule == nil {
		return apierror.NotFound("rule")
	}
	found, err := c.Alerts.Of(r.Context(), p, rule.Name)
	if err != nil {
		return err
	}
	var keys []models.KeyID
	for _, a := range found {
		keys = append(keys, a.AcknowledgedBy)
	}
	names, err := c.Reads.Directory.KeyNames(r.Context(), p, keys)
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, alertRulePage(&alertRule{rule, c.alertRows(found, names), time.Now()}))
}

// stepPart is a part of a step of a runbook: text, or the address of a page.
type stepPart struct{ text, path string }

// stepParts cuts a step at the addresses of pages, such as (/queues).
func stepParts(step string) (parts []stepPart) {
	for {
		before, rest, ok := strings.Cut(step, "(/")
		path, after, closed := strings.Cut(rest, ")")
		if !ok || !closed {
			return append(parts, stepPart{text: step})
		}
		parts = append(parts, stepPart{text: before}, stepPart{path: "/" + path})
		step = after
	}
}
