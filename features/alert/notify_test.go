package alert_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/alert"
	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/models/alerts"
	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
)

// call is one request that a receiver got.
type call struct {
	header http.Header
	body   []byte
}

func (c call) json(t *testing.T) (doc map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(c.body, &doc), string(c.body))
	return doc
}

// receiver is an HTTP server that accepts everything with the status.
func receiver(t *testing.T, status int) (url string, calls chan call) {
	t.Helper()
	calls = make(chan call, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		calls <- call{r.Header, body}
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	return server.URL, calls
}

// mailServer is an SMTP server (RFC 5321) that accepts one letter.
func mailServer(t *testing.T) (address string, letters chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	letters = make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		in := bufio.NewScanner(conn)
		say := func(line string) { fmt.Fprint(conn, line+"\r\n") }
		say("220 mail.example ESMTP")
		for in.Scan() {
			switch verb, _, _ := strings.Cut(strings.ToUpper(in.Text()), " "); verb {
			case "EHLO", "HELO":
				say("250 mail.example")
			case "DATA":
				say("354 go on")
				var letter strings.Builder
				for in.Scan() && in.Text() != "." {
					letter.WriteString(in.Text() + "\n")
				}
				letters <- letter.String()
				say("250 queued")
			case "QUIT":
				say("221 bye")
				return
			default:
				say("250 ok")
			}
		}
	}()
	return listener.Addr().String(), letters
}

func (w *watched) notify(t *testing.T) {
	t.Helper()
	_, err := (&alert.Sender{Desk: w.desk, History: &history.Timeline{DB: w.DB}}).Pass(t.Context())
	require.NoError(t, err)
}

func TestNotify(t *testing.T) {
	t.Parallel()

	t.Run("TellsEachReceiverInItsOwnFormat", func(t *testing.T) {
		t.Parallel()
		hook, hooked := receiver(t, http.StatusNoContent)
		slack, slacked := receiver(t, http.StatusOK)
		pager, paged := receiver(t, http.StatusAccepted)
		mail, letters := mailServer(t)
		secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte("twenty-four bytes or more of it"))
		w := watch(t, 0,
			&alert.Route{Name: "hook", Webhook: &alert.Webhook{URL: hook, Secret: secret}},
			&alert.Route{Name: "slack", Slack: &alert.Slack{URL: slack}},
			&alert.Route{Name: "pager", PagerDuty: &alert.PagerDuty{RoutingKey: "R0", URL: pager}},
			&alert.Route{Name: "mail", SMTP: &alert.SMTP{Address: mail, From: "reelay@example.com", To: []string{"ops@example.com"}, TLS: "off"}})
		w.rule.Says = "<b>Age</b> & outbox: {value}."
		w.lag(t, 90)
		w.pass(t)

		w.notify(t)

		posted := <-hooked
		verifier, err := webhooks.NewWebhook(secret)
		require.NoError(t, err)
		require.NoError(t, verifier.Verify(posted.body, posted.header))
		require.Equal(t, "alert.fired", posted.json(t)["type"])
		require.Equal(t, "outbox-lag", posted.json(t)["data"].(map[string]any)["rule"])
		require.Equal(t, "https://reelay.example/alerts/rules/outbox-lag", posted.json(t)["data"].(map[string]any)["runbookUrl"])

		require.Contains(t, (<-slacked).json(t)["text"], "P1 outbox-lag: &lt;b&gt;Age&lt;/b&gt; &amp; outbox: 90")

		trigger := (<-paged).json(t)
		require.Equal(t, "trigger", trigger["event_action"])
		require.Equal(t, "R0", trigger["routing_key"])
		require.Equal(t, "critical", trigger["payload"].(map[string]any)["severity"])

		letter := <-letters
		require.Contains(t, letter, "Subject: [Reelay] P1 outbox-lag")
		require.Contains(t, letter, "To: <ops@example.com>")

		_, err = w.desk.Acknowledge(t.Context(), w.operator, w.list(t, true)[0].ID)
		require.NoError(t, err)
		w.notify(t)
		acknowledged := (<-paged).json(t)
		require.Equal(t, "acknowledge", acknowledged["event_action"])
		require.Equal(t, trigger["dedup_key"], acknowledged["dedup_key"], "it is one incident")
	})

	t.Run("TriesAgainAfterAFailureAndSaysWhy", func(t *testing.T) {
		t.Parallel()
		url, calls := receiver(t, http.StatusBadGateway)
		w := watch(t, 0, &alert.Route{Name: "broken", Slack: &alert.Slack{URL: url + "/secret-in-the-path"}})
		w.lag(t, 90)
		w.pass(t)
		for range 2 {
			w.notify(t)
			<-calls
			w.Exec(t, "UPDATE alert_notices SET next_at = clock_timestamp()")
		}
		w.notify(t)

		notices, err := w.desk.Notices(t.Context(), w.operator, "")
		require.NoError(t, err)
		require.Len(t, notices, 1)
		require.Equal(t, 3, notices[0].Tries)
		require.Nil(t, notices[0].SentAt)
		require.Contains(t, *notices[0].LastError, "502")
		require.NotContains(t, *notices[0].LastError, "secret")
		w.Exec(t, "UPDATE alert_notices SET tries = 11, next_at = clock_timestamp()")
		w.notify(t)
		notices, err = w.desk.Notices(t.Context(), w.operator, "")
		require.NoError(t, err)
		require.Nil(t, notices[0].NextAt, "it is given up")
	})

	t.Run("LetsAReceiverThatHangsDelayNobodyElse", func(t *testing.T) {
		t.Parallel()
		hangs := make(chan struct{})
		slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hangs }))
		t.Cleanup(slow.Close)
		t.Cleanup(func() { close(hangs) })
		url, calls := receiver(t, http.StatusOK)
		w := watch(t, 0, &alert.Route{Name: "a-hangs", Slack: &alert.Slack{URL: slow.URL}},
			&alert.Route{Name: "b-works", Slack: &alert.Slack{URL: url}})
		w.lag(t, 90)
		w.pass(t)

		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := (&alert.Sender{Desk: w.desk, History: &history.Timeline{DB: w.DB}}).Pass(ctx)
			done <- err
		}()
		<-calls
		cancel() // as a process that ends
		<-done

		var due int
		require.NoError(t, w.DB.NewRaw("SELECT count(*) FROM alert_notices WHERE next_at IS NOT NULL AND route = 'a-hangs'").Scan(t.Context(),
			&due))
		require.Equal(t, 1, due, "another process tries again")
	})

	t.Run("WritesOneDigestADay", func(t *testing.T) {
		t.Parallel()
		url, calls := receiver(t, http.StatusOK)
		var now time.Time
		w := watch(t, 0, &alert.Route{Name: "team", Slack: &alert.Slack{URL: url}})
		require.NoError(t, w.DB.NewRaw("SELECT clock_timestamp()").Scan(t.Context(), &now))
		config, err := alert.Read("alerts.yaml", []byte("routes: [{name: team, slack: {url: '"+url+
			"'}}]\ndigest: {at: '00:00', routes: [team], zone: "+zoneAt(now, 3)+"}"))
		require.NoError(t, err)
		w.desk.Config = config
		notifier := &alert.Sender{Desk: w.desk, History: &history.Timeline{DB: w.DB}}

		first, err := notifier.Digest(t.Context())
		require.NoError(t, err)
		second, err := notifier.Digest(t.Context())
		require.NoError(t, err)
		w.notify(t)

		require.Equal(t, []int{1, 0}, []int{first, second})
		require.Contains(t, (<-calls).json(t)["text"], "0 submitted")
	})
}

