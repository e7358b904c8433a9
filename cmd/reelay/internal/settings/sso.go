package settings

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/reelay/reelay/cmd/reelay/internal/front"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/secretfile"
	"github.com/reelay/reelay/internal/signon"
	"github.com/reelay/reelay/models/access"
)

// SSO is the single sign-on of the console. It is off without an issuer.
type SSO struct {
	issuer, clientID, clientSecret, scopes, groupsClaim string
	// roles are pairs such as ops=operator, domains the allowed ones of e-mail addresses; both
	// are separated by commas.
	roles, domains string
	account        string
}

func readSSO() SSO {
	return SSO{
		issuer: env("REELAY_OIDC_ISSUER", ""), clientID: env("REELAY_OIDC_CLIENT_ID", ""), clientSecret: env("REELAY_OIDC_CLIENT_SECRET", ""),
		scopes: env("REELAY_OIDC_SCOPES", "profile email groups"), groupsClaim: env("REELAY_OIDC_GROUPS_CLAIM", "groups"),
		roles: env("REELAY_OIDC_ROLES", ""), domains: env("REELAY_OIDC_DOMAINS", ""), account: env("REELAY_OIDC_ACCOUNT", "house"),
	}
}

func (c SSO) check() error {
	if c.issuer == "" {
		return nil
	}
	issuer, err := url.Parse(c.issuer)
	switch {
	case err != nil || issuer.Host == "" || issuer.Scheme != "https" && !front.IsLoopback(issuer.Hostname()):
		return fmt.Errorf("REELAY_OIDC_ISSUER is %q: it must be an https URL", c.issuer)
	case c.clientID == "" || c.clientSecret == "":
		return errors.New("REELAY_OIDC_ISSUER needs REELAY_OIDC_CLIENT_ID and REELAY_OIDC_CLIENT_SECRET")
	case c.roles == "":
		return errors.New(
			"REELAY_OIDC_ISSUER needs REELAY_OIDC_ROLES, such as video-ops=operator,video-admins=admin: " +
				"without it, single sign-on gives no member a role",
		)
	}
	_, err = c.roleMap()
	return err
}

func (c SSO) roleMap() (map[string]access.Role, error) {
	all := map[string]access.Role{}
	for _, pair := range words(c.roles) {
		// The group of an LDAP server may have equals signs itself.
		i := strings.LastIndex(pair, "=")
		if i < 1 {
			return nil, fmt.Errorf("REELAY_OIDC_ROLES has %q: each entry must be group=role", pair)
		}
		role := access.Role(strings.ToUpper(strings.TrimSpace(pair[i+1:])))
		if !slices.Contains([]access.Role{access.RoleViewer, access.RoleOperator, access.RoleAdmin}, role) {
			return nil, fmt.Errorf("REELAY_OIDC_ROLES has %q: the role must be viewer, operator or admin", pair)
		}
		all[strings.TrimSpace(pair[:i])] = role
	}
	return all, nil
}

// words splits a list that is separated by commas.
func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// Policy returns who may log in with single sign-on.
func (c SSO) Policy() auth.SSOPolicy {
	roles, _ := c.roleMap() // check has found its errors
	var domains []string
	for _, domain := range words(c.domains) {
		domains = append(domains, strings.ToLower(strings.TrimSpace(domain)))
	}
	return auth.SSOPolicy{Roles: roles, Domains: domains, Account: c.account}
}

func (c SSO) newestSecret() string {
	return cmp.Or(secretfile.Newest("REELAY_OIDC_CLIENT_SECRET"), c.clientSecret)
}

// Provider returns the OpenID provider, or nil if none is configured. It does not call it.
func (c SSO) Provider(publicURL string) *signon.Provider {
	if c.issuer == "" {
		return nil
	}
	return signon.New(signon.Config{
		Issuer: c.issuer, ClientID: c.clientID, ClientSecret: c.newestSecret,
		RedirectURL: strings.TrimSuffix(publicURL, "/") + "/login/sso/callback",
		Scopes:      strings.Fields(c.scopes), GroupsClaim: c.groupsClaim,
	})
}
