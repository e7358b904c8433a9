package auth_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/joblist"
	"github.com/stretchr/testify/require"
)

func TestCreateKey(t *testing.T) {
	t.Parallel()

	t.Run("RefusesAnInvalidKey", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		good := auth.NewKey{AccountID: s.Account.ID, Role: access.RoleClient, Name: "new"}
		before := s.Dump(t)
		for field, change := range map[string]func(*auth.NewKey){
			"name":      func(k *auth.NewKey) { k.Name = "" },
			"name ":     func(k *auth.NewKey) { k.Name = strings.Repeat("n", 201) },
			"name  ":    func(k *auth.NewKey) { k.Name = "\x00" },
			"role":      func(k *auth.NewKey) { k.Role = "ROOT" },
			"expiresAt": func(k *auth.NewKey) { k.ExpiresAt = new(time.Now().Add(-time.Minute)) },
		} {
			bad := good
			change(&bad)

			_, _, err := s.Keys.Create(t.Context(), s.Admin, bad)

			jobstest.RequireInvalid(t, err, strings.TrimSpace(field))
		}
		for _, unknown := range []models.AccountID{"", models.NewAccountID(), models.AccountID(s.Client.KeyID)} {
			bad := good
			bad.AccountID = unknown

			_, _, err := s.Keys.Create(t.Context(), s.Admin, bad)

			jobstest.RequireCode(t, err, apierror.CodeNotFound)
		}
		_, _, err := s.Keys.Create(t.Context(), s.Client, good)
		jobstest.RequireCode(t, err, apierror.CodeForbidden)
		require.Equal(t, before, s.Dump(t))
	})

	t.Run("StoresAndReturnsTheExpiryInWholeSeconds", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		at := time.Date(2100, 1, 2, 3, 4, 5, 678_901_234, time.UTC)

		key, _, err := s.Keys.Create(t.Context(), s.Admin, auth.NewKey{AccountID: s.Account.ID, Role: access.RoleClient, Name: "new",
			ExpiresAt: &at})

		require.NoError(t, err)
		require.Equal(t, at.Truncate(time.Second), key.ExpiresAt)
		log, err := s.Reads.History.AuditLog(t.Context(), s.Admin, "", paging.Request{First: 1})
		require.NoError(t, err)
		require.Contains(t, string(log.Items[0].Payload), `"2100-01-02T03:04:05Z"`)
	})
}

