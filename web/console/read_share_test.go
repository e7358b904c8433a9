package console

import (
	"net/http"
	"testing"

	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestReadShares(t *testing.T) {
	t.Parallel()

	b := operator(t)
	p, err := b.Keys.Authenticate(t.Context(), b.Secrets[access.RoleOperator])
	require.NoError(t, err)
	end := b.BeginReads(t, p)

	for _, path := range []string{"/jobs", "/workers", "/queues", "/pools"} {
		got := b.get(t, path)

		require.Equal(t, http.StatusTooManyRequests, got.Status, path)
		require.Equal(t, "1", got.Header.Get("Retry-After"))
	}
	end()
	require.Equal(t, http.StatusOK, b.get(t, "/jobs").Status)
}
