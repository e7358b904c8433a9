package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// answering starts an API with one fixed response, and keeps the newest variables.
func answering(t *testing.T, data string) (url string, variables *map[string]any) {
	t.Helper()
	variables = &map[string]any{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct{ Variables map[string]any }
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		*variables = request.Variables
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"data": ` + data + `}`))
	}))
	t.Cleanup(server.Close)
	return server.URL, variables
}

func TestWebhooksCommand(t *testing.T) {
	t.Parallel()

	const endpoint = `{"id": "whk_1", "url": "https://example.com/", "format": "OPENAI", "events": ["video.failed"], "disabled": true,
		"disabledReason": "The endpoint responded with status 410 Gone.", "createdAt": "2026-01-31T12:00:00Z"}`
	const delivery = `{"id": "whd_1", "jobId": "job_1", "run": 1, "eventId": "evt_1", "event": "job.failed", "url": "https://example.com/", "attempts": 2,
		"delivered": false, "lastStatusCode": 500, "lastError": "The endpoint responded with status 500.", "nextAttemptAt": "2026-01-31T12:00:00Z",
		"createdAt": "2026-01-31T12:00:00Z", "deliveredAt": null, "tries": []}`
	bucket := strings.NewReplacer("whk_1", "whk_2", "OPENAI", "BUCKET", "https://example.com/", "s3://films/raw/?region=eu-1").
		Replace(endpoint)
	secretFile := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secretFile, []byte("hunter2\n"), 0o600))
	taken := strings.NewReplacer(`"delivered": false`, `"delivered": true`, `"nextAttemptAt": "2026-01-31T12:00:00Z"`,
		`"nextAttemptAt": null`).Replace(delivery)
	for name, c := range map[string]struct {
		args     []string
		data     string
		shows    []string
		variable string
		is       any
	}{
		"create": {
			[]string{"create", "https://example.com/", "--openai", "--events", "video.failed"},
			`{"createWebhookEndpoint": {"secret": "whsec_1", "endpoint": ` + endpoint + `}}`, []string{"whk_1", "whsec_1"}, "format", "OPENAI",
		},
		"bucket": {[]string{"bucket", "s3://films/raw/?region=eu-1", "--access-key", "AKIA", "--secret-key-file", secretFile},
			`{"createBucketEndpoint": ` + bucket + `}`, []string{"whk_2 is enabled"}, "keys",
			map[string]any{"accessKey": "AKIA", "secretKey": "hunter2"}},
		"keys": {[]string{"keys", "whk_2", "--service-account", secretFile}, `{"setBucketKeys": ` + bucket + `}`, []string{"whk_2 has new keys"},
			"keys", map[string]any{"serviceAccount": "hunter2"}},
		"list": {[]string{"list"}, `{"webhookEndpoints": [` + endpoint + `]}`,
			[]string{"whk_1", "disabled: The endpoint responded with status 410 Gone."}, "", nil},
		"rotate": {[]string{"rotate", "whk_1"}, `{"rotateWebhookSecret": {"secret": "whsec_2", "endpoint": ` + endpoint + `}}`,
			[]string{"whsec_2"}, "id", "whk_1"},
		"rotate the account's": {
			[]string{"rotate", "--account"}, `{"rotateAccountWebhookSecret": "whsec_3"}`, []string{"whsec_3"}, "", nil,
		},
		"delete": {[]string{"delete", "whk_1"}, `{"deleteWebhookEndpoint": "whk_1"}`, []string{"whk_1"}, "id", "whk_1"},
		"disable": {[]string{"disable", "whk_1", "--yes"}, `{"disableWebhookEndpoint": ` + endpoint + `}`, []string{"whk_1 is disabled"}, "id",
			"whk_1"},
		"enable": {[]string{"enable", "whk_1"}, `{"enableWebhookEndpoint": ` + endpoint + `}`, []string{"whk_1"}, "id", "whk_1"},
		"deliveries": {
			[]string{"deliveries", "--failed"}, `{"webhookDeliveries": {"edges": [{"cursor": "c", "node": ` + delivery +
				`}], "pageInfo": {"hasNextPage": true, "endCursor": "c"}}}`,
			[]string{"whd_1", "will be retried: The endpoint responded with status 500.", "--after c"}, "failedOnly", true,
		},
		"test": {[]string{"test", "whk_1"}, `{"sendTestWebhook": ` + delivery + `, "webhookDeliveries": {"edges": [{"cursor": "c", "node": ` +
			taken + `}], "pageInfo": {}}}`,
			[]string{"whd_1: delivered"}, "endpointId", "whk_1"},
		"redeliver": {[]string{"redeliver", "whd_1"}, `{"redeliverWebhook": ` + delivery + `}`, []string{"whd_1"}, "deliveryId", "whd_1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			url, variables := answering(t, c.data)
			args := append(append([]string{"webhooks"}, c.args...), "--endpoint", url, "--key", "rl_test")

			status, out, errs := call(t, t.Context(), args...)

			require.Zero(t, status, errs)
			require.NotContains(t, out+errs, "hunter2")
			for _, text := range c.shows {
				require.Contains(t, out+errs, text)
			}
			if c.variable != "" {
				require.Equal(t, c.is, (*variables)[c.variable])
			}
			status, out, errs = call(t, t.Context(), append(args, "--json")...)
			require.Zero(t, status, errs)
			require.True(t, json.Valid([]byte(out)), out)
		})
	}
}
