package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFind(t *testing.T) {
	t.Parallel()

	const up = `{"endpoint": "https://127.0.0.1:9090", "clientKey": "rl_client", "workerKey": "rl_worker", "caFile": "/up/ca.pem"}`
	for name, c := range map[string]struct {
		given settings
		file  string
		want  settings
	}{
		"TakesAllOfARunningUp": {settings{}, up, settings{endpoint: "https://127.0.0.1:9090", key: "rl_worker", caFile: "/up/ca.pem"}},
		"KeepsTheGivenKey": {settings{key: "rl_mine"}, up, settings{endpoint: "https://127.0.0.1:9090", key: "rl_mine",
			caFile: "/up/ca.pem"}},
		"TakesTheKeyForItsOwnEndpoint": {settings{endpoint: "https://127.0.0.1:9090/"}, up, settings{endpoint: "https://127.0.0.1:9090/",
			key: "rl_worker", caFile: "/up/ca.pem"}},
		"SendsTheKeyNowhereElse": {settings{endpoint: "http://elsewhere"}, up, settings{endpoint: "http://elsewhere"}},
		"KeepsTheGivenCertificate": {settings{caFile: "mine.pem"}, up, settings{endpoint: "https://127.0.0.1:9090", key: "rl_worker",
			caFile: "mine.pem"}},
		"HasADefaultWithoutARunningUp":  {settings{key: "rl_mine"}, "", settings{endpoint: "http://127.0.0.1:8080", key: "rl_mine"}},
		"SendsNoKeyToADefaultOfAnother": {settings{}, "", settings{endpoint: "http://127.0.0.1:8080"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := c.given
			got.data = t.TempDir()
			if c.file != "" {
				require.NoError(t, os.WriteFile(filepath.Join(got.data, "credentials.json"), []byte(c.file), 0o600))
			}

			require.NoError(t, got.find())

			got.data = ""
			require.Equal(t, c.want, got)
		})
	}

	t.Run("RefusesAFileThatOtherUsersCanRead", func(t *testing.T) {
		t.Parallel()
		s := settings{data: t.TempDir()}
		path := filepath.Join(s.data, "credentials.json")
		require.NoError(t, os.WriteFile(path, []byte(up), 0o600))
		require.NoError(t, os.Chmod(path, 0o644))

		require.ErrorContains(t, s.find(), "chmod 600")
	})
}
