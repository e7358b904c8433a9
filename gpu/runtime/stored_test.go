package runtime

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckJSON(t *testing.T) {
	t.Parallel()
	nested := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	for _, raw := range []string{"", "null", `{"a": [1, 2.5, "é"]}`, `{"a": "x\\u0000y", "\\u0000": "\\\\u0000"}`, nested(MaxDepth), `"` +
		strings.Repeat("x", 98) + `"`} {
		require.NoError(t, CheckJSON(json.RawMessage(raw), 100+2*MaxDepth), raw)
	}
	for raw, says := range map[string]string{
		nested(MaxDepth + 1):                "nested deeper than 56 levels",
		"\"\xff\"":                          "not valid UTF-8",
		`"\ud800"`:                          "half of a character",
		`{"a": "\u0000"}`:                   "NUL",
		`{"\\\u0000": 1}`:                   "NUL",
		`["\\\\\u0000"]`:                    "NUL",
		`{"a": 1, "a": 2}`:                  "repeated key",
		`1e999`:                             "out of range",
		`"` + strings.Repeat("x", 99) + `"`: "takes 101 bytes; at most 100",
		`"` + strings.Repeat("<", 17) + `"`: "takes 104 bytes",
		`[1] [2]`:                           "cannot be stored",
	} {
		require.ErrorContains(t, CheckJSON(json.RawMessage(raw), 100), says, raw)
	}
}

func TestCheckpointWithinItsLimits(t *testing.T) {
	t.Parallel()
	parse := func(step int64, info string) error {
		_, err := parseMessage(fmt.Appendf(nil, `{"checkpoint": {"path": "/x", "step": %d, "info": %s}}`, step, info))
		return err
	}

	require.NoError(t, parse(1<<31-1, `{"format": 1}`))
	require.ErrorContains(t, parse(1<<31, `{}`), "checkpoint: step is 2147483648")
	require.ErrorContains(t, parse(1, `"`+strings.Repeat("x", 16_000)+`"`), "checkpoint: info takes 16002 bytes; at most 16000 are allowed")
	_, err := parseMessage([]byte(`{"progress": {"percent": 1, "phase": "RENDERING", "frame": 3000000000}}`))
	require.ErrorContains(t, err, "a count is over 2147483647")
}
