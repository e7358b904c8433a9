package alert_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/reelay/reelay/features/alert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/operators/runbooks.md")

const runbooksPage = "../../docs/operators/runbooks.md"

var internalLink = regexp.MustCompile(`\((/[a-z][^)]*)\)`)

// page is the page of all runbooks.
func page() string {
	var b strings.Builder
	b.WriteString("# Runbooks\n\nWhat each [alert](alerts.md) means, and what to do. The console shows the same under *Alerts*.\n\n")
	b.WriteString("| alert | severity | condition |\n| --- | --- | --- |\n")
	for _, r := range alert.Defaults() {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s: %s |\n", r.Name, r.Name, r.Severity, r.Title, r.Condition())
	}
	for _, r := range alert.Defaults() {
		fmt.Fprintf(&b, "\n## %s\n\n%s: %s. **%s**\n\n%s\n\nUsual causes:\n\n", r.Name, r.Title, r.Condition(), r.Severity, r.Meaning)
		for _, cause := range r.Causes {
			fmt.Fprintf(&b, "- %s\n", cause)
		}
		b.WriteString("\nWhat to do:\n\n")
		for i, step := range r.Steps {
			fmt.Fprintf(&b, "%d. %s\n", i+1, internalLink.ReplaceAllString(step, "(`$1`)"))
		}
	}
	return b.String()
}

func TestRunbooks(t *testing.T) {
	t.Parallel()

	t.Run("ExistForEachRule", func(t *testing.T) {
		t.Parallel()
		names := map[string]bool{}
		for _, r := range alert.Defaults() {
			require.False(t, names[r.Name], r.Name)
			names[r.Name] = true
			require.NotEmpty(t, r.Meaning, r.Name)
			require.NotEmpty(t, r.Causes, r.Name)
			require.NotEmpty(t, r.Steps, r.Name)
		}
	})

	t.Run("AreInTheDocs", func(t *testing.T) {
		t.Parallel()
		if *update {
			require.NoError(t, os.WriteFile(runbooksPage, []byte(page()), 0o644))
		}
		written, err := os.ReadFile(runbooksPage)
		require.NoError(t, err)
		require.Equal(t, page(), string(written), "run go test ./features/alert -run TestRunbooks -update")
	})
}
