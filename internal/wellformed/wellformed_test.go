package wellformed_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/wellformed"
	"github.com/stretchr/testify/require"
)

func TestJSON(t *testing.T) {
	t.Parallel()

	t.Run("AcceptsUnambiguousDocuments", func(t *testing.T) {
		t.Parallel()

		for _, good := range []string{
			`{}`, ` [1, 1e400, "x"] `, `{"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}`, `"😀"`, `"\\ud83d"`, `null`,
			strings.Repeat("[", wellformed.MaxDepth) + strings.Repeat("]", wellformed.MaxDepth),
		} {
			require.NoError(t, wellformed.JSON([]byte(good)), good)
		}
	})

	t.Run("RefusesDocumentsThatDecodersWouldMisread", func(t *testing.T) {
		t.Parallel()

		for bad, says := range map[string]string{
			"\"\xff\"":                       "not valid UTF-8",
			`{"a": "\ud83d"}`:                "half of a character",
			`{"a": "\ud83dx"}`:               "half of a character",
			`{"a": "\ude00"}`:                "half of a character",
			`{"a": 1, "a": 2}`:               `"a" occurs twice`,
			`{"x":[0,{"k": 1,"\u006b": 2}]}`: `"x.1.k" occurs twice`,
			strings.Repeat("[", 10_000):      "nested too deeply",
			strings.Repeat(`{"a":`, 10_000):  "nested too deeply",
			`{} {}`:                          "there is text after the JSON document",
			`{"a": 1`:                        "unexpected EOF",
			``:                               "unexpected EOF",
			`{"a" 1}`:                        "invalid character",
			`{'a': 1}`:                       "invalid character",
			`{"a": NaN}`:                     "invalid character",
			`{"a": 1,}`:                      "invalid character",
		} {
			require.ErrorContains(t, wellformed.JSON([]byte(bad)), says, "%.40s", bad)
		}
	})
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"a": [1, {"b": null}]}`, `{"a": 1, "a": 2}`, `"\ud83d"`, `[[[`, "\xff", `{"a" 1}`, `{} []`,
		`[{"a":1},{"a":2,"\u0061":3}]`, ` { "a\"" : "}," , "\u0062":[1,{"c":{}}],"d":{"e":1} , "":-1.5e3 } `, `{ }`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if wellformed.JSON(raw) == nil {
			require.True(t, json.Valid(raw))
		}
	})
}
