package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/reelay/reelay/adapters/metrics"
	"github.com/stretchr/testify/require"
)

func TestDashboard(t *testing.T) {
	t.Parallel()

	t.Run("IsCurrent", func(t *testing.T) {
		t.Parallel()

		is, err := os.ReadFile("reelay.json")
		require.NoError(t, err)
		require.Equal(t, string(marshal(dashboard())), string(is), "run go tool task generate")
	})

	t.Run("HasExpressionsThatPrometheusReads", func(t *testing.T) {
		t.Parallel()

		var recorded []object
		for _, r := range rows {
			for _, p := range r.panels {
				for _, q := range p.queries {
					recorded = append(recorded, object{"record": "checked:expression", "labels": object{"panel": p.title, "legend": q.legend},
						"expr": strings.ReplaceAll(q.expr, "$__rate_interval", "5m")})
				}
			}
		}
		rules, err := json.Marshal(object{"groups": []object{{"name": "dashboard", "rules": recorded}}}) // JSON is YAML
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "rules.yml")
		require.NoError(t, os.WriteFile(file, rules, 0o600))

		said, err := exec.Command("promtool", "check", "rules", file).CombinedOutput()

		require.NoError(t, err, "promtool comes with go tool task setup:browser: %s", said)
	})

	t.Run("ShowsOnlyMetricsThatExist", func(t *testing.T) {
		t.Parallel()

		known := map[string]bool{}
		for _, info := range metrics.New(metrics.Sources{}).List() {
			for _, series := range info.Series() {
				known[series] = true
			}
		}
		for _, name := range recordings(t) {
			known[name] = true
		}
		for _, r := range rows {
			for _, p := range r.panels {
				for _, q := range p.queries {
					names := regexp.MustCompile(`reelay[a-z0-9_:]+`).FindAllString(q.expr, -1)
					require.NotEmpty(t, names, p.title)
					for _, name := range names {
						require.True(t, known[name], "%s shows %s, which does not exist", p.title, name)
					}
				}
			}
		}
	})
}

// recordings returns the names that the rules record.
func recordings(t *testing.T) (names []string) {
	t.Helper()
	data, err := os.ReadFile("../prometheus/rules.yml")
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Rules []struct {
				Record string `yaml:"record"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	require.NoError(t, yaml.Unmarshal(data, &file))
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if rule.Record != "" {
				names = append(names, rule.Record)
			}
		}
	}
	return names
}
