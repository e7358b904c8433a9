package fakes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/provider"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"
)

func TestFilms(t *testing.T) {
	t.Parallel()
	made := &films{}
	for asked, want := range map[string]float64{"5": 5, "2.54": 2.5, "0": 1, "3600": 20, "": 4} {
		of := provider.Asked{Model: "m"}
		if asked != "" {
			of.Seconds = new(decimal.RequireFromString(asked))
		}
		film, err := made.of(of)
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "film.mp4")
		require.NoError(t, os.WriteFile(path, film, 0o600))
		out, err := exec.CommandContext(t.Context(), "ffprobe", "-v", "error", "-show_entries", "format=duration", "-of", "csv=p=0", path).Output()
		require.NoError(t, err)
		length, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		require.NoError(t, err)
		require.InDelta(t, want, length, 0.05, asked)
	}
}
