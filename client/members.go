package client

import "context"

// Members returns the people who log in to the console, by e-mail address, disabled ones
// included: at most 1,000. It needs an ADMIN key.
func (c *Client) Members(ctx context.Context) ([]Member, error) {
	data, err := members(ctx, caller{c})
	if err != nil {
		return nil, err
	}
	return data.Members, nil
}

// CreateMember makes a member and the link with which it chooses a password. Without an
// account, the member belongs to the caller's. A known e-mail address is a CONFLICT error. It
// needs an ADMIN key.
func (c *Client) CreateMember(ctx context.Context, email, name string, role Role, account string) (*MemberInvitation, error) {
	data, err := createMember(ctx, caller{c}, email, role, Optional(name), Optional(account))
	if err != nil {
		return nil, err
	}
	return &data.CreateMember, nil
}

// SetMemberRole changes a member's role and ends its logins. It needs an ADMIN key.
func (c *Client) SetMemberRole(ctx context.Context, id string, role Role) (*Member, error) {
	data, err := updateMember(ctx, caller{c}, id, role)
	if err != nil {
		return nil, err
	}
	return &data.UpdateMember, nil
}

// DisableMember ends a member's logins and refuses new ones. It needs an ADMIN key.
func (c *Client) DisableMember(ctx context.Context, id string) (*Member, error) {
	data, err := disableMember(ctx, caller{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.DisableMember, nil
}

// EnableMember lets a disabled member log in again. It needs an ADMIN key.
func (c *Client) EnableMember(ctx context.Context, id string) (*Member, error) {
	data, err := enableMember(ctx, caller{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.EnableMember, nil
}

// ResetMemberPassword removes a member's password, ends its logins, and makes a link with
// which it chooses another password. It needs an ADMIN key.
func (c *Client) ResetMemberPassword(ctx context.Context, id string) (*MemberInvitation, error) {
	data, err := resetMemberPassword(ctx, caller{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.ResetMemberPassword, nil
}
