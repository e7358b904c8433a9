package kubernetes_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/reelay/reelay/gpu/provider/kubernetes"
	"github.com/stretchr/testify/require"
)

func TestCheckPool(t *testing.T) {
	t.Parallel()
	for settings, says := range map[string]string{
		`{"template": "l4-agent"}`:                          "",
		`{"template": "l4.agent", "scheduleSeconds": 0}`:    "",
		`{"template": "l4-agent", "scheduleSeconds": 3600}`: "",
		`{"template": "l4-agent", "scheduleSeconds": null}`: "",
		``:                             "settings must be a JSON object",
		`[]`:                           "settings must be a JSON object",
		`{"template": "l4-agent"} {}`:  "settings must be a JSON object",
		`{}`:                           "settings.template is empty",
		`{"template": "L4 agent"}`:     `settings.template is "L4 agent"`,
		`{"template": "../secrets/x"}`: "settings.template is",
		`{"template": "` + strings.Repeat("a", 254) + `"}`:   "settings.template is",
		`{"template": ["a"]}`:                                "settings.template must be",
		`{"template": "a", "scheduleSeconds": -1}`:           "settings.scheduleSeconds must be from 0 to 3600",
		`{"template": "a", "scheduleSeconds": 3601}`:         "settings.scheduleSeconds must be from 0 to 3600",
		`{"template": "a", "scheduleSeconds": "soon"}`:       "settings.scheduleSeconds must be",
		`{"template": "a", "sheduleSeconds": 1}`:             `settings have no field "sheduleSeconds": those of the provider kubernetes`,
		`{"template": "a", "image": "evil.example/miner:1"}`: `settings have no field "image"`,
		`{"template": "a", "namespace": "kube-system"}`:      `settings have no field "namespace"`,
	} {
		pool := newPool()
		pool.Settings = json.RawMessage(settings)
		err := kubernetes.CheckPool(pool)
		if says == "" {
			require.NoError(t, err, settings)
			continue
		}
		require.ErrorContains(t, err, says, settings)
	}
	pool := newPool()
	pool.Zones = []string{"eu-1a"}
	require.ErrorContains(t, kubernetes.CheckPool(pool), "zones must be empty: the nodeSelector")
}

func TestLabel(t *testing.T) {
	t.Parallel()
	require.Equal(t, "production", kubernetes.Label("production"))
	require.Regexp(t, "^sha256-[0-9a-f]{32}$", kubernetes.Label("Production #1"))
	require.NotEqual(t, kubernetes.Label("a b"), kubernetes.Label("a c"))
	require.Regexp(t, "^sha256-", kubernetes.Label(strings.Repeat("a", 64)))
}
