package jobs

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Principal is who calls: a key's role and account, and for a worker with its
// own token, which worker.
type Principal struct {
	Role      models.Role
	AccountID models.AccountID
	KeyID     models.KeyID
	WorkerID  models.WorkerID
}

// May tells whether the caller has a role. ADMIN ⊃ OPERATOR ⊃ CLIENT; WORKER
// stands alone.
func (p Principal) May(role models.Role) bool {
	switch p.Role {
	case models.RoleAdmin:
		return role != models.RoleWorker
	case models.RoleOperator:
		return role == models.RoleOperator || role == models.RoleClient
	}
	return p.Role == role
}

// sees tells whether rows of an account are the caller's to read.
func (p Principal) sees(account models.AccountID) bool {
	return p.May(models.RoleOperator) || p.Role == models.RoleClient && p.AccountID == account
}

const (
	keyPrefix    = "rl_"
	workerPrefix = "rlw_"
	secretBytes  = 32
)

// newSecret makes a random secret and the hash that is kept of it.
func newSecret(prefix string) (secret string, hash []byte) {
	b := make([]byte, secretBytes)
	rand.Read(b)
	secret = prefix + base64.RawURLEncoding.EncodeToString(b)
	return secret, hashSecret(secret)
}

// hashSecret needs no salt: a secret has 256 random bits of its own.
func hashSecret(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// Keys makes and checks API keys and the console's sessions.
type Keys struct {
	DB *bun.DB
}

// Sessions end after a day, or after half an hour without a request.
const (
	sessionTTL  = 24 * time.Hour
	sessionIdle = 30 * time.Minute
)

// Authenticate returns who holds a key or a worker's token, or
// ErrUnauthenticated.
func (k *Keys) Authenticate(ctx context.Context, secret string) (Principal, error) {
	secret = strings.TrimSpace(secret)
	hash := hashSecret(secret)
	switch {
	case strings.HasPrefix(secret, workerPrefix):
		w, err := models.FindWorkerByToken(ctx, k.DB, hash)
		if err != nil {
			return Principal{}, wrap(orUnauthenticated(err), "look up the worker's token")
		}
		return Principal{Role: models.RoleWorker, KeyID: w.EnrolmentKeyID, WorkerID: w.ID}, nil
	case strings.HasPrefix(secret, keyPrefix):
		key, err := models.FindAPIKey(ctx, k.DB, hash)
		if err != nil {
			return Principal{}, wrap(orUnauthenticated(err), "look up the key")
		}
		return keyPrincipal(key), nil
	}
	return Principal{}, ErrUnauthenticated
}

func keyPrincipal(key *models.APIKey) Principal {
	return Principal{Role: key.Role, AccountID: key.AccountID, KeyID: key.ID}
}

func orUnauthenticated(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrUnauthenticated
	}
	return err
}

// Create makes a key of an account and returns its secret, which is shown only
// now.
func (k *Keys) Create(ctx context.Context, account models.AccountID, role models.Role, name string) (*models.APIKey, string, error) {
	secret, hash := newSecret(keyPrefix)
	key := &models.APIKey{
		ID: models.NewKeyID(), AccountID: account, Name: name, Role: role,
		Prefix: secret[:len(keyPrefix)+6], Hash: hash,
	}
	if err := models.InsertAPIKey(ctx, k.DB, key); err != nil {
		return nil, "", wrap(err, "create key %s", name)
	}
	return key, secret, nil
}

// Revoke ends a key at once, or returns NOT_FOUND.
func (k *Keys) Revoke(ctx context.Context, id models.KeyID) error {
	if !id.Valid() {
		return notFound("key")
	}
	return wrap(orNotFound(models.RevokeAPIKey(ctx, k.DB, id), "key"), "revoke key %s", id)
}

// LogIn opens a session of the console under an operator's key and returns the
// session's secret. It returns ErrUnauthenticated for an unknown key and
// FORBIDDEN for one without that role.
func (k *Keys) LogIn(ctx context.Context, secret string) (string, error) {
	p, err := k.Authenticate(ctx, secret)
	if err != nil {
		return "", err
	}
	if !p.May(models.RoleOperator) {
		return "", forbidden("The console is for operators: this key's role is %s.", p.Role)
	}
	token, hash := newSecret("")
	session := &models.Session{ID: models.NewSessionID(), KeyID: p.KeyID, Hash: hash}
	if err := models.InsertSession(ctx, k.DB, session, sessionTTL); err != nil {
		return "", wrap(err, "open a session")
	}
	return token, nil
}

// Session returns who is logged in with a session's secret, or
// ErrUnauthenticated. A revoked key ends its sessions.
func (k *Keys) Session(ctx context.Context, token string) (Principal, error) {
	s, err := models.FindSession(ctx, k.DB, hashSecret(token), sessionIdle)
	if err != nil {
		return Principal{}, wrap(orUnauthenticated(err), "look up the session")
	}
	key, err := models.GetAPIKey(ctx, k.DB, s.KeyID)
	if err != nil {
		return Principal{}, wrap(orUnauthenticated(err), "look up the session's key")
	}
	return keyPrincipal(key), nil
}

// LogOut ends a session.
func (k *Keys) LogOut(ctx context.Context, token string) error {
	return wrap(models.DeleteSession(ctx, k.DB, hashSecret(token)), "end the session")
}

// EnsureAccount returns the account of that name, which it makes if there is
// none.
func (k *Keys) EnsureAccount(ctx context.Context, name string, tier models.Tier) (*models.Account, error) {
	account, err := models.FindAccountByName(ctx, k.DB, name)
	if errors.Is(err, sql.ErrNoRows) {
		account = NewAccount(name, tier)
		err = models.InsertAccount(ctx, k.DB, account)
	}
	return account, wrap(err, "make account %s", name)
}
