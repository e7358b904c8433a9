package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPromises checks that every test named in docs/operators/reliability.md, docs/users/guarantees.md
// and docs/developers/testing.md exists in the named folder.
func TestPromises(t *testing.T) {
	t.Parallel()

	tests := map[string][]string{} // folders by name
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && (entry.Name() == "node_modules" || strings.HasPrefix(entry.Name(), ".") && entry.Name() != "..") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(source), -1) {
			tests[found[1]] = append(tests[found[1]], filepath.ToSlash(filepath.Dir(path))[len("../"):])
		}
		return err
	}))
	promises, err := os.ReadFile("../docs/operators/reliability.md")
	require.NoError(t, err)
	guide, err := os.ReadFile("../docs/developers/testing.md")
	require.NoError(t, err)
	guarantees, err := os.ReadFile("../docs/users/guarantees.md")
	require.NoError(t, err)
	for _, name := range regexp.MustCompile("`(Test\\w+)/(\\w+)`").FindAllStringSubmatch(string(guarantees), -1) {
		require.True(t, slices.ContainsFunc(tests[name[1]], func(folder string) bool { return runs(t, folder, name[2]) }), name[0])
	}
	named := regexp.MustCompile("`(Test\\w+)`(?: \\((e2e)\\)| in ((?:`[a-z/]+`(?:, )?)+))?").FindAllStringSubmatch(string(promises)+
		string(guide)+string(guarantees), -1)
	require.Greater(t, len(named), 40)
	for _, name := range named {
		require.Contains(t, tests, name[1])
		for _, folder := range append(regexp.MustCompile("[a-z/]+").FindAllString(name[3], -1), name[2]) {
			if folder != "" {
				require.Contains(t, tests[name[1]], folder, name[1])
			}
		}
	}
}

// runs reports whether a test in a folder runs a part of this name.
func runs(t *testing.T, folder, part string) bool {
	t.Helper()
	files, err := filepath.Glob("../" + folder + "/*_test.go")
	require.NoError(t, err)
	return slices.ContainsFunc(files, func(path string) bool {
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		return strings.Contains(string(source), `"`+part+`"`)
	})
}
