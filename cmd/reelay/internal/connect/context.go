package connect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/reelay/reelay/cmd/reelay/internal/credentials"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/spf13/cobra"
)

// apiContext is an API that the user logged in to.
type apiContext struct {
	Name     string `json:"name"`
	Endpoint string `json:"endpoint"`
	Key      string `json:"key"`
	CAFile   string `json:"caFile,omitempty"`
}

// contexts are the APIs that the user logged in to, in a file that only the user can read.
type contexts struct {
	Current  string       `json:"current"`
	Contexts []apiContext `json:"contexts"`

	path string
}

// contextName is what a context may be called.
var contextName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// errNoConfig is the error of a user without a folder of settings.
var errNoConfig = errors.New("the folder of your settings is unknown")

// configFolder returns the folder of the user's settings.
func configFolder(getenv func(string) string) (string, error) {
	if folder := getenv("REELAY_CONFIG_DIR"); folder != "" {
		return folder, nil
	}
	folder, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("%w: set REELAY_CONFIG_DIR", errNoConfig)
	}
	return filepath.Join(folder, "reelay"), nil
}

// readContexts reads the user's contexts. Without a file there are none.
func readContexts(getenv func(string) string) (*contexts, error) {
	folder, err := configFolder(getenv)
	if err != nil {
		return nil, err
	}
	all := &contexts{path: filepath.Join(folder, "contexts.json")}
	if err := credentials.ReadPrivate(all.path, "`reelay login`", all); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return all, nil
}

func (c *contexts) write() error {
	if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
		return err
	}
	return credentials.WritePrivate(c.path, c)
}

// find returns the context with a name, or nil.
func (c *contexts) find(name string) *apiContext {
	i := slices.IndexFunc(c.Contexts, func(one apiContext) bool { return one.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Contexts[i]
}

// get is find with an error for a name that no context has.
func (c *contexts) get(name string) (*apiContext, error) {
	if found := c.find(name); found != nil {
		return found, nil
	}
	if len(c.Contexts) == 0 {
		return nil, fmt.Errorf("there is no context %s: `reelay login URL` makes one", name)
	}
	var names []string
	for _, one := range c.Contexts {
		names = append(names, one.Name)
	}
	return nil, fmt.Errorf("there is no context %s; there are %s", name, strings.Join(names, ", "))
}

// set adds a context, or replaces the one with its name, and makes it the current one.
func (c *contexts) set(one apiContext) {
	if found := c.find(one.Name); found != nil {
		*found = one
	} else {
		c.Contexts = append(c.Contexts, one)
	}
	c.Current = one.Name
}

// ContextCommand returns `reelay context`.
func ContextCommand() *cobra.Command {
	cmd := listContexts(&cobra.Command{
		Use:   "context",
		Short: "List the APIs that you are logged in to, and choose one",
		Long: "Lists the contexts: the APIs that reelay login stored, with their keys. A command calls the first API of these:\n" +
			"that of --endpoint and --key, of --context, of REELAY_ENDPOINT and REELAY_API_KEY, of REELAY_CONTEXT, of a running\n" +
			"`reelay up` whose folder --data names, of the current context, of a running `reelay up` in .reelay.",
		Args: terminal.NoSuchCommand,
	})
	cmd.AddCommand(
		listContexts(&cobra.Command{Use: "list", Short: "List the contexts", Args: cobra.NoArgs}),
		changeContexts(&cobra.Command{Use: "use CONTEXT", Short: "Make a context the current one", Args: cobra.ExactArgs(1)},
			func(all *contexts, args []string) (string, error) {
				one, err := all.get(args[0])
				if err != nil {
					return "", err
				}
				all.Current = one.Name
				return fmt.Sprintf("The current context is %s, %s.", one.Name, one.Endpoint), nil
			}),
		changeContexts(&cobra.Command{Use: "rename CONTEXT NAME", Short: "Rename a context", Args: cobra.ExactArgs(2)}, renameContext),
		changeContexts(&cobra.Command{Use: "delete CONTEXT", Short: "Delete a context, with its key", Args: cobra.ExactArgs(1)},
			func(all *contexts, args []string) (string, error) {
				if _, err := all.get(args[0]); err != nil {
					return "", err
				}
				all.Contexts = slices.DeleteFunc(all.Contexts, func(one apiContext) bool { return one.Name == args[0] })
				if all.Current == args[0] {
					all.Current = ""
				}
				return fmt.Sprintf("Deleted the context %s. Its key is still valid: revoke it with `reelay keys revoke`.", args[0]), nil
			}))
	return cmd
}

func renameContext(all *contexts, args []string) (string, error) {
	one, err := all.get(args[0])
	switch {
	case err != nil:
		return "", err
	case !contextName.MatchString(args[1]):
		return "", fmt.Errorf("%q cannot be the name of a context: it may have letters, digits, dots, hyphens and underscores", args[1])
	case all.find(args[1]) != nil:
		return "", fmt.Errorf("there is a context %s already", args[1])
	}
	if all.Current == one.Name {
		all.Current = args[1]
	}
	one.Name = args[1]
	return fmt.Sprintf("The context %s is now %s.", args[0], args[1]), nil
}

// changeContexts completes a command that changes the contexts. do returns what it did.
func changeContexts(cmd *cobra.Command, do func(all *contexts, args []string) (string, error)) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all, err := readContexts(os.Getenv)
		if err != nil {
			return err
		}
		did, err := do(all, args)
		if err != nil {
			return err
		}
		if err := all.write(); err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), did)
		return err
	}
	return cmd
}

// shownContext is a context without its key.
type shownContext struct {
	Name     string `json:"name"`
	Endpoint string `json:"endpoint"`
	Current  bool   `json:"current"`
}

func listContexts(cmd *cobra.Command) *cobra.Command {
	var o output.Options
	table := output.Table[shownContext]{
		Columns: []output.Column[shownContext]{
			{Title: "CURRENT", Value: func(c shownContext) any { return map[bool]string{true: "*", false: " "}[c.Current] }},
			{Title: "CONTEXT", Value: func(c shownContext) any { return c.Name }},
			{Title: "ENDPOINT", Kind: output.Long, Value: func(c shownContext) any { return c.Endpoint }},
		},
		Name: func(c shownContext) string { return c.Name },
		None: "No contexts. `reelay login URL` makes one.",
	}
	o.AddFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.Check(); err != nil {
			return terminal.UsageError(cmd, err)
		}
		all, err := readContexts(os.Getenv)
		if err != nil {
			return err
		}
		list := output.All[shownContext](nil)
		for _, one := range all.Contexts {
			list.Items = append(list.Items, shownContext{one.Name, one.Endpoint, one.Name == all.Current})
		}
		return output.Show(&o, o.Screen(cmd, cmd.OutOrStdout()), cmd.ErrOrStderr(), &table, &list, list)
	}
	return cmd
}

// CompleteContexts completes the names of contexts.
func CompleteContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	all, err := readContexts(os.Getenv)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, one := range all.Contexts {
		names = append(names, one.Name+"\t"+one.Endpoint)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
