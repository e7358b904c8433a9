package servers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/seal"
	"github.com/spf13/cobra"
)

// SecretsCommand returns `reelay secrets`.
func SecretsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secrets",
		Short: "Make the secrets file, and rotate its keys",
		Long: "Makes the file of REELAY_SECRETS_FILE, whose keys encrypt prompts and sign links, and rotates its keys. Processes\n" +
			"read the file again when it changes. See docs/operators/objects.md.",
		Example: "  reelay secrets create /etc/reelay/secrets.json\n  reelay secrets add-keys /etc/reelay/secrets.json\n" +
			"  reelay secrets use-keys /etc/reelay/secrets.json",
		Args: terminal.NoSuchCommand,
	}
	cmd.AddCommand(
		secretsCommand("create FILE", "Make a new secrets file of mode 0600",
			"Back it up, apart from the database: without it, no prompt can be read.",
			func(path string) (*seal.Secrets, error) {
				if err := seal.Create(path); errors.Is(err, fs.ErrExist) {
					return nil, fmt.Errorf("%s exists: it is not overwritten, because what its keys sealed would be lost", path)
				} else if err != nil {
					return nil, fmt.Errorf("make %s: %w", path, err)
				}
				return readSecrets(path)
			}),
		secretsCommand("add-keys FILE", "Add new keys, which are not in use yet",
			"Copy the file to all machines, wait ten seconds, and then run `reelay secrets use-keys` on it.",
			func(path string) (*seal.Secrets, error) { return editSecrets(path, (*seal.Secrets).AddKeys) }),
		secretsCommand("use-keys FILE", "Seal and sign with the newest keys; the older ones still open and verify",
			"Copy the file to all machines. Keep its older keys as long as texts that they sealed are needed.",
			func(path string) (*seal.Secrets, error) { return editSecrets(path, (*seal.Secrets).UseKeys) }),
		secretsCommand("show FILE", "List the ids of the keys, without the keys", "", readSecrets),
	)
	return cmd
}

// secretsDocument is the JSON of these commands.
type secretsDocument struct {
	File string       `json:"file"`
	Keys []seal.KeyID `json:"keys"`
	// LinkKeys is how many keys verify links.
	LinkKeys int `json:"linkKeys"`
}

// secretsCommand is a command that does something with a file, shows its keys, and says what comes next.
func secretsCommand(use, short, next string, act func(path string) (*seal.Secrets, error)) *cobra.Command {
	var asJSON bool
	var document output.Options
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			secrets, err := act(args[0])
			if err != nil {
				return err
			}
			keys, err := secrets.KeyIDs()
			if err != nil {
				return err
			}
			if asJSON {
				return document.Print(output.ScreenOf(cmd.OutOrStdout()), secretsDocument{args[0], keys, 1 + len(secrets.OtherLinkKeys)}, nil)
			}
			for _, key := range keys {
				use := "opens"
				if key.Primary {
					use = "seals and opens"
				}
				fmt.Fprintf(cmd.OutOrStdout(), "key %d %s\n", key.ID, use)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d link keys verify\n", 1+len(secrets.OtherLinkKeys))
			if next != "" && err == nil {
				_, err = fmt.Fprintln(cmd.ErrOrStderr(), next)
			}
			return err
		},
	}
	document.AddDocumentFlags(cmd, &asJSON)
	return cmd
}

func readSecrets(path string) (*seal.Secrets, error) {
	secrets, err := seal.Load(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist: make it with `reelay secrets create %s`", path, path)
	}
	return &secrets, err
}

func editSecrets(path string, edit func(*seal.Secrets) error) (*seal.Secrets, error) {
	secrets, err := readSecrets(path)
	if err != nil {
		return nil, err
	}
	if err := edit(secrets); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := seal.Replace(path, *secrets); err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return secrets, nil
}
