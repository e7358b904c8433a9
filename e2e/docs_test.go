package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDocs checks the links of the documentation.
func TestDocs(t *testing.T) {
	t.Parallel()

	var pages []string
	require.NoError(t, filepath.WalkDir("../docs", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	}))
	require.Greater(t, len(pages), 20)

	for _, page := range append(pages, "../README.md", "../CONTRIBUTING.md", "../SECURITY.md", "../client/typescript/README.md") {
		t.Run("LinkToWhatExists "+page, func(t *testing.T) {
			t.Parallel()

			text, err := os.ReadFile(page)
			require.NoError(t, err)

			for _, link := range regexp.MustCompile(`\]\(([^)#:]*)(?:#([a-z0-9-]+))?\)`).FindAllStringSubmatch(string(text), -1) {
				target := page
				if link[1] != "" {
					target = filepath.Join(filepath.Dir(page), link[1])
					_, err = os.Stat(target)
					require.NoError(t, err, link[0])
				}
				if link[2] != "" {
					require.Contains(t, anchors(t, target), link[2], link[0])
				}
			}
		})
	}

	t.Run("AreListedInTheIndexOfTheirFolder", func(t *testing.T) {
		t.Parallel()

		for _, page := range pages {
			index, err := os.ReadFile(filepath.Join(filepath.Dir(page), "README.md"))
			require.NoError(t, err)
			if name := filepath.Base(page); name != "README.md" {
				require.Contains(t, string(index), "]("+name+")", page)
			}
		}
	})
}

// anchors returns the anchors of a page's headings.
func anchors(t *testing.T, page string) (names []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		name := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}
