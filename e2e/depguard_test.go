package e2e

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

// depguardRule is one rule of the linter depguard. The longest prefix of an import in allow
// or deny decides. A lax rule denies only what it names.
type depguardRule struct {
	Files []string
	Allow []string
	Deny  []struct{ Pkg, Desc string }
}

// covers reports whether the rule applies to a file. "!" excludes files, and "!$test" tests.
func (r depguardRule) covers(t *testing.T, file string) bool {
	t.Helper()
	if slices.Contains(r.Files, "!$test") && strings.HasSuffix(file, "_test.go") {
		return false
	}
	matches := func(glob string) bool {
		covered, err := doublestar.Match(glob, "/"+file)
		require.NoError(t, err)
		return covered
	}
	excludes := func(glob string) bool { return strings.HasPrefix(glob, "!") && matches(glob[1:]) }
	return len(r.Files) == 0 || slices.ContainsFunc(r.Files, matches) && !slices.ContainsFunc(r.Files, excludes)
}

// refuses returns why the rule forbids an import, or "".
func (r depguardRule) refuses(path string) string {
	longest, why := 0, ""
	for _, deny := range r.Deny {
		pkg, exact := strings.CutSuffix(deny.Pkg, "$")
		if (path == pkg || !exact && strings.HasPrefix(path, pkg)) && len(pkg) > longest {
			longest, why = len(pkg), deny.Desc
		}
	}
	for _, allow := range r.Allow {
		if strings.HasPrefix(path, allow) && len(allow) >= longest {
			longest, why = len(allow), ""
		}
	}
	return why
}

// TestPackageRules checks the code against depguard's rules, since `go tool task lint` does
// not run depguard.
func TestPackageRules(t *testing.T) {
	t.Parallel()
	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct{ Rules map[string]depguardRule }
			}
		}
	}
	text, err := os.ReadFile("../.golangci.yml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &config))
	rules := config.Linters.Settings.Depguard.Rules
	require.NotEmpty(t, rules)
	used := map[string]bool{}

	for _, file := range goFiles(t) {
		parsed, err := parser.ParseFile(token.NewFileSet(), "../"+file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for name, rule := range rules {
			if !rule.covers(t, file) {
				continue
			}
			used[name] = true
			for _, spec := range parsed.Imports {
				path, err := strconv.Unquote(spec.Path.Value)
				require.NoError(t, err)
				require.Empty(t, rule.refuses(path), "%s imports %s, against the rule %q", file, path, name)
			}
		}
	}

	require.Len(t, used, len(rules), "a rule covers no file")
}

// TestPackageComments checks that each package says what it is for, where a stranger looks first.
func TestPackageComments(t *testing.T) {
	t.Parallel()
	says := map[string]bool{}
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), "../"+file, nil, parser.PackageClauseOnly|parser.ParseComments)
		require.NoError(t, err)
		dir := filepath.Dir(file)
		says[dir] = says[dir] || parsed.Doc != nil
	}
	for dir, does := range says {
		require.True(t, does, "write a comment for the package in %s", dir)
	}
}

// TestErrorConstructors checks that the caller's errors are made by the functions of
// internal/apierror only.
func TestErrorConstructors(t *testing.T) {
	t.Parallel()
	literal := []byte("apierror." + "Error{")

	for _, file := range goFiles(t) {
		text, err := os.ReadFile("../" + file)
		require.NoError(t, err)

		require.False(t, bytes.Contains(text, literal), "%s builds an apierror.Error: call a function of internal/apierror", file)
	}
}

// TestImportOrder checks that files import the standard library first and all else after a blank line,
// each in order, as the formatter gci of .golangci.yml has it.
func TestImportOrder(t *testing.T) {
	t.Parallel()

	for _, file := range goFiles(t) {
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, "../"+file, nil, parser.ImportsOnly|parser.ParseComments)
		require.NoError(t, err)
		if ast.IsGenerated(parsed) {
			continue
		}
		for i := 1; i < len(parsed.Imports); i++ {
			before, spec := parsed.Imports[i-1], parsed.Imports[i]
			begin := spec.Pos()
			if spec.Doc != nil {
				begin = spec.Doc.Pos()
			}
			blank := files.Position(begin).Line - files.Position(before.End()).Line - 1
			same := isStandard(before) == isStandard(spec)
			ordered := isStandard(before) && !isStandard(spec) || same && before.Path.Value < spec.Path.Value
			require.True(t, ordered && (blank == 0) == same, "%s: put %s into the block of its kind, in order", file, spec.Path.Value)
		}
	}
}

// isStandard reports whether an import is of the standard library, whose paths begin without a domain.
func isStandard(spec *ast.ImportSpec) bool {
	first, _, _ := strings.Cut(spec.Path.Value, "/")
	return !strings.Contains(first, ".")
}

// goFiles lists the Go files that are committed or about to be.
func goFiles(t *testing.T) []string {
	t.Helper()
	listed, err := exec.Command("git", "-C", "..", "ls-files", "-co", "--exclude-standard", "*.go").Output()
	require.NoError(t, err)
	return slices.DeleteFunc(strings.Fields(string(listed)), func(file string) bool {
		_, err := os.Stat("../" + file)
		return os.IsNotExist(err) // deleted but not committed yet
	})
}
