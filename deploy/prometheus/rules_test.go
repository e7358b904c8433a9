package prometheus

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/reelay/reelay/adapters/metrics"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// promtool runs Prometheus' own tool on what it reads, and requires that it is content.
func promtool(t *testing.T, stdin []byte, args ...string) {
	t.Helper()
	cmd := exec.Command("promtool", args...)
	cmd.Stdin = bytes.NewReader(stdin)
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "promtool %v (it comes with go tool task setup:browser):\n%s", args, said)
}

func TestRules(t *testing.T) {
	t.Parallel()

	rules, err := os.ReadFile("rules.yml")
	require.NoError(t, err)

	t.Run("AreWhatPrometheusReads", func(t *testing.T) {
		t.Parallel()
		promtool(t, nil, "check", "rules", "--lint-fatal", "rules.yml")
		promtool(t, nil, "check", "config", "--syntax-only", "prometheus.yml")
	})

	t.Run("FireInABadNightAndNotInACalmHour", func(t *testing.T) {
		t.Parallel()
		promtool(t, nil, "test", "rules", "rules_test.yml")
	})

	t.Run("ReadOnlyMetricsThatExist", func(t *testing.T) {
		t.Parallel()

		known := map[string]bool{}
		for _, info := range metrics.New(metrics.Sources{}).List() {
			for _, series := range info.Series() {
				known[series] = true
			}
		}
		for _, record := range regexp.MustCompile(`record: (\S+)`).FindAllStringSubmatch(string(rules), -1) {
			known[record[1]] = true
		}
		for line := range strings.Lines(string(rules)) {
			if _, expr, ok := strings.Cut(line, "expr: "); ok {
				for _, name := range regexp.MustCompile(`reelay[_:][a-z0-9_:]+`).FindAllString(expr, -1) {
					require.True(t, known[name], "no process has %s", name)
				}
			}
		}
	})
}

// TestMetrics lets promtool read what a process serves.
func TestMetrics(t *testing.T) {
	t.Parallel()

	m := metrics.New(metrics.Sources{})
	m.Submitted(&models.Job{Tier: models.TierPro})
	m.Refused("INTERNAL", models.TierPro)
	m.Checkpointed(&models.Job{Model: "testcard"}, new(1.0))
	m.Webhook("delivered")
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))

	require.Contains(t, answer.Body.String(), "reelay_submits_accepted_total")
	promtool(t, answer.Body.Bytes(), "check", "metrics")
}
