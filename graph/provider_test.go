package graph_test

import (
	"strings"
	"testing"

	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestProviderAccount(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	kling(t, a)
	enter := `mutation { enterProvider(input: {pool: "kling", use: SUBMIT}) { waitSeconds reason tell } }`
	require.Equal(t, map[string]any{"waitSeconds": 0.0, "reason": "", "tell": false}, a.as(t, access.RoleWorker, enter, nil)["enterProvider"])
	a.as(t, access.RoleWorker, `mutation { tellProvider(input: {pool: "kling", means: "RATE_LIMITED", status: 429, code: "1303", text: "slow",
		retryAfterSeconds: 20}) }`, nil)
	turn := a.as(t, access.RoleWorker, enter, nil)["enterProvider"].(map[string]any)
	require.InDelta(t, 20, turn["waitSeconds"], 2)
	require.Contains(t, turn["reason"], "1303: slow")

	shown := a.as(t, access.RoleOperator, `{ pools { name providerAccount { kind title state reason until concurrent slotsTaken perMinute callsInMinute
		onUnknownSubmit unknownSubmits slots { jobId } errors { status code means known count text } } } }`, nil)
	account := at[map[string]any](t, shown, "pools", 0, "providerAccount")
	require.Equal(t, "PAUSED", account["state"])
	require.Equal(t, []any{map[string]any{"status": 429.0, "code": "1303", "means": "RATE_LIMITED", "known": true, "count": 1.0, "text": "slow"}},
		account["errors"])
	require.Equal(t, []any{3.0, 20.0, 1.0, "WAIT"}, []any{account["concurrent"], account["perMinute"], account["callsInMinute"],
		account["onUnknownSubmit"]})

	for name, bad := range map[string]struct {
		role           access.Role
		mutation, says string
	}{
		"no such pool":     {access.RoleWorker, `mutation { enterProvider(input: {pool: "nonesuch", use: POLL}) { reason } }`, "NOT_FOUND"},
		"a pool's name":    {access.RoleWorker, `mutation { enterProvider(input: {pool: "../x", use: POLL}) { reason } }`, "INVALID_INPUT"},
		"a meaning":        {access.RoleWorker, `mutation { tellProvider(input: {pool: "kling", means: "ODD"}) }`, "INVALID_INPUT"},
		"a long wait":      {access.RoleWorker, `mutation { tellProvider(input: {pool: "kling", retryAfterSeconds: 1e9}) }`, "INVALID_INPUT"},
		"a status":         {access.RoleWorker, `mutation { tellProvider(input: {pool: "kling", status: -1}) }`, "INVALID_INPUT"},
		"a client's call":  {access.RoleClient, `mutation { enterProvider(input: {pool: "kling", use: POLL}) { reason } }`, "FORBIDDEN"},
		"a webhook":        {access.RoleWorker, `{ providerWebhook(jobId: "job_1") }`, "NOT_FOUND"},
		"a client's hook":  {access.RoleClient, `{ providerWebhook(jobId: "job_1") }`, "FORBIDDEN"},
		"a client's reset": {access.RoleClient, `mutation { resetProvider(poolId: "pol_1") { id } }`, "FORBIDDEN"},
	} {
		got := ask(t, a.url, a.Secrets[bad.role], bad.mutation, nil)
		require.Equal(t, []string{bad.says}, got.codes(), "%s: %v", name, got.Errors)
	}
}

func TestPriceBook(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	const write = `mutation ($source: String!, $dry: Boolean) { importProviderPrices(input: {source: $source, dryRun: $dry}) { added warning price { since enteredAt } } }`
	source := "prices: [{provider: veo, model: veo-3, since: 2026-01-01, rules: [{perSecondUsd: 0.4}, {resolution: 4K, audio: true, perCallUsd: 2}]}]"
	dry := a.as(t, access.RoleOperator, write, map[string]any{"source": source, "dry": true})
	require.Nil(t, at[map[string]any](t, dry, "importProviderPrices", 0, "price")["enteredAt"])
	added := a.as(t, access.RoleOperator, write, map[string]any{"source": source})
	require.Equal(t, "2026-01-01T00:00:00Z", at[string](t, added, "importProviderPrices", 0, "price", "since"))
	require.False(t, at[bool](t, a.as(t, access.RoleOperator, write, map[string]any{"source": source}), "importProviderPrices", 0, "added"))

	book := a.as(t, access.RoleViewer, `{ priceBook { models { model price { since } problem }
		prices { provider model since until rules { resolution audio perSecondUsd perCallUsd } } } }`, nil)
	require.Equal(t, []any{map[string]any{"provider": "veo", "model": "veo-3", "since": "2026-01-01T00:00:00Z", "until": nil, "rules": []any{
		map[string]any{"resolution": "", "audio": nil, "perSecondUsd": 0.4, "perCallUsd": 0.0},
		map[string]any{"resolution": "4k", "audio": true, "perSecondUsd": 0.0, "perCallUsd": 2.0},
	}}}, at[any](t, book, "priceBook", "prices"))

	for name, bad := range map[string]struct {
		role         access.Role
		source, says string
	}{
		"another price": {access.RoleOperator, strings.Replace(source, "0.4", "0.5", 1), "CONFLICT"},
		"no file":       {access.RoleOperator, "", "INVALID_INPUT"},
		"a client's":    {access.RoleClient, source, "FORBIDDEN"},
		"a viewer's":    {access.RoleViewer, source, "FORBIDDEN"},
	} {
		got := ask(t, a.url, a.Secrets[bad.role], write, map[string]any{"source": bad.source})
		require.Equal(t, []string{bad.says}, got.codes(), "%s: %v", name, got.Errors)
	}
	got := ask(t, a.url, a.Secrets[access.RoleClient], `{ priceBook { prices { model } } }`, nil)
	require.Equal(t, []string{"FORBIDDEN"}, got.codes())
}
