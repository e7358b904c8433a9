package postgres_test

import (
	"encoding/json"
	"testing"

	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
)

// bun writes maps, structs and slices as JSON itself, raw JSON as it is.
func TestJSONWithTheTextOfAnEscape(t *testing.T) {
	t.Parallel()
	db := modelstest.DB(t)

	for _, text := range []string{`\u0000`, `\\u0000`, `x\u0000y\`, `\`, `\\`, `'\'`, `\'`, `"\u0000"`, `\n`, `é\uD800`} {
		document, err := json.Marshal(map[string]string{text: text})
		require.NoError(t, err)
		for _, arg := range []any{map[string]string{text: text}, json.RawMessage(document)} {
			var stored string
			require.NoError(t, db.NewRaw("SELECT (?::jsonb)::text", arg).Scan(t.Context(), &stored), text)
			require.JSONEq(t, string(document), stored)
		}
	}
	var stored string
	require.NoError(t, db.NewRaw("SELECT (?::jsonb) ->> 'a'", map[string]string{"a": "x\x00y'"}).Scan(t.Context(), &stored))
	require.Equal(t, `x\u0000y'`, stored, "jsonb has no NUL")
}
