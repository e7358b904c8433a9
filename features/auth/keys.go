package auth

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/batch"
	"github.com/reelay/reelay/internal/secrets"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/erasure"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Keys makes and checks API keys and the console's sessions.
type Keys struct {
	DB *bun.DB

	tokens batch.Group[*token]
}

// Thousands of workers call with their tokens, which are also checked while they listen. When
// several are looked up at once, a batch waits a moment for more.
const (
	tokenLinger   = 5 * time.Millisecond
	tokenSiblings = 1
	tokensEnough  = 16
)

// NewKeys returns keys.
func NewKeys(db *bun.DB) *Keys {
	return &Keys{DB: db, tokens: batch.Group[*token]{Linger: tokenLinger, MinSiblings: tokenSiblings, Enough: tokensEnough}}
}

// Authenticate returns the holder of a key or of a worker's token, or ErrUnauthenticated. It
// refuses a malformed secret without a query.
func (k *Keys) Authenticate(ctx context.Context, secret string) (jobs.Principal, error) {
	secret = strings.TrimSpace(secret)
	hash := secrets.Hash(secret)
	switch secrets.Kind(secret) {
	case secrets.WorkerPrefix:
		t := &token{hash: hash}
		if err := k.tokens.Do(ctx, t, k.lookUpTokens); err != nil {
			return jobs.Principal{}, apierror.Wrap(err, "look up the worker's token")
		}
		return t.owner, apierror.Wrap(t.err, "look up the worker's token")
	case secrets.KeyPrefix:
		key, err := access.FindAPIKey(ctx, k.DB, hash)
		if err != nil {
			return jobs.Principal{}, apierror.Wrap(k.unknown(ctx, hash, err), "look up the key")
		}
		if secrets.SameHash(key.Hash, hash) {
			return jobs.PrincipalOf(key), nil
		}
	}
	return jobs.Principal{}, apierror.ErrUnauthenticated
}

// token is one worker token to look up, and its holder.
type token struct {
	hash  []byte
	owner jobs.Principal
	err   error
}

// lookUpTokens looks up tokens in one batch. A worker calls less often than KeyCache expires,
// so with thousands of workers most calls come here.
func (k *Keys) lookUpTokens(ctx context.Context, all []*token) error {
	hashes := make([][]byte, len(all))
	for i, t := range all {
		hashes[i] = t.hash
	}
	found, err := models.FindTokenOwners(ctx, k.DB, hashes)
	if err != nil {
		return batch.Final(err)
	}
	for _, t := range all {
		t.err = apierror.ErrUnauthenticated
		for _, h := range found {
			if secrets.SameHash(h.TokenHash, t.hash) {
				t.owner, t.err = jobs.Principal{Role: access.RoleWorker, KeyID: h.EnrolmentKeyID, WorkerID: h.WorkerID}, nil
			}
		}
	}
	return nil
}

// unknown returns why no valid key has the hash.
func (k *Keys) unknown(ctx context.Context, hash []byte, err error) error {
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	closed, err := erasure.IsClosed(ctx, k.DB, hash)
	if err == nil && closed {
		return apierror.ErrKeyClosed
	}
	return cmp.Or(err, error(apierror.ErrUnauthenticated))
}

func orUnauthenticated(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return apierror.ErrUnauthenticated
	}
	return err
}

// maxKeys bounds how many keys a list shows.
const maxKeys = 1_000

// List returns the keys of an account (of all, if it is ""), newest first, at
// most 1,000. It is for ADMIN.
func (k *Keys) List(ctx context.Context, p jobs.Principal, account models.AccountID) ([]*access.APIKey, error) {
	if err := p.RequireAdmin(); err != nil {
		return nil, err
	}
	if account != "" && !account.Valid() {
		return nil, apierror.NotFound("account")
	}
	keys, err := access.ListAPIKeys(ctx, k.DB, account, maxKeys)
	return keys, apierror.Wrap(err, "list keys")
}

