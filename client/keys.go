package client

import (
	"context"
	"time"
)

// Accounts returns one page of all accounts, newest first: at most first of them
// (50 if it is 0), from behind the cursor after on. It takes an operator's key.
func (c *Client) Accounts(ctx context.Context, first int, after string) (*AccountPage, error) {
	data, err := accounts(ctx, caller{c}, optional(first), optional(after))
	if err != nil {
		return nil, err
	}
	return &data.Accounts, nil
}

// CreateAccount makes an account, which needs a name and a tier. It takes an
// ADMIN key.
func (c *Client) CreateAccount(ctx context.Context, in AccountInput) (*Account, error) {
	data, err := createAccount(ctx, caller{c}, in)
	if err != nil {
		return nil, err
	}
	return &data.CreateAccount, nil
}

// UpdateAccount changes what is set of an account. It takes an operator's key.
func (c *Client) UpdateAccount(ctx context.Context, id string, in AccountInput) (*Account, error) {
	data, err := updateAccount(ctx, caller{c}, id, in)
	if err != nil {
		return nil, err
	}
	return &data.UpdateAccount, nil
}

// APIKeys returns the keys of an account (of all, if it is ""), newest first,
// those that are over too, at most 1,000. It takes an ADMIN key.
func (c *Client) APIKeys(ctx context.Context, account string) ([]ApiKey, error) {
	data, err := apiKeys(ctx, caller{c}, optional(account))
	if err != nil {
		return nil, err
	}
	return data.ApiKeys, nil
}

// CreateAPIKey makes a key, whose secret is told only now; a zero expiresAt means
// that it does not expire. It takes an ADMIN key. If the answer is lost the key is
// there all the same: list the keys, and revoke it.
func (c *Client) CreateAPIKey(ctx context.Context, account string, role Role, name string, expiresAt time.Time) (*CreatedApiKey, error) {
	data, err := createApiKey(ctx, caller{c}, account, role, name, optional(expiresAt))
	if err != nil {
		return nil, err
	}
	return &data.CreateApiKey, nil
}

// RevokeAPIKey ends a key, everywhere within 5 seconds. It takes an ADMIN key;
// the last valid one of those is a CONFLICT.
func (c *Client) RevokeAPIKey(ctx context.Context, id string) error {
	_, err := revokeApiKey(ctx, caller{c}, id)
	return err
}

// AuditLog returns one page of what operators did (to one target, unless it is
// ""), newest first. It takes an ADMIN key.
func (c *Client) AuditLog(ctx context.Context, target string, first int, after string) (*AuditPage, error) {
	data, err := auditLog(ctx, caller{c}, optional(target), optional(first), optional(after))
	if err != nil {
		return nil, err
	}
	return &data.AuditLog, nil
}
