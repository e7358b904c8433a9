package connect

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// loginOptions are the flags of `reelay login`.
type loginOptions struct{ name, caFile string }

// LoginCommand returns `reelay login`.
func LoginCommand() *cobra.Command {
	var o loginOptions
	cmd := &cobra.Command{
		Use:   "login URL",
		Short: "Store an API's address and key for the other commands",
		Long: "Asks for an API key, checks it, and stores it with the address as a context, in a file that only you can read.\n" +
			"The other commands then call this API. Without a terminal, the key is read from standard input. The console\n" +
			"makes keys under Access, Keys; so does `reelay keys create`.",
		Example: "  reelay login https://reelay.example.com\n  reelay login https://reelay.example.com --name prod < key.txt",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "name of the context (default: the host of the URL)")
	f.StringVar(&o.caFile, "ca-file", "", "PEM file of certificates to trust besides the system's")
	return cmd
}

func (o *loginOptions) run(cmd *cobra.Command, address string) error {
	one, err := o.context(address)
	if err != nil {
		return terminal.UsageError(cmd, err)
	}
	all, err := readContexts(os.Getenv)
	if err != nil {
		return err
	}
	if one.Key, err = readKey(cmd.InOrStdin(), cmd.ErrOrStderr(), one.Endpoint); err != nil {
		return err
	}
	c, err := NewClient(one.Endpoint, one.Key, input.First(one.CAFile, os.Getenv("REELAY_CA_FILE")), client.WithTries(1))
	if err != nil {
		return err
	}
	v, err := c.Viewer(cmd.Context())
	if client.ErrorCode(err) == client.CodeUnauthenticated {
		return errors.New("the key is unknown, expired or revoked: nothing is stored")
	}
	if err != nil {
		return WithAdvice(err)
	}
	all.set(one)
	if err := all.write(); err != nil {
		return err
	}
	who := string(v.Role)
	if v.Account != nil {
		who += " of " + output.Clean(v.Account.Name)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "Logged in to %s as %s. The context %s is the current one.\n", one.Endpoint, who, one.Name)
	return err
}

// context returns the context of an address, without a key.
func (o *loginOptions) context(address string) (one apiContext, err error) {
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return one, fmt.Errorf("%q is not the address of an API, such as https://reelay.example.com", address)
	}
	if u.User != nil {
		return one, errors.New("the address has a user or password: the key is asked for")
	}
	one.Endpoint, one.Name = strings.TrimSuffix(u.Scheme+"://"+u.Host+u.Path, "/"), o.name
	if one.Name == "" {
		one.Name = strings.ReplaceAll(u.Host, ":", "-")
	}
	if !contextName.MatchString(one.Name) {
		return one, fmt.Errorf("%q cannot be the name of a context: give another with --name", one.Name)
	}
	if o.caFile != "" { // the commands run in any folder
		one.CAFile, err = filepath.Abs(o.caFile)
	}
	return one, err
}

// readKey asks for a key without showing it, or reads it from what is not a terminal.
func readKey(in io.Reader, out io.Writer, endpoint string) (string, error) {
	var key string
	if file, ok := in.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		fmt.Fprintf(out, "API key for %s: ", endpoint)
		typed, err := term.ReadPassword(int(file.Fd()))
		fmt.Fprintln(out)
		if err != nil {
			return "", fmt.Errorf("the key cannot be read: %w", err)
		}
		key = string(typed)
	} else {
		line, err := bufio.NewReader(io.LimitReader(in, 4096)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("the key cannot be read: %w", err)
		}
		key = line
	}
	if key = strings.TrimSpace(key); key == "" {
		return "", errors.New("there is no key: type it, or give it on standard input")
	}
	return key, nil
}

// LogoutCommand returns `reelay logout`.
func LogoutCommand() *cobra.Command {
	return changeContexts(&cobra.Command{
		Use:   "logout [CONTEXT]",
		Short: "Delete the current context, or another, with its key",
		Args:  cobra.MaximumNArgs(1),
	}, func(all *contexts, args []string) (string, error) {
		name := all.Current
		if len(args) == 1 {
			name = args[0]
		}
		if name == "" {
			return "", errors.New("there is no current context")
		}
		if _, err := all.get(name); err != nil {
			return "", err
		}
		var kept []apiContext
		for _, one := range all.Contexts {
			if one.Name != name {
				kept = append(kept, one)
			}
		}
		all.Contexts = kept
		if all.Current == name {
			all.Current = ""
		}
		return fmt.Sprintf("Logged out of %s. Its key is still valid: revoke it with `reelay keys revoke`.", name), nil
	})
}
