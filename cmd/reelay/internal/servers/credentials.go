package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/reelay/reelay/cmd/reelay/internal/credentials"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
)

// Keys returns the keys in the file. It creates those that are missing or unknown
// to the database, and reports whether any key is new.
func (s *stack) credentials(ctx context.Context, path, endpoint, caFile string) (c credentials.Keys, made bool, err error) {
	if data, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(data, &c); err != nil {
			return c, false, fmt.Errorf("%s is not JSON: %w; remove it to get new keys", path, err)
		}
	}
	c.Endpoint, c.CAFile = endpoint, caFile
	for _, key := range []struct {
		secret  *string
		account string
		tier    models.Tier
		role    access.Role
	}{
		{&c.AdminKey, "house", models.TierCritical, access.RoleAdmin},
		{&c.OperatorKey, "house", models.TierCritical, access.RoleOperator},
		{&c.WorkerKey, "house", models.TierCritical, access.RoleWorker},
		{&c.ClientKey, "client", models.TierEnterprise, access.RoleClient},
	} {
		if p, err := s.keys().Authenticate(ctx, *key.secret); err == nil && p.Role == key.role {
			continue
		}
		account, err := s.keys().EnsureAccount(ctx, key.account, key.tier)
		if err != nil {
			return c, made, err
		}
		if _, *key.secret, err = s.keys().Create(ctx, jobs.Host,
			auth.NewKey{AccountID: account.ID, Role: key.role, Name: "up " + strings.ToLower(string(key.role))}); err != nil {
			return c, made, err
		}
		made = true
	}
	return c, made, credentials.WritePrivate(path, c)
}

// firstMember is the e-mail address of the member that `up` makes.
const firstMember = "admin@localhost"

// firstMember makes the first member, an ADMIN, and returns the link with which it chooses a
// password. If there is a member already, it returns "".
func (s *stack) firstMember(ctx context.Context, publicURL string) (link string, err error) {
	invitation, err := s.members().Bootstrap(ctx, "house", firstMember, false)
	if known, ok := errors.AsType[*apierror.Error](err); ok && known.Code == apierror.CodeConflict {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return publicURL + "/join/" + invitation.Token, nil
}
