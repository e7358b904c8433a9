package graph_test

import (
	"testing"

	"github.com/reelay/reelay/graph"
	"github.com/stretchr/testify/require"
	"github.com/vektah/gqlparser/v2/ast"
)

func TestSchema(t *testing.T) {
	t.Parallel()

	t.Run("EveryRootFieldSaysWhoMayCallIt", func(t *testing.T) {
		t.Parallel()

		schema := graph.NewExecutableSchema(graph.Config{}).Schema()

		var open []string
		for _, root := range []*ast.Definition{schema.Query, schema.Mutation, schema.Subscription} {
			for _, field := range root.Fields {
				if field.Directives.ForName("auth") == nil {
					open = append(open, field.Name)
				}
			}
		}

		require.ElementsMatch(t, []string{"viewer", "__schema", "__type"}, open)
	})
}
