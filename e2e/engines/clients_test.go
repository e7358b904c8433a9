package engines

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/runtimes/remote/enginetest"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// TestOpenAIClients checks with OpenAI's packages, unchanged, that the fakes speak the Videos API, and that
// real engines do.
func TestOpenAIClients(t *testing.T) {
	t.Parallel()

	var fakes []string
	for _, profile := range enginetest.Profiles() {
		fake := enginetest.NewVideosAPI(t, profile)
		fake.Run(time.Millisecond)
		fakes = append(fakes, fake.URL)
	}
	useClients(t, fakes...)

	if os.Getenv("REELAY_ENGINES") != "" {
		useClients(t, StartVLLMOmni(t, t.TempDir()).URL, StartSGLang(t, t.TempDir()).URL)
	}
}

func useClients(t *testing.T, engines ...string) {
	t.Helper()
	clients, err := filepath.Abs("../clients")
	require.NoError(t, err)
	for installed, command := range map[string][]string{
		"python/venv/fetched":      {filepath.Join(clients, "python/venv/bin/python"), filepath.Join(clients, "python/engine.py")},
		"node/node_modules/openai": {"node", filepath.Join(clients, "node/engine.mjs")},
	} {
		if _, err := os.Stat(filepath.Join(clients, installed)); err != nil {
			t.Skip("the packages of e2e/clients are not there: `go tool task clients` fetches them")
		}
		cmd := testrun.Command(t, command[0], append(command[1:], engines...)...)
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		films, err := filepath.Glob(filepath.Join(cmd.Dir, "*.mp4"))
		require.NoError(t, err)
		require.NotEmpty(t, films)
		for _, path := range films {
			film, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, strings.TrimSuffix(filepath.Base(path), ".mp4"), enginetest.FilmID(t, film))
		}
	}
}
