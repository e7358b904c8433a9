package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

func TestReadme(t *testing.T) {
	t.Parallel()

	t.Run("SaysOnlyWhatWorks", func(t *testing.T) {
		t.Parallel()

		readme, err := os.ReadFile("../README.md")
		require.NoError(t, err)
		tasks, err := os.ReadFile("../Taskfile.yml")
		require.NoError(t, err)
		s := common(t)
		// The reader's working directory, with bin and .reelay in it.
		dir := t.TempDir()
		require.NoError(t, os.Symlink(s.data, filepath.Join(dir, ".reelay")))
		require.NoError(t, os.Symlink(filepath.Dir(reelay), filepath.Join(dir, "bin")))

		blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
		script := "set -eu\n"
		for _, block := range blocks {
			if names := regexp.MustCompile(`go tool task ([a-z:]+)`).FindAllStringSubmatch(block[1], -1); names != nil {
				for _, name := range names {
					require.Contains(t, string(tasks), "\n  "+name[1]+":\n", "the README names a task that does not exist")
				}
				continue // CI runs them
			}
			script += block[1]
		}
		script = strings.NewReplacer("http://127.0.0.1:8080", s.keys.Endpoint).Replace(script)
		cmd := testrun.Command(t, "bash", "-c", script)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()

		require.NoError(t, err, string(out))
		require.NotContains(t, string(out), `"errors"`)
		require.Contains(t, string(out), `"status":"COMPLETED"`)
		require.FileExists(t, filepath.Join(dir, "lighthouse.mp4"))
		require.FileExists(t, filepath.Join(dir, "film.mp4"))
		for _, link := range regexp.MustCompile(`\]\(([a-zA-Z/.-]+)\)`).FindAllStringSubmatch(string(readme), -1) {
			require.FileExists(t, filepath.Join("..", link[1]))
		}
	})
}

func TestQuickStart(t *testing.T) {
	t.Parallel()

	t.Run("EndsWithAVideo", func(t *testing.T) {
		t.Parallel()

		s := common(t)
		dir := s.show(t)
		blocks := s.blocks(t, "users/quick-start.md")
		require.Len(t, blocks, 1)

		out := shell(t, dir, blocks[0])

		require.Contains(t, out, `"status":"COMPLETED"`)
		video, err := os.ReadFile(filepath.Join(dir, "quick-start.mp4"))
		require.NoError(t, err)
		require.Contains(t, string(video[:16]), "ftyp")
	})
}
