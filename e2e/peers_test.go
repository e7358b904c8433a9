package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGraphQLPeers tests the API with common packages: the audit of GraphQL over HTTP,
// graphql-ws and graphql-sse.
func TestGraphQLPeers(t *testing.T) {
	t.Parallel()

	packages, err := filepath.Abs(nodePackages)
	require.NoError(t, err)
	if _, err := os.Stat(packages); err != nil {
		t.Skip("its packages are not there: `go tool task clients` fetches them")
	}
	t.Log(common(t).node(t, filepath.Dir(packages), "node", "graphql.mjs"))
}
