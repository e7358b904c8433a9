package terminal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// YesFlag is the flag --yes of commands that cannot be undone.
type YesFlag struct{ Yes bool }

// AddFlag adds --yes to the flags of a command.
func (y *YesFlag) AddFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&y.Yes, "yes", "y", false, "do not ask for confirmation")
}

// errDeclined is the error of a command whose user answered no.
var errDeclined = errors.New("nothing was done")

// Confirm asks the user of a terminal whether to do something. Without a terminal,
// the command continues without asking.
func (y *YesFlag) Confirm(cmd *cobra.Command, question string) error {
	if y.Yes || !IsTerminal(cmd.InOrStdin()) {
		return nil
	}
	return ask(cmd.InOrStdin(), cmd.ErrOrStderr(), question)
}

// Insist is confirm for a command that may change very much: without a terminal, it needs --yes.
func (y *YesFlag) Insist(cmd *cobra.Command, question string) error {
	if !y.Yes && !IsTerminal(cmd.InOrStdin()) {
		return Unasked(question, "--yes")
	}
	return y.Confirm(cmd, question)
}

// Unasked is the error of a command that cannot ask its question, since its input is not a terminal. how is what answers it.
func Unasked(question, how string) error {
	return StatusError(ExitUsage,
		fmt.Errorf("%s\nThis is not a terminal, so nobody was asked and nothing was done: answer with %s", question, how))
}

// Ask prints a question and returns the line that is the answer, without the spaces around it.
func Ask(in io.Reader, out io.Writer, question string) (string, error) {
	fmt.Fprint(out, question)
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimSpace(answer), nil
}

// ask prints a question and reads the answer, which is no unless it is y or yes.
func ask(in io.Reader, out io.Writer, question string) error {
	answer, err := Ask(in, out, question+" [y/N] ")
	if err != nil {
		return err
	}
	switch strings.ToLower(answer) {
	case "y", "yes":
		return nil
	}
	return errDeclined
}

// IsTerminal reports whether an input or output is a terminal.
func IsTerminal(in any) bool {
	file, ok := in.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
