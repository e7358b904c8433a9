package main

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

// yesFlag is the flag --yes of commands that cannot be undone.
type yesFlag struct{ yes bool }

func (y *yesFlag) addFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&y.yes, "yes", "y", false, "do not ask for confirmation")
}

// errDeclined is the error of a command whose user answered no.
var errDeclined = errors.New("nothing was done")

// confirm asks the user of a terminal whether to do something. Without a terminal,
// the command continues without asking.
func (y *yesFlag) confirm(cmd *cobra.Command, question string) error {
	if y.yes || !isTerminal(cmd.InOrStdin()) {
		return nil
	}
	return ask(cmd.InOrStdin(), cmd.ErrOrStderr(), question)
}

// insist is confirm for a command that may change very much: without a terminal, it needs --yes.
func (y *yesFlag) insist(cmd *cobra.Command, question string) error {
	if !y.yes && !isTerminal(cmd.InOrStdin()) {
		return fmt.Errorf("%s This is not a terminal: confirm with --yes", strings.TrimSuffix(question, "?")+".")
	}
	return y.confirm(cmd, question)
}

// ask prints a question and reads the answer, which is no unless it is y or yes.
func ask(in io.Reader, out io.Writer, question string) error {
	fmt.Fprint(out, question+" [y/N] ")
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errDeclined
}

func isTerminal(in any) bool {
	file, ok := in.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
