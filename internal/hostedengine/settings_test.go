package hostedengine_test

import (
	"encoding/json"
	"testing"

	"github.com/reelay/reelay/internal/hostedengine"
	"github.com/reelay/reelay/internal/provider"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	t.Parallel()

	s, err := hostedengine.Parse(provider.Kling, json.RawMessage(`{"model": "text-to-video/kling-3.0",
		"fields": {"seconds": "settings.duration=%ss", "resolution": ""}, "fixed": {"settings.audio": "off"}}`),
		[]string{"seconds", "resolution"})

	require.NoError(t, err)
	require.Equal(t, "text-to-video/kling-3.0", s.Model)
	require.Equal(t, "settings.duration=%ss", s.Fields["seconds"])
	require.Equal(t, "", s.Fields["resolution"], "left out")
	require.Equal(t, "settings.aspect_ratio", s.Fields["aspectRatio"], "a usual one")
	require.NotContains(t, provider.Kling.Fields, "seconds", "the adapter is not changed")

	s, err = hostedengine.Parse(provider.RunPod, json.RawMessage(`{"fixed": {"policy.executionTimeout": 600000}}`), nil)
	require.NoError(t, err, "its address says which model it is")
	require.Empty(t, s.Model)

	_, err = hostedengine.Parse(provider.Veo, json.RawMessage(`{"model": "veo-3.1", "fixed": {"parameters.storageUri": "gs://b"}}`), nil)
	require.NoError(t, err, "the bucket of the results")
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]string{
		`{}`:                               "settings.model is missing",
		`{"model": ""}`:                    "settings.model is missing",
		`{"model": "../admin"}`:            "model has up to",
		`{"model": "a//b"}`:                "model has up to",
		`{"model": "a?b=c"}`:               "model has up to",
		`{"model": "a%2Fb"}`:               "model has up to",
		`{"model": "a b"}`:                 "model has up to",
		`{"model": "m", "url": "http://"}`: "url",
		`{"model": "m", "fields": {"nobody": "x"}}`:                       "no parameter of the model",
		`{"model": "m", "fields": {"seconds": "a..b"}}`:                   "must be names with dots",
		`{"model": "m", "fields": {"seconds": "a.#.b"}}`:                  "must be names with dots",
		`{"model": "m", "fields": {"seconds": "a=%s%s"}}`:                 "has a format",
		`{"model": "m", "fields": {"seconds": "a=%d"}}`:                   "has a format",
		`{"model": "m", "fields": {"seconds": "options.callback_url"}}`:   "has the part callback_url",
		`{"model": "m", "fixed": {"options.external_task_id": "x"}}`:      "has the part external_task_id",
		`{"model": "m", "fixed": {"webhook": "https://example.com"}}`:     "has the part webhook",
		`{"model": "m", "fixed": {"parameters.storageUri": "https://a"}}`: "has the part storageUri",
		`{"model": "m", "fields": {"seconds": "parameters.storageUri"}}`:  "has the part storageUri",
		`{"model": "m", "fixed": {"a=b": 1}}`:                             "fixed",
	} {
		_, err := hostedengine.Parse(provider.Kling, json.RawMessage(settings), []string{"seconds"})
		require.ErrorContains(t, err, want, settings)
	}
}
