package catalogue_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/stretchr/testify/require"
)

// timedModel returns a model whose render times depend on these parameters.
func timedModel(t *testing.T, names, properties string) (*catalogue.Model, error) {
	t.Helper()
	source, err := catalogue.Parse("m.yaml", fmt.Appendf(nil, `models:
  - name: m
    type: video.generate
    gpuTypes: [any]
    timeoutSeconds: 600
    gpuSecondsPerSecond: 10
    timeDependsOn: %s
    params: {type: object, properties: {%s}}
`, names, properties))
	if err != nil {
		return nil, err
	}
	return source.Models[0], nil
}

const timedProperties = `
      steps: {type: integer, minimum: 1, maximum: 100, default: 8}, durationSeconds: {type: number, minimum: 1, maximum: 5},
      resolution: {enum: ["480p", "a,b"]}, size: {enum: [1, 2.5]}, free: {type: number, default: 0.5}, fast: {type: boolean},
      prompt: {type: string}, noDefault: {type: integer}, zero: {type: integer, default: 0}, any: {}, pace: {type: number}`

func TestTimeClass(t *testing.T) {
	t.Parallel()

	for _, c := range []struct{ names, params, class string }{
		{"[steps]", `{"steps": 8}`, "8"},
		{"[steps]", `{"steps": 15}`, "8"},
		{"[steps]", `{"steps": 16}`, "16"},
		{"[steps]", `{"steps": 40}`, "32"},
		{"[steps]", `{}`, "-"},
		{"[steps, durationSeconds, resolution]", `{"steps": 1, "durationSeconds": 2.5, "resolution": "a,b"}`, "1,3,a_b"},
		{"[durationSeconds, steps]", `{"steps": 1, "durationSeconds": 3}`, "3,1"},
		{"[free]", `{"free": 0}`, "0"},
		{"[free]", `{"free": -3}`, "0"},
		{"[free]", `{"free": 1e-9}`, "0.0625"},
		{"[free]", `{"free": 0.3}`, "0.25"},
		{"[free]", `{"free": 1e300}`, "1.6777216e+07"},
		{"[fast, pace]", `{"fast": true, "pace": 1.5}`, "true,1"},
		{"[]", `{"steps": 8}`, ""},
		{"[]", `{"durationSeconds": 2.5}`, ",3"},
		{"[]", `{"resolution": "480p", "durationSeconds": 5}`, "480p,5"},
		{"[]", `{"resolution": "480p"}`, "480p,-"},
	} {
		m, err := timedModel(t, c.names, timedProperties)
		require.NoError(t, err)

		require.Equal(t, c.class, m.TimeClass(json.RawMessage(c.params)), "%s of %s", c.names, c.params)
	}
}

func TestEstimateGPUSeconds(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		names, params string
		seconds       float64
	}{
		{"[]", `{"steps": 40, "durationSeconds": 2}`, 1 + 20},
		{"[steps]", `{"durationSeconds": 2}`, 1 + 20},
		{"[steps]", `{"steps": 8, "durationSeconds": 2}`, 1 + 20},
		{"[steps]", `{"steps": 40, "durationSeconds": 2}`, 1 + 100},
		{"[steps, free]", `{"steps": 4, "free": 1, "durationSeconds": 2}`, 1 + 20},
		{"[steps]", `{"steps": 40, "durationSeconds": 2, "pace": 3}`, 1 + 30},
		{"[steps, pace, durationSeconds, resolution]", `{"durationSeconds": 2, "pace": 3, "resolution": "1080p"}`, 1 + 9},
		{"[free]", `{"free": -1}`, 1},
		{"[free]", `{"free": 1e300}`, 1 + 1e5},
	} {
		m, err := timedModel(t, c.names, timedProperties)
		require.NoError(t, err)

		require.InDelta(t, c.seconds, m.EstimateGPUSeconds(json.RawMessage(c.params)), 1e-9, "%s of %s", c.names, c.params)
	}
}

func TestTimeDependsOn(t *testing.T) {
	t.Parallel()

	for names, complaint := range map[string]string{
		"[nope]":                                `m.yaml:7: timeDependsOn names "nope": params has no such property`,
		"[steps, steps]":                        "timeDependsOn names steps twice",
		"[prompt]":                              "timeDependsOn names prompt: it must be a number, true or false, or one of the values of an enum",
		"[any]":                                 "timeDependsOn names any: it must be a number",
		"[noDefault]":                           "timeDependsOn names noDefault, a number without a default over 0",
		"[zero]":                                "timeDependsOn names zero, a number without a default over 0",
		"[size]":                                "timeDependsOn names size, a number without a default over 0",
		"[steps, free, fast, pace, resolution]": "timeDependsOn has 5 parameters: name the 4 at most",
		"[free, pace, steps, durationSeconds]":  "classes of values: at most 5000 are allowed",
		"steps":                                 "timeDependsOn must be a list",
		`[""]`:                                  `timeDependsOn names "": params has no such property`,
		"[{a: 1}]":                              "timeDependsOn",
		"[steps, durationSeconds, resolution]":  "",
		"[steps, durationSeconds, fast]":        "",
		"[pace, durationSeconds, resolution]":   "",
		"null":                                  "",
		"[durationSeconds, steps, pace, fast]":  "",
		"[resolution, durationSeconds, nope, any]": `params has no such property`,
	} {
		_, err := timedModel(t, names, timedProperties)

		if complaint == "" {
			require.NoError(t, err, names)
			continue
		}
		require.ErrorContains(t, err, complaint, names)
	}
}
