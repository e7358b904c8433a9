package settings

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRecordedSettings checks that each setting of the servers is recorded, or is one of those
// that differ between the processes of an installation or are the clients' and agents'.
func TestRecordedSettings(t *testing.T) {
	t.Parallel()

	page, err := os.ReadFile("../../../../docs/operators/configuration.md")
	require.NoError(t, err)
	for _, found := range regexp.MustCompile("(?m)^\\| `([A-Z_]+)`").FindAllSubmatch(page, -1) {
		name := string(found[1])
		if strings.HasPrefix(name, "OTEL_") || strings.HasPrefix(name, "REELAY_AGENT_") && name != "REELAY_AGENT_KEY_FILE" {
			continue // the library reads the first, one of which may hold a key, and the agent the others
		}
		require.True(t, slices.Contains(recorded, name) || slices.Contains(unrecorded, name), "%s is neither recorded nor left out", name)
	}
}

func TestStrangers(t *testing.T) {
	t.Parallel()

	require.Empty(t, Strangers([]string{
		"PATH=/bin", "REELAY_LISTEN=:1", "REELAY_REGION_PEERS=", "REELAY_OIDC_CLIENT_SECRET_FILE=/a", "REELAY_AGENT_GPU_TYPE=l4",
		"REELAY_API_SERVICE_HOST=10.0.0.1", "REELAY_API_SERVICE_PORT_HTTP=80", "REELAY_API_PORT=tcp://10.0.0.1:80", "REELAY_API_PORT_80_TCP_ADDR=10.0.0.1",
	}))
	require.Equal(t, []string{
		"REELAY_REGION_PEER is no setting; did you mean REELAY_REGION_PEERS?", "REELAY_SOMETHING is no setting", "REELAY_ is no setting",
	}, Strangers([]string{"REELAY_REGION_PEER=https://secret@a", "REELAY_SOMETHING", "REELAY_\x1b=a"}))
}
