package fleet

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/text"
	"github.com/spf13/cobra"
)

// ModelsCommand returns `reelay models`.
func ModelsCommand() *cobra.Command {
	cmd := listModels(&cobra.Command{
		Use:   "models",
		Short: "List the models, show their parameters; change them (for admins)",
		Long: "Lists the models and aliases. With --json, each model has the JSON Schema of its parameters;\n" +
			"`reelay models show NAME` shows them as a table.",
		Args: terminal.NoSuchCommand,
	})
	cmd.AddCommand(
		listModels(&cobra.Command{Use: "list", Short: "List the models and aliases", Args: cobra.NoArgs}),
		modelsShowCommand(), modelsApplyCommand(), modelsDiffCommand(), modelsExportCommand(), modelsImportCommand(),
		modelsRemoveCommand(), modelsRestoreCommand())
	return cmd
}

// modelList is what JSON has of the list.
type modelList struct {
	output.List[client.Model]
	Aliases []client.ModelAlias `json:"aliases,omitempty"`
}

// modelRow is a line of the list: a model, or an alias.
type modelRow struct {
	model *client.Model
	alias *client.ModelAlias
}

func listModels(cmd *cobra.Command) *cobra.Command {
	var models []client.Model
	var aliases []client.ModelAlias
	list := &connect.Lister[modelRow]{
		Table: modelTable, Whole: true,
		Ask: func(ctx context.Context, c *client.Client, _ connect.Page) (list output.List[modelRow], err error) {
			if models, err = c.Models(ctx); err != nil {
				return list, err
			}
			if aliases, err = c.ModelAliases(ctx); err != nil {
				return list, err
			}
			list = output.All[modelRow](nil)
			for i := range models {
				list.Items = append(list.Items, modelRow{model: &models[i]})
			}
			for i := range aliases {
				list.Items = append(list.Items, modelRow{alias: &aliases[i]})
			}
			return list, nil
		},
		Document: func(output.List[modelRow]) any { return modelList{output.All(models), aliases} },
	}
	return list.Command(cmd)
}

var modelTable = output.Table[modelRow]{
	Columns: []output.Column[modelRow]{
		{Title: "NAME", Value: func(r modelRow) any { return r.name() }},
		{Title: "TYPE", Value: func(r modelRow) any {
			if r.alias != nil {
				return "alias"
			}
			return r.model.Type
		}},
		{Title: "VERSION", Wide: true, Value: func(r modelRow) any {
			if r.alias != nil {
				return r.alias.Version
			}
			return r.model.Version
		}},
		{Title: "STATE", Kind: output.State, Value: func(r modelRow) any {
			switch {
			case r.alias != nil:
				return nil
			}
			return modelState(r.model.State)
		}},
		{Title: "FALLBACK", Wide: true, Value: func(r modelRow) any {
			if r.alias != nil {
				return nil
			}
			return strings.Join(r.model.Fallback, ", ")
		}},
		{Title: "DESCRIPTION", Kind: output.Long, Value: func(r modelRow) any {
			if r.alias != nil {
				return spread(*r.alias)
			}
			return r.model.Description
		}},
	},
	Name: modelRow.name,
	None: "No models.",
}

// modelState says whether workers run a model.
func modelState(s client.ModelState) string {
	return strings.ToLower(strings.ReplaceAll(string(s), "_", " "))
}

func (r modelRow) name() string {
	if r.alias != nil {
		return r.alias.Name
	}
	return r.model.Name
}

// spread says what an alias does.
func spread(a client.ModelAlias) string {
	var shares []string
	for _, s := range a.Models {
		shares = append(shares, fmt.Sprintf("%s (weight %g)", s.Name, s.Weight))
	}
	return "Spreads jobs over " + strings.Join(shares, ", ") + "."
}

func modelsShowCommand() *cobra.Command {
	var version int
	show := new(connect.Call)
	cmd := show.Command(&cobra.Command{
		Use:   "show NAME",
		Short: "Show one model with its parameters and all its fields, or an alias",
		Long: "Shows one model with its parameters and all its fields, or an alias. --output yaml prints its entry as a file that\n" +
			"`reelay models apply` takes (for operators).",
		Example: "  reelay models show testcard\n  reelay models show testcard --version 1 --json\n" +
			"  reelay models show testcard -o yaml > own.yaml",
		Args:   cobra.ExactArgs(1),
		PreRun: func(*cobra.Command, []string) { show.Target.Operator = show.Output.Format() == "yaml" },
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		if show.Output.Format() == "yaml" {
			return modelSource(ctx, c, args[0], version)
		}
		m, err := c.Model(ctx, args[0], version)
		if client.ErrorCode(err) == client.CodeNotFound && version == 0 {
			return showAlias(ctx, c, args[0])
		}
		if err != nil {
			return nil, nil, err
		}
		return m, func(out io.Writer) error { return printModel(out, m) }, nil
	})
	cmd.Flags().IntVar(&version, "version", 0, "a version other than the current one")
	return cmd
}

