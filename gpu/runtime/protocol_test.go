package runtime

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A runtime's messages come from a model's process and are as untrusted as any
// other outside input.
func FuzzParseMessage(f *testing.F) {
	for _, seed := range []string{
		`{"ready": {"protocol": 1, "name": "x"}}`, `{"loaded": {}}`, `{"progress": {"percent": 50, "phase": "RENDERING"}}`,
		`{"progress": {"percent": 1e400}}`,
		`{"checkpoint": {"path": "/x", "step": 3}}`, `{"checkpointRejected": {"reason": "x"}}`, `{"result": {"video": "../x"}}`,
		`{"cancelled": {}}`,
		`{"error": {"class": "OUT_OF_MEMORY", "message": "x"}}`, `{"log": {"level": "info", "message": "\u0000\ud800"}}`,
		`{}`, `[]`, `null`, `{"log": null}`, `{"log": {}, "log": {}}`, `{"log": {}, "ready": {}}`, `{"LOG": {}}`, "{\"log\": {\"message\": \"" +
			strings.Repeat("x", 4000) + "\"}}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		message, err := parseMessage(line)
		if err != nil {
			require.Nil(t, message)
			return
		}
		require.NoError(t, message.check(), "an accepted message must be within its limits")
		body, err := json.Marshal(map[string]Message{message.name(): message})
		require.NoError(t, err)
		again, err := parseMessage(body)
		require.NoError(t, err, "%s", body)
		require.Equal(t, message.name(), again.name())
		second, err := json.Marshal(map[string]Message{again.name(): again})
		require.NoError(t, err)
		require.JSONEq(t, string(body), string(second))
		if p, ok := message.(*Progress); ok {
			require.True(t, p.Percent >= 0 && p.Percent <= 100)
		}
	})
}
