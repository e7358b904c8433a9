package client

import (
	"context"
	"time"
)

// Accounts returns one page of all accounts, newest first: at most first of them (0
// means 50), after the cursor after. It needs an operator's key.
func (c *Client) Accounts(ctx context.Context, first int, after string) (*AccountPage, error) {
	data, err := accounts(ctx, caller{c}, Optional(first), Optional(after))
	if err != nil {
		return nil, err
	}
	return &data.Accounts, nil
}

// SlotUsage returns how many slots the schedules of the caller's account have, and may have, with
// the caller's role. The account is nil for a worker.
func (c *Client) SlotUsage(ctx context.Context) (*SlotViewer, error) {
	data, err := ownSlotUsage(ctx, repeater{c})
	if err != nil {
		return nil, err
	}
	return &data.Viewer, nil
}

// SlotUsages returns the same of all accounts, newest first. It needs an operator's key.
func (c *Client) SlotUsages(ctx context.Context, first int, after string) (*AccountSlotsPage, error) {
	data, err := slotUsages(ctx, repeater{c}, Optional(first), Optional(after))
	if err != nil {
		return nil, err
	}
	return &data.Accounts, nil
}

// CreateAccount creates an account, which needs a name and a tier. It needs an ADMIN
// key.
func (c *Client) CreateAccount(ctx context.Context, in AccountInput) (*Account, error) {
	data, err := createAccount(ctx, caller{c}, in)
	if err != nil {
		return nil, err
	}
	return &data.CreateAccount, nil
}

// UpdateAccount changes the given properties of an account. It needs an operator's key.
func (c *Client) UpdateAccount(ctx context.Context, id string, in AccountInput) (*Account, error) {
	data, err := updateAccount(ctx, caller{c}, id, in)
	if err != nil {
		return nil, err
	}
	return &data.UpdateAccount, nil
}

// DeleteAccount begins the deletion of the account with this id and name, with all its data, and returns it. A repeated call
// returns the same deletion. It needs an ADMIN key.
func (c *Client) DeleteAccount(ctx context.Context, id, name string) (*AccountDeletion, error) {
	data, err := deleteAccount(ctx, repeater{c}, id, name)
	if err != nil {
		return nil, err
	}
	return &data.DeleteAccount, nil
}

// AccountDeletion returns how far the deletion of an account is, or its report. It returns a NOT_FOUND error for an account
// that is not being deleted. It needs an operator's key.
func (c *Client) AccountDeletion(ctx context.Context, account string) (*AccountDeletion, error) {
	data, err := accountDeletion(ctx, repeater{c}, account)
	if err != nil {
		return nil, err
	}
	if data.AccountDeletion == nil {
		return nil, &Error{Code: CodeNotFound, Message: "There is no such deletion of an account."}
	}
	return data.AccountDeletion, nil
}

// AccountDeletions returns the newest 100 deletions of accounts, newest first. It needs an operator's key.
func (c *Client) AccountDeletions(ctx context.Context) ([]AccountDeletion, error) {
	data, err := accountDeletions(ctx, repeater{c})
	if err != nil {
		return nil, err
	}
	return data.AccountDeletions, nil
}

// APIKeys returns the keys of an account, or of all accounts if account is "", newest
// first, including expired and revoked ones: at most 1,000. It needs an ADMIN key.
func (c *Client) APIKeys(ctx context.Context, account string) ([]ApiKey, error) {
	data, err := apiKeys(ctx, caller{c}, Optional(account))
	if err != nil {
		return nil, err
	}
	return data.ApiKeys, nil
}

// CreateAPIKey creates a key. Its secret is returned only here. A zero expiresAt means
// that the key does not expire. If the answer is lost, the key may exist: list the keys
// and revoke it. CreateAPIKey needs an ADMIN key.
func (c *Client) CreateAPIKey(ctx context.Context, account string, role Role, name string, expiresAt time.Time) (*CreatedApiKey, error) {
	data, err := createApiKey(ctx, caller{c}, account, role, name, Optional(expiresAt))
	if err != nil {
		return nil, err
	}
	return &data.CreateApiKey, nil
}

// RevokeAPIKey revokes a key; it stops working everywhere within 5 seconds. To revoke
// the last valid ADMIN key is a CONFLICT error. RevokeAPIKey needs an ADMIN key.
func (c *Client) RevokeAPIKey(ctx context.Context, id string) error {
	_, err := revokeApiKey(ctx, caller{c}, id)
	return err
}

// ChangeFilter narrows the feed of changes. Empty fields match everything.
type ChangeFilter struct {
	Kinds []ChangeKind
	// Target is the id or the name of what was changed.
	Target string
	// Since and Until bound the time; Until is excluded.
	Since, Until time.Time
}

// Changes returns one page of what changed in the installation, newest first. It needs a key of
// an operator, admin or viewer.
func (c *Client) Changes(ctx context.Context, f ChangeFilter, first int, after string) (*ChangePage, error) {
	data, err := changes(ctx, caller{c}, f.Kinds, Optional(f.Target), Optional(f.Since), Optional(f.Until), Optional(first), Optional(after))
	if err != nil {
		return nil, err
	}
	return &data.Changes, nil
}

// AuditLog returns one page of the operators' actions, newest first, limited to those
// on one target unless target is "". It needs an ADMIN key.
func (c *Client) AuditLog(ctx context.Context, target string, first int, after string) (*AuditPage, error) {
	data, err := auditLog(ctx, caller{c}, Optional(target), Optional(first), Optional(after))
	if err != nil {
		return nil, err
	}
	return &data.AuditLog, nil
}
