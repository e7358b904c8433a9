package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
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

	t.Run("RunTheTasksOfCIInTwoJobs", func(t *testing.T) {
		t.Parallel()

		run, err := os.ReadFile("../.ci/run")
		require.NoError(t, err)
		tasks, err := os.ReadFile("../Taskfile.yml")
		require.NoError(t, err)
		workflow, err := os.ReadFile("../.github/workflows/ci.yml")
		require.NoError(t, err)

		steps := regexp.MustCompile(`(?m)^\s+step ([a-z:]+)`).FindAllStringSubmatch(string(run), -1)
		require.NotEmpty(t, steps)
		for _, step := range steps {
			require.Contains(t, string(tasks), "\n  "+step[1]+":\n")
		}
		for _, part := range []string{"quick", "rest"} {
			require.Contains(t, string(run), "\n"+part+")")
			require.Contains(t, string(workflow), "- run: .ci/run "+part+"\n")
		}
	})

	t.Run("AskWhatContributorsCanAnswer", func(t *testing.T) {
		t.Parallel()

		forms, err := filepath.Glob("../.github/ISSUE_TEMPLATE/*.yml")
		require.NoError(t, err)
		require.Len(t, forms, 3)
		for _, form := range forms {
			text, err := os.ReadFile(form)
			require.NoError(t, err)
			var parsed map[string]any
			require.NoError(t, yaml.Unmarshal(text, &parsed), form)
		}
		text, err := os.ReadFile("../renovate.json")
		require.NoError(t, err)
		require.True(t, json.Valid(text))
	})

	t.Run("NameTestsAndIdentifiersThatExist", func(t *testing.T) {
		t.Parallel()

		page, err := os.ReadFile("../CONTRIBUTING.md")
		require.NoError(t, err)
		source := func(path string) string {
			files := []string{path}
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				files, err = filepath.Glob(path + "/*.go")
				require.NoError(t, err)
			}
			var all strings.Builder
			for _, file := range files {
				text, err := os.ReadFile(file)
				require.NoError(t, err, "CONTRIBUTING.md names %s", path)
				all.Write(text)
			}
			return all.String()
		}

		tests := regexp.MustCompile(`(?:go test|task test --) (\./\S+) -run '?(\w+)`).FindAllStringSubmatch(string(page), -1)
		require.NotEmpty(t, tests)
		for _, of := range tests {
			require.True(t, strings.Contains(source("../"+of[1]), "\nfunc "+of[2]), "there is no such test: %s", of[0])
		}
		rows := regexp.MustCompile("(?m)^\\| `([a-z]+/\\S+)` \\| (.*) \\|$").FindAllStringSubmatch(string(page), -1)
		require.NotEmpty(t, rows)
		identifier := regexp.MustCompile("`([A-Z]?[a-z]+[A-Z]?[A-Za-z]*)`")
		for _, row := range rows {
			for _, name := range identifier.FindAllStringSubmatch(row[2], -1) {
				if strings.ToLower(name[1]) != name[1] { // else it may be a word of another language
					require.True(t, strings.Contains(source("../"+row[1]), name[1]), "%s has no %s", row[1], name[1])
				}
			}
		}
	})
}
