package hostedengine_test

import (
	"encoding/json"
	"testing"

	"github.com/reelay/reelay/internal/hostedengine"
	"github.com/reelay/reelay/internal/provider"
	"github.com/stretchr/testify/require"
)

func TestAsk(t *testing.T) {
	t.Parallel()

	t.Run("ReadsWhatTheRequestOfEachProviderSays", func(t *testing.T) {
		t.Parallel()
		for _, a := range provider.All {
			params := map[string]any{"durationSeconds": json.Number("5"), "aspectRatio": "16:9", "resolution": "720P",
				"referenceImage": "https://example.com/a.png", "referenceVideo": nil}
			asked, err := hostedengine.Ask(a, json.RawMessage(`{"model": "m/v2"}`), "mine", params)
			require.NoError(t, err, a.Name)
			require.NotNil(t, asked.Seconds, a.Name)
			require.Equal(t, "5", asked.Seconds.String(), a.Name)
			if a == provider.Runway {
				require.Equal(t, "1280:720", asked.Resolution)
			} else {
				require.Equal(t, "720p", asked.Resolution, a.Name)
			}
			require.Nil(t, asked.Audio, a.Name)
			require.Equal(t, "m/v2", asked.Model)
			require.Empty(t, asked.Check())
		}
	})

	t.Run("ReadsWhatTheSettingsFixAndMap", func(t *testing.T) {
		t.Parallel()
		asked, err := hostedengine.Ask(provider.Kling, json.RawMessage(`{"model": "text-to-video/kling-3.0", "fields": {"sound": "settings.audio"},
			"fixed": {"settings.duration": 10}}`), "mine", map[string]any{"sound": "on"})
		require.NoError(t, err)
		require.Equal(t, "10", asked.Seconds.String())
		require.True(t, *asked.Audio)
		asked, err = hostedengine.Ask(provider.Veo, json.RawMessage(`{"model": "veo-3", "fixed": {"parameters.generateAudio": false}}`), "mine", nil)
		require.NoError(t, err)
		require.False(t, *asked.Audio)
		require.Nil(t, asked.Seconds)
		require.Empty(t, asked.Resolution)
	})

	t.Run("NamesTheModelOfReelayIfTheProviderHasNone", func(t *testing.T) {
		t.Parallel()
		asked, err := hostedengine.Ask(provider.RunPod, nil, "mine", nil)
		require.NoError(t, err)
		require.Equal(t, "mine", asked.Model)
	})

	t.Run("DoesNotGuessWhatNoProviderBills", func(t *testing.T) {
		t.Parallel()
		for _, seconds := range []any{"long", "-1", "3601", "1e3", "1e999999999", "5m", "1.1234567", true, []any{5}, "NaN", ""} {
			asked, err := hostedengine.Ask(provider.Fal, json.RawMessage(`{"model": "a/b"}`), "mine",
				map[string]any{"durationSeconds": seconds, "resolution": "72\u00000p"})
			require.NoError(t, err)
			require.Nil(t, asked.Seconds, seconds)
			require.Empty(t, asked.Resolution)
		}
	})

	t.Run("RefusesBadSettings", func(t *testing.T) {
		t.Parallel()
		_, err := hostedengine.Ask(provider.Fal, json.RawMessage(`{}`), "mine", nil)
		require.ErrorContains(t, err, "settings.model is missing")
	})
}
