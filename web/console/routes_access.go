package console

import (
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/internal/signon"
)

// accessConfig is what the pages of access: login, accounts, members, keys and the audit log read and call.
type accessConfig struct {
	Keys      *auth.Keys
	Members   *auth.Members
	Accounts  *auth.Accounts
	Reader    *query.Reader
	Schedules *schedule.Schedules
	// SSO is the OpenID provider at which members can log in; nil for none.
	SSO *signon.Provider
	// Secure is true if browsers reach the console over HTTPS.
	Secure bool
}

// accessController serves the pages of access: login, accounts, members, keys and the audit log.
type accessController struct {
	*console
	accessConfig
	attempts *attempts
}

// accessRoutes lists the pages of access: login, accounts, members, keys and the audit log.
func accessRoutes(pages *console, config accessConfig) []route {
	c := &accessController{console: pages, accessConfig: config, attempts: newAttempts()}
	return []route{
		{pattern: "GET /login", serve: c.loginForm, open: true},
		{pattern: "POST /login", serve: c.logIn, open: true},
		{pattern: "POST /logout", serve: c.logOut, open: true},
		{pattern: "GET /login/sso", serve: c.ssoBegin, open: true},
		{pattern: "GET /login/sso/callback", serve: c.ssoFinish, open: true},
		{pattern: "GET /join/{token}", serve: c.join, open: true},
		{pattern: "POST /join/{token}", serve: c.joined, open: true},
		{pattern: "GET /accounts", serve: c.accountList},
		{pattern: "GET /accounts/new", serve: c.accountNew, admin: true},
		{pattern: "POST /accounts/new", serve: c.accountCreate, admin: true, back: "/accounts/new"},
		{pattern: "GET /accounts/{id}/edit", serve: c.accountEdit, back: "/accounts"},
		{pattern: "POST /accounts/{id}/edit", serve: c.accountUpdate, back: "/accounts/{id}/edit"},
		{pattern: "GET /members", serve: c.memberList, admin: true},
		{pattern: "POST /members", serve: c.memberCreate, admin: true, back: "/members"},
		{pattern: "GET /members/{id}", serve: c.memberShow, admin: true, back: "/members"},
		{pattern: "POST /members/{id}", serve: c.memberUpdate, admin: true, back: "/members/{id}"},
		{pattern: "POST /members/{id}/disable", serve: c.memberDisable, admin: true, back: "/members/{id}"},
		{pattern: "POST /members/{id}/enable", serve: c.memberEnable, admin: true, back: "/members/{id}"},
		{pattern: "POST /members/{id}/reset", serve: c.memberReset, admin: true, back: "/members/{id}"},
		{pattern: "GET /keys", serve: c.keyList, admin: true},
		{pattern: "GET /keys/new", serve: c.keyNew, admin: true},
		{pattern: "POST /keys/new", serve: c.keyCreate, admin: true, back: "/keys/new"},
		{pattern: "GET /keys/{id}/revoke", serve: c.keyConfirm, admin: true, back: "/keys"},
		{pattern: "POST /keys/{id}/revoke", serve: c.keyRevoke, admin: true, back: "/keys"},
		{pattern: "GET /audit", serve: c.auditList, admin: true},
		{pattern: "GET /me", serve: c.me},
		{pattern: "POST /me/password", serve: c.changePassword, own: true, back: "/me"},
		{pattern: "POST /me/logout", serve: c.logOutEverywhere, own: true, back: "/me"},
	}
}
