package connect

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"os"
	"runtime"
	"strings"

	"github.com/cli/browser"
	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/version"
	"github.com/spf13/cobra"
)

// callerInfo is what `reelay whoami` prints.
type callerInfo struct {
	Endpoint string      `json:"endpoint"`
	Key      string      `json:"key"` // where the key comes from
	Role     client.Role `json:"role"`
	Account  *accountRef `json:"account"`
}

type accountRef struct {
	ID   string      `json:"id"`
	Name string      `json:"name"`
	Tier client.Tier `json:"tier"`
}

// WhoamiCommand returns `reelay whoami`.
func WhoamiCommand() *cobra.Command {
	var t Target
	var o output.Options
	cmd := &cobra.Command{
		Use:   "whoami",
		Short: "Show which API the commands call, and with whose key",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(); err != nil {
				return terminal.UsageError(cmd, err)
			}
			c, err := t.Client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			v, err := c.Viewer(cmd.Context())
			if err != nil {
				return t.Explain(err)
			}
			me := callerInfo{Endpoint: ConsoleURL(c, ""), Key: t.keySource, Role: v.Role}
			if v.Account != nil {
				me.Account = &accountRef{v.Account.Id, v.Account.Name, v.Account.Tier}
			}
			return o.Print(o.Screen(cmd, cmd.OutOrStdout()), me, func(out io.Writer) error {
				fmt.Fprintf(out, "%-10s%s\n%-10sfrom %s\n%-10s%s\n", "endpoint", me.Endpoint, "key", me.Key, "role", me.Role)
				if me.Account == nil {
					return nil
				}
				_, err := fmt.Fprintf(out, "%-10s%s, %s, %s\n", "account", output.Clean(me.Account.Name), me.Account.Tier, me.Account.ID)
				return err
			})
		},
	}
	t.AddFlags(cmd)
	o.AddFlags(cmd)
	return cmd
}

// ConsoleURL returns the address of a page of the console.
func ConsoleURL(c *client.Client, path string) string {
	u, err := url.Parse(c.Endpoint())
	if err != nil {
		return c.Endpoint()
	}
	u.Path = path
	return u.String()
}

// OpenCommand returns `reelay open`.
func OpenCommand() *cobra.Command {
	var t Target
	var onlyPrint bool
	cmd := &cobra.Command{
		Use:     "open [JOB]",
		Short:   "Open the console, or a job's page, in the browser",
		Long:    "Opens the console, or the page of a job, in the browser. Without a browser it prints the address.",
		Example: "  reelay open\n  reelay open job_01937d3e",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.Client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			path := "/"
			if len(args) == 1 {
				id, err := FullID(cmd.Context(), c, "job", args[0])
				if err != nil {
					return t.Explain(err)
				}
				path = "/jobs/" + url.PathEscape(id)
			}
			address := ConsoleURL(c, path)
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), address); err != nil || onlyPrint || !hasBrowser(cmd.OutOrStdout()) {
				return err
			}
			browser.Stdout, browser.Stderr = io.Discard, io.Discard
			if err := browser.OpenURL(address); err != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "reelay: no browser could be started: open the address yourself")
			}
			return nil
		},
	}
	TakeIDs(cmd, "job")
	t.AddFlags(cmd)
	cmd.Flags().BoolVarP(&onlyPrint, "print", "p", false, "only print the address")
	return cmd
}

// hasBrowser reports whether there is a person at a desktop.
func hasBrowser(out io.Writer) bool {
	if !terminal.IsTerminal(out) {
		return false
	}
	return runtime.GOOS != "linux" || cmp.Or(os.Getenv("BROWSER"), os.Getenv("DISPLAY"), os.Getenv("WAYLAND_DISPLAY")) != ""
}

// versions is what `reelay version` prints as JSON.
type versions struct {
	version.Build
	Server *serverVersion `json:"server,omitempty"`
}

type serverVersion struct {
	Endpoint string `json:"endpoint"`
	Version  string `json:"version,omitempty"`
	Problem  string `json:"problem,omitempty"`
}

// VersionCommand returns `reelay version`.
func VersionCommand() *cobra.Command {
	var t Target
	var o output.Options
	var clientOnly bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this program and of the server",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(); err != nil {
				return terminal.UsageError(cmd, err)
			}
			v := versions{Build: version.Current()}
			if c, err := t.Client(io.Discard); err == nil && !clientOnly {
				v.Server = askVersion(cmd, c)
			}
			return o.Print(o.Screen(cmd, cmd.OutOrStdout()), v, func(out io.Writer) error {
				_, err := fmt.Fprintf(out, "%s %s (%s, %s)\n", cmd.Root().Name(), v.Build, v.Go, v.Platform)
				if err != nil || v.Server == nil {
					return err
				}
				_, err = fmt.Fprintf(out, "server %s (%s)\n", cmp.Or(v.Server.Version, "unknown: "+v.Server.Problem), v.Server.Endpoint)
				return err
			})
		},
	}
	t.AddFlags(cmd)
	o.AddFlags(cmd)
	cmd.Flags().BoolVar(&clientOnly, "client", false, "only this program's version; call no server")
	return cmd
}

// askVersion asks the server for its version, once.
func askVersion(cmd *cobra.Command, c *client.Client) *serverVersion {
	v := &serverVersion{Endpoint: ConsoleURL(c, "")}
	ctx, cancel := Quickly(cmd.Context())
	defer cancel()
	var err error
	if v.Version, err = c.ServerVersion(ctx); err != nil {
		v.Problem, _, _ = strings.Cut(output.Clean(WithAdvice(err).Error()), "\n")
	}
	return v
}
