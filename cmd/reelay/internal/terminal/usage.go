package terminal

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// valueCause is what an error of Go's says of a flag's value, without the value.
var valueCause = regexp.MustCompile(`^(?:strconv\.\w+: parsing ".*": |time: )(.*)$`)

// FlagError says in words what is wrong with a flag.
func FlagError(cmd *cobra.Command, err error) error {
	if missing, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return noSuchFlag(cmd, missing)
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return fmt.Errorf("%s needs a value", dashed(missing.GetSpecifiedName()))
	}
	bad, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	name := "--" + bad.GetFlag().Name
	parts := valueCause.FindStringSubmatch(bad.Unwrap().Error())
	if parts == nil {
		return fmt.Errorf("%s is %q: %w", name, bad.GetValue(), bad.Unwrap())
	}
	if strings.Contains(parts[1], "out of range") {
		return fmt.Errorf("%s is %s: this is out of range", name, bad.GetValue())
	}
	return fmt.Errorf("%s is %q: it must be %s", name, bad.GetValue(), valueOf(bad.GetFlag()))
}

// valueOf says what the value of a flag must be.
func valueOf(flag *pflag.Flag) string {
	switch kind := flag.Value.Type(); {
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"):
		return "a whole number"
	case strings.HasPrefix(kind, "bool"):
		return "true or false"
	case kind == "duration":
		return "a duration such as 30s, 10m or 2h"
	}
	return "a number"
}

// noSuchFlag refuses a flag, and suggests those whose names are near.
func noSuchFlag(cmd *cobra.Command, missing *pflag.NotExistError) error {
	given := missing.GetSpecifiedName()
	// The distance of cobra's suggestions is that of the flags' names, as those of commands.
	names := &cobra.Command{Use: "flags", SuggestionsMinimumDistance: min(2, (len(given)+1)/3)}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && len(given) > 1 {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	if near := names.SuggestionsFor(given); len(near) > 0 {
		return fmt.Errorf("unknown flag: %s; did you mean --%s?", dashed(given), strings.Join(near, " or --"))
	}
	return fmt.Errorf("unknown flag: %s", dashed(given))
}

// dashed returns the name of a flag as it is typed.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// CheckArgs turns errors about the arguments of cmd and its subcommands into a
// [UsageError], in words.
func CheckArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return UsageError(cmd, argsError(cmd, args, err))
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		CheckArgs(sub)
	}
}

// cobraArgs is what cobra says of the wrong number of arguments.
var cobraArgs = regexp.MustCompile(`^(unknown command .* for|accepts |requires at least )`)

// argsError says in words what is wrong with arguments, if cobra found it.
func argsError(cmd *cobra.Command, args []string, err error) error {
	if !cobraArgs.MatchString(err.Error()) {
		return err
	}
	_, wanted, _ := strings.Cut(strings.TrimSuffix(cmd.Use, " [flags]"), " ")
	switch {
	case wanted == "":
		return fmt.Errorf("`%s` takes no arguments, but got %q", cmd.CommandPath(), strings.Join(args, " "))
	case len(args) == 0:
		return fmt.Errorf("%s is missing", wanted)
	}
	return fmt.Errorf("there are %d arguments, %q: give %s", len(args), strings.Join(args, " "), wanted)
}

// Family makes a command that only has subcommands. Without one it shows its help.
func Family(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = NoSuchCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(commands...)
	return cmd
}

// NoSuchCommand refuses the arguments of a command that only has subcommands.
func NoSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	// A third of the letters may be wrong, and at most two.
	cmd.SuggestionsMinimumDistance = min(2, len(args[0])/3)
	if similar := slices.Compact(cmd.SuggestionsFor(args[0])); len(similar) > 0 {
		return fmt.Errorf("there is no command %q; did you mean %s?", args[0], strings.Join(similar, " or "))
	}
	return fmt.Errorf("there is no command %q", args[0])
}

// usageError is the error of an invalid command line.
type usageError struct {
	cmd   *cobra.Command // nil if the caller does not know it
	cause error
}

func (e *usageError) Error() string { return e.cause.Error() }
func (e *usageError) Unwrap() error { return e.cause }

// UsageError marks an error as that of an invalid command line: [Report] prints how to use cmd,
// which may be nil, and returns [ExitUsage].
func UsageError(cmd *cobra.Command, cause error) error { return &usageError{cmd, cause} }

// OneArg requires one argument.
func OneArg(name, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("%s is missing, or there is more than one: give %s", name, what)
		}
		return nil
	}
}
