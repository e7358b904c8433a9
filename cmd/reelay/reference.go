package main

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// referenceCommand writes the reference of all commands, docs/users/cli.md. It is hidden: only
// the task generate runs it.
func referenceCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "reference FILE",
		Short:  "Write the reference of all commands",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var page strings.Builder
			writeReference(&page, cmd.Root())
			return os.WriteFile(args[0], []byte(page.String()), 0o644)
		},
	}
}

// referenceStart is the part of the reference that is not about one command.
//
//go:embed reference.md
var referenceStart string

// flagGroup are flags that many commands share; the reference lists them once.
type flagGroup struct {
	title, intro, mark string
	flags              *pflag.FlagSet
}

func flagGroups() []flagGroup {
	api, answer, list := &cobra.Command{}, &cobra.Command{}, &cobra.Command{}
	new(connect.Target).AddFlags(api)
	new(output.Options).AddFlags(answer)
	(&connect.Lister[int]{}).Command(list)
	list.Flags().VisitAll(func(f *pflag.Flag) {
		f.Hidden = api.Flags().Lookup(f.Name) != nil || answer.Flags().Lookup(f.Name) != nil
	})
	return []flagGroup{
		{"Flags of all commands that call the API", "Commands marked with *API* have them.", "API", api.Flags()},
		{"Flags of output", "Commands marked with *output* have them.", "output", answer.Flags()},
		{"Flags of lists", "Commands marked with *list* have them. Lists without pages have no `--first` and `--after`.", "list", list.Flags()},
	}
}

// writeReference writes the page.
func writeReference(out io.Writer, root *cobra.Command) {
	fmt.Fprint(out, referenceStart)
	groups := flagGroups()
	for _, g := range groups {
		fmt.Fprintf(out, "\n## %s\n\n%s\n\n", g.title, g.intro)
		writeFlags(out, g.flags, func(f *pflag.Flag) bool { return f.Hidden })
	}
	for _, group := range root.Groups() {
		fmt.Fprintf(out, "\n## %s\n", strings.TrimSuffix(group.Title, ":"))
		for _, cmd := range root.Commands() {
			if cmd.GroupID == group.ID {
				writeCommand(out, cmd, groups)
			}
		}
	}
}

func writeCommand(out io.Writer, cmd *cobra.Command, groups []flagGroup) {
	if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
		return
	}
	fmt.Fprintf(out, "\n### %s\n\n%s.\n", cmd.CommandPath(), strings.TrimSuffix(cmd.Short, "."))
	if cmd.Long != "" {
		fmt.Fprintf(out, "\n%s\n", markdown(cmd.Long))
	}
	fmt.Fprintf(out, "\n```\n%s\n```\n", strings.TrimSuffix(cmd.UseLine(), " [flags]"))
	shared := map[string]bool{}
	var marks []string
	for _, g := range groups {
		has := true
		g.flags.VisitAll(func(f *pflag.Flag) {
			has = has && (f.Hidden || f.Name == "first" || f.Name == "after" || sameFlag(cmd, f))
		})
		if has {
			marks = append(marks, "*"+g.mark+"*")
			g.flags.VisitAll(func(f *pflag.Flag) { shared[f.Name] = shared[f.Name] || !f.Hidden })
		}
	}
	skip := func(f *pflag.Flag) bool { return f.Hidden || f.Name == "help" || shared[f.Name] }
	if len(marks) > 0 {
		fmt.Fprintf(out, "\nFlags: %s.\n", strings.Join(marks, ", "))
	}
	own := false
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { own = own || !skip(f) })
	if own {
		fmt.Fprintln(out)
		writeFlags(out, cmd.LocalNonPersistentFlags(), skip)
	}
	if cmd.Example != "" {
		fmt.Fprintf(out, "\n```sh\n%s\n```\n", strings.ReplaceAll(strings.TrimPrefix(cmd.Example, "  "), "\n  ", "\n"))
	}
	for _, sub := range cmd.Commands() {
		writeCommand(out, sub, groups)
	}
}

// sameFlag reports whether a command has a flag with the same meaning.
func sameFlag(cmd *cobra.Command, f *pflag.Flag) bool {
	own := cmd.Flags().Lookup(f.Name)
	return own != nil && own.Usage == f.Usage
}

// hostFlags are flags whose defaults differ from machine to machine.
var hostFlags = []string{"work-dir"}

// writeFlags writes a table of flags.
func writeFlags(out io.Writer, flags *pflag.FlagSet, skip func(*pflag.Flag) bool) {
	fmt.Fprint(out, "| flag | |\n| --- | --- |\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if skip(f) {
			return
		}
		name := "`--" + f.Name
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		kind, usage := pflag.UnquoteUsage(f)
		if kind != "" {
			name += " " + kind
		}
		none := slices.Contains([]string{"", "false", "0", "[]", "0s"}, f.DefValue)
		if !none && !slices.Contains(hostFlags, f.Name) && !strings.Contains(usage, "default") {
			usage += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		fmt.Fprintf(out, "| %s` | %s |\n", name, strings.ReplaceAll(usage, "|", "\\|"))
	})
}

// markdown returns a help text as paragraphs: its lines are broken for terminals.
func markdown(text string) string {
	var paragraphs []string
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if !strings.Contains(paragraph, "\n  ") && !strings.HasPrefix(paragraph, "  ") {
			paragraphs = append(paragraphs, paragraph)
			continue
		}
		paragraphs = append(paragraphs, "```\n"+paragraph+"\n```")
	}
	return strings.Join(paragraphs, "\n\n")
}
