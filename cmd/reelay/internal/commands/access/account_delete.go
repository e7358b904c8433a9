package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/text"
	"github.com/spf13/cobra"
)

// followEvery is how often the command looks how far a deletion is.
const followEvery = time.Second

func accountsDeleteCommand() *cobra.Command {
	var typed string
	var noWait bool
	call := &connect.Call{Target: connect.Target{Admin: true}}
	cmd := &cobra.Command{
		Use:   "delete ACCOUNT",
		Short: "Delete an account with all its data (for admins)",
		Long: "Deletes an account, given by its name or id, with all its data: jobs with their prompts and files, workflows, schedules,\n" +
			"webhooks, keys and members. This cannot be undone, and not be stopped. It asks for the name of the account; without a\n" +
			"terminal it needs --yes-delete. The keys of the account are refused at once, and its jobs are cancelled. What it cost\n" +
			"stays in the ledger, without users.\n\n" +
			"The server does the work. The command shows its progress, and then the report. If you interrupt it, the server continues:\n" +
			"the same command, or `reelay accounts deletions ACCOUNT`, follows it again.",
		Example: "  reelay accounts delete acme\n  reelay accounts delete acme --yes-delete acme --json",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&typed, "yes-delete", "", "the name of the account, to delete it without being asked")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for the end")
	return call.Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		id, name, err := toDelete(ctx, c, cmd, args[0], typed)
		if err != nil {
			return nil, nil, err
		}
		d, err := c.DeleteAccount(ctx, id, name)
		if err == nil {
			name = d.Name
			if !noWait {
				d, err = followDeletion(ctx, c, cmd.ErrOrStderr(), d)
			}
		}
		return d, printDeletion(d, name), err
	})
}

// toDelete returns the id of an account, and the name that its deletion needs: what the user typed.
func toDelete(ctx context.Context, c *client.Client, cmd *cobra.Command, which, typed string) (id, name string, err error) {
	if id, err = AccountID(ctx, c, which); err != nil {
		return "", "", err
	}
	if _, err := c.AccountDeletion(ctx, id); err == nil {
		return id, "", nil // it was started before
	}
	if typed != "" {
		return id, typed, nil
	}
	what, err := whatIsDeleted(ctx, c, id)
	if err != nil {
		return "", "", err
	}
	if !terminal.IsTerminal(cmd.InOrStdin()) {
		return "", "", terminal.Unasked(what, "--yes-delete and the name of the account")
	}
	name, err = terminal.Ask(cmd.InOrStdin(), cmd.ErrOrStderr(), what+"\nType the name of the account to delete it: ")
	if err == nil && name == "" {
		err = errors.New("nothing was deleted")
	}
	return id, name, err
}

// whatIsDeleted says what the deletion of an account ends, and what to do before it.
func whatIsDeleted(ctx context.Context, c *client.Client, id string) (string, error) {
	account, err := findAccount(ctx, c, func(a *client.Account) bool { return a.Id == id })
	if err != nil {
		return "", err
	}
	if account == nil {
		return "", fmt.Errorf("no account has the id %s: `reelay accounts list` shows the accounts", id)
	}
	jobs, err := c.Jobs(ctx, client.JobFilter{AccountId: &id}, 1, "")
	if err != nil {
		return "", err
	}
	name := output.Clean(account.Name)
	return fmt.Sprintf("This deletes the account %q (%s) with all its data: %s, of which %d run and %d wait. These are cancelled.\n"+
		"It cannot be undone. Write its last statement first, while it has its users: reelay costs statement --account %s --month %s --csv FILE",
		name, id, text.Count(jobs.TotalCount, "job"), account.Running, account.Queued, id, time.Now().UTC().Format("2006-01")), nil
}

// followDeletion waits for the end of a deletion, and says how far it is whenever that has changed.
func followDeletion(ctx context.Context, c *client.Client, remarks io.Writer, d *client.AccountDeletion) (*client.AccountDeletion, error) {
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for said := ""; d.FinishedAt == nil; {
		if now := deletionProgress(d); now != said {
			said = now
			fmt.Fprintln(remarks, now)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return d, interruptedDeletion(d)
		}
		next, err := c.AccountDeletion(ctx, d.AccountId)
		if e, ok := errors.AsType[*client.Error](err); ok && e.Retryable() {
			continue
		}
		if ctx.Err() != nil {
			return d, interruptedDeletion(d)
		}
		if err != nil {
			return d, err
		}
		d = next
	}
	return d, nil
}

func interruptedDeletion(d *client.AccountDeletion) error {
	return terminal.StatusError(terminal.ExitInterrupted,
		fmt.Errorf("interrupted: the server continues the deletion. Follow it with: reelay accounts deletions %s", d.AccountId))
}

