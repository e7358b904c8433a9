package version

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBuild(t *testing.T) {
	t.Parallel()

	const commit = "1f2e3d4c5b6a79880123456789abcdef01234567"
	for want, settings := range map[string][]debug.BuildSetting{
		Number:                            {{Key: "GOOS", Value: "linux"}},
		Number + "+1f2e3d4c5b6a":          {{Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: "false"}},
		Number + "+1f2e3d4c5b6a.modified": {{Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: "true"}},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()

			b := Build{Version: Number}
			b.stamp(settings)

			require.Equal(t, want, b.String())
		})
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()

	t.Run("PrintsTheBuild", func(t *testing.T) {
		t.Parallel()

		cmd, out := Command(), &bytes.Buffer{}
		cmd.SetOut(out)
		cmd.SetArgs([]string{})
		require.NoError(t, cmd.Execute())

		require.Contains(t, out.String(), " "+Number+"-dev")
	})

	t.Run("PrintsJSON", func(t *testing.T) {
		t.Parallel()

		cmd, out := Command(), &bytes.Buffer{}
		cmd.SetOut(out)
		cmd.SetArgs([]string{"--json"})
		require.NoError(t, cmd.Execute())

		var printed Build
		require.NoError(t, json.Unmarshal(out.Bytes(), &printed))
		require.Equal(t, Current(), printed)
	})

	t.Run("PrintsTheCommitThatTheLinkerWasGiven", func(t *testing.T) {
		t.Parallel()

		const at = "github.com/reelay/reelay/internal/version"
		program := filepath.Join(t.TempDir(), "reelay-agent")
		build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false",
			"-ldflags", "-X "+at+".commit=1f2e3d4c5b6a79880123456789abcdef01234567 -X "+at+".modified=true", "-o", program, "../../cmd/reelay-agent")
		build.Stderr = os.Stderr
		require.NoError(t, build.Run())

		out, err := exec.CommandContext(t.Context(), program, "version").Output()

		require.NoError(t, err)
		require.Contains(t, string(out), " "+Number+"-dev+1f2e3d4c5b6a.modified ")
		taskfile, err := os.ReadFile("../../Taskfile.yml")
		require.NoError(t, err)
		require.Contains(t, string(taskfile), "-X $at.commit=$(git rev-parse HEAD")
		require.Contains(t, string(taskfile), "at="+at+"\n")
	})

	t.Run("PrintsTheCommitOfABuildFromACheckout", func(t *testing.T) {
		t.Parallel()

		if git, err := os.Stat("../../.git"); err != nil || !git.IsDir() {
			t.Skip("go records no commit outside a clone's main working tree")
		}
		head, err := exec.CommandContext(t.Context(), "git", "rev-parse", "HEAD").Output()
		require.NoError(t, err)
		program := filepath.Join(t.TempDir(), "reelay-agent")
		build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=true", "-o", program, "../../cmd/reelay-agent")
		build.Stderr = os.Stderr
		require.NoError(t, build.Run())

		out, err := exec.CommandContext(t.Context(), program, "version", "--json").Output()

		require.NoError(t, err)
		var printed Build
		require.NoError(t, json.Unmarshal(out, &printed))
		require.Equal(t, strings.TrimSpace(string(head)), printed.Commit)
	})
}

func TestChangelog(t *testing.T) {
	t.Parallel()

	t.Run("HasASectionForThisVersion", func(t *testing.T) {
		t.Parallel()

		text, err := os.ReadFile("../../CHANGELOG.md")
		require.NoError(t, err)

		require.Contains(t, string(text), "\n## ["+Number+"]")
	})
}