func TestRevokeKey(t *testing.T) {
	t.Parallel()

	t.Run("KeepsTheLastAdminKey", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		house, err := models.FindAccountByName(t.Context(), s.DB, "house")
		require.NoError(t, err)
		expired := s.NewKey(t, house, access.RoleAdmin)
		s.Exec(t, "UPDATE api_keys SET expires_at = clock_timestamp() WHERE id = ?", expired.KeyID)

		jobstest.RequireCode(t, s.Keys.Revoke(t.Context(), s.Admin, s.Admin.KeyID), apierror.CodeConflict)

		s.NewKey(t, house, access.RoleAdmin)
		require.NoError(t, s.Keys.Revoke(t.Context(), s.Admin, s.Admin.KeyID))
	})

	t.Run("KeepsOneAdminKeyIfTwoAreRevokedAtOnce", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		house, err := models.FindAccountByName(t.Context(), s.DB, "house")
		require.NoError(t, err)
		admins := []jobs.Principal{s.Admin, s.NewKey(t, house, access.RoleAdmin), s.NewKey(t, house, access.RoleAdmin)}

		errs := make([]error, len(admins))
		var calls sync.WaitGroup
		for i, p := range admins {
			calls.Go(func() { errs[i] = s.Keys.Revoke(t.Context(), p, p.KeyID) })
		}
		calls.Wait()

		refused := 0
		for _, err := range errs {
			if err != nil {
				jobstest.RequireCode(t, err, apierror.CodeConflict)
				refused++
			}
		}
		require.Equal(t, 1, refused)
	})

	t.Run("ChangesNothingASecondTime", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		require.NoError(t, s.Keys.Revoke(t.Context(), s.Admin, s.Client.KeyID))
		before := s.Dump(t)

		require.NoError(t, s.Keys.Revoke(t.Context(), s.Admin, s.Client.KeyID))

		require.Equal(t, before, s.Dump(t), "it was revoked before")
	})

	t.Run("KeepsWorkersTokensAndLetsAnotherKeyReplaceTheWorkers", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		house, err := models.FindAccountByName(t.Context(), s.DB, "house")
		require.NoError(t, err)
		next := s.NewKey(t, house, access.RoleWorker)
		stranger := s.NewKey(t, s.Account, access.RoleWorker)
		enrol := fleet.Registration{
			Provider: "static", ProviderInstanceID: "one", GPUCount: 1, Region: "local", GPUType: "any",
			CapacityClass: models.CapacitySpot, Models: []string{"testcard"},
		}
		_, token, err := s.Registrar.Register(t.Context(), s.Enrolment, enrol)
		require.NoError(t, err)
		_, _, err = s.Registrar.Register(t.Context(), next, enrol)
		jobstest.RequireCode(t, err, apierror.CodeForbidden)

		require.NoError(t, s.Keys.Revoke(t.Context(), s.Admin, s.Enrolment.KeyID))

		_, err = s.Keys.Authenticate(t.Context(), token)
		require.NoError(t, err, "a worker that renders goes on")
		_, _, err = s.Registrar.Register(t.Context(), stranger, enrol)
		jobstest.RequireCode(t, err, apierror.CodeForbidden)
		_, _, err = s.Registrar.Register(t.Context(), next, enrol)
		require.NoError(t, err)
		_, err = s.Keys.Authenticate(t.Context(), token)
		require.ErrorIs(t, err, apierror.ErrUnauthenticated, "its place was taken over")
	})
}

func TestBootstrap(t *testing.T) {
	t.Parallel()

	t.Run("CreatesOneFirstKey", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.Exec(t, "UPDATE api_keys SET revoked_at = clock_timestamp() WHERE role = 'ADMIN'")
		secrets, errs := make([]string, 4), make([]error, 4)
		var calls sync.WaitGroup
		for i := range secrets {
			calls.Go(func() { _, secrets[i], errs[i] = s.Keys.Bootstrap(t.Context(), "house", "first", false) })
		}
		calls.Wait()

		made := 0
		for i, err := range errs {
			if err != nil {
				jobstest.RequireCode(t, err, apierror.CodeConflict)
				continue
			}
			made++
			p, err := s.Keys.Authenticate(t.Context(), secrets[i])
			require.NoError(t, err)
			require.Equal(t, access.RoleAdmin, p.Role)
			require.Equal(t, s.Admin.AccountID, p.AccountID)
		}
		require.Equal(t, 1, made)
		_, _, err := s.Keys.Bootstrap(t.Context(), "other", "another", true)
		require.NoError(t, err, "the first one may be lost")
		log, err := s.Reads.History.AuditLog(t.Context(), s.Admin, "", paging.Request{First: 2})
		require.NoError(t, err)
		require.Equal(t, "createApiKey", log.Items[0].Action)
		require.Equal(t, "createAccount", log.Items[1].Action)
		require.Equal(t, "reelay", log.Items[0].Actor)
		require.Empty(t, log.Items[0].KeyID)
	})
}

