package alert

import (
	"fmt"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/alerts"
)

// message is the content of a notice, before it is formatted for a receiver.
type message struct {
	ID    string
	Event alerts.NoticeEvent
	At    time.Time
	// Alert is nil for a digest and a trial.
	Alert *alerts.Alert
	Title string
	Body  string
	// Link leads to the console, Runbook to what to do.
	Link, Runbook string
}

// trial is the message by which a receiver is tried.
func trial(url string) *message {
	return &message{
		ID: string(models.NewNoticeID()), Event: "TEST", At: time.Now(), Title: "Reelay: a test of this receiver",
		Body: "An operator sent this message. Nothing is wrong.", Link: url + "/alerts",
	}
}

// about returns the message of a notice about an alert.
func (d *Desk) about(n *alerts.Notice, a *alerts.Alert) *message {
	m := &message{ID: string(n.ID), Event: n.Event, At: n.CreatedAt, Alert: a, Link: d.URL + "/alerts", Runbook: d.RunbookURL(a.Rule)}
	switch n.Event {
	case alerts.NoticeResolved:
		m.Title = fmt.Sprintf("Resolved: %s %s", a.Severity, a.Rule)
	case alerts.NoticeAcknowledged:
		m.Title = fmt.Sprintf("Acknowledged: %s %s", a.Severity, a.Rule)
	default:
		m.Title = fmt.Sprintf("%s %s", a.Severity, a.Rule)
	}
	m.Body = a.Message
	return m
}

// plain is the message as text.
func (m *message) plain() string {
	var b strings.Builder
	b.WriteString(m.Body + "\n")
	if m.Alert != nil {
		fmt.Fprintf(&b, "\nSince:   %s\n", text.MomentToSecond(m.Alert.Since.UTC(), m.At))
	}
	if m.Runbook != "" {
		fmt.Fprintf(&b, "Runbook: %s\n", m.Runbook)
	}
	if m.Link != "" {
		fmt.Fprintf(&b, "Console: %s\n", m.Link)
	}
	return b.String()
}
