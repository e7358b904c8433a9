package job

import (
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestSnippets_QuoteWhatIsCopied(t *testing.T) {
	t.Parallel()

	v := &jobView{Job: &models.Job{Model: "testcard", Tier: models.TierPro, Params: []byte(`{"fps": 12, "deep": [true, null]}`)}, Prompt: `it's "$(rm)"`, Origin: "http://here"}

	texts := v.snippets()

	require.Contains(t, texts[0].Text, `it'\''s \"$(rm)\"`)
	require.Contains(t, texts[2].Text, `"deep": [True, None]`)
}
