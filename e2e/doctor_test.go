package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDoctor(t *testing.T) {
	t.Parallel()

	t.Run("FindsNothingBrokenInABusyStack", func(t *testing.T) {
		t.Parallel()

		s := common(t)
		until(t, s.client(t), submit(t, s.client(t), "seen by a doctor", 1, 0), completed)

		report := s.document(t, "doctor", "--full", "--hash")

		levels := map[string]string{}
		for _, f := range report["findings"].([]any) {
			f := f.(map[string]any)
			levels[f["check"].(string)] = f["level"].(string)
			require.NotContains(t, []string{"BROKEN", "UNKNOWN"}, f["level"], f)
		}
		for _, check := range []string{"schema", "objects", "probe", "durability", "redis", "redis-access", "redis-persistence", "redis-eviction",
			"redis-keys"} {
			require.Equal(t, "OK", levels[check], check)
		}
	})
}