func TestSessions(t *testing.T) {
	t.Parallel()

	t.Run("AreStoredAndEndWithTheirKey", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		token, err := s.Keys.LogIn(t.Context(), s.Secrets[access.RoleOperator], "")
		require.NoError(t, err)
		other, err := s.Keys.LogIn(t.Context(), s.Secrets[access.RoleOperator], "")
		require.NoError(t, err)
		p, err := s.Keys.Session(t.Context(), token)
		require.NoError(t, err)
		lives := func(token string) bool {
			lives, err := s.Keys.SessionLives(t.Context(), token)
			require.NoError(t, err)
			return lives
		}
		require.True(t, lives(token))

		require.NoError(t, s.Keys.LogOut(t.Context(), other))
		require.NoError(t, s.Keys.LogOut(t.Context(), other))
		require.False(t, lives(other))
		require.NoError(t, s.Keys.Revoke(t.Context(), s.Admin, p.KeyID))
		require.False(t, lives(token))

		log, err := s.Reads.History.AuditLog(t.Context(), s.Admin, "", paging.Request{First: 4})
		require.NoError(t, err)
		var actions []string
		for _, e := range log.Items {
			actions = append(actions, e.Action)
		}
		require.Equal(t, []string{"revokeApiKey", "logOut", "logIn", "logIn"}, actions)
	})
}

func TestAudit(t *testing.T) {
	t.Parallel()

	t.Run("CannotBeChanged", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		before := s.Dump(t)
		for _, query := range []string{"UPDATE audit_log SET actor = 'nobody'", "DELETE FROM audit_log", "TRUNCATE audit_log"} {
			_, err := s.DB.NewRaw(query).Exec(t.Context())

			require.ErrorContains(t, err, "append-only", query)
		}
		require.Equal(t, before, s.Dump(t))
	})

	t.Run("IsWrittenInTheTransactionOfTheAction", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job, worker := s.Submit(t), s.Worker(t, "one")
		s.Exec(t, "ALTER TABLE audit_log ADD CONSTRAINT no_room CHECK (false) NOT VALID")
		before := s.Dump(t)

		for name, act := range map[string]func() error{
			"cancel": func() error { _, err := s.Canceller.Cancel(t.Context(), s.Admin, job.ID); return err },
			"tier": func() error {
				_, err := s.Operator.SetJobTier(t.Context(), s.Admin, job.ID, models.TierPro)
				return err
			},
			"pause": func() error {
				_, err := s.Operator.PauseQueue(t.Context(), s.Admin, models.TierPro, "", "")
				return err
			},
			"drain": func() error { _, err := s.Fleet.DrainWorker(t.Context(), s.Admin, worker.WorkerID, 0); return err },
			"limits": func() error {
				_, err := s.Accounts.Update(t.Context(), s.Admin, s.Account.ID, auth.AccountInput{MaxRunning: new(1)})
				return err
			},
			"bulk": func() error {
				_, err := s.Bulk.Start(t.Context(), s.Admin, bulk.Request{Action: joblist.BulkCancel})
				return err
			},
			"key": func() error {
				_, _, err := s.Keys.Create(t.Context(), s.Admin, auth.NewKey{AccountID: s.Account.ID, Role: access.RoleClient, Name: "new"})
				return err
			},
			"revoke": func() error { return s.Keys.Revoke(t.Context(), s.Admin, s.Client.KeyID) },
			"login":  func() error { _, err := s.Keys.LogIn(t.Context(), s.Secrets[access.RoleOperator], ""); return err },
		} {
			require.ErrorContains(t, act(), "no_room", name)
			require.Equal(t, before, s.Dump(t), "%s: what cannot be written down is not done", name)
		}
	})

	t.Run("NamesTheBulkOperation", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := s.Submit(t)
		op, err := s.Bulk.Start(t.Context(), s.Admin, bulk.Request{Action: joblist.BulkCancel})
		require.NoError(t, err)

		_, err = s.Bulk.Pass(t.Context())

		require.NoError(t, err)
		log, err := s.Reads.History.AuditLog(t.Context(), s.Admin, string(job.ID), paging.Request{First: 2})
		require.NoError(t, err)
		require.Len(t, log.Items, 1)
		require.Equal(t, "cancelJob", log.Items[0].Action)
		require.Contains(t, string(log.Items[0].Payload), string(op.ID))
	})
}
