package connect

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Quickly returns a context for calls that a person waits for without having asked for them.
func Quickly(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx == nil {
		ctx = context.Background()
	}
	return context.WithTimeout(ctx, 2*time.Second)
}

// Completion returns what a word can be completed to. A failure completes nothing.
type Completion = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective)

// FromAPI completes words that the API knows. ask returns them, each with a tab and a
// description if it has one.
func FromAPI(role Target, ask func(ctx context.Context, c *client.Client) ([]string, error)) Completion {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		t := role
		t.readFlags(cmd.Flags())
		c, err := t.Client(io.Discard)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := Quickly(cmd.Context())
		defer cancel()
		words, err := ask(ctx, c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		// What is given already is not offered again.
		words = slices.DeleteFunc(words, func(w string) bool {
			value, _, _ := strings.Cut(w, "\t")
			return !strings.HasPrefix(value, word) || slices.Contains(args, value)
		})
		return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// readFlags reads the flags of a command that has a target.
func (t *Target) readFlags(f *pflag.FlagSet) {
	for name, to := range map[string]*string{"endpoint": &t.endpoint, "key": &t.key, "data": &t.data, "ca-file": &t.caFile,
		"context": &t.context} {
		if flag := f.Lookup(name); flag != nil {
			*to = flag.Value.String()
			if name == "data" {
				t.dataGiven = flag.Changed
			}
		}
	}
}

// Described returns the items of a list as completions.
func Described[T any](list output.List[T], word func(T) (value, description string)) []string {
	var words []string
	for _, item := range list.Items {
		value, description := word(item)
		words = append(words, value+"\t"+description)
	}
	return words
}

// NoFiles completes nothing, instead of the names of files.
func NoFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// Choices completes fixed words. After a comma, it completes the next word of a list.
func Choices[T ~string](all []T) Completion {
	return func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		before := word[:strings.LastIndex(word, ",")+1]
		var found []string
		for _, one := range all {
			if value := before + strings.ToLower(string(one)); strings.HasPrefix(value, word) {
				found = append(found, value)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// FirstOnly completes the first argument by one function, and those after it by another.
func FirstOnly(first, others Completion) Completion {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return first(cmd, args, word)
		}
		return others(cmd, args, word)
	}
}

// idAnnotation is the annotation of commands whose arguments are ids: the kind of the ids.
const idAnnotation = "kind of ids"

// TakeIDs marks a command whose arguments are ids of a kind.
func TakeIDs(cmd *cobra.Command, kind string) {
	cmd.Annotations = map[string]string{idAnnotation: kind}
}

// IDKind returns the kind of the ids that a command takes, or "".
func IDKind(cmd *cobra.Command) string { return cmd.Annotations[idAnnotation] }
