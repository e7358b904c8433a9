package inputs_test

import (
	"bytes"
	"image/color"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
	"lukechampine.com/blake3"
)

func TestPutFile(t *testing.T) {
	t.Parallel()
	hashOf := func(data []byte) []byte {
		sum := blake3.Sum256(data)
		return sum[:]
	}

	t.Run("IsFoundByItsHashBeforeAndAfterAJobUsesIt", func(t *testing.T) {
		t.Parallel()
		s := studio(t)
		stored, err := s.Inputs.PutFile(t.Context(), s.Client, "video/mp4", strings.NewReader(mp4), hashOf([]byte(mp4)))
		require.NoError(t, err)
		for _, used := range []bool{false, true} {
			if used {
				submitStitch(t, s, map[string]any{"clips": []string{string(stored.ID)}})
			}
			found, err := s.Inputs.FindHash(t.Context(), s.Client, hashOf([]byte(mp4)))
			require.NoError(t, err)
			require.Equal(t, stored.ID, found.ID)
			require.Equal(t, int64(len(mp4)), found.SizeBytes)
			require.Equal(t, "video/mp4", found.ContentType)
		}
		require.Equal(t, 1, s.Count(t, "artifacts"))
	})

	t.Run("IsAnImageOfItsOwnType", func(t *testing.T) {
		t.Parallel()
		s := studio(t)
		stored, err := s.Inputs.PutFile(t.Context(), s.Client, "application/octet-stream", bytes.NewReader(jobstest.Picture(t, color.Black)), nil)
		require.NoError(t, err)
		require.Equal(t, "image/png", stored.ContentType)
		submitStitch(t, s, map[string]any{"logos": []string{string(stored.ID)}})
	})

	t.Run("IsRefusedWithAnotherHash", func(t *testing.T) {
		t.Parallel()
		s := studio(t)
		_, err := s.Inputs.PutFile(t.Context(), s.Client, "video/mp4", strings.NewReader(mp4), hashOf([]byte("other")))
		jobstest.RequireCode(t, err, apierror.CodeChecksumMismatch)
		require.Zero(t, s.Count(t, "uploads"))
	})

	t.Run("IsOfItsAccountOnly", func(t *testing.T) {
		t.Parallel()
		s := studio(t)
		other := s.NewKey(t, s.NewAccount(t, "other", models.TierFree), access.RoleClient)
		stored, err := s.Inputs.PutFile(t.Context(), s.Client, "video/mp4", strings.NewReader(mp4), nil)
		require.NoError(t, err)
		_, err = s.Inputs.FindHash(t.Context(), other, hashOf([]byte(mp4)))
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
		_, err = s.Inputs.Find(t.Context(), other, stored.ID)
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
		jobstest.RequireCode(t, s.Inputs.Drop(t.Context(), other, stored.ID), apierror.CodeNotFound)
	})

	t.Run("IsNotFoundShortlyBeforeItsEnd", func(t *testing.T) {
		t.Parallel()
		s := studio(t)
		_, err := s.Inputs.PutFile(t.Context(), s.Client, "video/mp4", strings.NewReader(mp4), nil)
		require.NoError(t, err)
		s.Exec(t, "UPDATE uploads SET created_at = created_at - make_interval(secs => ?)", (13 * time.Hour).Seconds())
		_, err = s.Inputs.FindHash(t.Context(), s.Client, hashOf([]byte(mp4)))
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
	})

	t.Run("IsDeletedUnlessAJobUsesIt", func(t *testing.T) {
		t.Parallel()
		s := studio(t)
		stored, err := s.Inputs.PutFile(t.Context(), s.Client, "video/mp4", strings.NewReader(mp4), nil)
		require.NoError(t, err)
		require.NoError(t, s.Inputs.Drop(t.Context(), s.Client, stored.ID))
		jobstest.RequireCode(t, s.Inputs.Drop(t.Context(), s.Client, stored.ID), apierror.CodeNotFound)
		require.Equal(t, 1, s.Count(t, "object_deletions"))
		used, err := s.Inputs.PutFile(t.Context(), s.Client, "video/mp4", strings.NewReader(mp4), nil)
		require.NoError(t, err)
		submitStitch(t, s, map[string]any{"clips": []string{string(used.ID)}})
		jobstest.RequireCode(t, s.Inputs.Drop(t.Context(), s.Client, used.ID), apierror.CodeConflict)
	})
}
