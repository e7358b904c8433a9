package alert

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestEachRuleHasAShortSentence(t *testing.T) {
	t.Parallel()

	rules := Defaults()
	require.Len(t, says, len(rules))
	for _, r := range rules {
		said := r.message(r.Threshold * 3)
		require.NotEmpty(t, said, r.Name)
		require.NotContains(t, said, "{", r.Name)
		require.LessOrEqual(t, utf8.RuneCountInString(said), 100, said)
	}
}
