package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPricesCommands(t *testing.T) {
	t.Parallel()

	file := filepath.Join(t.TempDir(), "prices.yaml")
	require.NoError(t, os.WriteFile(file, []byte("prices: []"), 0o600))
	const price = `{"provider": "veo", "model": "veo-3", "since": "2027-01-01T00:00:00Z", "until": "2027-02-01T00:00:00Z", "enteredAt": "2026-12-01T00:00:00Z",
		"rules": [{"resolution": "", "audio": null, "perSecondUsd": 0.4, "perCallUsd": 0}, {"resolution": "4k", "audio": true, "perSecondUsd": 0.75, "perCallUsd": 0.01}]}`
	const book = `{"priceBook": {"models": [{"model": "clip", "provider": "fal", "providerModel": "a/b", "price": null, "problem": "It is unknown."},
		{"model": "film", "provider": "veo", "providerModel": "veo-3", "price": ` + price + `, "problem": ""}], "prices": [` + price + `]}}`
	for name, c := range map[string]struct {
		args        []string
		data, shows string
	}{
		"the models": {nil, book, `(?s)clip +fal +a/b +unknown\nfilm +veo +veo-3 +\$0\.4 a second; 4k with sound: \$0\.75 a second and \$0\.01 a video\n\n1 model without a price`},
		"all":        {[]string{"--all"}, book, `veo +veo-3 +2027-01-01T00:00:00Z +2027-02-01T00:00:00Z +\$0\.4 a second`},
		"as JSON":    {[]string{"--json"}, book, `(?s)"models": \[.*"price": null.*"perSecondUsd": 0\.75`},
		"an import": {[]string{"import", file}, `{"importProviderPrices": [{"added": true, "price": ` + price + `, "warning": "No model."}]}`,
			`added +veo veo-3 from 2027-01-01T00:00:00Z: \$0\.4 a second.*\n +warning: No model\.`},
		"a dry run": {[]string{"import", file, "--dry-run"}, `{"importProviderPrices": [{"added": true, "price": ` + price + `, "warning": "", "notes": ["It begins in the past."]}]}`,
			`would add +veo veo-3 from 2027-01-01T00:00:00Z: .*\n +It begins in the past\.\n`},
		"an import again": {[]string{"import", file, "--dry-run", "--json"},
			`{"importProviderPrices": [{"added": false, "price": ` + price + `, "warning": ""}]}`, `"added": false`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := answering(t, c.data)

			status, out, errs := call(t, t.Context(), append(append([]string{"prices"}, c.args...), "--endpoint", url, "--key", "rl_x")...)

			require.Zero(t, status, errs)
			require.Regexp(t, c.shows, out)
		})
	}

	t.Run("RefuseAFileThatIsNotThere", func(t *testing.T) {
		t.Parallel()
		url, _ := answering(t, book)
		status, _, errs := call(t, t.Context(), "prices", "import", file+".no", "--endpoint", url, "--key", "rl_x")
		require.NotZero(t, status)
		require.Contains(t, errs, "prices.yaml.no")
	})
}