// deletionProgress says how far a deletion is.
func deletionProgress(d *client.AccountDeletion) string {
	doing := "starting"
	if d.Doing != nil {
		doing = dataName(*d.Doing)
	}
	return fmt.Sprintf("Deleting %s: %s left, %d of them unfinished (%s)", d.Name, text.Count(d.JobsLeft, "job"), d.UnfinishedJobs, doing)
}

// dataName returns the name of a kind of data for people.
func dataName(kind client.AccountData) string {
	return strings.ReplaceAll(strings.ToLower(string(kind)), "_", " ")
}

func accountsDeletionsCommand() *cobra.Command {
	call := &connect.Call{Target: connect.Target{Operator: true}}
	cmd := &cobra.Command{
		Use:   "deletions [ACCOUNT]",
		Short: "List the deletions of accounts, or follow one and show its report",
		Long: "Lists the newest 100 deletions of accounts. With the id of an account, or its name while it is being deleted, it waits\n" +
			"for the end of its deletion and shows the report: what was deleted, what is kept, and by when the files are gone.",
		Args: cobra.MaximumNArgs(1),
	}
	return call.Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		if len(args) == 0 {
			all, err := c.AccountDeletions(ctx)
			return all, func(out io.Writer) error { return deletionTable.Write(output.ScreenOf(out), all) }, err
		}
		id, err := AccountID(ctx, c, args[0])
		if err != nil {
			return nil, nil, err
		}
		d, err := c.AccountDeletion(ctx, id)
		name := ""
		if err == nil {
			name = d.Name
			d, err = followDeletion(ctx, c, cmd.ErrOrStderr(), d)
		}
		return d, printDeletion(d, name), err
	})
}

var deletionTable = output.Table[client.AccountDeletion]{
	Columns: []output.Column[client.AccountDeletion]{
		{Title: "ACCOUNT", Kind: output.ID, Value: func(d client.AccountDeletion) any { return d.AccountId }},
		{Title: "NAME", Kind: output.Long, Value: func(d client.AccountDeletion) any { return d.Name }},
		{Title: "STATE", Kind: output.State, Value: func(d client.AccountDeletion) any {
			if d.FinishedAt != nil {
				return "done"
			}
			return "running"
		}},
		{Title: "JOBS LEFT", Value: func(d client.AccountDeletion) any { return d.JobsLeft }},
		{Title: "STARTED", Value: func(d client.AccountDeletion) any { return d.StartedAt }},
		{Title: "FINISHED", Value: func(d client.AccountDeletion) any { return d.FinishedAt }},
		{Title: "FILES GONE BY", Value: func(d client.AccountDeletion) any { return d.ObjectsGoneAt }},
	},
	Name: func(d client.AccountDeletion) string { return d.AccountId },
	None: "No account was deleted.",
}

// printDeletion prints the report of a deletion. name is what the account was called when the command began: a deleted one has
// no name.
func printDeletion(d *client.AccountDeletion, name string) output.Printer {
	return func(out io.Writer) error {
		screen := output.ScreenOf(out)
		called := fmt.Sprintf("The account %s (%s)", output.Clean(name), d.AccountId)
		if name == deletedName {
			called = "The account " + d.AccountId
		}
		if d.FinishedAt == nil {
			fmt.Fprintf(screen, "%s\nFollow it with: reelay accounts deletions %s\n\n", deletionProgress(d), d.AccountId)
		} else {
			fmt.Fprintf(screen, "%s was deleted at %s.\n\n", called, output.Moment(*d.FinishedAt))
		}
		var rows [][]string
		for _, part := range []struct {
			fate string
			data []client.AccountDataCount
		}{{"deleted", d.Deleted}, {"kept", d.Kept}} {
			for _, count := range part.data {
				if count.Count > 0 {
					rows = append(rows, []string{dataName(count.Kind), part.fate, fmt.Sprint(count.Count)})
				}
			}
		}
		if err := output.WriteRows(screen, []string{"DATA", "FATE", "COUNT"}, rows); err != nil {
			return err
		}
		for _, pool := range d.Pools {
			if pool.ServesNobody {
				fmt.Fprintf(screen, "\nThe pool %s was dedicated to it and gets no workers now: reelay pools delete %[1]s\n",
					output.Clean(pool.Name))
			} else {
				fmt.Fprintf(screen, "\nThe pool %s is dedicated to it and others: remove it from the pool's accounts.\n",
					output.Clean(pool.Name))
			}
		}
		if d.FinishedAt == nil {
			return nil
		}
		_, err := fmt.Fprintf(screen, "\n%s is deleted. Its files are gone by %s.\n", called, output.Moment(*d.ObjectsGoneAt))
		return err
	}
}

// deletedName is the name of each deleted account.
const deletedName = "(deleted account)"
