package healthcheck_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/reelay/reelay/internal/healthcheck"
	"github.com/stretchr/testify/require"
)

func TestCommand(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	run := func(t *testing.T, usual string, args ...string) error {
		t.Helper()
		command := healthcheck.Command(usual)
		command.SilenceErrors, command.SilenceUsage = true, true
		command.SetArgs(append([]string{}, args...))
		return command.ExecuteContext(t.Context())
	}

	t.Run("SucceedsAtTheUsualAddress", func(t *testing.T) {
		t.Parallel()

		require.NoError(t, run(t, server.URL+"/readyz"))
	})

	t.Run("SaysWhatTheProcessAnswers", func(t *testing.T) {
		t.Parallel()

		err := run(t, server.URL+"/readyz", server.URL+"/other")

		require.EqualError(t, err, server.URL+"/other answers 503 Service Unavailable: the database does not answer")
	})

	t.Run("FailsIfNobodyAnswers", func(t *testing.T) {
		t.Parallel()
		gone := httptest.NewServer(http.NotFoundHandler())
		gone.Close()

		require.ErrorContains(t, run(t, gone.URL), "connection refused")
	})

	for _, address := range []string{
		"", "127.0.0.1:8080", "ftp://127.0.0.1/readyz", "http:///readyz", "http://a:secret@127.0.0.1/readyz", "http://[::1",
	} {
		t.Run("Refuses "+address, func(t *testing.T) {
			t.Parallel()

			err := run(t, server.URL, address)

			require.EqualError(t, err, "the URL must be an http or https address without a password, such as http://127.0.0.1:8080/readyz")
		})
	}
}
