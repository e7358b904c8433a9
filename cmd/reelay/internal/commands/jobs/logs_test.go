package jobs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFollowLogs follows an attempt that repeats itself, to its end.
func TestFollowLogs(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		printed, log, rest string
		end                int64
	}{
		"repeated lines":          {"tick\ntick\n", "tick\ntick\ntick\nend\n", "tick\nend\n", 10},
		"nothing new":             {"one\n", "one\n", "", 4},
		"a log without its start": {"c\nd\n", "[4 earlier bytes were dropped]\nc\nd\ne\n", "e\n", 8},
		"nothing in common":       {"loading\n", "a\nb\n", "a\nb\n", 8},
		"nothing printed":         {"", "a\n", "a\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			require.Equal(t, c.rest, (&followed{end: c.end, tail: c.printed}).rest(c.log))
		})
	}
}
