package graph_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/reelay/reelay/graph"
	"github.com/stretchr/testify/require"
	"github.com/vektah/gqlparser/v2/ast"
)

func TestSchema(t *testing.T) {
	t.Parallel()

	t.Run("HasAnAuthDirectiveOnEveryRootField", func(t *testing.T) {
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

	// Existing programs depend on the schema, so every change must be deliberate.
	t.Run("MatchesTheList", func(t *testing.T) {
		t.Parallel()

		const file = "testdata/schema.txt"
		listed := strings.Join(list(graph.NewExecutableSchema(graph.Config{}).Schema()), "\n") + "\n"
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(listed), 0o644))
		}

		committed, err := os.ReadFile(file)

		require.NoError(t, err)
		require.Equal(t, string(committed), listed, "Adding is free; what is taken away or changed breaks programs. "+
			"If that is meant: go test ./graph -run TestSchema -update")
	})
}

var update = flag.Bool("update", false, "write testdata/schema.txt")

// list returns a schema as sorted lines, each with everything that a program may depend on:
// Type.field(argument: Type = default): Type @auth(role: ROLE).
func list(schema *ast.Schema) []string {
	var lines []string
	add := func(format string, values ...any) { lines = append(lines, fmt.Sprintf(format, values...)) }
	for name, is := range schema.Types {
		if is.BuiltIn {
			continue
		}
		add("%s: %s", name, strings.Join(append([]string{string(is.Kind)}, slices.Concat(is.Interfaces, is.Types)...), " "))
		for _, value := range is.EnumValues {
			add("%s.%s%s", name, value.Name, marks(value.Directives))
		}
		for _, field := range is.Fields {
			if !strings.HasPrefix(field.Name, "__") {
				add("%s.%s%s: %s%s%s", name, field.Name, arguments(field.Arguments), field.Type, preset(field.DefaultValue), marks(field.Directives))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func arguments(all ast.ArgumentDefinitionList) string {
	var written []string
	for _, a := range all {
		written = append(written, fmt.Sprintf("%s: %s%s", a.Name, a.Type, preset(a.DefaultValue)))
	}
	if written == nil {
		return ""
	}
	slices.Sort(written)
	return "(" + strings.Join(written, ", ") + ")"
}

func preset(value *ast.Value) string {
	if value == nil {
		return ""
	}
	return " = " + value.String()
}

// marks returns who may call a field, and whether it is deprecated.
func marks(all ast.DirectiveList) (written string) {
	if auth := all.ForName("auth"); auth != nil {
		written = fmt.Sprintf(" @auth(role: %v)", auth.ArgumentMap(nil)["role"])
	}
	if all.ForName("deprecated") != nil {
		written += " @deprecated"
	}
	return written
}
