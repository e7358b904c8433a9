package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

func units(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("systemd/*.service")
	require.NoError(t, err)
	require.Len(t, all, 6)
	return all
}

func TestUnits(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has systemd")
	}

	t.Run("AreWhatSystemdReads", func(t *testing.T) {
		t.Parallel()

		// systemd-analyze looks for the programs, too.
		folder := t.TempDir()
		for _, unit := range units(t) {
			text, err := os.ReadFile(unit)
			require.NoError(t, err)
			here := regexp.MustCompile(`/usr/bin/reelay(-agent)?`).ReplaceAll(text, []byte("/bin/true"))
			require.NoError(t, os.WriteFile(filepath.Join(folder, filepath.Base(unit)), here, 0o644))
		}
		copies, err := filepath.Glob(filepath.Join(folder, "*.service"))
		require.NoError(t, err)

		args := append([]string{"verify", "--man=no"}, copies...)
		said, err := exec.CommandContext(t.Context(), "systemd-analyze", args...).CombinedOutput()

		// It exits with 0 after an unknown key.
		require.NoError(t, err, "systemd-analyze comes with go tool task setup:browser: %s", said)
		require.Empty(t, string(said))
	})

	for _, unit := range units(t) {
		t.Run("AreClosed "+filepath.Base(unit), func(t *testing.T) {
			t.Parallel()

			said, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=true", "--threshold=30", "--no-pager",
				"./"+unit).CombinedOutput()

			require.NoError(t, err, string(said))
		})
	}

	t.Run("GiveProcessesTimeToStop", func(t *testing.T) {
		t.Parallel()

		for _, unit := range units(t) {
			text, err := os.ReadFile(unit)
			require.NoError(t, err)
			if strings.Contains(string(text), "Type=oneshot") {
				continue
			}
			for _, line := range []string{"Restart=always\n", "KillSignal=SIGTERM\n", "LimitNOFILE=65536\n", "User=reelay\n"} {
				require.Contains(t, string(text), line, unit)
			}
			require.Regexp(t, `\nTimeoutStopSec=\d+\n`, string(text), unit)
		}
	})
}

// settingsPage documents all settings.
const settingsPage = "../../docs/operators/configuration.md"

func TestSettings(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(settingsPage)
	require.NoError(t, err)

	for _, file := range []string{"reelay.env", "agent.env"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			require.NoError(t, err)

			settings := regexp.MustCompile(`(?m)^#([A-Z_]+)=`).FindAllStringSubmatch(string(text), -1)

			require.Greater(t, len(settings), 5)
			for _, s := range settings {
				name := s[1]
				if strings.HasPrefix(name, "REELAY_AGENT_") {
					name = "REELAY_AGENT_…"
				}
				require.Contains(t, string(page), "`"+name+"`", "docs/operators/configuration.md does not have it")
			}
			for line := range strings.Lines(string(text)) {
				require.True(t, line == "\n" || line[0] == '#', "the defaults need no settings: %s", line)
			}
		})
	}
}

func TestPackages(t *testing.T) {
	t.Parallel()

	var shipped []string
	for _, name := range []string{"reelay", "reelay-agent"} {
		text, err := os.ReadFile(name + ".yaml")
		require.NoError(t, err)
		var pkg struct {
			Name     string
			Contents []struct{ Src, Dst string }
			Scripts  map[string]string
		}
		require.NoError(t, yaml.Unmarshal(text, &pkg))
		require.Equal(t, name, pkg.Name)
		var own []string
		for _, c := range pkg.Contents {
			if file, ok := strings.CutPrefix(c.Src, "packages/"); ok {
				own = append(own, file)
			}
			if strings.HasPrefix(c.Src, "prometheus/") || strings.HasPrefix(c.Src, "grafana/") {
				require.FileExists(t, filepath.Join("..", c.Src))
			}
		}
		for _, script := range pkg.Scripts {
			own = append(own, strings.TrimPrefix(script, "packages/"))
		}
		for _, file := range own {
			require.FileExists(t, file, "%s.yaml names it", name)
		}
		shipped = append(shipped, own...)
	}
	for _, unit := range units(t) {
		require.Contains(t, shipped, unit, "no package has this unit")
	}
}
