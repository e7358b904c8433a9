package e2e

import (
	"errors"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtimes/remote/enginetest"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// graphModel takes graphs of nodes that the fake of ComfyUI has.
const graphModel = `models: [{name: comfyui.graph, runtime: comfyui, type: video.generate, description: Graphs., gpuTypes: [any],
	timeoutSeconds: 600, gpuSecondsPerSecond: 1, quality: {allowStill: true, allowDark: true},
	settings: {any: {nodes: [LoadImage, SlowFrames, CreateVideo, SaveVideo], files: []}},
	params: {type: object, additionalProperties: false, required: [graph], properties: {graph: {type: object},
		files: {type: array, maxItems: 20, items: {type: string}, x-reelay-input: [image, video, audio]}}}}]`

const graphOfAPicture = `{
	"0": {"class_type": "LoadImage", "inputs": {"image": "example.png"}},
	"1": {"class_type": "SlowFrames", "inputs": {"frames": 24, "step_seconds": 0, "steps": 10, "seed": 1, "fail_at": -1, "image": ["0", 0]}},
	"2": {"class_type": "CreateVideo", "inputs": {"images": ["1", 0], "fps": 24}},
	"3": {"class_type": "SaveVideo", "inputs": {"video": ["2", 0], "filename_prefix": "x", "format": "mp4", "codec": "h264"}}}`

// TestComfyAPI renders graphs with the official packages of the Comfy API v2, unchanged.
func TestComfyAPI(t *testing.T) {
	t.Parallel()
	fake := enginetest.NewComfyUI(t)
	fake.Run(30 * time.Millisecond)
	s := start(t, "--agents", "0", "--engine", fake.URL, "--engine-kind", "comfyui")
	admin := s.dial(t, s.keys.AdminKey)
	_, err := admin.ApplyModels(t.Context(), "models.yaml", graphModel, false)
	require.NoError(t, err)
	other, err := admin.CreateAccount(t.Context(), client.AccountInput{Name: new("other"), Tier: new(client.TierPro)})
	require.NoError(t, err)
	key, err := admin.CreateAPIKey(t.Context(), other.Id, client.RoleClient, "other", time.Time{})
	require.NoError(t, err)
	// run runs a program of a folder of clients where its user has a graph and a picture.
	run := func(t *testing.T, program, folder, script string) string {
		t.Helper()
		folder, err := filepath.Abs(filepath.Join("clients", folder))
		require.NoError(t, err)
		if program == "python" {
			program = filepath.Join(folder, "venv/bin/python")
		}
		for _, packages := range []string{filepath.Join(folder, "venv"), filepath.Join(folder, "node_modules")} {
			if _, err := os.Stat(packages); err == nil {
				break
			} else if strings.HasSuffix(packages, "node_modules") {
				t.Skip("its packages are not there: `go tool task clients` fetches them")
			}
		}
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "workflow_api.json"), []byte(graphOfAPicture), 0o600))
		picture, err := os.Create(filepath.Join(dir, "photo.png"))
		require.NoError(t, err)
		require.NoError(t, errors.Join(png.Encode(picture, redAndBlue()), picture.Close()))
		cmd := testrun.Command(t, program, filepath.Join(folder, script))
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "COMFY_BASE_URL="+s.keys.Endpoint, "COMFY_API_KEY="+s.keys.ClientKey, "OTHER_API_KEY="+key.Secret)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return filepath.Join(dir, strings.TrimSpace(string(out)))
	}

	for program, folder := range map[string]string{"python": "python", "node": "node"} {
		script := map[string]string{"python": "comfy.py", "node": "comfy.mjs"}[program]
		t.Run("RendersForTheProgramOfTheDocsIn"+program, func(t *testing.T) {
			require.True(t, strings.HasPrefix(probeVideo(t, run(t, program, folder, script)), "h264,"))
			guide, err := os.ReadFile("../docs/users/comfyui.md")
			require.NoError(t, err)
			text, err := os.ReadFile(filepath.Join("clients", folder, script))
			require.NoError(t, err)
			_, shown, _ := strings.Cut(string(text), "\n")
			require.Contains(t, string(guide), strings.TrimSpace(shown))
		})
		t.Run("IsWhatThePackageExpectsIn"+program, func(t *testing.T) {
			run(t, program, folder, strings.Replace(script, ".", "_check.", 1))
		})
	}
	require.True(t, fake.Idle())
}
