package catalogue_test

import (
	"strings"
	"testing"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// withFallback is the entry of a model with a list of other models.
func withFallback(name, list, more string) string {
	return "  - {name: " + name + ", type: video.generate, gpuTypes: [any], timeoutSeconds: 1, gpuSecondsPerSecond: 1, params: {type: object}" +
		", fallback: " + list + more + "}\n"
}

func TestFallback(t *testing.T) {
	t.Parallel()

	t.Run("MayNameModelsThatNameEachOtherOrAreMissing", func(t *testing.T) {
		t.Parallel()
		_, all := applied(t, "models:\n"+withFallback("a", "[b, later]", "")+withFallback("b", "[a]", ""))

		require.Equal(t, []string{"b", "later"}, all.FallbackOf(all.Find("a", 0)))
		require.Equal(t, []string{"a"}, all.FallbackOf(all.Find("b", 0)))
	})

	t.Run("HidesModelsOfOtherAccounts", func(t *testing.T) {
		t.Parallel()
		mine, other := models.NewAccountID(), models.NewAccountID()
		_, all := applied(t, "models:\n"+withFallback("a", "[secret, b]", "")+withFallback("b", "[]", "")+
			withFallback("secret", "[]", ", accounts: ["+string(mine)+"]"))

		for account, want := range map[models.AccountID][]string{"": {"secret", "b"}, mine: {"secret", "b"}, other: {"b"}} {
			seen := all.For(account)
			require.Equal(t, want, seen.FallbackOf(seen.Find("a", 0)))
		}
	})

	t.Run("RefusesLists", func(t *testing.T) {
		t.Parallel()
		long := strings.TrimSuffix(strings.Repeat("m, ", 1000), ", ")
		for list, says := range map[string]string{
			"[a]":                "x.yaml:2: fallback names the model itself: name others",
			"[b, b]":             "fallback names b twice",
			"[b, c, d, e, f, g]": "fallback may name 5 models; it names 6",
			"[" + long + "]":     "fallback may name 5 models; it names 1000",
			`["../b"]`:           `fallback names "../b", which is no name of a model`,
			`[""]`:               `fallback names "", which is no name of a model`,
			"b":                  "fallback",
			"[{b: 1}]":           "fallback",
		} {
			_, err := catalogue.Parse("x.yaml", []byte("models:\n"+withFallback("a", list, "")))
			require.ErrorContains(t, err, says, list)
			require.Less(t, len(err.Error()), 500, list)
		}
	})
}