// NewKey describes a new key. A nil ExpiresAt means never; another is kept in whole seconds.
type NewKey struct {
	// ID makes a repeated call a CONFLICT; "" is a new id.
	ID        models.KeyID
	AccountID models.AccountID
	Role      access.Role
	Name      string
	ExpiresAt *time.Time
}

var roles = []access.Role{access.RoleClient, access.RoleWorker, access.RoleViewer, access.RoleOperator, access.RoleAdmin}

// Create makes a key and returns its secret, which is shown only now. It is for
// ADMIN, and returns NOT_FOUND for an unknown account.
func (k *Keys) Create(ctx context.Context, p jobs.Principal, in NewKey) (key *access.APIKey, secret string, err error) {
	if err := p.RequireAdmin(); err != nil {
		return nil, "", err
	}
	err = jobs.InTx(ctx, k.DB, func(ctx context.Context, tx bun.Tx) error {
		key, secret, err = create(ctx, tx, p, in)
		return err
	})
	return key, secret, apierror.Wrap(err, "create a key")
}

func create(ctx context.Context, tx bun.Tx, p jobs.Principal, in NewKey) (*access.APIKey, string, error) {
	if err := in.validate(ctx, tx); err != nil {
		return nil, "", err
	}
	secret, hash := secrets.New(secrets.KeyPrefix)
	key := &access.APIKey{
		ID: cmp.Or(in.ID, models.NewKeyID()), AccountID: in.AccountID, Name: in.Name, Role: in.Role,
		Prefix: secret[:len(secrets.KeyPrefix)+secrets.ShownChars], Hash: hash,
	}
	if in.ExpiresAt != nil {
		key.ExpiresAt = in.ExpiresAt.UTC().Truncate(time.Second)
	}
	inserted, err := access.InsertAPIKey(ctx, tx, key)
	if err != nil {
		return nil, "", err
	}
	if !inserted {
		return nil, "", apierror.Conflict("This form was sent before, and its key was created. Its secret is not shown again: revoke the key and create another one if you missed it.")
	}
	return key, secret, p.Audit(ctx, tx, "createApiKey", string(key.ID), keyPayload(key))
}

func keyPayload(key *access.APIKey) jobs.Payload {
	told := jobs.Payload{"account": key.AccountID, "role": key.Role, "name": key.Name, "prefix": key.Prefix}
	if !key.ExpiresAt.IsZero() {
		told["expiresAt"] = key.ExpiresAt.UTC().Truncate(time.Second)
	}
	return told
}

func (in *NewKey) validate(ctx context.Context, tx bun.Tx) error {
	if err := validName(in.Name); err != nil {
		return err
	}
	if !slices.Contains(roles, in.Role) {
		return apierror.Invalid("role", "There is no such role: it must be CLIENT, WORKER, VIEWER, OPERATOR or ADMIN.")
	}
	now, err := postgres.Now(ctx, tx)
	if err != nil {
		return err
	}
	if in.ExpiresAt != nil && !in.ExpiresAt.Truncate(time.Second).After(now) {
		return apierror.Invalid("expiresAt", "expiresAt must be in the future; it is now %s.", text.MomentToSecond(now.UTC(), now))
	}
	if !in.AccountID.Valid() {
		return apierror.NotFound("account")
	}
	return openAccount(ctx, tx, in.AccountID)
}

// openAccount returns NOT_FOUND for an unknown account, and FORBIDDEN for one that is being deleted.
func openAccount(ctx context.Context, tx bun.Tx, id models.AccountID) error {
	accounts, err := models.GetAccounts(ctx, tx, []models.AccountID{id})
	switch {
	case err != nil:
		return err
	case len(accounts) == 0:
		return apierror.NotFound("account")
	case !accounts[0].ClosedAt.IsZero():
		return apierror.ErrAccountClosed
	}
	return nil
}

func validName(name string) error {
	if strings.TrimSpace(name) == "" || !text.Valid(name, 1, text.MaxName) {
		return apierror.Invalid("name", "name must have 1 to %d printable characters, and not only spaces.", text.MaxName)
	}
	return nil
}

