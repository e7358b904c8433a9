package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// node runs a program of the TypeScript client against a stack.
func (s *stack) node(t *testing.T, dir string, command ...string) string {
	t.Helper()
	cmd := testrun.Command(t, command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "REELAY_ENDPOINT="+s.keys.Endpoint, "REELAY_API_KEY="+s.keys.ClientKey)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, "%s\n%s", out, errs.String())
	return string(out)
}

func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	folder, err := filepath.Abs("../client/typescript")
	require.NoError(t, err)
	if _, err := os.Stat(filepath.Join(folder, "node_modules")); err != nil {
		t.Skip("its packages are not there: `go tool task clients` fetches them")
	}
	s := common(t)
	s.node(t, folder, "npm", "test")

	t.Run("ItsExamplesMakeAndFollowAVideo", func(t *testing.T) {
		t.Parallel()

		examples, dir := filepath.Join(folder, "test/dist/examples"), t.TempDir()
		out := s.node(t, dir, "node", filepath.Join(examples, "video.js"), "a harbour at dawn")
		require.Contains(t, out, "video.mp4 is complete")
		probe, err := exec.Command("ffprobe", "-v", "error", "-show_entries", "stream=codec_name", "-of", "csv=p=0",
			filepath.Join(dir, "video.mp4")).Output()
		require.NoError(t, err)
		require.Equal(t, "h264", strings.TrimSpace(string(probe)))

		job := s.document(t, "submit", "--prompt", "a lighthouse", "--duration", "1", "--wait")["job"].(map[string]any)
		out = s.node(t, dir, "node", filepath.Join(examples, "events.js"), job["id"].(string))
		lines := strings.Split(strings.TrimSpace(out), "\n")
		require.Contains(t, lines[0], " QUEUED ")
		require.Contains(t, lines[len(lines)-1], " COMPLETED ")
	})

	t.Run("ItsPackageHoldsWhatItNeedsAndNoMore", func(t *testing.T) {
		t.Parallel()

		var packed []struct {
			Filename string
			Files    []struct{ Path string }
		}
		dir := t.TempDir()
		out := s.node(t, folder, "npm", "pack", "--pack-destination", dir, "--ignore-scripts", "--json")
		require.NoError(t, json.Unmarshal([]byte(out), &packed))

		var files []string
		for _, file := range packed[0].Files {
			files = append(files, file.Path)
			require.True(t, strings.HasPrefix(file.Path, "dist/") || file.Path == "README.md" || file.Path == "package.json", file.Path)
		}
		require.Subset(t, files, []string{"dist/index.js", "dist/index.d.ts", "dist/node.js", "dist/node.d.ts", "dist/webhooks.js", "README.md"})

		// Installed as npm would do it, without the network: with only the packages that it names.
		modules := filepath.Join(dir, "node_modules")
		installed := filepath.Join(modules, "reelay-client")
		require.NoError(t, os.MkdirAll(installed, 0o755))
		s.node(t, dir, "tar", "-xzf", packed[0].Filename, "--strip-components=1", "-C", installed)
		var manifest struct{ Dependencies map[string]string }
		text, err := os.ReadFile(filepath.Join(installed, "package.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &manifest))
		for name := range manifest.Dependencies {
			require.NoError(t, os.MkdirAll(filepath.Join(modules, filepath.Dir(name)), 0o755))
			require.NoError(t, os.Symlink(filepath.Join(folder, "node_modules", name), filepath.Join(modules, name)))
		}
		out = s.node(t, dir, "node", "--input-type=module", "-e", `
			import { Reelay } from "reelay-client";
			import { download } from "reelay-client/node";
			const reelay = new Reelay({ endpoint: process.env.REELAY_ENDPOINT, apiKey: process.env.REELAY_API_KEY });
			console.log(typeof download, (await reelay.viewer()).role);`)
		require.Equal(t, "function CLIENT\n", out)
	})
}
