package access

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/spf13/cobra"
)

// MembersCommand takes the command that creates the first member, which needs the database.
func MembersCommand(bootstrap *cobra.Command) *cobra.Command {
	cmd := listMembers(&cobra.Command{
		Use:   "members",
		Short: "Manage the people who log in to the console (for admins)",
		Long: "Lists the members by e-mail address, disabled ones included. Members log in to the console with a password\n" +
			"or with single sign-on; programs use keys. These commands need an ADMIN key, except bootstrap, which creates the first\n" +
			"member and connects to the database directly. See docs/operators/access.md.",
		Args: terminal.NoSuchCommand,
	})
	cmd.AddCommand(
		listMembers(&cobra.Command{Use: "list", Short: "List members by e-mail address", Args: cobra.NoArgs}),
		bootstrap, membersCreateCommand(), membersSetRoleCommand(),
		memberCommand("disable", "End a member's logins and refuse new ones", (*client.Client).DisableMember,
			"is disabled, and its logins are ended"),
		memberCommand("enable", "Let a disabled member log in again", (*client.Client).EnableMember, "can log in again"),
		membersResetCommand())
	return cmd
}

func listMembers(cmd *cobra.Command) *cobra.Command {
	list := &connect.Lister[client.Member]{
		Target: connect.Target{Admin: true}, Table: memberTable, Whole: true,
		Ask: func(ctx context.Context, c *client.Client, _ connect.Page) (output.List[client.Member], error) {
			return output.Complete(c.Members(ctx))
		},
	}
	return list.Command(cmd)
}

var memberTable = output.Table[client.Member]{
	Columns: []output.Column[client.Member]{
		{Title: "EMAIL", Kind: output.Long, Value: func(m client.Member) any { return m.Email }},
		{Title: "ROLE", Value: func(m client.Member) any { return m.Role }},
		{Title: "NAME", Kind: output.Long, Value: func(m client.Member) any { return m.Name }},
		{Title: "STATE", Kind: output.State, Value: func(m client.Member) any { return memberState(m) }},
		{Title: "LOGIN", Value: func(m client.Member) any { return m.LastLoginAt }},
		{Title: "ACCOUNT", Wide: true, Value: func(m client.Member) any { return m.Account.Name }},
		{Title: "MEMBER", Wide: true, Kind: output.ID, Value: func(m client.Member) any { return m.Id }},
	},
	Name: func(m client.Member) string { return m.Id },
	None: "No members.",
}

// memberState says how a member logs in, or why it cannot.
func memberState(m client.Member) string {
	switch {
	case m.DisabledAt != nil:
		return "disabled"
	case m.SingleSignOn:
		return "single sign-on"
	case m.HasPassword:
		return "password"
	}
	return "invited"
}

// MemberRoles are the roles that a member can have.
var MemberRoles = []client.Role{client.RoleViewer, client.RoleOperator, client.RoleAdmin}

func invitedMember(i *client.MemberInvitation) output.Printer {
	return output.Line("%s  %s\n%s\nPass this link on: with it, %s chooses a password. It is valid once, until %s, and is not shown again.",
		i.Member.Email, i.Member.Role, i.Url, i.Member.Name, output.Moment(i.ExpiresAt))
}

func membersCreateCommand() *cobra.Command {
	var account, name, role string
	var as client.Role
	cmd := &cobra.Command{
		Use:     "create EMAIL",
		Short:   "Invite a member; prints the link with which it chooses a password",
		Example: "  reelay members create ana@example.com --role operator --name Ana",
		Args:    oneMember,
		PreRunE: func(cmd *cobra.Command, _ []string) (err error) {
			if as, err = input.ParseEnum("role", role, MemberRoles); err != nil {
				return terminal.UsageError(cmd, err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&role, "role", "viewer", "viewer, operator or admin")
	f.StringVar(&name, "name", "", "name of the person (default: the part of the address before the @)")
	f.StringVar(&account, "account", "", "name or id of the account of the jobs that it submits (default: the caller's)")
	call := &connect.Call{Target: connect.Target{Admin: true}}
	return call.Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		id, err := AccountID(ctx, c, account)
		if err != nil {
			return nil, nil, err
		}
		invitation, err := c.CreateMember(ctx, args[0], name, as, id)
		if err != nil {
			return nil, nil, err
		}
		return invitation, invitedMember(invitation), nil
	})
}

func membersSetRoleCommand() *cobra.Command {
	var as client.Role
	cmd := &cobra.Command{
		Use:   "set-role ROLE MEMBER",
		Short: "Change a member's role, and end its logins",
		Long: "Changes a member's role to viewer, operator or admin, and ends its logins, so that the role takes effect at\n" +
			"once. MEMBER is an e-mail address or an id.",
		Example: "  reelay members set-role operator ana@example.com",
		Args: func(_ *cobra.Command, args []string) (err error) {
			if len(args) != 2 {
				return errors.New("give a role and a member, such as: reelay members set-role operator ana@example.com")
			}
			as, err = input.ParseEnum("role", args[0], MemberRoles)
			return err
		},
	}
	call := &connect.Call{Target: connect.Target{Admin: true}}
	return call.Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		id, err := memberID(ctx, c, args[1])
		if err != nil {
			return nil, nil, err
		}
		member, err := c.SetMemberRole(ctx, id, as)
		if err != nil {
			return nil, nil, err
		}
		return member, output.Line("%s has the role %s", member.Email, member.Role), nil
	})
}

// memberCommand is a command that changes one member.
func memberCommand(
	use, short string, change func(*client.Client, context.Context, string) (*client.Member, error), done string,
) *cobra.Command {
	cmd := &cobra.Command{Use: use + " MEMBER", Short: short, Long: short + ". MEMBER is an e-mail address or an id.", Args: oneMember}
	call := &connect.Call{Target: connect.Target{Admin: true}}
	return call.Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		id, err := memberID(ctx, c, args[0])
		if err != nil {
			return nil, nil, err
		}
		member, err := change(c, ctx, id)
		if err != nil {
			return nil, nil, err
		}
		return member, output.Line("%s %s", member.Email, done), nil
	})
}

func membersResetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reset-password MEMBER",
		Short: "Remove a member's password; prints the link with which it chooses another",
		Long: "Removes the member's password, ends its logins, and prints a link with which it chooses another password.\n" +
			"MEMBER is an e-mail address or an id.",
		Args: oneMember,
	}
	call := &connect.Call{Target: connect.Target{Admin: true}}
	return call.Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		id, err := memberID(ctx, c, args[0])
		if err != nil {
			return nil, nil, err
		}
		invitation, err := c.ResetMemberPassword(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		return invitation, invitedMember(invitation), nil
	})
}

var oneMember = terminal.OneArg("MEMBER", "the e-mail address of a member, such as ana@example.com")

// memberID returns the id of a member with an e-mail address, or the id itself.
func memberID(ctx context.Context, c *client.Client, name string) (string, error) {
	if strings.HasPrefix(name, "mem_") {
		return connect.FullID(ctx, c, "mem", name)
	}
	all, err := c.Members(ctx)
	if err != nil {
		return "", err
	}
	for _, m := range all {
		if strings.EqualFold(m.Email, name) {
			return m.Id, nil
		}
	}
	return "", fmt.Errorf("no member has the e-mail address %q: `reelay members list` shows the members", name)
}
