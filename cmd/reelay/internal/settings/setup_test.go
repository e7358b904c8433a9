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

	others := []string{
		"REELAY_LISTEN", "REELAY_METRICS_LISTEN", "REELAY_NAME", "REELAY_LOG", "REELAY_LOCAL_PROVIDER",
		"REELAY_API_KEY", "REELAY_ENDPOINT", "REELAY_CA_FILE", "REELAY_AGENT_CHECKPOINT_COMPRESSION", "REELAY_AGENT_GPU_TYPE",
		"REELAY_AGENT_KEY_FILE", "REELAY_AGENT_NOTICES", "REELAY_QUALITY_GATE",
	}
	page, err := os.ReadFile("../../../../docs/operators/configuration.md")
	require.NoError(t, err)
	for _, found := range regexp.MustCompile("(?m)^\\| `([A-Z_]+)`").FindAllSubmatch(page, -1) {
		name := string(found[1])
		if strings.HasPrefix(name, "OTEL_") {
			continue // one of them may hold a key, and the library reads them
		}
		require.True(t, slices.Contains(recorded, name) || slices.Contains(others, name), "%s is neither recorded nor left out", name)
	}
}
