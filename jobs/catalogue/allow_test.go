package catalogue_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

func TestAccounts(t *testing.T) {
	t.Parallel()
	mine, other := models.NewAccountID(), models.NewAccountID()
	own := func(name, more string) string {
		return "  - {name: " + name + ", type: video.generate, gpuTypes: [any], timeoutSeconds: 1, gpuSecondsPerSecond: 1, params: {type: object}" + more + "}\n"
	}
	_, all := applied(t, "models:\n"+own("open", "")+own("limited", ", accounts: ["+string(mine)+"]")+
		"aliases:\n  - {name: both, models: {open: 1, limited: 3}}\n  - {name: alone, models: {limited: 1}}\n")

	for _, seen := range []*catalogue.Snapshot{all.For(""), all.For(mine)} {
		require.Contains(t, seen.Names(), "limited")
		require.Contains(t, seen.Names(), "alone")
		candidates, err := seen.Candidates("both")
		require.NoError(t, err)
		require.Len(t, candidates, 2)
	}

	hidden := all.For(other)
	require.NotContains(t, hidden.Names(), "limited")
	require.NotContains(t, hidden.Names(), "alone")
	require.Nil(t, hidden.Find("limited", 1))
	require.NotNil(t, all.Find("limited", 1))
	for _, name := range []string{"limited", "alone"} {
		_, err := hidden.Candidates(name)
		require.ErrorContains(t, err, "There is no model of that name")
		require.NotContains(t, err.Error(), "limited")
	}
	candidates, err := hidden.Candidates("both")
	require.NoError(t, err)
	require.Len(t, candidates, 1)
	require.Equal(t, 1.0, candidates[0].Share)

	for accounts, says := range map[string]string{
		"[]":   "accounts is an empty list: name the accounts",
		"[me]": "x.yaml:2: accounts must list ids",
		"[" + string(mine) + ", " + string(mine) + "]": "each of them once",
	} {
		_, err := catalogue.Parse("x.yaml", []byte("models:\n"+own("limited", ", accounts: "+accounts)))
		require.ErrorContains(t, err, says)
	}
}

func TestAccountsOfRemovedModels(t *testing.T) {
	t.Parallel()

	mine, other := models.NewAccountID(), models.NewAccountID()
	row := func(name, entry string, alias bool) *capacity.CatalogueEntry {
		return &capacity.CatalogueEntry{Name: name, Version: 1, Entry: []byte(entry), IsAlias: alias, RemovedAt: time.Now()}
	}
	model := func(name, more string) string {
		return `{"name": "` + name + `", "type": "video.generate", "gpuTypes": ["any"], "timeoutSeconds": 1, "gpuSecondsPerSecond": 1,
			"params": {"type": "object"}` + more + `}`
	}
	all, err := catalogue.Stored([]*capacity.CatalogueEntry{
		row("open", model("open", ""), false), row("limited", model("limited", `, "accounts": ["`+string(mine)+`"]`), false),
		row("alone", `[{"name": "limited", "weight": 1}]`, true),
		row("both", `[{"name": "open", "weight": 1}, {"name": "limited", "weight": 1}]`, true),
		row("nested", `[{"name": "alone", "weight": 1}]`, true),
	}, catalogue.New())
	require.NoError(t, err)
	names := func(s *catalogue.Snapshot) (names []string) {
		for _, r := range s.Removals() {
			names = append(names, r.Name)
		}
		return names
	}

	require.ElementsMatch(t, []string{"open", "limited", "alone", "both", "nested"}, names(all.For("")))
	require.ElementsMatch(t, []string{"open", "limited", "alone", "both", "nested"}, names(all.For(mine)))
	require.ElementsMatch(t, []string{"open", "both"}, names(all.For(other)))
	require.Nil(t, all.For(other).Find("limited", 1))
	require.NotNil(t, all.For(other).Find("open", 1))
}