// Revoke ends a key and its sessions. Workers that it enrolled keep their own tokens. Revoking
// it again changes nothing. It is for ADMIN, and returns CONFLICT for the last valid ADMIN
// key, without which no key could be made.
func (k *Keys) Revoke(ctx context.Context, p jobs.Principal, id models.KeyID) error {
	if err := p.RequireAdmin(); err != nil {
		return err
	}
	if !id.Valid() {
		return apierror.NotFound("key")
	}
	err := jobs.InTx(ctx, k.DB, func(ctx context.Context, tx bun.Tx) error {
		admins, err := access.LockAdmins(ctx, tx)
		if err != nil {
			return err
		}
		if err := p.Revalidate(ctx, tx); err != nil {
			return err
		}
		if slices.Equal(admins, []models.KeyID{id}) {
			return apierror.Conflict("This is the last ADMIN key that is valid: create another one first.")
		}
		key, err := access.RevokeAPIKey(ctx, tx, id)
		if errors.Is(err, sql.ErrNoRows) {
			return known(ctx, tx, id)
		}
		if err != nil {
			return err
		}
		return p.Record(ctx, tx, "revokeApiKey", string(id), keyPayload(key))
	})
	return apierror.Wrap(err, "revoke key %s", id)
}

// known returns NOT_FOUND for a key that never existed.
func known(ctx context.Context, tx bun.Tx, id models.KeyID) error {
	keys, err := access.GetAPIKeys(ctx, tx, []models.KeyID{id})
	if err == nil && len(keys) == 0 {
		return apierror.NotFound("key")
	}
	return err
}

// bootstrapLock is the advisory lock under which first keys are made one at a time.
const bootstrapLock = 0x72656c6179 // "relay"

// Bootstrap makes an ADMIN key for a caller who has access to the database, and the account of
// that name if there is none. It returns CONFLICT if there is a valid ADMIN key already,
// unless the caller explicitly wants another one.
func (k *Keys) Bootstrap(ctx context.Context, account, name string, another bool) (key *access.APIKey, secret string, err error) {
	if err := validName(account); err != nil {
		return nil, "", err
	}
	err = jobs.InTx(ctx, k.DB, func(ctx context.Context, tx bun.Tx) error {
		if err := postgres.Lock(ctx, tx, bootstrapLock); err != nil {
			return err
		}
		admins, err := access.LockAdmins(ctx, tx)
		if err != nil {
			return err
		}
		if len(admins) > 0 && !another {
			return apierror.Conflict("A valid ADMIN key already exists: use it to create others.")
		}
		house, err := ensureAccount(ctx, tx, account, models.TierCritical)
		if err != nil {
			return err
		}
		key, secret, err = create(ctx, tx, jobs.Host, NewKey{AccountID: house.ID, Role: access.RoleAdmin, Name: name})
		return err
	})
	return key, secret, apierror.Wrap(err, "make the first key")
}

// EnsureAccount returns the account of that name. If there is none, it creates one.
func (k *Keys) EnsureAccount(ctx context.Context, name string, tier models.Tier) (account *models.Account, err error) {
	err = jobs.InTx(ctx, k.DB, func(ctx context.Context, tx bun.Tx) error {
		account, err = ensureAccount(ctx, tx, name, tier)
		return err
	})
	return account, apierror.Wrap(err, "make account %s", name)
}

func ensureAccount(ctx context.Context, tx bun.Tx, name string, tier models.Tier) (*models.Account, error) {
	account, err := models.FindAccountByName(ctx, tx, name)
	if !errors.Is(err, sql.ErrNoRows) {
		return account, err
	}
	account = jobs.NewAccount(name, tier)
	if err := models.InsertAccount(ctx, tx, account); err != nil {
		return nil, err
	}
	return account, jobs.Host.Audit(ctx, tx, "createAccount", string(account.ID), jobs.Payload{"after": limitsOf(account)})
}
