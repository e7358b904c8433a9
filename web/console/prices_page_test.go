package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/reelay/reelay/features/registry"
	"github.com/stretchr/testify/require"
)

func TestPricesPage(t *testing.T) {
	t.Parallel()

	b := operator(t)
	page := b.get(t, "/costs/prices").Body
	require.Contains(t, page, "No model of the catalogue is rendered by a hosted provider.")
	_, err := b.Registry.Apply(t.Context(), b.Admin, registry.Application{File: "models.yaml", Source: `models: [{name: film, runtime: veo,
		settings: {model: veo-3}, type: video.generate, description: Veo, gpuTypes: [any], timeoutSeconds: 600, gpuSecondsPerSecond: 1,
		params: {type: object, properties: {}}}]`})
	require.NoError(t, err)
	require.Contains(t, b.get(t, "/costs/prices").Body, "Import it with `reelay prices import`.")
	const source = "prices: [{provider: veo, model: veo-3, since: 2026-01-01, rules: [{perSecondUsd: 0.4}, {resolution: 4k, audio: true, perCallUsd: 2}]}]"

	checked := b.post(t, "/costs/prices", url.Values{"source": {source}})
	require.Equal(t, http.StatusOK, checked.Status)
	require.Contains(t, checked.Body, `name="confirmed"`)
	require.Zero(t, b.Count(t, "provider_prices"))
	refused := b.post(t, "/costs/prices", url.Values{"source": {"prices: [{provider: <script>alert(1)</script>}]"}, "confirmed": {"yes"}})
	require.Equal(t, http.StatusUnprocessableEntity, refused.Status)
	require.NotContains(t, refused.Body, "<script>alert")
	require.Contains(t, refused.Body, "there is no provider")
	b.post(t, "/costs/prices", url.Values{"source": {source}, "confirmed": {"yes"}})

	page = b.get(t, "/costs/prices").Body
	require.Contains(t, page, "$0.4 a second")
	require.Contains(t, page, "4k with sound: $2 a video")
	require.NotContains(t, page, "unknown")
	again := b.post(t, "/costs/prices", url.Values{"source": {source}})
	require.Contains(t, again.Body, "The price book has these prices already.")
	other := b.post(t, "/costs/prices", url.Values{"source": {strings.Replace(source, "0.4", "0.5", 1)}})
	require.Equal(t, http.StatusUnprocessableEntity, other.Status)
	require.Contains(t, other.Body, "write one with a later since")
}
