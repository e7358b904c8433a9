package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProjectFiles(t *testing.T) {
	t.Parallel()

	for _, page := range []string{"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"} {
		t.Run("NameFilesThatExist "+page, func(t *testing.T) {
			t.Parallel()

			text, err := os.ReadFile("../" + page)
			require.NoError(t, err)

			// Links, and the places in the first column of a table.
			for _, name := range regexp.MustCompile("(?m)\\]\\(([a-zA-Z/_.-]+)\\)|^\\| `([^`]+)` \\|").FindAllStringSubmatch(string(text), -1) {
				_, err := os.Stat(filepath.Join("..", name[1]+name[2]))
				require.NoError(t, err)
			}
		})
	}

	t.Run("NameTasksThatExist", func(t *testing.T) {
		t.Parallel()

		page, err := os.ReadFile("../CONTRIBUTING.md")
		require.NoError(t, err)
		tasks, err := os.ReadFile("../Taskfile.yml")
		require.NoError(t, err)

		for _, name := range regexp.MustCompile(`go tool task ([a-z:]+)`).FindAllStringSubmatch(string(page), -1) {
			require.Contains(t, string(tasks), "\n  "+name[1]+":\n")
		}
	})
}
