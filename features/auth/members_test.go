package auth_test

import (
	"context"
	"strings"
	"testing"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

var visitor = auth.Visitor{Remote: "192.0.2.9:4711", Browser: "Firefox\r\nX-Evil: 1"}

// requireCode checks the code of an error.
func requireCode(t *testing.T, code apierror.Code, err error, note ...any) {
	t.Helper()
	var refused *apierror.Error
	require.ErrorAs(t, err, &refused, note...)
	require.Equal(t, code, refused.Code, note...)
}

// newestAct returns the newest entry of the audit log.
func newestAct(t *testing.T, s *jobstest.Stack) *access.AuditEntry {
	t.Helper()
	log, err := s.Reads.History.AuditLog(t.Context(), s.Admin, "", paging.Request{First: 1})
	require.NoError(t, err)
	return log.Items[0].AuditEntry
}

func TestMember(t *testing.T) {
	t.Parallel()

	t.Run("ChoosesAPasswordByInvitationOnce", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		invitation, err := s.Members.Create(t.Context(), s.Admin, auth.NewMember{Email: " Ａna@Example.COM", Name: "Ana",
			Role: access.RoleOperator})
		require.NoError(t, err)
		require.Equal(t, "ana@example.com", invitation.Member.Email, "NFKC folds look-alikes")

		for name, weak := range map[string]string{"short": "elevenchars", "its name": "ana@example.com", "long": strings.Repeat("x", 1<<20),
			"no text": "\xff" + strings.Repeat("x", 20)} {
			_, err = s.Members.Accept(t.Context(), invitation.Token, weak, visitor)
			requireCode(t, apierror.CodeInvalidInput, err, name)
		}
		token, err := s.Members.Accept(t.Context(), invitation.Token, jobstest.Password, visitor)
		require.NoError(t, err)
		_, err = s.Members.Accept(t.Context(), invitation.Token, jobstest.Password, visitor)
		requireCode(t, apierror.CodeNotFound, err, "a link is valid once")

		p, err := s.Keys.Session(t.Context(), token)
		require.NoError(t, err)
		require.Equal(t, access.RoleOperator, p.Role)
		require.Equal(t, "ana@example.com", p.Member.Email)
		require.Equal(t, s.Admin.AccountID, p.AccountID)
		_, err = s.Operator.PauseQueue(t.Context(), p, models.TierPro, "", "")
		require.NoError(t, err)
		act := newestAct(t, s)
		require.Equal(t, "ana@example.com (operator)", act.Actor)
		require.Equal(t, p.Member.ID, act.MemberID)
		names, err := s.Reads.Directory.KeyNames(t.Context(), s.Admin, []models.KeyID{p.KeyID})
		require.NoError(t, err)
		require.Equal(t, "ana@example.com", names[p.KeyID], "other rows name the member, too")
		sessions, err := s.Members.Sessions(t.Context(), p)
		require.NoError(t, err)
		require.Len(t, sessions, 1)
		require.Equal(t, "192.0.2.9", sessions[0].Address)
		require.NotContains(t, sessions[0].Browser, "\n")
	})

	t.Run("NeedsAUsualAddressAndRole", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.NewMember(t, "ana@example.com", access.RoleViewer)
		for email, code := range map[string]apierror.Code{
			"": apierror.CodeInvalidInput, "ana": apierror.CodeInvalidInput, "аna@example.com": apierror.CodeInvalidInput,
			"a@b\r\nBcc: c@d": apierror.CodeInvalidInput, "ana@example.com\x00": apierror.CodeInvalidInput, "a@b@c": apierror.CodeInvalidInput,
			strings.Repeat("a", 300) + "@b.de": apierror.CodeInvalidInput, "ANA@EXAMPLE.com": apierror.CodeConflict,
		} {
			_, err := s.Members.Create(t.Context(), s.Admin, auth.NewMember{Email: email, Role: access.RoleViewer})
			requireCode(t, code, err, email)
		}
		_, err := s.Members.Create(t.Context(), s.Admin, auth.NewMember{Email: "b@example.com", Role: access.RoleWorker})
		requireCode(t, apierror.CodeInvalidInput, err)
		_, err = s.Members.Create(t.Context(), s.Client, auth.NewMember{Email: "b@example.com", Role: access.RoleViewer})
		requireCode(t, apierror.CodeForbidden, err)
		keys, err := s.Keys.List(t.Context(), s.Admin, "")
		require.NoError(t, err)
		for _, key := range keys {
			require.Empty(t, key.MemberID, "the keys of members are not listed")
		}
	})

	t.Run("LosesItsLoginsWithItsRole", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		viewer := access.RoleViewer
		for name, end := range map[string]func(id models.MemberID) error{
			"update": func(id models.MemberID) error {
				_, err := s.Members.Update(t.Context(), s.Admin, id, auth.MemberUpdate{Role: &viewer})
				return err
			},
			"disable": func(id models.MemberID) error { _, err := s.Members.Disable(t.Context(), s.Admin, id); return err },
			"reset": func(id models.MemberID) error {
				_, err := s.Members.ResetPassword(t.Context(), s.Admin, id)
				return err
			},
		} {
			p, session := s.NewMember(t, name+"@example.com", access.RoleOperator)
			require.NoError(t, end(p.Member.ID), name)
			lives, err := s.Keys.SessionLives(t.Context(), session)
			require.NoError(t, err)
			require.False(t, lives, name)
			_, err = s.Keys.Session(t.Context(), session)
			requireCode(t, apierror.CodeUnauthenticated, err, name)
			_, err = s.Members.LogIn(t.Context(), name+"@example.com", jobstest.Password, visitor)
			if name == "update" {
				require.NoError(t, err)
			} else {
				requireCode(t, apierror.CodeUnauthenticated, err, name)
			}
		}
	})

	t.Run("CannotRemoveItself", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		p, _ := s.NewMember(t, "ana@example.com", access.RoleAdmin)
		viewer := access.RoleViewer

		_, err := s.Members.Update(t.Context(), p, p.Member.ID, auth.MemberUpdate{Role: &viewer})
		requireCode(t, apierror.CodeConflict, err)
		_, err = s.Members.Disable(t.Context(), p, p.Member.ID)
		requireCode(t, apierror.CodeConflict, err)
	})

	t.Run("LogsOutEverywhereAndChangesItsPassword", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		p, first := s.NewMember(t, "ana@example.com", access.RoleViewer)
		second, err := s.Members.LogIn(t.Context(), "ANA@example.com", jobstest.Password, visitor)
		require.NoError(t, err)

		require.NoError(t, s.Members.LogOutEverywhere(t.Context(), p, second))
		_, err = s.Keys.Session(t.Context(), first)
		requireCode(t, apierror.CodeUnauthenticated, err)
		_, err = s.Members.ChangePassword(t.Context(), p, "wrong", "another password", visitor)
		requireCode(t, apierror.CodeForbidden, err)
		third, err := s.Members.ChangePassword(t.Context(), p, jobstest.Password, "another password", visitor)
		require.NoError(t, err)
		_, err = s.Keys.Session(t.Context(), second)
		requireCode(t, apierror.CodeUnauthenticated, err, "the session is another one after a change")
		_, err = s.Keys.Session(t.Context(), third)
		require.NoError(t, err)
		_, err = s.Members.LogIn(t.Context(), "ana@example.com", jobstest.Password, visitor)
		requireCode(t, apierror.CodeUnauthenticated, err)
	})
}

