package graph

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
)

// TestClientsMaySeeWhatTheirOperationsSelect reads the operations of the Go client, and so of the CLI.
// One that a CLIENT may call fails for it as a whole if it selects a field that is hidden from it and
// cannot be null.
func TestClientsMaySeeWhatTheirOperationsSelect(t *testing.T) {
	t.Parallel()

	schema := NewExecutableSchema(Config{}).Schema()
	files, err := filepath.Glob("../client/*.graphql")
	require.NoError(t, err)
	var text strings.Builder
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		text.Write(raw)
	}
	document, refused := gqlparser.LoadQueryWithRules(schema, text.String(), nil)
	require.Nil(t, refused)
	require.NotEmpty(t, document.Operations)

	shown := shown[access.RoleClient]
	var check func(operation string, set ast.SelectionSet)
	check = func(operation string, set ast.SelectionSet) {
		for _, selection := range set {
			switch s := selection.(type) {
			case *ast.Field:
				// A type of which clients see nothing has operations of operators only.
				if fields := shown[s.ObjectDefinition.Name]; len(fields) > 0 && s.Definition.Type.NonNull && s.Name != "__typename" {
					require.Contains(t, fields, s.Name, "%s selects %s.%s", operation, s.ObjectDefinition.Name, s.Name)
				}
				check(operation, s.SelectionSet)
			case *ast.FragmentSpread:
				check(operation, s.Definition.SelectionSet)
			case *ast.InlineFragment:
				check(operation, s.SelectionSet)
			}
		}
	}
	checked := 0
	for _, operation := range document.Operations {
		ofClients := !slices.ContainsFunc(operation.SelectionSet, func(root ast.Selection) bool {
			auth := root.(*ast.Field).Definition.Directives.ForName("auth")
			return auth != nil && auth.Arguments.ForName("role") != nil && auth.Arguments.ForName("role").Value.Raw != string(access.RoleClient)
		})
		if ofClients {
			checked++
			check(operation.Name, operation.SelectionSet)
		}
	}
	require.Greater(t, checked, 20)
}
