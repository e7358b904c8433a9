package rest_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/rest"
	"github.com/stretchr/testify/require"
)

func TestRegion(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	const path = "/api/v1/region"

	got := a.ask(t, http.MethodGet, path, "", as(a.Secrets[access.RoleViewer]))

	require.Equal(t, http.StatusOK, got.status, got.raw)
	require.Equal(t, "no-store", got.header.Get("Cache-Control"))
	require.Equal(t, "eu", got.body["region"])
	require.Equal(t, true, got.body["serves"])
	require.Equal(t, "*", got.body["commits_wait_for"])
	promotions, peers := got.body["promotions"].([]any), got.body["peers"].([]any)
	require.Equal(t, "us", promotions[0].(map[string]any)["from"])
	require.Equal(t, "root@db2", promotions[0].(map[string]any)["by"])
	silent, waits := peers[0].(map[string]any), peers[1].(map[string]any)
	require.Equal(t, "silent", silent["trouble"])
	require.Equal(t, "It does not answer.", silent["problem"])
	require.NotEmpty(t, silent["fix"])
	require.Nil(t, waits["trouble"])
	require.Equal(t, "ap", waits["region"])
	require.Equal(t, http.StatusForbidden, a.get(t, path).status, "clients do not see it")

	keys := &auth.KeyWatch{Authenticate: a.Keys.Authenticate, Every: 20 * time.Millisecond}
	alone := httptest.NewServer(rest.New(rest.Config{Keys: keys, Reads: a.Reads}))
	t.Cleanup(alone.Close)
	one := *a
	one.url = alone.URL
	missing := one.ask(t, http.MethodGet, path, "", as(a.Secrets[access.RoleViewer]))
	require.Equal(t, http.StatusNotFound, missing.status, missing.raw)
}