// zoneAt returns a zone in which it is about that hour.
func zoneAt(now time.Time, hour int) string {
	east := (hour-now.UTC().Hour()+36)%24 - 12 // −12 to 11
	if east >= 0 {
		return fmt.Sprintf("Etc/GMT-%d", east)
	}
	return fmt.Sprintf("Etc/GMT+%d", -east)
}

func TestRead(t *testing.T) {
	t.Setenv("ALERT_TEST_KEY", "K1")

	t.Run("ExpandsVariablesAndChangesRules", func(t *testing.T) {
		config, err := alert.Read("alerts.yaml", []byte(`
routes:
  - name: on-call
    severities: [P1]
    pagerDuty: { routingKey: "${ALERT_TEST_KEY}" }
rules:
  render-p50: { threshold: 600, forMinutes: 10, severity: P2 }
  queue-depth: { off: true }
`))
		require.NoError(t, err)
		require.Equal(t, "K1", config.Routes[0].PagerDuty.RoutingKey)
		require.Equal(t, "above 10 min for 10 min", config.Rule("render-p50").Condition())
		require.Equal(t, alerts.SeverityP2, config.Rule("render-p50").Severity)
		require.True(t, config.Rule("queue-depth").Off)
	})

	for name, c := range map[string]struct{ file, says string }{
		"TwoReceivers":    {"routes: [{name: a, slack: {url: 'https://x'}, webhook: {url: 'https://x'}}]", "exactly one"},
		"NoReceiver":      {"routes: [{name: a}]", "exactly one"},
		"Nothing":         {"routes: [null]", "must have a name"},
		"RepeatedName":    {"routes: [{name: a, slack: {url: 'https://x'}}, {name: a, slack: {url: 'https://x'}}]", "two routes"},
		"BadURL":          {"routes: [{name: a, slack: {url: 'ftp://user:hunter2@x'}}]", "https or http"},
		"MissingVariable": {"routes: [{name: a, slack: {url: '${ALERT_TEST_MISSING}'}}]", "the environment has no ALERT_TEST_MISSING"},
		"BadSecret":       {"routes: [{name: a, webhook: {url: 'https://x', secret: 'hunter2'}}]", "whsec_"},
		"BadSeverity":     {"routes: [{name: a, severities: [P0], slack: {url: 'https://x'}}]", "P1, P2 and P3"},
		"PlainPassword": {"routes: [{name: a, smtp: {address: 'x:25', from: a@b.c, to: [a@b.c], username: u, password: hunter2, tls: 'off'}}]",
			"only sent over TLS"},
		"BadMail":     {"routes: [{name: a, smtp: {address: 'x:25', from: \"a@b.c\\r\\nBcc: x\", to: [a@b.c]}}]", "mail addresses"},
		"UnknownRule": {"rules: {nothing: {threshold: 1}}", "no rule nothing"},
		"NegativeFor": {"rules: {queue-depth: {forMinutes: -1}}", "0 to 1440"},
		"BadZone": {"routes: [{name: a, slack: {url: 'https://x'}}]\ndigest: {at: '08:00', zone: Mars/Base, routes: [a]}",
			"zone must be"},
		"BadTime":      {"routes: [{name: a, slack: {url: 'https://x'}}]\ndigest: {at: '25:00', routes: [a]}", "such as 08:00"},
		"UnknownRoute": {"digest: {at: '08:00', routes: [b]}", "no route b"},
		"UnknownField": {"roots: []", "roots"},
	} {
		t.Run("Refuses"+name, func(t *testing.T) {
			_, err := alert.Read("alerts.yaml", []byte(c.file))
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
}
