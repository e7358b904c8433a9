package text_test

import (
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/text"
	"github.com/stretchr/testify/require"
)

func TestNearest(t *testing.T) {
	t.Parallel()

	known := []string{"fps", "pattern", "durationSeconds", "pace"}
	for given, want := range map[string]string{
		"fsp": "fps", "patern": "pattern", "duration_seconds": "durationSeconds", "PATTERN": "pattern", "peace": "pace",
		"x": "", "": "", "nothing": "", strings.Repeat("x", 1<<20): "",
	} {
		require.Equal(t, want, text.Nearest(given, known), "%.20s", given)
	}
	require.Equal(t, `; did you mean "fps"?`, text.DidYouMean("fsp", known))
	require.Empty(t, text.DidYouMean("x", known))
}

func TestValid(t *testing.T) {
	t.Parallel()

	for s, want := range map[string]bool{
		"a lighthouse": true, "灯台 é": true, "\U0001F9FF": true, "\ue000": true, "": false,
		"a\nb": false, "a\u00a0b": false, "\u00ad": false, "\u202e": false, "\ufffe": false, "\xff": false, "\x00": false,
	} {
		require.Equal(t, want, text.Valid(s, 1, 20), "%q", s)
	}
}
