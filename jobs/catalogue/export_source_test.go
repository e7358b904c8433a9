package catalogue_test

import (
	"strings"
	"testing"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// strange has values that YAML could take for others.
const strange = `{"models": [{"name": "1e3", "type": "x", "description": "yes: \"no\" # 'on'\\ - {a}", "gpuTypes": ["null", "0x10", "01", "~", "L4"],
	"timeoutSeconds": 0.1, "gpuSecondsPerSecond": 1e5, "produces": "output", "retry": {"maxAttempts": 3, "backoff": "fixed", "initialDelaySeconds": 0.5},
	"settings": {"off": "off", "time": "12:30:00", "date": "2026-01-02", "multi": "a\n  b\n\n", "tab": "\t", "tilde": "~", "big": 9007199254740993, "deep": [[], {}, [{"x": null}], true, "true", 1.0, -0.0, "1_000", "=", "<<"], "": "empty", "a: b": "- c"},
	"params": {"type": "object", "properties": {"y": {"enum": ["y", "n", "", " ", "%TAG"], "default": "y", "pattern": "^[a-z]+$|\\\\d{3}"}}}}],
	"aliases": [{"name": "off", "models": {"1e3": 0.30000000000000004}}]}`

func TestExport(t *testing.T) {
	t.Parallel()
	own, err := catalogue.Parse("own.yaml", []byte(strange))
	require.NoError(t, err)
	all, err := catalogue.Load(own)
	require.NoError(t, err)
	plan := func(source string) []*catalogue.Change {
		read, err := catalogue.Parse("models.yaml", []byte(source))
		require.NoError(t, err, source)
		shipped, err := catalogue.Shipped()
		require.NoError(t, err)
		var rows []*capacity.CatalogueEntry
		snapshot := catalogue.New()
		for _, s := range []*catalogue.Source{shipped, own} {
			var changes []*catalogue.Change
			changes, snapshot, err = s.Plan(rows, capacity.OriginOperator, "key", snapshot)
			require.NoError(t, err)
			for _, c := range changes {
				rows = append(rows, c.Row)
			}
		}
		changes, _, err := read.Plan(rows, capacity.OriginOperator, "key", snapshot)
		require.NoError(t, err)
		return changes
	}

	whole, err := all.Export(nil)
	require.NoError(t, err)
	changes := plan(whole)
	require.Len(t, changes, len(all.Names()))
	for _, c := range changes {
		require.Equal(t, catalogue.Unchanged, c.Kind, "%s: %v", c.Name, c.Differences)
	}
	require.Contains(t, whole, "models:\n  - name: testcard\n    type: video.generate\n", "it is for people, too")

	two, err := all.Export([]string{"off", "1e3", "off"})
	require.NoError(t, err)
	require.Len(t, plan(two), 2)
	m, err := all.Model("1e3")
	require.NoError(t, err)
	source, err := m.Source()
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(two, source))

	_, err = all.Export([]string{"nonesuch"})
	require.ErrorContains(t, err, "There is no model or alias nonesuch.")
}
