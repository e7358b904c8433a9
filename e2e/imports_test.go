package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/reelay/reelay"

// imports lists a package's dependencies: all of them, or only its own imports.
func imports(t *testing.T, pkg string, all bool) []string {
	t.Helper()
	args := []string{"list", "-f", `{{join .Imports "\n"}}`, module + "/" + pkg}
	if all {
		args = []string{"list", "-deps", module + "/" + pkg}
	}
	out, err := exec.Command("go", args...).Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}

func TestImports(t *testing.T) {
	t.Parallel()

	for _, rule := range []struct {
		pkg   string
		all   bool // including indirect dependencies
		never []string
	}{
		{"migrations", true, []string{module + "/models", module + "/jobs"}},
		{"models", true, []string{module + "/jobs", module + "/graph", module + "/web/door", module + "/web/console", "github.com/hibiken/asynq",
			"github.com/redis/go-redis/v9"}},
		{"jobs", false, []string{"github.com/hibiken/asynq", "github.com/redis/go-redis/v9", "github.com/99designs/gqlgen", "net/http", module +
			"/graph", module + "/web/door", module + "/web/console"}},
		{"graph", true, []string{module + "/web/door", module + "/web/console"}},
		{"graph", false, []string{"github.com/uptrace/bun"}},
		{"web/console/...", false, []string{"github.com/uptrace/bun", module + "/graph", module + "/web/rest", module + "/web/videos"}},
		{"web/rest", false, []string{"github.com/uptrace/bun", module + "/graph", module + "/web/console", module + "/web/videos"}},
		{"web/videos", false, []string{"github.com/uptrace/bun", module + "/graph", module + "/web/console", module + "/web/rest"}},
		{"web/comfyapi", false, []string{"github.com/uptrace/bun", module + "/graph", module + "/web/console", module + "/web/rest", module +
			"/web/videos"}},
		{"web/door", false, []string{"github.com/uptrace/bun", module + "/graph", module + "/web/console", module + "/web/rest", module +
			"/web/videos"}},
		{"web/ui", false, []string{module + "/jobs", module + "/models"}},
		{"internal/httpguard", true, []string{module + "/jobs", module + "/models"}},
		{"internal/sse", true, []string{module + "/jobs", module + "/models"}},
		{"gpu/runtime", true, []string{module + "/client", module + "/jobs", module + "/models"}},
		{"client", true, []string{module + "/jobs", module + "/models", "github.com/uptrace/bun"}},
		{"cmd/reelay/internal/commands/completion", true, []string{ // which imports the other commands
			module + "/jobs", module + "/models", module + "/graph", module + "/cmd/reelay/internal/servers",
			"github.com/uptrace/bun", "github.com/redis/go-redis/v9", "github.com/hibiken/asynq",
		}},
		{"cmd/reelay/internal/demo", true, []string{module + "/jobs", module + "/models", module + "/graph", module +
			"/cmd/reelay/internal/servers", "github.com/uptrace/bun"}},
		{"cmd/reelay-agent", true, []string{
			module + "/jobs", module + "/models", module + "/graph", module + "/web/door", module + "/web/console", "github.com/uptrace/bun",
			"github.com/redis/go-redis/v9", "github.com/hibiken/asynq", "cloud.google.com/go/storage", module + "/gpu/provider/gce",
			module + "/gpu/provider/kubernetes",
			"google.golang.org/api/compute/v1", "github.com/99designs/gqlgen/graphql/handler",
		}},
	} {
		t.Run(rule.pkg, func(t *testing.T) {
			t.Parallel()

			found := imports(t, rule.pkg, rule.all)

			for _, never := range rule.never {
				require.NotContains(t, found, never)
			}
		})
	}
}
