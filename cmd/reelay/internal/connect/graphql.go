package connect

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/spf13/cobra"
)

// graphqlOptions are the flags of `reelay graphql`.
type graphqlOptions struct {
	target   Target
	output   output.Options
	file     string
	fields   []string
	paginate bool
}

// GraphQLCommand returns `reelay graphql`.
func GraphQLCommand() *cobra.Command {
	var o graphqlOptions
	o.target.Operator = true
	cmd := &cobra.Command{
		Use:        "graphql [QUERY | -f FILE]",
		SuggestFor: []string{"query", "gql", "curl"},
		Short:      "Send a GraphQL query or mutation",
		Long: "Sends a GraphQL document and prints the answer as JSON. The document is the argument, a file, or standard input\n" +
			"(-). A value of -F is read as JSON if it is valid JSON, else as text. --paginate fetches all pages of a query\n" +
			"that takes $after: String and asks for pageInfo { hasNextPage endCursor }; it prints one document for each page.",
		Example: "  reelay graphql '{ viewer { role } }'\n" +
			"  reelay graphql -f jobs.graphql -F first=100 --jq '.data.jobs.edges[].node.id'\n" +
			"  reelay graphql --paginate 'query($after: String) { jobs(after: $after) { edges { node { id } } " +
			"pageInfo { hasNextPage endCursor } } }'",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	o.target.AddFlags(cmd)
	o.output.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "`file` with the document; - reads standard input")
	f.StringArrayVarP(&o.fields, "field", "F", nil, "a variable, `name=value`; may be repeated")
	f.BoolVar(&o.paginate, "paginate", false, "fetch all pages")
	return cmd
}

func (o *graphqlOptions) run(cmd *cobra.Command, args []string) error {
	document, variables, err := o.input(cmd, args)
	if err == nil {
		err = o.output.Check()
	}
	if err != nil {
		return terminal.UsageError(cmd, err)
	}
	c, err := o.target.Client(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	screen := o.output.Screen(cmd, cmd.OutOrStdout())
	for {
		data, err := c.Do(cmd.Context(), document, variables)
		if err != nil {
			return o.target.Explain(err)
		}
		answer := map[string]json.RawMessage{"data": data}
		asJSON := func() error { return output.JSON(screen, answer) }
		if o.output.ForPeople() {
			err = asJSON()
		} else {
			err = o.output.Print(screen, answer, nil)
		}
		if err != nil || !o.paginate {
			return err
		}
		var decoded any
		if err := json.Unmarshal(data, &decoded); err != nil {
			return err
		}
		next, found := nextPage(decoded)
		if !found {
			return errors.New("--paginate: the query does not ask for pageInfo { hasNextPage endCursor }")
		}
		if next == "" || variables["after"] == next {
			return nil
		}
		variables["after"] = next
	}
}

// input returns the document and the variables.
func (o *graphqlOptions) input(cmd *cobra.Command, args []string) (document string, variables map[string]any, err error) {
	switch {
	case o.file != "" && len(args) > 0:
		return "", nil, errors.New("the query is given twice, as an argument and with --file: use one of them")
	case o.file != "":
		document, err = input.ReadText(o.file, cmd.InOrStdin())
	case len(args) > 0 && args[0] == "-":
		document, err = input.ReadText("-", cmd.InOrStdin())
	case len(args) > 0:
		document = args[0]
	default:
		return "", nil, errors.New("there is no query: give it as an argument, or with --file")
	}
	if err != nil {
		return "", nil, err
	}
	fields, err := input.ParseFields("", o.fields, nil)
	if err != nil {
		return "", nil, fmt.Errorf("the variables cannot be read: %w", err)
	}
	variables = map[string]any{}
	for name, value := range fields {
		variables[name] = value
	}
	return document, variables, nil
}

// nextPage returns the cursor of the first list in an answer that has another page, or "", and
// whether there is any list with pageInfo.
func nextPage(v any) (cursor string, found bool) {
	switch v := v.(type) {
	case map[string]any:
		if info, ok := v["pageInfo"].(map[string]any); ok {
			if more, _ := info["hasNextPage"].(bool); more {
				cursor, _ = info["endCursor"].(string)
			}
			return cursor, true
		}
		for _, inner := range v {
			if cursor, ok := nextPage(inner); ok {
				return cursor, true
			}
		}
	case []any:
		for _, inner := range v {
			if cursor, ok := nextPage(inner); ok {
				return cursor, true
			}
		}
	}
	return "", false
}