func TestMemberLogIn(t *testing.T) {
	t.Parallel()

	t.Run("AnswersAllFailuresAlikeAndLimitsThem", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.NewMember(t, "ana@example.com", access.RoleViewer)
		_, err := s.Members.Create(t.Context(), s.Admin, auth.NewMember{Email: "invited@example.com", Role: access.RoleViewer})
		require.NoError(t, err)

		for _, email := range []string{"ana@example.com", "nobody@example.com", "invited@example.com", "no address"} {
			_, err := s.Members.LogIn(t.Context(), email, "wrong", visitor)
			require.EqualError(t, err, "The e-mail address or the password is wrong.", email)
		}
		require.Equal(t, "logInFailed", newestAct(t, s).Action)
		var limited error
		for i := 0; limited == nil && i < 20; i++ {
			_, err := s.Members.LogIn(t.Context(), "ana@example.com", strings.Repeat("x", 1<<20), auth.Visitor{Remote: "[2001:db8::1]:1"})
			if err.Error() != "The e-mail address or the password is wrong." {
				limited = err
			}
		}
		requireCode(t, apierror.CodeRateLimited, limited)
	})

	t.Run("EndsWithItsContext", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		ended, cancel := context.WithCancel(t.Context())
		cancel()

		_, err := s.Members.LogIn(ended, "ana@example.com", "x", visitor)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestSingleSignOn(t *testing.T) {
	t.Parallel()

	ana := auth.Identity{Issuer: "https://id.example", Subject: "1", Email: "Ana@example.com", EmailVerified: true, Name: "Ana",
		Groups: []string{"staff", "ops"}}
	stack := func(t *testing.T) *jobstest.Stack {
		s := jobstest.New(t)
		s.Members.SSO = auth.SSOPolicy{
			Roles: map[string]access.Role{"ops": access.RoleOperator, "staff": access.RoleViewer}, Domains: []string{"example.com"},
			Account: "house",
		}
		return s
	}
	as := func(change func(*auth.Identity)) auth.Identity {
		who := ana
		change(&who)
		return who
	}

	t.Run("MakesAMemberWithTheHighestRoleAndFollowsItsGroups", func(t *testing.T) {
		t.Parallel()

		s := stack(t)
		log := func(who auth.Identity) (jobs.Principal, error) {
			token, err := s.Members.LogInIdentity(t.Context(), who, visitor)
			if err != nil {
				return jobs.Principal{}, err
			}
			return s.Keys.Session(t.Context(), token)
		}
		p, err := log(ana)
		require.NoError(t, err)
		require.Equal(t, access.RoleOperator, p.Role)
		first, err := s.Members.LogInIdentity(t.Context(), ana, visitor)
		require.NoError(t, err)

		p, err = log(as(func(who *auth.Identity) { who.Groups = []string{"staff"} }))
		require.NoError(t, err)
		require.Equal(t, access.RoleViewer, p.Role)
		_, err = s.Keys.Session(t.Context(), first)
		requireCode(t, apierror.CodeUnauthenticated, err, "the old role ends everywhere")

		last, err := s.Members.LogInIdentity(t.Context(), as(func(who *auth.Identity) { who.Groups = []string{"staff"} }), visitor)
		require.NoError(t, err)
		_, err = log(as(func(who *auth.Identity) { who.Groups = nil }))
		requireCode(t, apierror.CodeForbidden, err)
		require.Equal(t, "logInFailed", newestAct(t, s).Action)
		_, err = s.Keys.Session(t.Context(), last)
		requireCode(t, apierror.CodeUnauthenticated, err)
	})

	t.Run("TakesOverAPasswordMemberByAVerifiedAddress", func(t *testing.T) {
		t.Parallel()

		s := stack(t)
		p, _ := s.NewMember(t, "ana@example.com", access.RoleAdmin)

		_, err := s.Members.LogInIdentity(t.Context(), as(func(who *auth.Identity) { who.EmailVerified = false }), visitor)
		requireCode(t, apierror.CodeForbidden, err)
		_, err = s.Members.LogInIdentity(t.Context(), ana, visitor)
		require.NoError(t, err)
		_, err = s.Members.LogIn(t.Context(), "ana@example.com", jobstest.Password, visitor)
		requireCode(t, apierror.CodeUnauthenticated, err)
		_, err = s.Members.LogInIdentity(t.Context(), as(func(who *auth.Identity) { who.Subject = "2" }), visitor)
		requireCode(t, apierror.CodeForbidden, err, "another person with the same address")
		_, err = s.Members.Disable(t.Context(), s.Admin, p.Member.ID)
		require.NoError(t, err)
		_, err = s.Members.LogInIdentity(t.Context(), ana, visitor)
		requireCode(t, apierror.CodeForbidden, err)
	})

	t.Run("RefusesOtherDomains", func(t *testing.T) {
		t.Parallel()

		s := stack(t)
		for _, email := range []string{"ana@evil.example", "ana@example.com.evil.example", "", "ana@exаmple.com"} {
			_, err := s.Members.LogInIdentity(t.Context(), as(func(who *auth.Identity) { who.Email = email }), visitor)
			requireCode(t, apierror.CodeForbidden, err, email)
		}
	})
}
