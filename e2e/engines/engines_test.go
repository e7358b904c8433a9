package engines

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRestart(t *testing.T) {
	t.Parallel()

	for name, start := range map[string]func(testing.TB, string) *Server{
		"ComfyUI":  StartComfyUI,
		"vLLMOmni": StartVLLMOmni,
		"SGLang":   StartSGLang,
		"Cog":      func(t testing.TB, dir string) *Server { return StartCog(t, dir) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, t.TempDir())
			s.Kill()
			_, err := http.Get(s.URL)
			require.Error(t, err)
			s.Restart()
			res, err := http.Get(s.URL + s.health)
			require.NoError(t, err)
			res.Body.Close()
			require.Equal(t, http.StatusOK, res.StatusCode)
		})
	}
}

func TestSetupRefusesUnknownNames(t *testing.T) {
	t.Parallel()

	cmd := exec.Command("sh", "setup.sh", "nope")
	cmd.Env = append(cmd.Environ(), "REELAY_ENGINES="+filepath.Join(t.TempDir(), "engines"))
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, "engines: no engine is called nope: comfyui, cog, vllm_omni and sglang are", strings.TrimSpace(string(out)))
}
