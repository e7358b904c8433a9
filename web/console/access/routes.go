// Package access has the pages of login, accounts, members, keys and the audit log.
package access

import (
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/erase"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/internal/signon"
	"github.com/reelay/reelay/web/console/shell"
)

// Config is what these pages read and call.
type Config struct {
	Keys      *auth.Keys
	Members   *auth.Members
	Accounts  *auth.Accounts
	Eraser    *erase.Eraser
	Reads     *query.Reads
	Schedules *schedule.Schedules
	// SSO is the OpenID provider at which members can log in; nil for none.
	SSO *signon.Provider
	// Secure is true if browsers reach the console over HTTPS.
	Secure bool
}

// controller serves the pages.
type controller struct {
	*shell.Shell
	Config
	attempts *attempts
}

// Routes lists the pages.
func Routes(pages *shell.Shell, config Config) []shell.Route {
	c := &controller{Shell: pages, Config: config, attempts: newAttempts()}
	return []shell.Route{
		{Pattern: "GET /login", Serve: c.loginForm, Open: true},
		{Pattern: "POST /login", Serve: c.logIn, Open: true},
		{Pattern: "POST /logout", Serve: c.logOut, Open: true},
		{Pattern: "GET /login/sso", Serve: c.ssoBegin, Open: true},
		{Pattern: "GET /login/sso/callback", Serve: c.ssoFinish, Open: true},
		{Pattern: "GET /join/{token}", Serve: c.join, Open: true},
		{Pattern: "POST /join/{token}", Serve: c.joined, Open: true},
		{Pattern: "GET /accounts", Serve: c.accountList},
		{Pattern: "GET /accounts/new", Serve: c.accountNew, Admin: true},
		{Pattern: "POST /accounts/new", Serve: c.accountCreate, Admin: true, Back: "/accounts/new"},
		{Pattern: "GET /accounts/{id}/edit", Serve: c.accountEdit, Back: "/accounts"},
		{Pattern: "POST /accounts/{id}/edit", Serve: c.accountUpdate, Back: "/accounts/{id}/edit"},
		{Pattern: "GET /accounts/{id}/delete", Serve: c.accountConfirm, Admin: true, Back: "/accounts"},
		{Pattern: "POST /accounts/{id}/delete", Serve: c.accountDelete, Admin: true, Back: "/accounts/{id}/delete"},
		{Pattern: "GET /accounts/{id}/deletion", Serve: c.deletionShow, Back: "/accounts"},
		{Pattern: "GET /accounts/{id}/deletion/live", Serve: c.deletionLive},
		{Pattern: "GET /members", Serve: c.memberList, Admin: true},
		{Pattern: "POST /members", Serve: c.memberCreate, Admin: true, Back: "/members"},
		{Pattern: "GET /members/{id}", Serve: c.memberShow, Admin: true, Back: "/members"},
		{Pattern: "POST /members/{id}", Serve: c.memberUpdate, Admin: true, Back: "/members/{id}"},
		{Pattern: "POST /members/{id}/disable", Serve: c.memberDisable, Admin: true, Back: "/members/{id}"},
		{Pattern: "POST /members/{id}/enable", Serve: c.memberEnable, Admin: true, Back: "/members/{id}"},
		{Pattern: "POST /members/{id}/reset", Serve: c.memberReset, Admin: true, Back: "/members/{id}"},
		{Pattern: "GET /keys", Serve: c.keyList, Admin: true},
		{Pattern: "GET /keys/new", Serve: c.keyNew, Admin: true},
		{Pattern: "POST /keys/new", Serve: c.keyCreate, Admin: true, Back: "/keys/new"},
		{Pattern: "GET /keys/{id}/revoke", Serve: c.keyConfirm, Admin: true, Back: "/keys"},
		{Pattern: "POST /keys/{id}/revoke", Serve: c.keyRevoke, Admin: true, Back: "/keys"},
		{Pattern: "GET /audit", Serve: c.auditList, Admin: true},
		{Pattern: "GET /me", Serve: c.me},
		{Pattern: "POST /me/password", Serve: c.changePassword, Own: true, Back: "/me"},
		{Pattern: "POST /me/logout", Serve: c.logOutEverywhere, Own: true, Back: "/me"},
	}
}
