package auth_test

import (
	"context"
	"sync"
	"testing"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

// A call that was authenticated before its caller's rights ended must change nothing after.
func TestStands(t *testing.T) {
	t.Parallel()

	viewer := access.RoleViewer
	t.Run("LeavesOneOfTwoAdminsWhoRemoveEachOther", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for name, remove := range map[string]func(ctx context.Context, p jobs.Principal, id models.MemberID) error{
			"disable": func(ctx context.Context, p jobs.Principal, id models.MemberID) error {
				_, err := s.Members.Disable(ctx, p, id)
				return err
			},
			"demote": func(ctx context.Context, p jobs.Principal, id models.MemberID) error {
				_, err := s.Members.Update(ctx, p, id, auth.MemberUpdate{Role: &viewer})
				return err
			},
		} {
			for range 5 {
				a, _ := s.NewMember(t, name+string(models.NewMemberID())[4:]+"@example.com", access.RoleAdmin)
				b, _ := s.NewMember(t, name+string(models.NewMemberID())[4:]+"@example.com", access.RoleAdmin)
				var both [2]error
				var calls sync.WaitGroup
				calls.Go(func() { both[0] = remove(t.Context(), a, b.Member.ID) })
				calls.Go(func() { both[1] = remove(t.Context(), b, a.Member.ID) })
				calls.Wait()

				first, second := both[0], both[1]
				if first != nil {
					first, second = second, first
				}
				require.NoError(t, first, "%s: one of them is removed", name)
				requireCode(t, apierror.CodeForbidden, second, "%s: the other is not", name)
			}
		}
	})

	t.Run("RefusesWhatAFormerOperatorBegan", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		disabled, _ := s.NewMember(t, "ana@example.com", access.RoleAdmin)
		demoted, _ := s.NewMember(t, "bo@example.com", access.RoleAdmin)
		key, secret, err := s.Keys.Create(t.Context(), s.Admin, auth.NewKey{Name: "old", Role: access.RoleAdmin, AccountID: s.Admin.AccountID})
		require.NoError(t, err)
		revoked, err := s.Keys.Authenticate(t.Context(), secret)
		require.NoError(t, err)
		_, err = s.Members.Disable(t.Context(), s.Admin, disabled.Member.ID)
		require.NoError(t, err)
		_, err = s.Members.Update(t.Context(), s.Admin, demoted.Member.ID, auth.MemberUpdate{Role: &viewer})
		require.NoError(t, err)
		require.NoError(t, s.Keys.Revoke(t.Context(), s.Admin, key.ID))

		for name, p := range map[string]jobs.Principal{"disabled": disabled, "demoted": demoted, "revoked": revoked} {
			_, err := s.Operator.PauseQueue(t.Context(), p, models.TierPro, "", "")
			requireCode(t, apierror.CodeForbidden, err, name)
			_, err = s.Members.Create(t.Context(), p, auth.NewMember{Email: "eve@example.com", Role: access.RoleAdmin})
			requireCode(t, apierror.CodeForbidden, err, name)
			_, _, err = s.Keys.Create(t.Context(), p, auth.NewKey{Name: "more", Role: access.RoleAdmin, AccountID: s.Admin.AccountID})
			requireCode(t, apierror.CodeForbidden, err, name)
			requireCode(t, apierror.CodeForbidden, s.Keys.Revoke(t.Context(), p, s.Client.KeyID), name)
			_, err = s.Members.Enable(t.Context(), p, disabled.Member.ID)
			requireCode(t, apierror.CodeForbidden, err, name)
		}

		paused, err := s.Reads.Queues.Pauses(t.Context())
		require.NoError(t, err)
		require.Empty(t, paused, "nothing was changed")
		members, err := s.Members.List(t.Context(), s.Admin)
		require.NoError(t, err)
		require.Len(t, members, 2)
	})

	t.Run("LetsAKeyRevokeItselfAndLogOut", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		_, secret, err := s.Keys.Create(t.Context(), s.Admin, auth.NewKey{Name: "own", Role: access.RoleAdmin, AccountID: s.Admin.AccountID})
		require.NoError(t, err)
		own, err := s.Keys.Authenticate(t.Context(), secret)
		require.NoError(t, err)
		session, err := s.Keys.LogIn(t.Context(), secret, "192.0.2.1:1")
		require.NoError(t, err)

		require.NoError(t, s.Keys.Revoke(t.Context(), own, own.KeyID))
		require.NoError(t, s.Keys.LogOut(t.Context(), session))
		require.Equal(t, "logOut", newestAct(t, s).Action)
	})
}
