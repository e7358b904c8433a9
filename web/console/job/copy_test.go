package job

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestSnippets_QuoteWhatIsCopied(t *testing.T) {
	t.Parallel()

	for _, prompt := range []string{`it's "$(rm)"`, `""" + evil + """`, `\`, `"\"`, "a\nb"} {
		v := &jobView{
			Job:    &models.Job{Model: "testcard", Tier: models.TierPro, Params: []byte(`{"fps": 12, "deep": [true, null, ""]}`)},
			Prompt: prompt, Origin: "http://here",
		}

		texts := v.snippets()

		escaped, err := json.Marshal(prompt)
		require.NoError(t, err)
		require.Contains(t, texts[0].Text, strings.ReplaceAll(string(escaped), "'", `'\''`))
		_, raw, found := strings.Cut(texts[2].Text, `json.loads(r"""`)
		require.True(t, found)
		raw, _, found = strings.Cut(raw, `"""`) // where Python's raw string ends
		require.True(t, found)
		require.JSONEq(t, indentedJSON(map[string]any{"input": v.submitInput()}), raw)
	}
}
