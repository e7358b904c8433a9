package alert

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/alerts"
	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/wneessen/go-mail"
)

// sendTimeout bounds one try, so that a receiver that hangs delays nobody else.
const sendTimeout = 10 * time.Second

// httpClient follows no redirects: they would lead secrets elsewhere.
var httpClient = &http.Client{
	Timeout:       sendTimeout,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// send sends a message to the receiver. An error has no secret: neither the address nor a key.
func (r *Route) send(ctx context.Context, m *message) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	switch {
	case r.Webhook != nil:
		return r.Webhook.send(ctx, m)
	case r.Slack != nil:
		return post(ctx, r.Slack.URL, slackOf(m), nil)
	case r.PagerDuty != nil:
		return r.PagerDuty.send(ctx, m)
	}
	return r.SMTP.send(ctx, m)
}

// post sends JSON. Only a 2xx response is a success.
func post(ctx context.Context, address string, body any, sign func(http.Header, []byte)) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(data))
	if err != nil {
		return errors.New("the url is malformed")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "Reelay-Alerts")
	if sign != nil {
		sign(request.Header, data)
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return fmt.Errorf("the call failed: %s", outbound.Reason(err))
	}
	defer response.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(response.Body, 300))
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("it responded with status %d: %s", response.StatusCode, strings.ToValidUTF8(strings.TrimSpace(string(said)), "?"))
	}
	return nil
}

// webhookBody is what a webhook gets.
type webhookBody struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      any       `json:"data"`
}

type webhookAlert struct {
	ID             models.AlertID  `json:"id"`
	Rule           string          `json:"rule"`
	Severity       alerts.Severity `json:"severity"`
	Message        string          `json:"message"`
	Value          float64         `json:"value"`
	Threshold      float64         `json:"threshold"`
	Since          time.Time       `json:"since"`
	FiredAt        *time.Time      `json:"firedAt"`
	ResolvedAt     *time.Time      `json:"resolvedAt"`
	AcknowledgedAt *time.Time      `json:"acknowledgedAt"`
	RunbookURL     string          `json:"runbookUrl"`
}

func (w *Webhook) send(ctx context.Context, m *message) error {
	body := webhookBody{Type: "alert." + strings.ToLower(string(m.Event)), Timestamp: m.At.UTC()}
	if a := m.Alert; a != nil {
		body.Data = webhookAlert{a.ID, a.Rule, a.Severity, a.Message, a.Value, a.Threshold, a.Since, a.FiredAt, a.ResolvedAt, a.AcknowledgedAt,
			m.Runbook}
	} else {
		body.Data = map[string]string{"title": m.Title, "text": m.Body}
	}
	return post(ctx, w.URL, body, func(header http.Header, data []byte) {
		now := time.Now()
		header.Set("Webhook-Id", m.ID)
		header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
		signer, err := webhooks.NewWebhook(w.Secret)
		if w.Secret == "" || err != nil { // a secret that cannot sign was refused: see check
			return
		}
		if signature, err := signer.Sign(m.ID, now, data); err == nil {
			header.Set("Webhook-Signature", signature)
		}
	})
}

// canSign reports whether a text is a secret as Standard Webhooks requires.
func canSign(secret string) bool {
	encoded, ok := strings.CutPrefix(secret, "whsec_")
	key, err := base64.StdEncoding.DecodeString(encoded)
	return ok && err == nil && len(key) >= 24 && len(key) <= 64
}

// slackOf is a message for an incoming webhook of Slack. What it shows is escaped as Slack asks.
func slackOf(m *message) map[string]any {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace
	said := "*" + escape(m.Title) + "*\n" + escape(m.Body)
	var links []string
	if m.Runbook != "" {
		links = append(links, "<"+m.Runbook+"|Runbook>")
	}
	if m.Link != "" {
		links = append(links, "<"+m.Link+"|Console>")
	}
	return map[string]any{
		"text": escape(m.Title) + ": " + escape(m.Body),
		"blocks": []any{
			map[string]any{"type": "section", "text": map[string]any{"type": "mrkdwn", "text": said}},
			map[string]any{"type": "context", "elements": []any{map[string]any{"type": "mrkdwn",
				"text": strings.Join(append(links, text.Moment(m.At.UTC(), m.At)), " · ")}}},
		},
	}
}

// pagerDutySeverity is what PagerDuty calls a severity.
var pagerDutySeverity = map[alerts.Severity]string{alerts.SeverityP1: "critical", alerts.SeverityP2: "error", alerts.SeverityP3: "warning"}

func (p *PagerDuty) send(ctx context.Context, m *message) error {
	body := map[string]any{"routing_key": p.RoutingKey, "dedup_key": m.ID, "event_action": "trigger"}
	severity, details := "info", map[string]any{"text": m.Body}
	if a := m.Alert; a != nil {
		// An incident is one alert, whatever happens to it.
		body["dedup_key"] = "reelay/" + string(a.ID)
		severity = pagerDutySeverity[a.Severity]
		details = map[string]any{"rule": a.Rule, "value": a.Value, "threshold": a.Threshold, "since": a.Since}
		switch m.Event {
		case alerts.NoticeResolved:
			body["event_action"] = "resolve"
		case alerts.NoticeAcknowledged:
			body["event_action"] = "acknowledge"
		}
	}
	if body["event_action"] == "trigger" {
		summary := m.Title
		if m.Alert != nil {
			summary = m.Title + ": " + m.Body
		}
		body["client"], body["client_url"] = "Reelay", m.Link
		body["payload"] = map[string]any{"summary": clip(summary, 1024), "source": "reelay", "severity": severity,
			"timestamp": m.At.UTC().Format(time.RFC3339), "custom_details": details}
		if m.Runbook != "" {
			body["links"] = []any{map[string]any{"href": m.Runbook, "text": "Runbook"}}
		}
	}
	return post(ctx, p.URL, body, nil)
}

func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}

func (s *SMTP) send(ctx context.Context, m *message) error {
	letter := mail.NewMsg()
	if err := errors.Join(letter.From(s.From), letter.To(s.To...)); err != nil {
		return err
	}
	letter.Subject("[Reelay] " + m.Title)
	letter.SetMessageIDWithValue(m.ID + "@reelay")
	letter.SetDate()
	letter.SetBodyString(mail.TypeTextPlain, m.plain())

	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return fmt.Errorf("the port %s is no number", port)
	}
	options := []mail.Option{mail.WithPort(number), mail.WithTimeout(sendTimeout),
		mail.WithTLSConfig(&tls.Config{ServerName: host, MinVersion: tls.VersionTLS12})}
	switch s.TLS {
	case "implicit":
		options = append(options, mail.WithSSL())
	case "off":
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	default:
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	}
	if s.Username != "" {
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(s.Username), mail.WithPassword(s.Password))
	}
	client, err := mail.NewClient(host, options...)
	if err != nil {
		return err
	}
	return client.DialAndSendWithContext(ctx, letter)
}
