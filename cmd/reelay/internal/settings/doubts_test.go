package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reelay/reelay/features/prices"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

func TestPools(t *testing.T) {
	t.Parallel()

	t.Run("DoubtsWhatThisProcessDoesNotKnow", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(folder, "mycloud"), []byte("#!/bin/sh\n"), 0o700))
		price := 0.5
		for want, c := range map[string]struct {
			config Config
			pool   capacity.Pool
		}{
			"": {Config{}, capacity.Pool{PoolSpec: capacity.PoolSpec{Provider: "static"}}},
			"The API has no REELAY_PRICES: it cannot tell whether there is a source night. Unless": {Config{},
				capacity.Pool{PoolSpec: capacity.PoolSpec{Provider: "gce", PriceSource: "night"}}},
			"The REELAY_PRICES of the API has no source night; it has day. Unless": {Config{prices: "x",
				PriceSources: []*prices.Source{{Name: "day"}}}, capacity.Pool{PoolSpec: capacity.PoolSpec{Provider: "gce", PriceSource: "night"}}},
			"The API does not reach the provider local": {Config{},
				capacity.Pool{PoolSpec: capacity.PoolSpec{Provider: "local", PriceSource: "night"}, PoolQuote: capacity.PoolQuote{QuotedUSD: &price}}},
			"The API has no REELAY_PROVIDERS": {Config{},
				capacity.Pool{PoolSpec: capacity.PoolSpec{Provider: "command"}}},
			"the program yourcloud is not in the folder of REELAY_PROVIDERS (no such file or directory)": {Config{programs: folder},
				capacity.Pool{PoolSpec: capacity.PoolSpec{Provider: "command", Settings: []byte(`{"program": "yourcloud"}`)}}},
		} {
			doubts := strings.Join(c.config.Doubts(&c.pool), "\n")
			require.Contains(t, doubts, want)
			require.Equal(t, want == "", doubts == "")
			require.NotContains(t, doubts, "\n")
		}
		known := Config{programs: folder, prices: "x", PriceSources: []*prices.Source{{Name: "day"}}}
		require.Empty(t, known.Doubts(&capacity.Pool{PoolSpec: capacity.PoolSpec{Provider: "command", PriceSource: "day",
			Settings: []byte(`{"program": "mycloud"}`)}}))
	})
}
