package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAgent(t *testing.T) {
	t.Parallel()

	t.Run("LinksNoPartOfTheServer", func(t *testing.T) {
		t.Parallel()

		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
		require.NoError(t, err)

		const ours = "github.com/reelay/reelay/"
		allowed := []string{"client", "cmd/reelay-agent", "gpu/agent", "gpu/agent/engines", "gpu/agent/health", "gpu/agent/host",
			"gpu/agent/instance", "gpu/agent/redact", "gpu/hdr", "gpu/metadata",
			"gpu/quality", "gpu/runtime", "gpu/runtimes", "gpu/runtimes/command", "gpu/runtimes/drill", "gpu/runtimes/httpcall",
			"gpu/runtimes/remote", "gpu/runtimes/remote/cog", "gpu/runtimes/remote/hosted", "gpu/runtimes/remote/comfyui", "gpu/runtimes/remote/kinds",
			"gpu/runtimes/remote/videosapi", "gpu/runtimes/stitch", "gpu/runtimes/testcard", "gpu/sensor", "internal/cogengine",
			"internal/comfy", "internal/engine", "internal/freshfile",
			"internal/healthcheck", "internal/httpcall", "internal/media",
			"internal/outbound", "internal/pause", "internal/picture", "internal/hostedengine", "internal/program", "internal/provider", "internal/secretfile", "internal/text",
			"internal/tracing",
			"internal/version", "internal/videoengine", "internal/wellformed", "internal/yamlfile"}
		for _, dependency := range strings.Fields(string(out)) {
			if name, ok := strings.CutPrefix(dependency, ours); ok {
				require.Contains(t, allowed, name)
			}
			for _, server := range []string{"uptrace/bun", "redis", "hibiken", "99designs", "a-h/templ", "cloud.google.com", "jackc/pgx"} {
				require.NotContains(t, dependency, server)
			}
		}
	})

	t.Run("IncludesTheBuiltInRuntime", func(t *testing.T) {
		t.Parallel()

		found, _, err := newCommand().Find([]string{"runtime", "testcard"})

		require.NoError(t, err)
		require.Equal(t, "testcard", found.Name())
	})
}
