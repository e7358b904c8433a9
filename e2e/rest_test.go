package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestREST(t *testing.T) {
	t.Parallel()

	t.Run("DoesWhatItsPageShows", func(t *testing.T) {
		t.Parallel()

		page, err := os.ReadFile("../docs/rest.md")
		require.NoError(t, err)
		s := common(t)
		// Where a reader stands: beside .reelay.
		dir := t.TempDir()
		require.NoError(t, os.Symlink(s.data, filepath.Join(dir, ".reelay")))
		var outputs []string
		for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
			script := "set -eu -o pipefail\n" + strings.ReplaceAll(block[1], "http://127.0.0.1:8080", s.keys.Endpoint)
			cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			outputs = append(outputs, string(out))
		}

		require.Len(t, outputs, 2)
		require.Contains(t, outputs[0], "\nevent: COMPLETED\n")
		require.Contains(t, outputs[0], `"status":"completed"`)
		require.Contains(t, outputs[0], `"type":"COMPLETED"`)
		film, err := os.ReadFile(filepath.Join(dir, "film.mp4"))
		require.NoError(t, err)
		require.Contains(t, string(film[:16]), "ftyp")
		require.Contains(t, outputs[1], `"status":"scheduled"`)
		require.Contains(t, outputs[1], `"status":"cancelled"`)
		require.Contains(t, outputs[1], `"paused":`)
	})
}