// modelSource is the entry of a model or an alias.
func modelSource(ctx context.Context, c *client.Client, name string, version int) (any, output.Printer, error) {
	source, err := c.ModelSource(ctx, name, version)
	if client.ErrorCode(err) == client.CodeNotFound && version == 0 {
		if source, err = c.ExportModels(ctx, []string{name}); client.ErrorCode(err) == client.CodeNotFound {
			err = noModel(ctx, c, name)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return output.Document{Source: source}, nil, nil
}

// noModel says that there is no model or alias of a name, and whether one can be restored.
func noModel(ctx context.Context, c *client.Client, name string) error {
	removed, err := c.RemovedModels(ctx)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(removed, func(r client.RemovedModel) bool { return r.Name == name }); i >= 0 {
		r := removed[i]
		return fmt.Errorf("%s was removed from the catalogue%s: `reelay models restore %s` puts it back, "+
			"and `reelay models show %s --version %d` shows it",
			name, removal(r.RemovedAt, r.RemovedBy), name, name, r.Version)
	}
	return fmt.Errorf("there is no model or alias %s: `reelay models` lists them", name)
}

// removal says when something was removed and by whom, as far as is known.
func removal(at *time.Time, by *string) string {
	says := ""
	if at != nil {
		says += " " + output.Since(at)
	}
	if by != nil {
		says += " by " + output.Clean(*by)
	}
	return says
}

// showAlias shows the alias of a name that no model has.
func showAlias(ctx context.Context, c *client.Client, name string) (any, output.Printer, error) {
	aliases, err := c.ModelAliases(ctx)
	if err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(aliases, func(a client.ModelAlias) bool { return a.Name == name })
	if i < 0 {
		return nil, nil, noModel(ctx, c, name)
	}
	a := aliases[i]
	return a, func(out io.Writer) error {
		_, err := fmt.Fprintf(out, "%-16s%s\n%-16s%d\n%-16s%s\n", "alias", a.Name, "version", a.Version, "description", spread(a))
		return err
	}, nil
}

func printModel(to io.Writer, m *client.Model) error {
	out := bufio.NewWriter(to)
	field := func(name, format string, args ...any) {
		fmt.Fprintf(out, "%-16s"+format+"\n", append([]any{name}, args...)...)
	}
	field("name", "%s", m.Name)
	origin := ""
	if m.Origin != nil {
		origin = fmt.Sprintf("  (%s)", strings.ToLower(string(*m.Origin)))
		if m.CreatedAt != nil {
			origin = fmt.Sprintf("  (%s, %s)", strings.ToLower(string(*m.Origin)), output.Since(m.CreatedAt))
		}
	}
	if m.RemovedAt != nil {
		origin += "  removed" + removal(m.RemovedAt, m.RemovedBy)
	}
	field("version", "%d%s", m.Version, origin)
	field("type", "%s", m.Type)
	field("description", "%s", output.Clean(m.Description))
	field("state", "%s", modelState(m.State))
	if m.Runtime != nil {
		field("runtime", "%s", *m.Runtime)
	}
	field("GPU types", "%s", strings.Join(m.GpuTypes, ", "))
	if m.GpuMemoryGb != nil {
		field("GPU memory", "%g GB", *m.GpuMemoryGb)
	}
	field("GPUs per worker", "%d", m.GpusPerWorker)
	field("produces", "%s", strings.ToLower(string(m.Produces)))
	field("prompt", "%s", map[bool]string{true: "required", false: "optional"}[m.RequiresPrompt])
	field("time limit", "%s and more for long or large videos", text.Seconds(m.TimeoutSeconds))
	field("first estimate", "%s of GPU per second of video", text.Seconds(m.GpuSecondsPerSecond))
	field("time depends on", "%s", cmp.Or(strings.Join(m.TimeDependsOn, ", "), "resolution, durationSeconds"))
	field("price factor", "%g", m.PriceFactor)
	field("fallback", "%s", cmp.Or(strings.Join(m.Fallback, ", "), "none"))
	field("drafts", "%s", draftable(m.Drafts))
	for _, part := range []struct {
		name  string
		value *json.RawMessage
	}{{"settings", m.Settings}, {"quality", m.Quality}} {
		if part.value != nil {
			field(part.name, "%s", output.Clean(string(*part.value)))
		}
	}
	fmt.Fprintln(out)
	if err := output.WriteRows(output.ScreenOf(to).On(out), []string{"PARAMETER", "DEFAULT", "MEANING"},
		paramRows(m.ParamsSchema)); err != nil {
		return err
	}
	return out.Flush()
}

// draftable says how many steps a draft can have.
func draftable(d *client.ModelDrafts) string {
	switch {
	case d == nil:
		return "none"
	case d.StepsParam != nil:
		return "yes, of the parameter " + *d.StepsParam
	case d.StepsPerSecond != nil && d.MinSteps != nil:
		return fmt.Sprintf("yes, of %g steps per second of video, at least %d", *d.StepsPerSecond, *d.MinSteps)
	case d.StepsPerSecond != nil:
		return fmt.Sprintf("yes, of %g steps per second of video", *d.StepsPerSecond)
	}
	return "yes"
}

func modelsApplyCommand() *cobra.Command {
	return applyModels(&cobra.Command{
		Use:   "apply -f FILE",
		Short: "Add and change the models of a file (for admins)",
		Long: "Adds and changes the models and aliases of a YAML or JSON file, all or none of them. Models that the file does\n" +
			"not name stay. A job keeps the version of its model with which it was submitted. FILE may be - for standard input.",
		Example: "  reelay models diff -f models.yaml\n  reelay models apply -f models.yaml",
		Args:    cobra.NoArgs,
	}, false)
}

func modelsDiffCommand() *cobra.Command {
	return applyModels(&cobra.Command{
		Use:   "diff -f FILE",
		Short: "Show what apply would change (for admins)",
		Args:  cobra.NoArgs,
	}, true)
}

func applyModels(cmd *cobra.Command, dryRun bool) *cobra.Command {
	var file string
	apply := &connect.Call{Target: connect.Target{Admin: true}}
	cmd = apply.Command(cmd, func(ctx context.Context, c *client.Client, _ []string) (any, output.Printer, error) {
		source, err := readSpecFile(file, cmd.InOrStdin())
		if err != nil {
			return nil, nil, err
		}
		changes, err := c.ApplyModels(ctx, file, source, dryRun)
		if err != nil {
			return nil, nil, err
		}
		return output.All(changes), func(out io.Writer) error { return printChanges(out, changes) }, nil
	})
	cmd.Flags().StringVarP(&file, "file", "f", "", "the file of models and aliases; - is standard input")
	return cmd
}

// maxSpecFile is how many bytes the API accepts of a file of models or pools.
const maxSpecFile = 256 << 10

func readSpecFile(path string, stdin io.Reader) (string, error) {
	if path == "" {
		return "", errors.New("-f is missing: name the file with -f FILE")
	}
	data, err := input.ReadUpTo(path, stdin, maxSpecFile)
	return string(data), err
}

func printChanges(to io.Writer, changes []client.ModelChange) error {
	out := bufio.NewWriter(to)
	for _, c := range changes {
		kind := map[bool]string{true: "alias", false: "model"}[c.IsAlias]
		fmt.Fprintf(out, "%-9s  %s %s, version %d\n", strings.ToLower(string(c.Kind)), kind, c.Name, c.Version)
		for _, d := range c.Differences {
			fmt.Fprintf(out, "           %s: %s → %s\n", output.Clean(d.Path), shownValue(d.Before), shownValue(d.After))
		}
	}
	return out.Flush()
}

// shownValue is a value of an entry for people, or "none".
func shownValue(v *json.RawMessage) string {
	if v == nil {
		return "none"
	}
	return output.Clean(string(*v))
}

func modelsRemoveCommand() *cobra.Command {
	var fromPools bool
	remove := &connect.Call{Target: connect.Target{Admin: true}}
	remove.Danger = func(ctx context.Context, c *client.Client, args []string) (string, error) {
		return removeQuestion(ctx, c, args[0], fromPools)
	}
	cmd := remove.Command(&cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a model or an alias (for admins)",
		Long: "Removes a model or an alias from the catalogue. A model whose jobs have not all ended, or that an alias or a pool\n" +
			"names, stays. With --from-pools it is taken out of the pools first. Workers that offer it stay, and get no jobs of it.\n" +
			"`reelay models restore` puts it back. On a terminal, the command asks first.",
		Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		if err := c.RemoveModel(ctx, args[0], fromPools); err != nil {
			return nil, nil, err
		}
		return map[string]string{"removed": args[0]},
			output.Line("Removed %s. `reelay models restore %s` puts it back.", strconv.Quote(args[0]), args[0]), nil
	})
	cmd.Flags().BoolVar(&fromPools, "from-pools", false, "also take it out of the pools that name it")
	return cmd
}

// removeQuestion asks whether to remove a model, and says what names it.
func removeQuestion(ctx context.Context, c *client.Client, name string, fromPools bool) (string, error) {
	uses, err := c.ModelUses(ctx, name)
	if err != nil {
		return "", err
	}
	question := fmt.Sprintf("Remove %s from the catalogue?", name)
	if len(uses.Pools) > 0 && fromPools {
		question += fmt.Sprintf(" It is also taken out of the pools %s.", strings.Join(uses.Pools, ", "))
	}
	if uses.Schedules > 0 {
		question += fmt.Sprintf(" %s its jobs: without it, their slots are refused.",
			text.Count(uses.Schedules, "schedule")+map[bool]string{true: " submits", false: " submit"}[uses.Schedules == 1])
	}
	return question, nil
}

func modelsExportCommand() *cobra.Command {
	export := &connect.Call{Target: connect.Target{Operator: true}}
	return export.Command(&cobra.Command{
		Use:   "export [NAME...]",
		Short: "Print models and aliases as a file for apply (for operators)",
		Long: "Prints models and aliases, also those that come with Reelay, as a YAML file that `reelay models apply` takes: those of\n" +
			"the names, or all. A removed one is printed with its last version.",
		Example: "  reelay models export > models.yaml\n  reelay models export wan-1.3b fast",
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		source, err := c.ExportModels(ctx, args)
		if err != nil {
			return nil, nil, err
		}
		return output.Document{Source: source}, func(out io.Writer) error {
			_, err := io.WriteString(out, source)
			return err
		}, nil
	})
}

func modelsRestoreCommand() *cobra.Command {
	restore := &connect.Call{Target: connect.Target{Admin: true}}
	return restore.Command(&cobra.Command{
		Use:   "restore [NAME]",
		Short: "Put back a model or an alias that was removed (for admins)",
		Long:  "Puts back a model or an alias that was removed, with its last version. Without NAME, it lists what was removed.",
		Args:  cobra.MaximumNArgs(1),
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		if len(args) == 0 {
			removed, err := c.RemovedModels(ctx)
			return output.All(removed), func(out io.Writer) error { return printRemoved(out, removed) }, err
		}
		restored, err := c.RestoreModel(ctx, args[0])
		if err != nil {
			return nil, nil, err
		}
		return restored, output.Line("Restored version %d of %s. Add it again to the pools from which it was removed.", restored.Version,
			restored.Name), nil
	})
}

func printRemoved(out io.Writer, removed []client.RemovedModel) error {
	if len(removed) == 0 {
		return output.Line("Nothing was removed.")(out)
	}
	var rows [][]string
	for _, r := range removed {
		by := "-"
		if r.RemovedBy != nil {
			by = output.Clean(*r.RemovedBy)
		}
		rows = append(rows, []string{r.Name, fmt.Sprint(r.Version), strings.ToLower(string(r.Origin)), output.Since(r.RemovedAt), by})
	}
	return output.WriteRows(out, []string{"NAME", "VERSION", "SOURCE", "REMOVED", "BY"}, rows)
}

// paramRows reads a JSON Schema as far as it is simple; --json shows all of it.
func paramRows(schema json.RawMessage) [][]string {
	var s struct {
		Properties map[string]struct {
			Description string          `json:"description"`
			Default     json.RawMessage `json:"default"`
			Enum        []any           `json:"enum"`
		} `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		meaning := p.Description
		if len(p.Enum) > 0 {
			meaning = strings.TrimSpace(meaning + " " + fmt.Sprint(p.Enum))
		}
		rows = append(rows, []string{name, string(p.Default), meaning})
	}
	return rows
}
