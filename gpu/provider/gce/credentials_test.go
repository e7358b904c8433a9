package gce_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/gpu/provider/gce"
	"github.com/stretchr/testify/require"
)

func TestCredentials(t *testing.T) {
	t.Run("Missing", func(t *testing.T) {
		t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "missing.json"))

		_, err := gce.New(gce.Config{}).List(t.Context(), newPool(t))

		require.Equal(t, fleet.Permission, fleet.ClassOf(err))
		require.ErrorContains(t, err, "set GOOGLE_APPLICATION_CREDENTIALS")
	})

	for name, c := range map[string]struct {
		status int
		class  fleet.ErrorClass
	}{
		"Refused": {http.StatusBadRequest, fleet.Permission},
		"Outage":  {http.StatusServiceUnavailable, fleet.Transient},
	} {
		t.Run(name, func(t *testing.T) {
			tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(`{"error": "invalid_grant"}`))
			}))
			t.Cleanup(tokens.Close)
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", account(t, tokens.URL))

			// The token comes first, so Google is not called.
			_, err := gce.New(gce.Config{Retry: time.Millisecond, CallTimeout: 2 * time.Second}).List(t.Context(), newPool(t))

			require.Equal(t, c.class, fleet.ClassOf(err), err)
		})
	}
}

// account writes the file of a service account whose tokens come from this URL.
func account(t *testing.T, tokens string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	file, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "p", "private_key_id": "1", "client_email": "control@p.iam.gserviceaccount.com",
		"client_id":   "1",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": tokens,
	})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "account.json")
	require.NoError(t, os.WriteFile(path, file, 0o600))
	return path
}
