package connect

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"syscall"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/spf13/cobra"
)

// Call is a command that connects to the API, makes its calls, and prints the
// answer. Lists are shown by a [Lister].
type Call struct {
	Target Target
	Output output.Options
	// Kind is the kind of the ids in the arguments, if they are ids. They may be shortened.
	Kind string
	// Danger returns the question that the user of a terminal must answer with yes first. It is
	// nil for commands that can be undone.
	Danger func(ctx context.Context, c *client.Client, args []string) (string, error)
	yes    terminal.YesFlag
}

// Command completes cmd with the flags of every API command. do makes the calls: it
// returns the answer that --output json prints, and what is printed for people.
func (a *Call) Command(
	cmd *cobra.Command, do func(ctx context.Context, c *client.Client, args []string) (answer any, text output.Printer, err error),
) *cobra.Command {
	a.Target.AddFlags(cmd)
	a.Output.AddFlags(cmd)
	if a.Danger != nil {
		a.yes.AddFlag(cmd)
	}
	if a.Kind != "" {
		TakeIDs(cmd, a.Kind)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := a.Output.Check(); err != nil {
			return terminal.UsageError(cmd, err)
		}
		c, err := a.Target.Client(cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		if a.Kind != "" {
			if args, err = FullIDs(cmd.Context(), c, a.Kind, args); err != nil {
				return a.Target.Explain(err)
			}
		}
		if err := a.confirm(cmd, c, args); err != nil {
			return a.Target.Explain(err)
		}
		answer, text, err := do(cmd.Context(), c, args)
		if err != nil {
			return a.Target.Explain(err)
		}
		return a.Output.Print(a.Output.Screen(cmd, cmd.OutOrStdout()), answer, text)
	}
	return cmd
}

// confirm asks the user of a terminal, if the command is dangerous.
func (a *Call) confirm(cmd *cobra.Command, c *client.Client, args []string) error {
	if a.Danger == nil || a.yes.Yes || !terminal.IsTerminal(cmd.InOrStdin()) {
		return nil
	}
	question, err := a.Danger(cmd.Context(), c, args)
	if err != nil {
		return err
	}
	return a.yes.Confirm(cmd, question)
}

// Question is the danger of a command that asks the same each time.
func Question(format string) func(context.Context, *client.Client, []string) (string, error) {
	return func(_ context.Context, _ *client.Client, args []string) (string, error) {
		return fmt.Sprintf(format, args[0]), nil
	}
}

// WithAdvice adds to the error of a call what its user can do about it.
func WithAdvice(err error) error {
	e, ok := errors.AsType[*client.Error](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w; check the address, and whether the server runs (is `reelay up` running?)", err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("the server speaks HTTP, not HTTPS: give its address with http:// (%w)", err)
	case isUntrusted(err):
		return fmt.Errorf("%w; trust its certificate with --ca-file or REELAY_CA_FILE, or name the folder of the running `reelay up` with --data",
			err)
	case !ok:
		return err
	case e.Code == client.CodeUnauthenticated:
		return &wrongKeyError{cause: e}
	case e.RequestID != "":
		return fmt.Errorf("%w (request %s in the server's log)", err, e.RequestID)
	}
	return err
}

// wrongKeyError is the error of a call whose key is not valid. The API's own message is about
// HTTP headers.
type wrongKeyError struct {
	source string // where the key came from, if known
	cause  *client.Error
}

func (e *wrongKeyError) Error() string {
	if e.source == "" {
		return "the key is missing, unknown or revoked: check REELAY_API_KEY or --key"
	}
	return fmt.Sprintf("the key from %s is unknown, expired or revoked", e.source)
}

func (e *wrongKeyError) Unwrap() error { return e.cause }

// Explain is [WithAdvice] for a command that knows where its key came from.
func (t *Target) Explain(err error) error {
	err = WithAdvice(err)
	if wrong, ok := errors.AsType[*wrongKeyError](err); ok {
		wrong.source = t.keySource
	}
	if e, ok := errors.AsType[*client.Error](err); ok && t.ownClient &&
		(e.Code == client.CodeNotFound || e.Code == client.CodeForbidden || e.Field == "search") {
		return fmt.Errorf("%w\nThe client key shows only its own account: use --as operator for others", err)
	}
	return err
}

// isUntrusted reports whether a call failed because the server's certificate is signed
// by an authority that is not trusted.
func isUntrusted(err error) bool {
	_, untrusted := errors.AsType[x509.UnknownAuthorityError](err)
	return untrusted
}
