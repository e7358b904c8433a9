package main

import (
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

const referenceStart = `# Command line

` + "`reelay`" + ` is one program: the client of the API, and the servers. This page lists its commands. It is made from the program
by ` + "`go tool task generate`" + `; do not edit it.

## Where commands find the API

The first of these that is given wins:

1. ` + "`--endpoint`, `--key` and `--context`" + `
2. ` + "`REELAY_ENDPOINT`, `REELAY_API_KEY` and `REELAY_CONTEXT`" + `
3. the folder of a running ` + "`reelay up`, if `--data`" + ` names it
4. the current context, which ` + "`reelay login` and `reelay context use`" + ` set
5. a running ` + "`reelay up` in `.reelay`" + `

` + "`--as operator`" + `, ` + "`admin` or `client`" + ` chooses among the keys of a running ` + "`reelay up`" + `. Without it, commands about jobs use the client
key, which sees only its own account, and commands about the fleet that of the operator: ` + "`reelay list 'account:acme' --as operator`" + `.

A key is only sent to the API that it belongs to, except one that you name yourself. ` + "`reelay whoami`" + ` shows which API is called,
and where the key comes from. Contexts are in ` + "`reelay/contexts.json`" + ` in your folder of settings (` + "`~/.config`" + ` on Linux), or in
` + "`REELAY_CONFIG_DIR`" + `. The file has keys; only you can read it.

## Output

- A terminal gets tables that fit it: long values are cut with …, ids are shortened, and states are coloured. Pipes and files get
  complete values. ` + "`--no-color` and `NO_COLOR`" + ` turn colours off.
- ` + "`--output json`" + ` and ` + "`yaml`" + ` print the whole answer. Every list has the same shape: ` + "`items`, `hasNextPage`, `endCursor`" + `, and
  ` + "`totalCount`" + ` where it is known. ` + "`--jq`" + ` prints strings bare, and everything else as JSON.
- ` + "`--output name`" + ` prints ids or names only, for other commands: ` + "`reelay list --status failed -o name | xargs reelay retry`" + `.
- Remarks such as "No jobs." and the cursor of the next page go to standard error.
- The exit status is 0 on success, 1 on failure, 2 for a wrong command line, and 130 after Ctrl-C.

## Ids

The first six hex digits or more name a job, a worker, a key and so on, if no other id begins with them: ` + "`reelay get 01937d3e-1111`" + `.
The kind (` + "`job_`" + `) can be left out. If several ids begin like that, the command lists them and does nothing.

## Completion

` + "`reelay completion bash`, `zsh` and `fish`" + ` print a script that completes commands, flags, ids, models, pools, accounts, contexts and
the values of flags; ` + "`reelay completion bash --help`" + ` says how to load it.
`

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
var hostFlags = []string{"instance-id", "work-dir"}

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
		if !slices.Contains([]string{"", "false", "0", "[]", "0s"}, f.DefValue) && !slices.Contains(hostFlags, f.Name) && !strings.Contains(usage, "default") {
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
